PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
READY := .venv/ready
PEERS := .venv/peers
FLAGS := -n 2

.PHONY: help demo test test-full soak check bench bench-peers docs clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1 · /p' Makefile

demo: $(READY)  ## see the library at work
	@$(BIN)/onenth demo

test: $(READY)  ## the tests, in at most four minutes on two cores
	@$(BIN)/pytest -m "not full and not gpu" $(FLAGS)

test-full: $(READY)  ## the slow tests
	@$(BIN)/pytest -m full $(FLAGS)

soak: $(READY)  ## hundreds of kills, full disks and flipped bits; a tenth of it is in test-full
	@SOAK=1 $(BIN)/pytest -m full tests/lab/engine/test_soak.py tests/lab/engine/test_growth.py

check: $(READY) docs  ## format, lint, types, import direction, docs, their snippets, the wheel
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/pytest --doctest-modules src tests/test_snippets.py
	@scripts/check_wheel.sh

bench: $(PEERS)  ## side by side with torch's layers and with other training loops; about half an hour on two cores
	@for each in benchmarks/linear.py benchmarks/lstm.py benchmarks/transformer.py benchmarks/engine.py; do $(BIN)/python $$each --out build/bench/$$(basename $$each .py).json || exit 1; done

bench-peers: $(PEERS)  ## beam search side by side with transformers
	@$(BIN)/python benchmarks/peers.py --out build/bench/peers.json

docs: $(READY)  ## the documentation, into docs/_build/html
	@$(BIN)/sphinx-build --quiet --fresh-env --write-all --nitpicky --fail-on-warning docs docs/_build/html

clean:  ## remove what was built, and .venv
	rm -rf .venv build dist docs/_build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info < (3, 11) and sys.exit("onenth needs Python 3.11 or later, and $(PYTHON) is %d.%d; name another: make PYTHON=python3.12" % sys.version_info[:2])'
	@echo "Making .venv from constraints.txt (a few minutes the first time) ..."
	@mkdir -p .venv && date +%s > .venv/began
	@$(PYTHON) -m venv .venv
	@$(PIP) install -c constraints.txt hatchling
	@$(PIP) install -c constraints.txt --no-build-isolation -e '.[dev]'
	@echo "Made .venv in $$(( $$(date +%s) - $$(cat .venv/began) )) s"
	@touch $@

$(PEERS): $(READY)
	@echo "Installing transformers and lightning, to compare with ..."
	@$(PIP) install -c constraints.txt --no-build-isolation -e '.[peers]'
	@touch $@

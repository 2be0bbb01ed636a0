#!/usr/bin/env bash
# Builds the wheel and uses it alone: an empty environment, a folder outside of the checkout.
set -euo pipefail
cd "$(dirname "$0")/.."

checkout=$PWD
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

.venv/bin/python -m build --wheel --no-isolation --outdir "$folder" . >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
.venv/bin/python -m venv "$folder/venv"
cd "$folder"
venv/bin/python -m pip install -qq --disable-pip-version-check -c "$checkout/constraints.txt" onenth-*.whl
diff --recursive --exclude=__pycache__ "$checkout/src/onenth" venv/lib/python*/site-packages/onenth

venv/bin/python -W error - <<'EOF'
from importlib.util import find_spec

import torch
from safetensors.torch import load_file, save_file

import onenth

layer = onenth.PHMLinear(8, 8, n=4)
layer(torch.randn(2, 8)).sum().backward()
assert all(p.grad is not None for p in layer.parameters())

save_file(layer.state_dict(), "layer.safetensors")
again = onenth.PHMLinear(8, 8, n=4)
again.load_state_dict(load_file("layer.safetensors"))
assert torch.equal(again.weight, layer.weight)

for extra in ("matplotlib", "rich", "typer"):
    assert find_spec(extra) is None, f"{extra} came with the core"
EOF
echo "The wheel works alone."

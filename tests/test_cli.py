"""The command line: what it prints, what it writes and how it fails."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

import onenth
from onenth.cli import COMMANDS, app
from onenth.lab import artificial, demo
from onenth.lab.artificial import EXPERIMENTS, recovery
from onenth.lab.tasks import recipe


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "100"})


@pytest.fixture
def reduced(monkeypatch):
    monkeypatch.setattr(artificial, "EXPERIMENTS", (*EXPERIMENTS[:2], recovery("complex")))


@pytest.fixture
def operators(monkeypatch):
    """The demo ends after the artificial experiments."""
    monkeypatch.setattr(demo, "VARIANTS", {})


@pytest.mark.usefixtures("reduced", "operators")
def test_demo_reports_and_draws(tmp_path):
    folder = tmp_path / "new" / "folder"
    result = invoke("demo", "--out", folder, "--seed", 1)
    assert result.exit_code == 0, result.output
    rows = {line.strip(): line.split() for line in result.stdout.splitlines()}
    [hamilton] = [words for line, words in rows.items() if line.startswith("one Hamilton product")]
    [complex_] = [words for line, words in rows.items() if line.startswith("complex rule")]
    assert "no" in hamilton
    assert "yes" in complex_
    assert str(folder) in result.stdout.replace("\n", "")
    assert "one rotation" in result.stderr  # progress keeps off the report
    names = {"curves.png", "one-hamilton-product.png", "complex-rule.png"}
    assert {path.name for path in folder.iterdir()} == names
    for name in names:
        assert name in result.stdout
        assert imread(folder / name).std() > 0.05


@pytest.mark.usefixtures("operators")
def test_demo_draws_the_same_for_the_same_seed(tmp_path, monkeypatch):
    monkeypatch.setattr(artificial, "EXPERIMENTS", EXPERIMENTS[:1])
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert invoke("demo", "--out", tmp_path / folder, "--seed", seed).exit_code == 0
    a, b, c = ((tmp_path / folder / "curves.png").read_bytes() for folder in "abc")
    assert a == b != c


@pytest.mark.usefixtures("operators")
def test_demo_fails_where_a_target_is_missed(tmp_path, monkeypatch):
    monkeypatch.setattr(artificial, "EXPERIMENTS", (recovery("quaternion", layers=1),))
    result = invoke("demo", "--out", tmp_path)
    assert result.exit_code == 1
    assert "target missed by quaternion rule: the rule ended" in result.stderr
    assert (tmp_path / "quaternion-rule.png").exists()


def test_demo_trains_models_and_draws_them(tmp_path, monkeypatch):
    """A few steps of each are enough to see tables and pictures, and too few for the targets."""

    def short(name):
        own = recipe(name)
        training = replace(own.training, steps=4, warmup=2, save_every=2, evaluate_every=2, report_every=2)
        search = own.search and replace(own.search, beam=1, more=0)
        return replace(own, training=training, search=search)

    monkeypatch.setattr(artificial, "EXPERIMENTS", EXPERIMENTS[:1])
    monkeypatch.setattr(demo, "VARIANTS", {"agreement": ("dense", "n4"), "style": ("n4",)})
    monkeypatch.setattr(demo, "recipe", short)
    result = invoke("demo", "--out", tmp_path)
    assert result.exit_code == 1, result.output
    assert result.stderr.count("target missed by") == 2
    for task in ("agreement", "style"):
        assert f"{task}: n4 reached" in result.stderr
        for name in (f"{task}.png", f"{task}-learning.png"):
            assert name in result.stdout
            assert imread(tmp_path / name).std() > 0.05
    for part in ("Subject-verb agreement", "nearest noun", "copy", "s in all"):
        assert part in result.stdout
    assert len(list((tmp_path / "runs").rglob("result.json"))) == 3


def test_params_prints_tables():
    result = invoke("params")
    assert (result.exit_code, result.stderr) == (0, "")
    assert all(part in result.stdout for part in ("2.9M (-93.4%)", "2,924,544", 'rules="per_attention"'))


def test_params_prints_json():
    result = invoke("params", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    first = json.loads(result.stdout)[0]
    assert (first["table"], first["row"], first["printed"], first["counted"]) == (
        "nli", "LSTM", "721K", 721_200
    )  # fmt: skip


@pytest.mark.parametrize("seed", ["-1", "x", "1.5", 2**32])
def test_a_bad_seed_is_refused(seed):
    result = invoke("demo", "--seed", seed)
    assert result.exit_code == 2
    assert "--seed" in result.stderr


def test_a_folder_that_cannot_be_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(artificial, "run", None)
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "folder"):
        result = invoke("demo", "--out", out)
        assert result.exit_code == 2
        assert "cannot write to" in result.stderr


def test_the_version():
    result = invoke("--version")
    assert (result.exit_code, result.stdout) == (0, f"onenth {onenth.__version__}\n")


def test_help_names_commands_types_and_defaults():
    assert all(name in invoke("--help").stdout for name in COMMANDS)
    text = invoke("demo", "--help").stdout
    assert all(part in text for part in ("--out", "path", "default: demo", "--seed", "int", "default: 0"))


def test_an_unknown_command_is_refused():
    assert invoke("dmo").exit_code == 2


@pytest.mark.parametrize("missing", ["typer", "rich", "matplotlib"])
def test_a_missing_library_is_named_in_a_sentence(missing, tmp_path):
    code = f"import sys; sys.modules[{missing!r}] = None; from onenth.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", code, "demo", "--out", str(tmp_path)], capture_output=True, text=True
    )
    assert result.returncode == 1
    assert result.stderr.strip() == (
        f"the onenth command needs {missing}, which is not installed: pip install onenth[lab]"
    )

"""The laboratory on the command line: what it writes and prints."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from lab.commands import MAKE, invoke, only, run_of, train
from lab.corpora import SMALL, agreement
from safetensors.torch import load_file

from onenth.lab.measure import result as results


@pytest.mark.parametrize("task", MAKE)
def test_a_run_holds_all_that_it_says(task, trained):
    folder = run_of(trained, task)
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "recipe.json", "checkpoints", "log.jsonl", "tensorboard", "model", "result.json",
        "result.outputs.txt",
    }  # fmt: skip
    found = results.read(folder / "result.json")
    assert found["recipe"].startswith(f"{task}/small/n4+model.filter=32+model.heads=2")
    assert found["config"]["training"]["steps"] == found["training"]["steps"] == 6
    assert {name: len(value) for name, value in found["data"]["hashes"].items()} == {
        "train.tsv": 64, "dev.tsv": 64, "test.tsv": 64
    }  # fmt: skip
    assert found["about"]["torch"] == torch.__version__
    assert found["training"]["averaged"] == [6]
    assert found["parameters"]["all"] > found["parameters"]["layers"] > 0
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log if "loss" in line] == [2, 4, 6]
    assert [line["step"] for line in log if "dev_loss" in line] == [3, 6]
    assert list((folder / "tensorboard").iterdir())
    weights = load_file(folder / "model" / "model.safetensors")
    assert sum(value.numel() for value in weights.values()) == found["parameters"]["all"]


def test_what_is_measured_can_be_made_from_the_outputs(trained):
    path = run_of(trained, "agreement") / "result.json"
    lines = results.outputs(path)
    metrics = results.read(path)["metrics"]
    assert len(lines) == 20
    assert metrics["accuracy"] == 100 * sum(line.startswith("1") for line in lines) / 20
    rows = (trained / "agreement-data" / "test.tsv").read_text().splitlines()
    for line, row in zip(lines, rows, strict=True):
        numbers, given = line.split("\t")
        right, attractors = numbers.split()
        label, wanted, _ = row.split("\t")
        assert (right == "1") == (given == label)
        assert attractors == wanted
    counted = {key: sum(line.split("\t")[0].endswith(key) for line in lines) for key in ("0", "1")}
    assert {key: own["rows"] for key, own in metrics["attractors"].items()} == counted


@pytest.mark.parametrize("task", MAKE)
def test_evaluate_finds_what_the_result_holds(task, trained):
    folder = run_of(trained, task)
    held = results.read(folder / "result.json")["metrics"]
    found = invoke("evaluate", folder, "--data", trained / f"{task}-data", "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout) == held
    outputs = invoke("evaluate", folder, "--data", trained / f"{task}-data", "--outputs")
    assert outputs.stdout.splitlines() == results.outputs(folder / "result.json")
    dev = invoke("evaluate", folder, "--data", trained / f"{task}-data", "--split", "dev", "--outputs")
    assert len(dev.stdout.splitlines()) == {"agreement": 12, "style": 8}[task]


def test_translate_gives_a_line_for_each(trained):
    folder = run_of(trained, "style")
    text = "key door .\n\nking\n" + "ship " * 20 + "\n"
    found = invoke("translate", folder, "--beam", 2, text=text)
    assert found.exit_code == 0, found.output
    assert len(found.stdout.splitlines()) == 4
    assert found.stdout.splitlines()[1] == ""
    many = invoke("translate", folder, "--beam", 3, "--n-best", 2, text=text)
    columns = [line.split("\t") for line in many.stdout.splitlines()]
    assert [number for number, _, _ in columns] == ["1", "1", "2", "3", "3", "4", "4"]
    assert invoke("translate", folder, text="").stdout == ""


def test_translate_is_the_evaluation_again(trained):
    folder = run_of(trained, "style")
    sources = [
        line.partition("\t")[0] for line in (trained / "style-data" / "test.tsv").read_text().splitlines()
    ]
    found = invoke("translate", folder, text="\n".join(sources) + "\n")
    wanted = [line.partition("\t")[2] for line in results.outputs(folder / "result.json")]
    assert found.stdout.removesuffix("\n").split("\n") == wanted


def test_a_table_has_means_spreads_and_differences(trained):
    found = invoke("table", "agreement", "--runs", trained / "runs", "--json")
    dense, n4 = json.loads(found.stdout)
    values = {
        variant: [
            results.read(run_of(trained, "agreement", variant, seed) / "result.json")["metrics"]["accuracy"]
            for seed in (0, 1)
        ]
        for variant in ("dense", "n4")
    }
    assert (dense["seeds"], n4["seeds"]) == ([0, 1], [0, 1])
    for row, variant in ((dense, "dense"), (n4, "n4")):
        a, b = values[variant]
        assert row["mean"] == pytest.approx((a + b) / 2)
        assert row["deviation"] == pytest.approx(abs(a - b) / 2**0.5)
    assert dense["difference"] is None
    assert n4["difference"]["mean"] == pytest.approx(n4["mean"] - dense["mean"])
    assert n4["difference"]["low"] <= n4["difference"]["mean"] <= n4["difference"]["high"]
    text = invoke("table", "style", "--runs", trained / "runs").stdout
    assert "bleu" in text
    assert "style/small, model.filter=32" in text
    assert "n4 " in text


def test_a_finished_run_is_read_and_a_fresh_one_made(tmp_path):
    first = train(tmp_path, "agreement/small/n4", "--json")
    path = only(tmp_path)
    written = path.stat().st_mtime_ns
    again = train(tmp_path, "agreement/small/n4", "--json")
    assert path.stat().st_mtime_ns == written
    assert json.loads(again.stdout) == json.loads(first.stdout)
    assert train(tmp_path, "agreement/small/n4", "--fresh").exit_code == 0
    assert only(tmp_path).stat().st_mtime_ns != written


def test_the_seed_decides_everything(tmp_path):
    data = agreement(tmp_path / "data")
    for out, seed in (("a", 3), ("b", 3), ("c", 4)):
        assert train(tmp_path / out, "agreement/small/n4", "--seed", seed, data=data).exit_code == 0
    weights = [next((tmp_path / out).rglob("model/model.safetensors")).read_bytes() for out in "abc"]
    assert weights[0] == weights[1] != weights[2]


def test_a_sweep_runs_what_is_not_done(tmp_path):
    data = agreement(tmp_path / "data")
    options = ["--data", data, "--out", tmp_path / "runs", *SMALL]
    first = invoke("sweep", "agreement/small", "--n", "2,4", "--rank", "none,4", "--seeds", "0", *options)
    assert first.exit_code == 0, first.output
    assert first.stderr.count(": running") == 4
    more = invoke(
        "sweep", "agreement/small", "--n", "4", "--rule", "learned,quaternion", "--seeds", "0-1", *options
    )
    assert more.exit_code == 0, more.output
    assert (more.stderr.count(": running"), more.stderr.count(": finished before")) == (3, 1)
    assert len(list((tmp_path / "runs").rglob("result.json"))) == 7
    variants = {row["variant"] for row in json.loads(
        invoke("table", "agreement", "--runs", tmp_path / "runs", "--json").stdout)}  # fmt: skip
    assert variants == {"n2", "n2-rank4", "n4", "n4-rank4", "quaternion"}


def test_settings_that_change_nothing_may_differ(tmp_path):
    train(tmp_path)
    written = only(tmp_path).stat().st_mtime_ns
    again = train(
        tmp_path, "agreement/small/n4", "--set", "training.workers=2", "--set", "training.most_bad=3"
    )
    assert again.exit_code == 0
    assert only(tmp_path).stat().st_mtime_ns == written


def test_a_long_name_is_told_by_its_hash(tmp_path):
    more = ["--set", "training.clip=0.123456789", "--set", "training.label_smoothing=0.0123456789"]
    found = train(tmp_path, "agreement/small/n4", *more, "--json")
    assert found.exit_code == 0, found.output
    name = json.loads(found.stdout)["recipe"]
    assert "training.label_smoothing=0.0123456789" in name
    [folder] = (tmp_path / "runs" / "agreement" / "small").iterdir()
    assert folder.name == f"n4+{hashlib.sha256(name.partition('+')[2].encode()).hexdigest()[:12]}"
    assert [row["recipe"] for row in json.loads(
        invoke("table", "agreement", "--runs", tmp_path / "runs", "--json").stdout)] == [name]  # fmt: skip


def test_float64_is_trained_in_float64(tmp_path):
    found = train(tmp_path, "agreement/small/n4", "--set", "training.precision=float64")
    assert found.exit_code == 0, found.output
    weights = load_file(only(tmp_path, "model/model.safetensors"))
    assert {value.dtype for value in weights.values()} == {torch.float64}


def test_explain_and_bench_speak_of_a_layer():
    text = invoke("explain", 512, 2048, "--n", 4, "--rows", 64).stdout
    assert text.startswith("PHMLinear(512, 2048, n=4), 64 rows")
    assert "taken" in text
    found = json.loads(invoke("bench", 64, 32, "--rank", 8, "--rows", 8, "--rounds", 2, "--json").stdout)
    assert set(found) == {"forward", "training step"}
    assert [row["name"] for row in found["forward"]] == ["nn.Linear", "PHMLinear"]


def test_list_shows_recipes_and_settings():
    rows = json.loads(invoke("list", "--json").stdout)
    assert {row["recipe"].partition("/")[0] for row in rows} == {"agreement", "style"}
    [n4] = [row for row in rows if row["recipe"] == "agreement/paper/n4"]
    assert (n4["layers"], n4["paper"], n4["arithmetic"]) == (101_120, 95.05, 1)
    text = invoke("list", "style/small/n4").stdout
    assert "training.learning_rate" in text
    assert "highest" in text


def test_help_has_types_defaults_and_the_papers_values():
    text = invoke("train", "--help").stdout
    assert all(
        part in text for part in ("--seed", "default: runs", "PATH=VALUE", "batch_tokens", "/ 10000", "float")
    )


def test_the_shell_can_complete_commands():
    """What the installed completion asks the command."""
    environment = os.environ | {
        "_ONENTH_COMPLETE": "complete_bash", "COMP_WORDS": "onenth tr", "COMP_CWORD": "1",
    }  # fmt: skip
    program = Path(sys.executable).with_name("onenth")
    found = subprocess.run([program], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["train", "translate"]

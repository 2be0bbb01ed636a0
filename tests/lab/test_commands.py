"""The laboratory on the command line: what it writes, prints, refuses, and how it is taken up again."""

import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from lab.corpora import SMALL, agreement, style
from safetensors.torch import load_file
from typer.testing import CliRunner

from onenth.cli import app
from onenth.lab.measure import result as results

MAKE = {"agreement": agreement, "style": style}
SIZE = {"agreement": [], "style": ["--set", "model.vocabulary=300"]}


def invoke(*arguments, text=None):
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(app, words, input=text, env={"COLUMNS": "100"})


def train(folder, name="agreement/small/n4", *more, data=None):
    task = name.partition("/")[0]
    own = data or MAKE[task](folder / f"{task}-data")
    return invoke("train", name, "--data", own, "--out", folder / "runs", *SMALL, *SIZE[task], *more)


def only(folder, name="result.json"):
    [path] = folder.rglob(name)
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two tasks, two variants, two seeds."""
    folder = tmp_path_factory.mktemp("trained")
    for task in MAKE:
        for variant in ("dense", "n4"):
            for seed in (0, 1):
                found = train(folder, f"{task}/small/{variant}", "--seed", seed)
                assert found.exit_code == 0, found.output
    return folder


def run_of(folder, task, variant="n4", seed=0):
    [path] = [
        path for path in (folder / "runs" / task / "small").iterdir() if path.name.startswith(f"{variant}+")
    ]
    return path / f"seed-{seed}"


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


WRONG = {
    "no recipe": (["train", "agreement/small/n5"], "did you mean agreement/small/n"),
    "no setting": (
        ["train", "agreement/small/n4", "--set", "training.step=1"],
        "did you mean training.steps?",
    ),
    "cannot be": (["train", "agreement/small/n4", "--set", "model.hidden=6"], "cannot be"),
    "no folder": (["train", "agreement/small/n4", "--data", "nowhere"], "nowhere"),
    "no device": (["train", "agreement/small/n4", "--device", "tpu"], "write cpu, cuda or auto"),
    "meta": (["train", "agreement/small/n4", "--device", "meta"], "write cpu, cuda or auto"),
    "no run": (["evaluate", "nowhere"], "nowhere"),
    "no run to translate": (["translate", "nowhere"], "nowhere"),
    "no runs": (["table", "style", "--runs", "nowhere"], "there is no such folder"),
    "no task": (["table", "stile"], "write agreement or style"),
    "no setup": (["sweep", "agreement/big"], "agreement/small"),
    "no numbers": (["sweep", "agreement/small", "--n", "2,four"], "'four' is no whole number"),
    "empty": (["sweep", "agreement/small", "--n", "2,,4"], "one comma between"),
    "twice": (["sweep", "agreement/small", "--seeds", "0-3,2"], "a value is there twice"),
    "backwards": (["sweep", "agreement/small", "--seeds", "3-0"], "'3-0' is no whole number"),
    "rule": (["sweep", "agreement/small", "--rule", "quaternon"], "quaternon"),
    "n of a sweep": (["sweep", "agreement/small", "--n", "3"], "cannot be"),
    "explain": (["explain", "10", "6", "--n", "4"], "both 10 and 6: 1, 2"),
    "bench": (["bench", "10", "6", "--n", "4"], "both 10 and 6: 1, 2"),
    "list": (["list", "agreement/small/n44"], "did you mean"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words, message = WRONG[name]
    found = invoke(*words)
    assert found.exit_code == 2, found.output
    assert found.stdout == ""
    assert found.stderr.startswith("onenth: ")
    assert found.stderr.count("\n") == 1
    assert message in found.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_another_recipe_or_data_is_refused(tmp_path):
    """The name tells what was set by hand, so it takes other data, or a recipe that has changed since."""
    train(tmp_path)
    other = train(tmp_path, data=agreement(tmp_path / "other", seed=1))
    assert other.exit_code == 2
    assert re.search(r"holds a run of another recipe or other data, data\.hashes\.", other.stderr)
    assert "--fresh" in other.stderr
    path = only(tmp_path, "recipe.json")
    path.write_text(path.read_text().replace('"beta1": 0.9', '"beta1": 0.8'))
    changed = train(tmp_path)
    assert changed.exit_code == 2
    assert "training.beta1: 0.9 here, 0.8 there" in changed.stderr
    for text in ("{", "[]", "\xff"):
        path.write_bytes(text.encode("latin-1"))
        assert train(tmp_path).exit_code == 2


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


def test_a_run_on_files_is_not_measured_on_the_embedded_corpus(trained):
    found = invoke("evaluate", run_of(trained, "agreement"))
    assert found.exit_code == 2
    assert re.search("was trained on .*, not on the embedded corpus: name --data", found.stderr)


def test_float64_is_trained_in_float64(tmp_path):
    found = train(tmp_path, "agreement/small/n4", "--set", "training.precision=float64")
    assert found.exit_code == 0, found.output
    weights = load_file(only(tmp_path, "model/model.safetensors"))
    assert {value.dtype for value in weights.values()} == {torch.float64}


@pytest.mark.parametrize(
    "name", ["result.json", "result.outputs.txt", "model/model.safetensors", "model/config.json"]
)
def test_a_damaged_run_is_refused(name, trained, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run_of(trained, "style"), folder)
    path = folder / name
    path.write_bytes(path.read_bytes()[:-7] + b"garbage")
    if name == "result.outputs.txt":
        found = invoke("table", "style", "--runs", copied(trained, tmp_path))
    else:
        found = invoke("translate", folder, text="key\n")
    assert found.exit_code == 2, found.output
    assert name.rpartition("/")[2].partition(".")[0] in found.stderr


def copied(trained, tmp_path):
    runs = tmp_path / "runs"
    shutil.copytree(trained / "runs", runs)
    path = run_of(tmp_path, "style") / "result.outputs.txt"
    path.write_bytes(path.read_bytes()[:-7] + b"garbage")
    return runs


def test_an_agreement_run_translates_nothing(trained):
    found = invoke("translate", run_of(trained, "agreement"), text="key\n")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "name one of style" in found.stderr


def test_bad_lines_of_stdin_are_named(trained):
    found = CliRunner().invoke(app, ["translate", str(run_of(trained, "style"))], input=b"key\nk\xffy\n")
    assert found.exit_code == 2
    assert "stdin:2: byte 2 is not UTF-8" in found.stderr


def command(*words, cwd, **more):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    program = [sys.executable, "-m", "onenth", *map(str, words)]
    return subprocess.Popen(
        program, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


def test_a_terminated_run_saves_and_goes_on(tmp_path):
    data = agreement(tmp_path / "data")
    endless = [word.replace("steps=6", "steps=100000") for word in SMALL]
    words = ["train", "agreement/small/n4", "--data", data, *endless]
    program = command(*words, cwd=tmp_path)
    deadline = time.monotonic() + 60
    while not list(tmp_path.rglob("step-*")):
        assert time.monotonic() < deadline
        assert program.poll() is None, program.communicate()
        time.sleep(0.05)
    program.send_signal(signal.SIGTERM)
    out, err = program.communicate(timeout=60)
    assert (program.returncode, out) == (143, "")
    [step] = re.findall(r"stopped at step (\d+) by SIGTERM, and saved", err)
    assert list(tmp_path.rglob(f"step-{int(step):08d}"))
    assert "Traceback" not in err
    left = sorted(tmp_path.rglob("step-*"))
    again = command(*words, cwd=tmp_path)
    while sorted(tmp_path.rglob("step-*")) == left:
        assert again.poll() is None, again.communicate()
        time.sleep(0.05)
    again.send_signal(signal.SIGTERM)
    _, err = again.communicate(timeout=60)
    assert f"goes on from step {step}" in err


@pytest.mark.parametrize("parallel", ["ddp", pytest.param("fsdp", marks=pytest.mark.full)])
def test_torchrun_trains_on_two_ranks(parallel, tmp_path):
    data = style(tmp_path / "data")
    words = ["train", "style/small/n4", "--data", data, *SMALL, *SIZE["style"], "--json"]
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        "-m",
        "onenth",
    ]
    program = [*torchrun, *map(str, words), "--set", f"training.parallel={parallel}"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    found = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    result = json.loads(found.stdout)
    assert (result["about"]["ranks"], result["training"]["steps"]) == (2, 6)
    assert results.read(only(tmp_path)) == result


def test_no_space_is_one_sentence_and_loses_nothing(tmp_path):
    """A limit on the size of files stands for a full disk."""
    data = agreement(tmp_path / "data")
    words = ["train", "agreement/small/n4", "--data", data, *SMALL]

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, 4_000))

    program = command(*words, cwd=tmp_path, preexec_fn=limit)
    out, err = program.communicate(timeout=60)
    assert (program.returncode, out) == (2, "")
    assert err.count("Traceback") == 0
    assert "File too large" in err
    assert not list(tmp_path.rglob("*.part"))
    program = command(*words, cwd=tmp_path)
    program.communicate(timeout=60)
    assert program.returncode == 0
    assert list(tmp_path.rglob("result.json"))


def test_stdout_may_be_closed_early(trained):
    folder = run_of(trained, "style")
    with command("evaluate", folder, "--data", trained / "style-data", "--outputs", cwd=trained) as program:
        program.stdout.close()
        assert "Traceback" not in program.stderr.read()


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

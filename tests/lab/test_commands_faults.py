"""The laboratory on the command line: what it refuses, and what it does when something goes wrong."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest
from lab.commands import SIZE, invoke, only, run_of, train
from lab.corpora import SMALL, agreement, style
from typer.testing import CliRunner

from onenth.cli import app
from onenth.lab.measure import result as results

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


def test_a_run_on_files_is_not_measured_on_the_embedded_corpus(trained):
    found = invoke("evaluate", run_of(trained, "agreement"))
    assert found.exit_code == 2
    assert re.search("was trained on .*, not on the embedded corpus: name --data", found.stderr)


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

"""Results in files: whole, checked, and with the outputs they speak of."""

import copy
import hashlib
import json
import math
import os
import shutil
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch

from onenth.lab.errors import Problem
from onenth.lab.measure import result as module
from onenth.lab.measure.memory import peak_memory
from onenth.lab.measure.result import about, outputs, read, write, write_outputs

LINES = ["well met", "", "a line\u2028of two\rparts\x85", "größer ≥ 1 "]
CPU = torch.device("cpu")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run-1.json"


@pytest.fixture
def result(path):
    return {
        "schema": 1, "recipe": "phm-4", "task": "style", "seed": 3,
        "config": {"model": {"n": 4, "rule": None}, "for": "größer", "decay": [1e-3], "tied": True},
        "data": {"name": "small", "hashes": {"train.txt": "0" * 64}}, "about": about(CPU),
        "model": {"model.safetensors": "0" * 64},
        "parameters": {"all": 1000, "layers": 250},
        "seconds": {"training": 1.5, "evaluation": 2, "all": 3.5},
        "metrics": {"BLEU": 27.25, "by length": {"10": [20.0, 5]}}, "outputs": write_outputs(path, LINES),
    }  # fmt: skip


def test_a_result_comes_back_in_its_order(path, result):
    write(path, result)
    assert read(path) == result
    assert list(read(path)) == list(result)
    assert path.read_text(encoding="utf-8") == json.dumps(result, indent=2, ensure_ascii=False) + "\n"
    assert sorted(file.name for file in path.parent.iterdir()) == ["run-1.json", "run-1.outputs.txt"]


def test_outputs_come_back_line_by_line(path, result):
    write(path, result)
    file = path.with_name("run-1.outputs.txt")
    assert file.read_bytes() == "".join(line + "\n" for line in LINES).encode()
    assert result["outputs"] == {"file": file.name, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    assert outputs(path) == LINES


@pytest.mark.parametrize("content", [b"", b"\n", b"a", b"a\n", b"a\n\n", b"a\nb"])
def test_outputs_of_others_come_back_too(content, path, result):
    path.with_name("out").write_bytes(content)
    result["outputs"] = {"file": "out", "sha256": hashlib.sha256(content).hexdigest()}
    write(path, result)
    with path.with_name("out").open(newline="\n") as file:
        assert outputs(path) == [line.rstrip("\n") for line in file]


def test_other_outputs_are_refused(path, result):
    write(path, result)
    file = path.with_name("run-1.outputs.txt")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(Problem, match=r"outputs\.txt: its SHA-256 is .*, and run-1\.json says .*: restore"):
        outputs(path)
    file.unlink()
    with pytest.raises(Problem, match=r"outputs\.txt: cannot be read, No such file"):
        outputs(path)
    with pytest.raises(Problem, match=r"output 2 is of several lines, 'b\\nc'"):
        write_outputs(path, ["a", "b\nc"])
    content = b"\xff\n"
    file.write_bytes(content)
    write(path, {**result, "outputs": {"file": file.name, "sha256": hashlib.sha256(content).hexdigest()}})
    with pytest.raises(Problem, match=r"outputs\.txt: this is no UTF-8 text"):
        outputs(path)


def changed(result, name, value):
    """A copy with another value at a path of keys; without it, where the value is `...`."""
    found = copy.deepcopy(result)
    *folders, key = name.split(".")
    owner = found
    for folder in folders:
        owner = owner[folder]
    if value is ...:
        del owner[key]
    else:
        owner[key] = value
    return found


KEYS = [
    "schema", "recipe", "task", "seed", "config", "data", "data.name", "data.hashes", "about", "about.device",
    "about.threads", "about.python", "about.torch", "about.onenth", "about.platform", "about.commit",
    "about.date", "model", "parameters", "parameters.all", "parameters.layers", "seconds", "seconds.training",
    "seconds.evaluation", "seconds.all", "metrics", "outputs", "outputs.file", "outputs.sha256",
]  # fmt: skip


@pytest.mark.parametrize("value", [..., True, [1]], ids=["missing", "bool", "list"])
@pytest.mark.parametrize("key", KEYS)
def test_each_key_is_checked_on_writing_and_reading(key, value, path, result):
    damaged = changed(result, key, value)
    match = rf"run-1\.json: {key} is " + ("missing" if value is ... else ".*, and should be")
    with pytest.raises(Problem, match=match):
        write(path, damaged)
    assert not path.exists()
    path.write_text(json.dumps(damaged))
    with pytest.raises(Problem, match=match):
        read(path)


DAMAGED = {
    "another schema": ("schema", 2, "follows schema 2, and this onenth reads 1"),
    "a text for a number": ("seed", "3", "seed is '3', and should be a whole number"),
    "a fraction of a parameter": ("parameters.all", 1.5, "parameters.all is 1.5, and should be a whole"),
    "outputs elsewhere": ("outputs.file", "../other.txt", "outputs.file is '../other.txt'"),
    "outputs nowhere": ("outputs.file", "", "outputs.file is ''"),
    "NaN": ("metrics.BLEU", math.nan, r"metrics\.BLEU is nan"),
    "infinity, deep": ("config.model", {"a": [0, {"b": -math.inf}]}, r"config\.model\.a\[1\]\.b is -inf"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_named(name, path, result):
    key, value, match = DAMAGED[name]
    damaged = changed(result, key, value)
    path.write_text(json.dumps(damaged))
    for act in (lambda: write(path, damaged), lambda: read(path)):
        with pytest.raises(Problem, match=match):
            act()


UNWRITABLE = {
    "a tensor": ({"loss": torch.ones(1)}, r"metrics\.loss is of the type Tensor"),
    "a number of numpy": ({"loss": [np.float32(1)]}, r"metrics\.loss\[0\] is of the type float32"),
    "a path": ({"at": Path("a")}, r"metrics\.at is of the type \w*Path"),
    "a key that is no text": ({"by": {1: 2}}, r"metrics\.by has the key 1: name it '1'"),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_what_json_would_change_is_not_written(name, path, result):
    metrics, match = UNWRITABLE[name]
    with pytest.raises(Problem, match=match):
        write(path, {**result, "metrics": metrics})
    assert not path.exists()


TEXTS = {
    "empty": (b"", r"run-1\.json:1: this is no JSON"),
    "cut off": (b'{\n"schema": 1,\n', r"run-1\.json:3: this is no JSON"),
    "no text": (b"\xff\xfe", r"run-1\.json: this is no UTF-8 text"),
    "a list": (b"[1]", r"run-1\.json: this is no result"),
    "another object": (b"{}", r"run-1\.json: schema is missing"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_another_file_is_refused(name, path):
    content, match = TEXTS[name]
    path.write_bytes(content)
    with pytest.raises(Problem, match=match):
        read(path)


def test_a_missing_file_is_named(path):
    with pytest.raises(Problem, match=r"run-1\.json: cannot be read, No such file or directory"):
        read(path)


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failing_write_leaves_the_old_file_whole(failing, path, result, monkeypatch):
    write(path, result)
    whole, names = path.read_bytes(), os.listdir(path.parent)

    def no_space(*arguments):
        raise OSError("no space left on device")

    monkeypatch.setattr(*((os, failing) if failing == "fsync" else (type(path), failing)), no_space)
    with pytest.raises(Problem, match="no space left"):
        write(path, {**result, "seed": 4})
    assert path.read_bytes() == whole
    assert os.listdir(path.parent) == names


def test_a_result_is_on_the_disk_before_it_has_its_name(path, result, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append((os.fstat(file).st_ino, path.exists())))
    write(path, result)
    assert synced == [(path.stat().st_ino, False), (path.parent.stat().st_ino, True)]


def test_about_names_machine_and_versions():
    found = about(CPU)
    assert list(found) == [
        "device", "threads", "python", "torch", "onenth", "numpy", "sacrebleu", "sentencepiece", "platform",
        "commit", "date",
    ]  # fmt: skip
    for package in ("torch", "onenth", "numpy", "sacrebleu", "sentencepiece"):
        assert found[package] == version(package)
    assert found["threads"] == torch.get_num_threads()
    assert found["device"]
    assert abs((datetime.now(UTC).date() - datetime.fromisoformat(found["date"]).date()).days) <= 1


def test_what_is_not_installed_is_left_out():
    assert module._versions("numpy", "no-such-package") == {"numpy": np.__version__}


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_commit_is_that_of_the_checkout(tmp_path, monkeypatch):
    def git(*command):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        return subprocess.run(
            ("git", *identity, *command), cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    file, installed = tmp_path / "package" / "__init__.py", tmp_path / "env" / "__init__.py"
    for each in (file, installed):
        each.parent.mkdir()
        each.touch()
    assert module._commit(file) is None
    git("init", "-q")
    assert module._commit(file) is None
    (tmp_path / ".gitignore").write_text("env\n")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    assert module._commit(file) == git("rev-parse", "HEAD")
    assert module._commit(installed) is None  # in a checkout, yet not of it
    file.write_text("changed")
    assert module._commit(file) == git("rev-parse", "HEAD") + "+"
    monkeypatch.setenv("PATH", "")
    assert module._commit(file) is None


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_the_peak_rises_by_what_is_taken():
    now = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    before, extra = peak_memory(CPU), 2**26
    taken = torch.ones(before - now + extra, dtype=torch.uint8)
    assert abs(peak_memory(CPU) - before - extra) < extra / 2
    assert taken.all()
    status = dict(line.split(":\t") for line in Path("/proc/self/status").read_text().splitlines())
    high = 1024 * int(status["VmHWM"].removesuffix("kB"))
    assert abs(peak_memory(CPU) - high) < 2**20


def test_the_peak_of_other_devices_is_not_made_up():
    with pytest.raises(Problem, match="peak memory of meta is not known"):
        peak_memory(torch.device("meta"))


@pytest.mark.gpu
def test_the_peak_of_a_gpu_is_what_tensors_took():
    device = torch.device("cuda")
    torch.cuda.reset_peak_memory_stats(device)
    before = peak_memory(device)
    torch.ones(2**26, dtype=torch.uint8, device=device)
    assert peak_memory(device) == before + 2**26

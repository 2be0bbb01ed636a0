"""Several ranks end where one does, and go on from each other's checkpoints.

This file is also the program that each rank runs: `test_ranks.py COMMAND FOLDER`.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from lab.engine.toy import examples, model, run

from onenth.lab.engine.checkpoint import Store
from onenth.lab.engine.ranks import joined
from onenth.lab.engine.report import Silence
from onenth.lab.engine.signals import Stopped

CPU = torch.device("cpu")
DOUBLE = {"precision": "float64", "save_every": 5, "average": 40, "warmup": 0, "decay": "constant"}
CASES = {
    "adam": DOUBLE,
    "accumulated and clipped": {**DOUBLE, "accumulate": 2, "clip": 0.05},
    "adamw, float32": {**DOUBLE, "optimizer": "adamw", "precision": "float32", "weight_decay": 0.01},
}


class Losses(Silence):
    def __init__(self):
        self.losses = []

    def line(self, step, values):
        if "loss" in values:
            self.losses.append(values["loss"])


def one(folder, ranks, dropout=0.0, tell=None, **settings):
    dtype = torch.float64 if settings.get("precision") == "float64" else torch.float32
    own = model(dropout=dropout, dtype=dtype, n=2)
    return run(folder, ranks=ranks, own=own, tell=tell, train=examples(61), report_every=1, **settings)


def all_cases(folder):
    """Each case by DDP and FSDP, and with dropout left at step 13 and taken up again."""
    with joined(CPU) as ranks:
        for name, settings in CASES.items():
            for parallel in ("ddp", "fsdp"):
                tell = Losses()
                one(folder / parallel / name, ranks, tell=tell, parallel=parallel, **settings)()
                if ranks.first:
                    (folder / parallel / f"{name}.txt").write_text("\n".join(map(repr, tell.losses)))
        for parallel in ("ddp", "fsdp"):
            settings = {"parallel": parallel, "average": 40, "save_every": 1}
            one(folder / parallel / "whole", ranks, dropout=0.1, **settings)()
            left = folder / parallel / "left"
            try:
                one(left, ranks, dropout=0.1, tell=Asks(13, ranks), **settings)()
            except Stopped:
                one(left, ranks, dropout=0.1, **settings)()
            else:
                raise AssertionError("it was not stopped")


def every_step(folder):
    """Takes a run up at every step, from the checkpoint of that step alone."""
    with joined(CPU) as ranks:
        for name, more in EVERY.items():
            settings = {"average": 40, "save_every": 1, **more}
            whole = folder / name / "whole"
            one(whole, ranks, dropout=0.1, **settings)()
            for step in range(1, 31):
                left = folder / name / f"left-{step}"
                if ranks.first:
                    shutil.copytree(whole / f"step-{step:08d}", left / f"step-{step:08d}")
                ranks.barrier()
                one(left, ranks, dropout=0.1, **{**settings, "save_every": 1000})()


EVERY = {
    "ddp": {"parallel": "ddp"},
    "ddp, two workers": {"parallel": "ddp", "workers": 2},
    "fsdp": {"parallel": "fsdp"},
}


class Asks(Silence):
    """Asks the second rank alone to stop: both do."""

    def __init__(self, at, ranks):
        self.at, self.ranks = at, ranks

    def step(self, step):
        if step == self.at and not self.ranks.first:
            os.kill(os.getpid(), signal.SIGTERM)


def forever(folder):
    """Trains until something happens."""
    with joined(CPU) as ranks:
        (folder / f"pid-{ranks.rank}").write_text(str(os.getpid()))
        one(folder / "run", ranks, steps=10**9)()


def launch(ranks, command, folder):
    environment = os.environ | {
        "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path),
    }  # fmt: skip
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    return subprocess.Popen(
        [*torchrun, __file__, command, str(folder)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What two ranks made, and one alone in `alone`."""
    made = tmp_path_factory.mktemp("ranks")
    program = launch(2, "all_cases", made)
    with joined(CPU) as alone:
        for name, settings in CASES.items():
            tell = Losses()
            one(made / "alone" / name, alone, tell=tell, **settings)()
            (made / "alone" / f"{name}.txt").write_text("\n".join(map(repr, tell.losses)))
    output, _ = program.communicate(timeout=250)
    assert program.returncode == 0, output
    return made


def losses(path):
    return torch.tensor([float(line) for line in path.read_text().splitlines()], dtype=torch.float64)


def checkpoint(folder, step=31):
    return Store(folder, 100, pytest.fail).load(step).tensors


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
@pytest.mark.parametrize("name", CASES)
def test_two_ranks_end_where_one_does(name, parallel, folder):
    found, wanted = losses(folder / parallel / f"{name}.txt"), losses(folder / "alone" / f"{name}.txt")
    assert len(found) == len(wanted) == 31
    double = CASES[name]["precision"] == "float64"
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6 if double else 1e-5)
    if double:
        model, wanted = (checkpoint(folder / kind / name)["model"] for kind in (parallel, "alone"))
        for key, value in wanted.items():
            torch.testing.assert_close(model[key], value, rtol=0, atol=1e-6)


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_ranks_that_were_stopped_can_be_taken_up(parallel, folder):
    found, wanted = (checkpoint(folder / parallel / name) for name in ("left", "whole"))
    for group, held in wanted.items():
        assert found[group].keys() == held.keys()
        for name, value in held.items():
            assert torch.equal(found[group][name], value), f"{group} {name}"


@pytest.fixture(scope="module")
def taken_up(tmp_path_factory):
    made = tmp_path_factory.mktemp("every")
    program = launch(2, "every_step", made)
    output, _ = program.communicate(timeout=290)
    assert program.returncode == 0, output
    return made


@pytest.mark.full
@pytest.mark.parametrize("name", EVERY)
def test_two_ranks_can_be_taken_up_at_every_step(name, taken_up):
    wanted = checkpoint(taken_up / name / "whole")
    for step in range(1, 31):
        found = checkpoint(taken_up / name / f"left-{step}")
        for group, held in wanted.items():
            assert found[group].keys() == held.keys()
            for key, value in held.items():
                assert torch.equal(found[group][key], value), f"step {step}: {group} {key}"


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_one_rank_goes_on_from_what_two_have_saved(parallel, folder, tmp_path):
    source = folder / parallel / "adam" / "step-00000020"
    target = tmp_path / "step-00000020"
    target.mkdir()
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    with joined(CPU) as alone:
        resumed = one(tmp_path, alone, **CASES["adam"])
        assert resumed.progress.step == 20
        resumed()
    model, wanted = (checkpoint(own)["model"] for own in (tmp_path, folder / "alone" / "adam"))
    for key, value in wanted.items():
        torch.testing.assert_close(model[key], value, rtol=0, atol=1e-6)


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.full), 1])
def test_a_killed_rank_ends_the_others(rank, tmp_path):
    program = launch(2, "forever", tmp_path)
    try:
        deadline = time.monotonic() + 60
        while not all((tmp_path / f"pid-{each}").exists() for each in (0, 1)):
            assert time.monotonic() < deadline
            assert program.poll() is None
            time.sleep(0.1)
        time.sleep(2)  # into the training
        pids = [int((tmp_path / f"pid-{each}").read_text()) for each in (0, 1)]
        os.kill(pids[rank], signal.SIGKILL)
        program.communicate(timeout=60)
        assert program.returncode != 0
        with pytest.raises(ProcessLookupError):
            os.kill(pids[1 - rank], 0)
    finally:
        program.kill()


if __name__ == "__main__":
    {"all_cases": all_cases, "every_step": every_step, "forever": forever}[sys.argv[1]](Path(sys.argv[2]))

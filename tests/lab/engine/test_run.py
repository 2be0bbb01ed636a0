"""A run that is taken up again ends, to the bit, where one that was never left ends."""

import os
import shutil
import signal

import pytest
import torch
from lab.engine.toy import examples, model, run

from onenth.lab.engine.checkpoint import Store
from onenth.lab.engine.report import Silence
from onenth.lab.engine.signals import Stopped
from onenth.lab.errors import Problem

STEPS = 31
QUICK = (1, 7, 18, 30)
EVERY = [pytest.param(k, marks=() if k in QUICK else pytest.mark.full) for k in range(1, STEPS)]


def tensors(folder, step=STEPS):
    return Store(folder, 100, pytest.fail).load(step).tensors


def assert_equal(found, wanted):
    assert found.keys() == wanted.keys()
    for group, held in wanted.items():
        assert found[group].keys() == held.keys()
        for name, value in held.items():
            assert torch.equal(found[group][name], value), f"{group} {name}"


SETTINGS = {
    "eager": {},
    "two workers": {"workers": 2},
    "accumulated": {"accumulate": 3, "clip": 0.1},
    "averaged": {"average": 5},
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """For some settings, a run that was never left, with a checkpoint of every step."""
    made = {}

    def make(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp("whole")
            settings = {"save_every": 1, "average": STEPS, **SETTINGS[name]}
            run(made[name], **{**settings, "average": STEPS})()
        return made[name]

    return make


@pytest.mark.parametrize("step", EVERY)
@pytest.mark.parametrize(
    "name", ["eager", "accumulated", pytest.param("two workers", marks=pytest.mark.full)]
)
def test_every_step_can_be_taken_up(name, step, whole, tmp_path):
    folder = whole(name)
    shutil.copytree(folder / f"step-{step:08d}", tmp_path / f"step-{step:08d}")
    resumed = run(tmp_path, own=model(), **SETTINGS[name])
    assert resumed.progress.step == step
    torch.rand(step)  # whatever else draws
    assert resumed().progress.step == STEPS
    assert_equal(tensors(tmp_path), tensors(folder))


def test_workers_change_nothing(whole):
    assert_equal(tensors(whole("two workers")), tensors(whole("eager")))


class Asks(Silence):
    """Sends this process a signal at a step."""

    def __init__(self, step, number=signal.SIGTERM):
        self.at, self.number = step, number

    def step(self, step):
        if step == self.at:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("save_every", [1000, 10])
def test_a_signal_saves_and_leaves(number, save_every, tmp_path):
    settings = {"save_every": save_every, "average": 2}
    before = signal.getsignal(number)
    never_left = run(tmp_path / "whole", **settings)()
    for at in (5, 17, 23):
        with pytest.raises(Stopped, match=f"stopped at step {at + 1} by {number.name}") as stopped:
            run(tmp_path / "left", tell=Asks(at, number), **settings)()
        assert stopped.value.code == 128 + number
        assert signal.getsignal(number) is before
    ended = run(tmp_path / "left", **settings)()
    assert_equal(tensors(tmp_path / "left"), tensors(tmp_path / "whole"))
    assert ended.averaged == never_left.averaged == ([31] if save_every == 1000 else [30, 31])
    state = ended.model.state_dict()
    assert all(torch.equal(state[name], own) for name, own in never_left.model.state_dict().items())


def test_a_finished_run_is_not_trained_again(tmp_path):
    first = run(tmp_path)()
    again = run(tmp_path, tell=Asks(32))()
    assert again.progress == first.progress
    assert all(
        torch.equal(a, b) for a, b in zip(again.model.parameters(), first.model.parameters(), strict=True)
    )


def test_the_model_in_the_end_is_the_mean_of_the_last_checkpoints(tmp_path):
    ended = run(tmp_path, save_every=1, average=3)()
    states = [tensors(tmp_path, step)["model"] for step in (29, 30, 31)]
    assert ended.averaged == [29, 30, 31]
    for name, value in ended.model.state_dict().items():
        wanted = torch.stack([state[name].double() for state in states]).mean(0)
        torch.testing.assert_close(value.double(), wanted, rtol=1e-7, atol=1e-9)


def test_another_seed_is_another_run(tmp_path):
    run(tmp_path / "a", seed=0)(), run(tmp_path / "b", seed=1)()
    a, b = (tensors(tmp_path / name)["model"] for name in "ab")
    assert not torch.equal(a["head.weight"], b["head.weight"])


def test_a_damaged_checkpoint_is_passed_over_and_the_run_goes_on(tmp_path, whole):
    for step in (10, 20):
        shutil.copytree(whole("eager") / f"step-{step:08d}", tmp_path / f"step-{step:08d}")
    file = tmp_path / "step-00000020" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])

    said = []
    tell = Silence()
    tell.say = said.append
    resumed = run(tmp_path, tell=tell)
    assert resumed.progress.step == 10
    assert "step-00000020" in said[0]
    resumed()
    assert_equal(tensors(tmp_path), tensors(whole("eager")))


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    run(tmp_path)()
    with pytest.raises(Problem, match=r"the checkpoint is of another model: .*\.S"):
        run(tmp_path, own=model(n=4))


def test_it_learns(tmp_path):
    ended = run(tmp_path, steps=300, train=examples(400), own=model(dropout=0.0))()
    assert ended.progress.best < 0.3  # one that knows nothing is at 0.69


@pytest.mark.parametrize("patience", [1, 3])
def test_it_stops_early(patience, tmp_path):
    """With a rate of almost nothing from the third step on, no look is better than the best of the first."""
    ended = run(tmp_path, learning_rate=1e-30, evaluate_every=2, patience=patience, own=model(dropout=0.0))()
    assert ended.progress.step == 2 * (patience + 1)
    assert ended.progress.ended
    assert (
        run(tmp_path, learning_rate=1e-30, evaluate_every=2, patience=patience)().progress == ended.progress
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"speed": "capture"}, "takes one process with a CUDA device")],
)
def test_what_this_machine_cannot_do_is_refused(settings, message, tmp_path):
    with pytest.raises(Problem, match=message):
        run(tmp_path, **settings)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated")  # torch's own, on first use
@pytest.mark.parametrize("step", range(1, STEPS))
def test_compiled_steps_can_be_taken_up(step, tmp_path):
    settings = {"speed": "compile", "save_every": 1, "average": STEPS}
    if step == 1:
        torch.compiler.reset()
    run(tmp_path / "whole", **settings)()
    shutil.copytree(tmp_path / "whole" / f"step-{step:08d}", tmp_path / "left" / f"step-{step:08d}")
    run(tmp_path / "left", **{**settings, "save_every": 1000})()
    assert_equal(tensors(tmp_path / "left"), tensors(tmp_path / "whole"))

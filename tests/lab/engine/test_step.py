"""One step: what it computes, and what it leaves alone."""

import copy
import dataclasses
import math

import pytest
import torch
from lab.engine.toy import ALONE, TRAINING, examples, model, run
from torch import nn

from onenth.lab.data.batches import Batches
from onenth.lab.engine.optimizers import optimizer, schedule, set_rate
from onenth.lab.engine.report import Silence
from onenth.lab.engine.step import Step
from onenth.lab.errors import Problem
from onenth.lab.tasks.agreement import AGREEMENT

CONSTANT = dataclasses.replace(TRAINING, warmup=0, decay="constant")


def made(own, training=CONSTANT, kind=optimizer):
    return Step(own, kind(own, training, ALONE.device), AGREEMENT.logits, training, ALONE)


def sgd(own, training, device):
    return torch.optim.SGD(own.parameters(), lr=0.5, fused=True)


def batches(training=TRAINING, **more):
    own = Batches(examples(), training.batch_tokens, training.longest, 0, **more)
    return [own.make(*planned) for planned in own.plan(0)]


def state(own):
    return {name: value.clone() for name, value in own.state_dict().items()}


def by_hand(own, parts, smoothing=0.0):
    """The mean loss over all rows of some batches, one row after another."""
    losses = [
        nn.functional.cross_entropy(
            own(ids[None, : (ids != 0).sum()]), label[None], label_smoothing=smoothing
        )
        for part in parts
        for ids, label in zip(part.tensors["ids"], part.tensors["labels"], strict=True)
        if label >= 0
    ]
    return torch.stack(losses).mean()


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("count", [1, 3])
def test_a_step_is_one_over_the_mean_of_all_rows(count, smoothing, fixed):
    training = dataclasses.replace(CONSTANT, label_smoothing=smoothing)
    own = model(dropout=0.0, dtype=torch.float64)
    twin, parts = copy.deepcopy(own), batches(fixed=fixed)[:count]
    found = made(own, training, sgd)(parts)
    loss = by_hand(twin, parts, smoothing)
    loss.backward()
    norm = torch.stack([p.grad.norm() for p in twin.parameters()]).norm()
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter -= 0.5 * parameter.grad
    torch.testing.assert_close(found.loss, loss.detach())
    torch.testing.assert_close(found.norm, norm)
    assert (found.bad, found.stop) == (0, 0)
    for name, value in twin.state_dict().items():
        torch.testing.assert_close(own.state_dict()[name], value)


def test_the_gradient_is_clipped():
    own = model(dropout=0.0)
    before = state(own)
    step = made(own, dataclasses.replace(CONSTANT, clip=1e-3), sgd)
    found = step(batches()[:1])
    moved = torch.stack([(own.state_dict()[name] - value).norm() for name, value in before.items()]).norm()
    assert found.norm > 1e-2
    assert moved.item() == pytest.approx(0.5e-3, rel=1e-2)


def poisoned(kind, own, parts):
    """A batch whose loss or gradient is not finite."""
    if kind == "loss":
        own.head.weight.data[0, 0] = math.nan
    elif kind == "infinite loss":
        own.head.bias.data[0] = math.inf
    else:  # the loss is finite, a gradient is not
        own.head.bias.register_hook(lambda grad: grad * math.inf)
    return parts


@pytest.mark.parametrize("kind", ["adam", "adamw"])
@pytest.mark.parametrize("poison", ["loss", "infinite loss", "gradient"])
@pytest.mark.parametrize("clip", [None, 1.0])
@pytest.mark.parametrize("first", [True, False])
def test_what_is_not_finite_changes_nothing(kind, poison, clip, first):
    training = dataclasses.replace(CONSTANT, optimizer=kind, clip=clip)
    own = model()
    step = made(own, training)
    parts = batches()
    if not first:
        step(parts[:1])
    poisoned(poison, own, parts)
    before = state(own)
    moments = copy.deepcopy(step.optimizer.state_dict()["state"])
    found = step(parts[1:2])
    assert found.bad == 1
    assert all(
        torch.equal(value, own.state_dict()[name]) or name.startswith("head")
        for name, value in before.items()
    )
    for name, value in before.items():
        torch.testing.assert_close(own.state_dict()[name], value, rtol=0, atol=0, equal_nan=True)
    for key, held in moments.items():
        for name, value in held.items():
            assert torch.equal(step.optimizer.state_dict()["state"][key][name], value), name


def test_training_goes_on_after_a_bad_batch_as_if_it_had_not_been():
    """The same moments, and the same count of steps."""
    parts, ends = batches(), []
    for bad in (True, False):
        own = model(dropout=0.0)
        step = made(own)
        step(parts[:1])
        if bad:
            hook = own.head.bias.register_hook(lambda grad: grad * math.nan)
            assert step(parts[1:2]).bad == 1
            hook.remove()
        step(parts[2:3])
        ends.append(state(own))
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


class Poisons(Silence):
    """Makes the gradients of some steps NaN, as broken data would."""

    def __init__(self, own, steps):
        self.own, self.steps, self.told, self.hook = own, steps, [], None

    def step(self, step):
        if self.hook is not None:
            self.hook.remove()
        poison = step + 1 in self.steps
        self.hook = self.own.head.bias.register_hook(lambda grad: grad * math.nan) if poison else None

    def bad(self, step, loss, norm, rows):
        self.told.append((step, rows))


def test_bad_batches_are_counted_and_their_rows_told(tmp_path):
    own = model(dropout=0.0)
    tell = Poisons(own, {5, 6, 20})
    made_ = run(tmp_path, own=own, tell=tell)
    ended = made_()
    assert ended.progress.bad == 3
    assert [step for step, _ in tell.told] == [5, 6, 20]
    plan = [rows for epoch in range(9) for rows, _ in made_.batches.plan(epoch)]
    assert [rows for _, rows in tell.told] == [plan[step - 1].tolist() for step in (5, 6, 20)]


def test_it_gives_up_with_the_last_good_state(tmp_path):
    own = model(dropout=0.0)
    wanted = model(dropout=0.0)
    run(tmp_path / "whole", own=wanted, steps=9, warmup=0, decay="constant")()
    with pytest.raises(Problem, match=r"4 batches had no finite loss or gradient, the last at step 13"):
        run(
            tmp_path / "bad",
            own=own,
            tell=Poisons(own, range(10, 32)),
            most_bad=4,
            warmup=0,
            decay="constant",
        )()
    assert all(torch.equal(a, b) for a, b in zip(own.parameters(), wanted.parameters(), strict=True))
    resumed = run(tmp_path / "bad", own=model(dropout=0.0), warmup=0, decay="constant", most_bad=4)
    assert resumed.progress.step == 13
    assert all(
        torch.equal(a, b) for a, b in zip(resumed.model.parameters(), wanted.parameters(), strict=True)
    )
    assert resumed().progress.step == 31


def test_bfloat16_is_near_float32(tmp_path):
    low, high = (
        run(tmp_path / precision, own=model(dropout=0.0), precision=precision, steps=20)()
        for precision in ("bfloat16", "float32")
    )
    assert all(p.dtype == torch.float32 for p in low.model.parameters())
    assert low.progress.best == pytest.approx(high.progress.best, rel=0.02)
    assert low.progress.best != high.progress.best


def test_float64_is_float64(tmp_path):
    ended = run(tmp_path, own=model(dtype=torch.float64), precision="float64", steps=3)()
    assert all(p.dtype == torch.float64 for p in ended.model.parameters())


def test_the_schedule():
    training = dataclasses.replace(TRAINING, warmup=100, learning_rate=0.25)
    rates = [schedule(training, step) for step in (1, 99, 100, 101, 10_000)]
    assert rates == pytest.approx([0.01, 0.99, 1, math.sqrt(100 / 101), 0.1])
    constant = dataclasses.replace(training, decay="constant", warmup=10)
    assert [schedule(constant, step) for step in (1, 9, 10, 1000)] == [0.1, 0.9, 1, 1]
    linear = dataclasses.replace(training, decay="linear", warmup=10, steps=19)
    assert [schedule(linear, step) for step in (5, 10, 15, 19)] == [0.5, 1, 0.5, 0.1]
    assert schedule(dataclasses.replace(linear, warmup=0), 1) == 19 / 20
    own = optimizer(model(), dataclasses.replace(training, rates="even"), ALONE.device)
    peaks = [group["lr"] for group in own.param_groups]
    set_rate(own, 0.5)
    assert [group["lr"] for group in own.param_groups] == [peak / 2 for peak in peaks]
    assert max(peaks) > 2 * min(peaks) == 0.5


def test_rules_are_not_decayed():
    training = dataclasses.replace(CONSTANT, optimizer="adamw", weight_decay=0.1)
    own = model()
    step = made(own, training)
    decays = {id(p): group["weight_decay"] for group in step.optimizer.param_groups for p in group["params"]}
    for name, parameter in own.named_parameters():
        assert decays[id(parameter)] == (0.0 if "rule" in name else 0.1)

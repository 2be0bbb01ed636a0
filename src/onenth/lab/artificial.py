"""The paper's artificial experiments: a layer can learn one operator, and many layers can learn a rule.

Layer l is PHMLinear(n, n), so that its components are n numbers, and it is trained on pairs (x, M_l x):

    M_l = Σ_i q_li A_i        loss = mean over l, x, p of (y_p − (M_l x)_p)²

where q_l is a random number of length one and A an algebra's rule. The terms of a learned rule may come out
mixed, for the components undo any mixing: a rule is learned when span{A_i} is. One operator M_1 fixes a line
of that span and leaves the rest open; operators of n independent numbers, all with one rule, fix it.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from onenth import algebra
from onenth.describe import principal_angles
from onenth.nn import PHMLinear
from onenth.rule import Rule

LOSS = 1e-10  # below: the operators are learned
SAME = 1e-4  # rad, below: the rule is learned
OTHER = 0.5  # rad, above: it is a different rule

_GOAL = 1e-16  # training ends here: an angle is about the square root of the loss
_STEPS = 1500
_SAMPLES = 8  # times n, for each layer
_SCALE = 1e10  # LBFGS ignores curvature sᵀy below 1e-10, which near the end would be all there is
_MEMORY = 400
_F64: Any = {"device": "cpu", "dtype": torch.float64}

Progress = Callable[[float], object]  # gets the share done, from 0 to 1, ever larger


@dataclass(frozen=True)
class Experiment:
    """Layers that share one learned rule, and the operators they have to learn.

    Args:
        name: for reports; it also names the files.
        n: size of the operators, and of the rule.
        layers: number of operators.
        algebra: whose numbers the operators are; None for rotations of R^n.
        recovers: whether the rule must be found, or must not.
    """

    name: str
    n: int
    layers: int
    algebra: str | None
    recovers: bool


@dataclass(frozen=True)
class Result:
    """What an experiment came to.

    `losses` and `angles` hold one value for each step of the optimiser, and end with those of `learned`.
    """

    experiment: Experiment
    losses: tuple[float, ...]
    angles: tuple[float, ...]  # rad, largest principal angle to `true`; empty where that is None
    operators: Tensor  # H (layers, n, n), learned
    learned: Tensor  # A (n, n, n)
    true: Tensor | None  # A of the algebra
    seconds: float

    @property
    def missed(self) -> str:
        """The target that was missed, or nothing."""
        loss, angle = self.losses[-1], self.angles[-1] if self.angles else math.nan
        if not loss < LOSS:
            return f"the loss ended at {loss:.1e}, not below {LOSS:g}"
        found = f"the rule ended {angle:.1e} rad from the {self.experiment.algebra} one"
        if self.experiment.recovers and not angle < SAME:
            return f"{found}, not below {SAME:g}"
        if self.true is not None and not self.experiment.recovers and not angle > OTHER:
            return f"{found}, not above {OTHER:g}"
        return ""


def recovery(name: str, layers: int | None = None) -> Experiment:
    """The rule of an algebra from that many of its numbers; 2n, and at least 8, where it is not said."""
    n = algebra.get(name).n
    return Experiment(f"{name} rule", n, layers or max(8, 2 * n), name, recovers=True)


EXPERIMENTS = (
    Experiment("one rotation", 3, 1, None, recovers=False),
    Experiment("one Hamilton product", 4, 1, "quaternion", recovers=False),
    *(recovery(name) for name in ("complex", "quaternion", "octonion", "sedenion")),
)


def run(experiment: Experiment, seed: int = 0, progress: Progress = lambda share: None) -> Result:
    """Train the layers of an experiment. The seed decides everything but the time."""
    began, n = time.perf_counter(), experiment.n
    with _one_thread(), torch.enable_grad(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        M = _operators(experiment)
        x = torch.randn(experiment.layers, _SAMPLES * n, n, **_F64)
        rule = Rule.learned(n, **_F64)
        layers = [PHMLinear(n, n, bias=False, rule=rule, **_F64) for _ in M]
        true = None if experiment.algebra is None else algebra.get(experiment.algebra).A
        losses, angles = _train(rule, layers, x, x @ M.mT, true, progress)
        H = torch.stack([layer.to_linear().weight.detach() for layer in layers])
    seconds = time.perf_counter() - began
    return Result(experiment, losses, angles, H, rule.tensor().detach().clone(), true, seconds)


def remixed(learned: Tensor, true: Tensor) -> Tensor:
    """Σ_j C_ij learned_j nearest to each true_i: equal to it where the learned span holds it."""
    basis = learned.flatten(1).T  # (n·n, terms)
    return (basis @ torch.linalg.lstsq(basis, true.flatten(1).T).solution).T.view_as(true)


@contextmanager
def _one_thread() -> Iterator[None]:
    """The matrices are too small to share, and sums split between threads differ in their last digits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _operators(experiment: Experiment) -> Tensor:
    """M (layers, n, n)."""
    n = experiment.n
    if experiment.algebra is None:
        free = torch.randn(experiment.layers, n, n, **_F64)
        return torch.linalg.matrix_exp(free - free.mT)
    q = torch.randn(experiment.layers, n, **_F64)
    A = algebra.get(experiment.algebra).A
    return torch.einsum("li,ipq->lpq", q / q.norm(dim=1, keepdim=True), A)


def _train(
    rule: Rule, layers: list[PHMLinear], x: Tensor, y: Tensor, true: Tensor | None, progress: Progress
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Losses and angles of every step; x and y are (layers, samples, n)."""
    optimiser = torch.optim.LBFGS(
        [*rule.parameters(), *(layer.S for layer in layers)],
        max_iter=1,
        max_eval=30,  # for the line search
        history_size=_MEMORY,
        tolerance_grad=0,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def scaled() -> Tensor:
        optimiser.zero_grad()
        learned = torch.stack([layer(rows) for layer, rows in zip(layers, x, strict=True)])
        loss = _SCALE * (learned - y).square().mean()
        loss.backward()
        return loss

    losses: list[float] = []
    angles: list[float] = []
    share = 0.0
    for step in range(_STEPS + 1):
        if true is not None:
            angles.append(principal_angles(rule.tensor(), true).max().item())
        last = step == _STEPS or (step > 0 and losses[-1] < _GOAL)
        losses.append((scaled() if last else optimiser.step(scaled)).item() / _SCALE)  # before this step
        share = max(share, math.log(losses[0] / max(losses[-1], _GOAL)) / math.log(losses[0] / _GOAL))
        progress(share)
        if last:
            break
    return tuple(losses), tuple(angles)

"""Finds factors for a rule: few products, and among those small ones, so that errors stay small."""

import math
import time
from collections.abc import Iterable

import torch
from torch import Tensor

from onenth.bilinear import Algorithm, Factors, certify
from onenth.levenberg import search

MAX_N = 16  # the normal equations hold n⁶ doubles: 128 MiB at 16


class NotReached(ValueError):
    """No factors of this rank were found within the tolerance.

    `closest` holds the best that was found, with its certificate.
    """

    def __init__(self, closest: Algorithm, tolerance: float) -> None:
        super().__init__(
            f"no factors within residual {tolerance:g}; the closest are {closest.certificate}. Raise rank, "
            "restarts or seconds, or the tolerance where an approximate rule will do"
        )
        self.closest = closest


def decompose(
    A: Tensor,
    rank: int,
    *,
    tolerance: float = 1e-10,
    restarts: int = 4,
    seconds: float = math.inf,
    seed: int = 0,
) -> Algorithm:
    """Factors of the rule A (terms, n_out, n_in) at this rank: within the tolerance, the least growth found.

    Each restart ends in factors of its own. The result depends on the seed only, unless time runs out.

    Args:
        A: the rule, up to 16 in each dimension; any precision, computed in float64.
        rank: products of segments, R.
        tolerance: largest ‖A − Σ_r W U V‖ / ‖A‖ accepted.
        restarts: random starts.
        seconds: starts nothing new after this time and ends what runs.
        seed: of the starts; the global generator is left alone.

    Raises:
        NotReached: with the closest factors, where none are within the tolerance.

    Example:
        >>> A = torch.randn(4, 4, 4, generator=torch.Generator().manual_seed(0))
        >>> decompose(A, rank=7, restarts=2).certificate.residual < 1e-10
        True
    """
    A = _checked(A)
    for name, value in (("rank", rank), ("restarts", restarts)):
        _check_count(name, value)
    for name, number in (("tolerance", tolerance), ("seconds", seconds)):
        if not number > 0:
            raise ValueError(f"{name}={number} must be more than 0")
    deadline = time.monotonic() + seconds
    size = A.norm()
    found: list[Algorithm] = []
    for restart in range(restarts):
        if found and time.monotonic() > deadline:
            break
        generator = torch.Generator().manual_seed(seed * 1_000_003 + restart)
        U, V, W = search(A / size, rank, generator, deadline)
        third = size ** (1 / 3)
        factors = Factors((third * U).T.contiguous(), third * V, third * W)
        found.append(Algorithm(factors, certify(A, factors)))
    within = [algorithm for algorithm in found if algorithm.certificate.residual <= tolerance]
    if not within:
        raise NotReached(min(found, key=lambda algorithm: algorithm.certificate.residual), tolerance)
    return min(within, key=lambda algorithm: algorithm.certificate.growth)


def frontier(
    A: Tensor,
    ranks: Iterable[int] | None = None,
    *,
    tolerance: float = 1e-10,
    restarts: int = 4,
    seconds: float = math.inf,
    seed: int = 0,
) -> list[Algorithm]:
    """Algorithms of ascending rank and descending growth: each is worth its products.

    Args:
        ranks: to try; by default eight from where a random tensor of this size begins to have factors,
            terms · n_out · n_in / (terms + n_out + n_in − 2), to half the blocks.
        seconds: for each rank.

    The rest is as for `decompose`.

    Raises:
        NotReached: where no rank is within the tolerance.
    """
    A = _checked(A)
    points: list[Algorithm] = []
    refusals: list[NotReached] = []
    for rank in sorted(set(_spread(A) if ranks is None else ranks)):
        try:
            found = decompose(A, rank, tolerance=tolerance, restarts=restarts, seconds=seconds, seed=seed)
        except NotReached as refusal:
            refusals.append(refusal)
            continue
        points.append(found)
    if points:
        return undominated(points)
    if not refusals:
        raise ValueError("ranks is empty: give at least one rank to try")
    raise min(refusals, key=lambda refusal: refusal.closest.certificate.residual)


def undominated(algorithms: Iterable[Algorithm]) -> list[Algorithm]:
    """Those that no other beats or equals in rank and growth both, by ascending rank."""
    kept: list[Algorithm] = []
    for algorithm in sorted(algorithms, key=lambda a: (a.certificate.rank, a.certificate.growth)):
        if not kept or algorithm.certificate.growth < kept[-1].certificate.growth * (1 - 1e-6):
            kept.append(algorithm)
    return kept


def _spread(A: Tensor) -> list[int]:
    low = math.ceil(A.numel() / (sum(A.shape) - 2))
    high = max(low, A.shape[1] * A.shape[2] // 2)
    return [round(low + (high - low) * step / 7) for step in range(8)]


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be a whole number, not {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{name}={value} must be at least 1")


def _checked(A: object) -> Tensor:
    if not isinstance(A, Tensor):
        raise TypeError(
            f"A is {type(A).__name__}; give the tensor of a rule: rule.tensor(), algebra.get(name).A"
        )
    if A.ndim != 3 or 0 in A.shape:
        raise ValueError(f"A has the shape {tuple(A.shape)}; a rule has three: (terms, n_out, n_in)")
    if A.is_complex() or A.is_meta:
        raise TypeError("A must hold real numbers, and on a device that has them")
    if max(A.shape) > MAX_N:
        raise ValueError(f"A is {tuple(A.shape)}; the solver goes up to {MAX_N} in each dimension. Beyond, "
                         "learn the rule at a rank from the start: Rule.learned(n, rank=2 * n)")  # fmt: skip
    A = A.detach().to("cpu", torch.float64)
    if not A.isfinite().all():
        raise ValueError(f"A has {(~A.isfinite()).sum()} entries that are NaN or infinite")
    if not A.any():
        raise ValueError("A is zero: it needs no products, and has no relative residual")
    return A

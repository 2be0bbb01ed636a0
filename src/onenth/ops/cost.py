"""What each path would take: a cost model of operations, bytes and calls, and nothing else.

Seconds are those of one machine of its kind; only their ratios decide. `benchmarks/paths.py` measures
the paths and says how often the model picks the fastest.
"""

import math
from functools import lru_cache
from typing import Literal, NamedTuple

PathName = Literal["dense", "bilinear", "decode"]
PATHS: tuple[PathName, ...] = ("dense", "bilinear", "decode")
LARGE = 2**26  # c times the elements of S, from where decoding goes by S · xᵀ instead of x · Sᵀ
_MOST = 2**16  # rows beyond which nothing changes


class Work(NamedTuple):
    """A layer's product, as far as time and accuracy depend on it."""

    terms: int
    n_out: int
    n_in: int
    o: int
    c: int
    rank: int | None  # products, where there are factors
    mixes_left: bool  # by a V that is not the identity
    mixes_right: bool  # by a W that is not the identity, in every call
    error: float  # predicted for the factors, over the dense path
    itemsize: int
    device: str
    trains: bool
    has_H: bool


class Machine(NamedTuple):
    """Rates, in operations and bytes a second, and the seconds that a call of an operation takes."""

    gemm: float  # of a large product
    half: float  # rows at which a product reaches half of it
    skinny: float  # of a product with few columns
    memory: float  # read
    move: float  # read or written, by what only moves or mixes
    call: float


MACHINES = {
    # two cores of a server, fp32, fitted with benchmarks/paths.py on two processors at once
    "cpu": Machine(gemm=1.6e11, half=12, skinny=1.37e11, memory=7.9e9, move=1.15e10, call=5.5e-6),
    # an H200, bf16, from its data sheet: not fitted
    "cuda": Machine(gemm=7e14, half=200, skinny=1e14, memory=4e12, move=3e12, call=5e-6),
}


class Candidate(NamedTuple):
    """A path with what it would take, and why it may not be taken."""

    path: PathName
    seconds: float
    error: float
    reason: str  # against it, or ""


def impossible(work: Work, path: PathName) -> str:
    """Why this path cannot compute the work at all, or nothing."""
    if path == "bilinear" and work.rank is None:
        return (
            "its rule has no factors, and no algorithm is known for it. Learn the rule at a rank, rank=…, "
            "or freeze the model, which searches for an algorithm"
        )
    return ""


def extra(work: Work, path: PathName) -> float:
    """Predicted error over that of the dense path.

    Decoding sums over all terms where the dense path sums over the columns of a segment: measured, it errs
    more where there are fewer of those, and less where there are many.
    """
    if path == "bilinear":
        return work.error
    return max(1.0, 1.5 * math.sqrt(work.terms / work.c)) if path == "decode" else 1.0


def candidates(work: Work, rows: int, extra_error: float) -> list[Candidate]:
    """All paths for so many rows."""
    found = []
    for path in PATHS:
        reason, error = impossible(work, path), extra(work, path)
        if not reason and error > extra_error:
            reason = f"it would err {error:.2g} times as much as the dense path, more than {extra_error:g}"
        took = 0.0 if impossible(work, path) else seconds(work, path, rows)
        found.append(Candidate(path, took, error, reason))
    return found


def best(work: Work, rows: int, extra_error: float) -> PathName:
    """The fastest path that nothing is against."""
    return min((c for c in candidates(work, rows, extra_error) if not c.reason), key=lambda c: c.seconds).path


def seconds(work: Work, path: PathName, rows: int) -> float:
    """Of a call for so many rows, with its backward where the layer trains."""
    machine = MACHINES.get(work.device, MACHINES["cuda"])
    once, calls = {"dense": _dense, "bilinear": _bilinear, "decode": _decode}[path](work, machine, rows)
    return once + calls * machine.call


def _dense(work: Work, machine: Machine, rows: int) -> tuple[float, int]:
    H, S = work.n_out * work.o * work.n_in * work.c, work.terms * work.o * work.c
    product = _product(machine, H, rows, work.itemsize)
    build = 0.0 if work.has_H else (H + S) * work.itemsize / machine.move
    calls = 1 if work.has_H else work.n_out
    if not work.trains:
        return product + build, calls
    contract = (3 * H + 2 * S) * work.itemsize / machine.move
    return 3 * product + 2 * build + contract, 3 * work.n_out


def _bilinear(work: Work, machine: Machine, rows: int) -> tuple[float, int]:
    assert work.rank is not None
    of_one = work.o * work.c
    moved = rows * (work.rank * work.o + work.n_out * work.o)
    moved += rows * (work.rank * work.c + work.n_in * work.c) * work.mixes_left
    moved += (work.rank + work.terms) * of_one * work.mixes_right
    took = _product(machine, work.rank * of_one, rows, work.itemsize) + moved * work.itemsize / machine.move
    if not work.trains:
        return took, 11
    return 3 * took + work.rank * of_one * work.itemsize / machine.move, 40


def _decode(work: Work, machine: Machine, rows: int) -> tuple[float, int]:
    S, columns = work.terms * work.o * work.c, rows * work.n_in
    z = work.terms * work.o * columns
    k = work.n_out * work.o
    if not work.trains and work.c * S < LARGE:  # z is made in the order in which it is mixed
        took = _product(machine, S, columns, work.itemsize) + 2 * z * work.n_out / machine.gemm
        took += rows * machine.call / 8  # of a product in a batch of them
        return took + (2 * z + rows * k) * work.itemsize / machine.move, 6
    took = 2 * S * columns / machine.skinny + S * work.itemsize / machine.memory
    took += (3 * z + rows * k) * work.itemsize / machine.move + 2 * z * work.n_out / machine.gemm
    if not work.trains:
        return took, 9
    return 3 * took + S * work.itemsize / machine.move, 34


def _product(machine: Machine, weights: int, rows: int, itemsize: int) -> float:
    """Of rows with so many weights."""
    return max(2 * weights * (rows + machine.half) / machine.gemm, weights * itemsize / machine.memory)


@lru_cache(maxsize=4096)
def thresholds(work: Work, extra_error: float) -> tuple[tuple[int, PathName], ...]:
    """(most rows, path) in ascending order: the best path for any number of rows, few of them apart."""
    found: list[tuple[int, PathName]] = []
    low, path = 1, best(work, 1, extra_error)
    while low < _MOST:
        high = low
        while high < _MOST and best(work, high, extra_error) == path:
            low, high = high, 2 * high
        if best(work, high, extra_error) == path:
            break
        while high - low > 1:  # the path changes between low and high
            middle = (low + high) // 2
            low, high = (middle, high) if best(work, middle, extra_error) == path else (low, middle)
        found.append((low, path))
        low, path = high, best(work, high, extra_error)
    return (*found, (_MOST, path))

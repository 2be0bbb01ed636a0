"""Whether a difference between two systems is one: a bootstrap over seeds and sentences.

Two systems differ by chance because of the sentences they are tried on and because of the seeds they were
trained from. Both are resampled: the sentences, the same for both systems (Koehn 2004), and the runs of each.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onenth.lab.errors import Problem
from onenth.lab.measure import bleu

_DRAWS = 2**22  # sentences drawn at once, for the sake of memory
_TIE = 1e-9  # below it a difference is rounding


@dataclass(frozen=True)
class Difference:
    """System a less system b, in percent or in BLEU.

    Args:
        mean: the difference of the means over seeds, as observed.
        low, high: its 95 % interval.
        p: two-sided, of the difference being 0; at least 2 / (resamples + 1).
    """

    mean: float
    low: float
    high: float
    p: float


def compare(
    a: Sequence[NDArray[Any]], b: Sequence[NDArray[Any]], *, resamples: int = 1000, seed: int = 0
) -> Difference:
    """The difference of two systems, each given by its runs on the same sentences.

    A run is an array (sentences,) of right and wrong answers, compared by accuracy in percent, or an array
    (sentences, 10) of `bleu.statistics`, compared by BLEU. The value of a system is the mean over its runs.

    Of S runs, S − 1 are drawn with replacement: the variance of their mean is then the unbiased s²/S, where S
    draws would give (S − 1)/S of it. Of a single run nothing is known about seeds, and only sentences are
    drawn: the ordinary paired bootstrap. Runs are not paired. The interval spans the 2.5 % and 97.5 %
    quantiles of the resampled differences; p is twice the share of them at 0 or beyond.

    Where sentences decide most, 95 of 100 intervals hold the true difference; where a seed and a sentence
    decide together, more do, since such noise counts among both. Where seeds decide most, few of them say
    little: of 100 intervals about 70, 87, 91 and 94 hold it with 2, 3, 5 and 8 seeds for each system.

    Args:
        a, b: runs, one for each seed; the systems may have different numbers of them.
        resamples: how often to draw.
        seed: of the draws; the same seed gives the same result.

    Example:
        >>> a, b = [np.arange(400) % 10 > 0], [np.arange(400) % 10 > 1]
        >>> found = compare(a, b)
        >>> found.mean, found.low < 10 < found.high, found.p < 0.01
        (10.0, True, True)
    """
    if resamples < 1:
        raise Problem(f"{resamples} resamples give no interval: choose 1000, or more for small p")
    first, second = _stacked("a", a), _stacked("b", b)  # (sentences, seeds, statistics)
    if (len(first), first.shape[2]) != (len(second), second.shape[2]):
        raise Problem(
            f"runs of a have {_described(first)}, runs of b {_described(second)}: compare runs on the same "
            "sentences by the same measure"
        )
    generator = np.random.default_rng(seed)
    weights = [_seed_weights(generator, resamples, each.shape[1]) for each in (first, second)]
    found = np.empty(resamples)
    block = max(1, _DRAWS // len(first))
    for start in range(0, resamples, block):
        rows = slice(start, min(start + block, resamples))
        counts = _drawn(generator, rows.stop - rows.start, len(first), len(first))
        of_a, of_b = (
            (each[rows] * _values(counts, runs)).sum(1)
            for each, runs in zip(weights, (first, second), strict=True)
        )
        found[rows] = of_a - of_b
    once = np.ones((1, len(first)))
    low, high = np.quantile(found, [0.025, 0.975])
    beyond = min((found <= _TIE).sum(), (found >= -_TIE).sum())
    return Difference(
        mean=float(_values(once, first).mean() - _values(once, second).mean()),
        low=float(low),
        high=float(high),
        p=min(1.0, 2 * (1 + int(beyond)) / (1 + resamples)),
    )


def spread(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean over seeds, and their standard deviation with S − 1 below; None for one seed.

    Example:
        >>> spread([94.0, 96.0, 98.0]), spread([94.0])
        ((96.0, 2.0), (94.0, None))
    """
    if not len(values):
        raise Problem("there is no mean of no values: give at least one")
    if not np.isfinite(values).all():
        raise Problem(f"{list(values)} have no mean: leave out what is not finite, and say so")
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def _stacked(name: str, runs: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """(sentences, seeds, statistics); of accuracy, one statistic."""
    shapes = [np.shape(run) for run in runs]
    if not shapes or not shapes[0] or not all(shapes[0]):
        raise Problem(f"{name} has no runs, or none with sentences: give an array for each seed")
    if len(set(shapes)) > 1:
        raise Problem(f"the runs of {name} have the shapes {shapes}: evaluate each on the same sentences")
    values = np.stack([np.asarray(run, dtype=np.float64) for run in runs], axis=1)
    if len(shapes[0]) == 1 and np.isin(values, (0, 1)).all():
        return values[:, :, None]
    if shapes[0][1:] == (bleu.STATISTICS,) and (np.isfinite(values) & (values >= 0)).all():
        return values
    raise Problem(
        f"the runs of {name}, of the shape {shapes[0]}, are neither answers nor statistics of BLEU: give "
        f"(sentences,) of 0 and 1, or (sentences, {bleu.STATISTICS}) by bleu.statistics"
    )


def _described(runs: NDArray[np.float64]) -> str:
    return f"{len(runs)} {'answers' if runs.shape[2] == 1 else 'sentences with statistics of BLEU'}"


def _seed_weights(generator: np.random.Generator, resamples: int, seeds: int) -> NDArray[np.float64]:
    draws = max(seeds - 1, 1)
    return _drawn(generator, resamples, draws, seeds) / draws  # (resamples, seeds)


def _drawn(generator: np.random.Generator, rows: int, draws: int, of: int) -> NDArray[np.float64]:
    """How often each of `of` things comes up in `draws` draws with replacement: (rows, of)."""
    found = generator.integers(of, size=(rows, draws)) + of * np.arange(rows)[:, None]
    return np.bincount(found.ravel(), minlength=rows * of).reshape(rows, of).astype(np.float64)


def _values(counts: NDArray[np.float64], runs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Accuracy or BLEU of each run on the sentences counted: (rows, sentences) → (rows, seeds)."""
    sentences, seeds, size = runs.shape
    sums = (counts @ runs.reshape(sentences, seeds * size)).reshape(len(counts), seeds, size)
    return 100 * sums[..., 0] / sentences if size == 1 else bleu.of(sums)

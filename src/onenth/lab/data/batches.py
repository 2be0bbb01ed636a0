"""Batches of about as many tokens each, of rows of about one length, in an order that a seed decides.

Each step of a run has its batch: what is trained on at a step depends on the step alone, so a run that is
taken up again goes on where it was.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from torch import Tensor

from onenth.lab.errors import Problem

EMPTY = -1  # a row of padding, to fill a batch up


class Examples(Protocol):
    """Rows of numbers, ready to be put side by side."""

    lengths: np.ndarray  # tokens that a row takes in a batch
    counts: np.ndarray  # targets of a row, which the loss is the mean over

    def collate(self, rows: np.ndarray, length: int | None = None) -> dict[str, Tensor]:
        """Tensors of these rows, padded to a length or to the longest; `EMPTY` is padding without targets."""


@dataclass(frozen=True)
class Batch:
    """Some rows side by side, those of one rank, and the number of targets over all ranks."""

    rows: np.ndarray
    tensors: dict[str, Tensor]
    count: int
    tokens: int  # of the rows of all ranks, without padding


@dataclass(frozen=True)
class Batches:
    """All batches of a run: batch k is number k mod len of epoch k div len.

    Args:
        examples: what is trained on.
        tokens: of a batch over all ranks, padding included; a longer row has a batch of its own.
        longest: rows of more tokens are left out.
        seed: decides the order of the rows.
        rank, ranks: which part of each batch is made here; 0 of 1 makes all of it.
        fixed: give all batches of a length the same shape, padding rows included.
    """

    examples: Examples
    tokens: int
    longest: int
    seed: int
    rank: int = 0
    ranks: int = 1
    fixed: bool = False

    def __post_init__(self) -> None:
        if not len(self.kept):
            raise Problem(
                f"no row of the training set has at most {self.longest} tokens: raise training.longest"
            )

    @property
    def kept(self) -> np.ndarray:
        """The rows that are not too long."""
        return np.flatnonzero(self.examples.lengths <= self.longest)

    @property
    def left_out(self) -> int:
        return len(self.examples.lengths) - len(self.kept)

    def __len__(self) -> int:
        """Batches of an epoch."""
        lengths, sizes = np.unique(self._buckets(self.kept), return_counts=True)
        return int(sum(-(-size // self._rows(length)) for length, size in zip(lengths, sizes, strict=True)))

    def plan(self, epoch: int) -> list[tuple[np.ndarray, int]]:
        """The batches of an epoch: rows of all ranks, and the length that they are padded to."""
        order = np.random.Generator(np.random.PCG64([self.seed, epoch]))
        rows = order.permutation(self.kept)
        buckets = self._buckets(rows)
        planned = []
        for length in np.unique(buckets):
            own, size = rows[buckets == length], self._rows(length)
            planned += [(own[start : start + size], int(length)) for start in range(0, len(own), size)]
        return [planned[number] for number in order.permutation(len(planned))]

    def make(self, rows: np.ndarray, length: int) -> Batch:
        """This rank's part of a planned batch."""
        examples = self.examples
        own = rows[self.rank :: self.ranks]
        wanted = -(-self._rows(length) // self.ranks) if self.fixed else max(1, len(own))
        padded = np.concatenate([own, np.full(wanted - len(own), EMPTY)])
        tensors = examples.collate(padded, length if self.fixed else None)
        count, tokens = int(examples.counts[rows].sum()), int(examples.lengths[rows].sum())
        return Batch(rows, tensors, count, tokens)

    def _rows(self, length: int) -> int:
        return max(1, self.tokens // int(length))

    def _buckets(self, rows: np.ndarray) -> np.ndarray:
        """The length that each row is padded to: 8, 12, 16, 24, 32, 48, …"""
        lengths = self.examples.lengths[rows]
        known = np.array([*bounds(int(lengths.max()))])
        return known[np.searchsorted(known, lengths)]


def bounds(longest: int) -> Iterator[int]:
    """The lengths of buckets that hold rows of up to so many tokens.

    Example:
        >>> [*bounds(30)]
        [8, 12, 16, 24, 32]
    """
    power = 8
    while True:
        for bound in (power, power * 3 // 2):
            yield bound
            if bound >= longest:
                return
        power *= 2

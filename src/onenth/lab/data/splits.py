"""A corpus in three parts."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Row = TypeVar("Row")


class Stream(Generic[Row]):
    """Rows that are read anew each time they are asked for, and never all in memory."""

    def __init__(self, read: Callable[[], Iterator[Row]]) -> None:
        self._read = read

    def __iter__(self) -> Iterator[Row]:
        return self._read()


@dataclass(frozen=True)
class Splits(Generic[Row]):
    """What is trained on, chosen by and reported.

    Args:
        name: of the corpus, for reports.
        train: its rows for training, as a list or a stream.
        dev, test: its other rows.
        hashes: SHA-256 of each file it was read from, by name; of an embedded corpus, of its text.
    """

    name: str
    train: Iterable[Row]
    dev: Sequence[Row]
    test: Sequence[Row]
    hashes: Mapping[str, str]

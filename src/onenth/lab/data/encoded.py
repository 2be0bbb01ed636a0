"""Sentences as numbers, one after another in one array."""

import tempfile
from array import array
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor


class Encoded:
    """Sentences of token ids: ids[starts[j]:starts[j + 1]] is sentence j."""

    def __init__(self, ids: np.ndarray, starts: np.ndarray) -> None:
        self.ids, self.starts = ids, starts
        self.lengths = np.diff(starts)

    @classmethod
    def of(cls, sentences: Iterable[Sequence[int]]) -> "Encoded":
        """Reads a stream once. The ids lie in a nameless temporary file, of which the system holds in memory
        what is in use: a corpus may be larger than that."""
        starts = array("q", [0])
        with tempfile.TemporaryFile() as file:
            for sentence in sentences:
                array("i", sentence).tofile(file)
                starts.append(starts[-1] + len(sentence))
            file.flush()
            ids = np.memmap(file, np.int32, "r") if starts[-1] else np.zeros(0, np.int32)
        return cls(ids, np.frombuffer(starts, np.int64))

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> np.ndarray:
        return self.ids[self.starts[row] : self.starts[row + 1]]

    def padded(
        self, rows: np.ndarray, length: int | None = None, *, before: Sequence[int] = (), pad: int = 0
    ) -> Tensor:
        """(rows, length): each sentence after what comes before it, then pad; a negative row is all pad."""
        if length is None:
            length = int(self.lengths[rows[rows >= 0]].max(initial=1)) + len(before)
        found = np.full((len(rows), length), pad, dtype=np.int64)
        first = len(before)
        for place, row in enumerate(rows):
            if row >= 0:
                found[place, :first] = before
                found[place, first : first + self.lengths[row]] = self[row]
        return torch.from_numpy(found)

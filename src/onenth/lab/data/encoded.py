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

    def padded(self, rows: np.ndarray, length: int | None = None, *, pad: int = 0) -> Tensor:
        """(rows, length): each sentence, then pad; a negative row is all pad."""
        lengths = np.where(rows < 0, 0, self.lengths[rows])
        if length is None:
            length = max(1, int(lengths.max()))
        found = np.full((len(rows), length), pad, dtype=np.int64)
        place = np.arange(int(lengths.max()))
        inside = place < lengths[:, None]  # (rows, longest)
        found[:, : len(place)][inside] = self.ids[(self.starts[rows][:, None] + place)[inside]]
        return torch.from_numpy(found)

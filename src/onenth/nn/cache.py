"""What decoding keeps from step to step: keys and values, and which rows continue which.

A batch has some sequences, and each of them some rows: the hypotheses of a beam, or one. Keys and values stay
where they were written. A table says for every row and position which row wrote what this row continues, and
becomes the mask of the attention, in which all rows of a sequence attend together. So rows change places
for the price of a small table, and the keys and values of a memory exist once for all rows of a sequence.
"""

import torch
from torch import Tensor

_OTHER = "the cache is of another batch"
BLOCK = 32  # positions by which what is attended to grows, so that shapes seldom change


class KeysValues:
    """Keys and values of one attention: those of a memory, or room for those of positions to come."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self._keys, self._values = keys, values  # (sequence, head, position[, row], size)
        self._bound = keys.shape[2]

    @classmethod
    def of(cls, keys: Tensor, values: Tensor) -> "KeysValues":
        """Of a memory: keys and values (sequence, head, position, size)."""
        return cls(keys.contiguous(), values.contiguous())

    @classmethod
    def room(
        cls, sequences: int, rows: int, heads: int, positions: int, size: int, like: Tensor
    ) -> "KeysValues":
        """For so many positions of so many rows of each sequence."""
        shape = sequences, heads, positions, rows, size
        return cls(like.new_zeros(shape), like.new_zeros(shape))

    @property
    def sequences(self) -> int:
        return self._keys.shape[0]

    @property
    def keys(self) -> Tensor:
        """(sequence, head, position·row, size), up to the bound."""
        return _flat(self._keys[:, :, : self._bound])

    @property
    def values(self) -> Tensor:
        return _flat(self._values[:, :, : self._bound])

    def bound(self, positions: int) -> None:
        """Attends to so many positions, of which the mask leaves out those not written yet."""
        self._bound = positions

    def write(self, position: Tensor, keys: Tensor, values: Tensor) -> None:
        """Keeps keys and values (sequence·row, head, 1, size) of one position."""
        for kept, new in ((self._keys, keys), (self._values, values)):
            sequences, heads, _, rows, size = kept.shape
            if len(new) != sequences * rows:
                raise ValueError(f"{_OTHER}: it has {sequences * rows} rows, the input {len(new)}")
            kept.index_copy_(2, position, new.view(sequences, rows, heads, size).transpose(1, 2).unsqueeze(2))

    def check_rows(self, rows: int) -> None:
        """As many rows for each sequence."""
        if rows % self.sequences:
            raise ValueError(f"{_OTHER}: it has {self.sequences} sequences, the input {rows} rows")


def _flat(kept: Tensor) -> Tensor:
    return kept if kept.dim() == 4 else kept.flatten(2, 3)


class Cache:
    """What a stack of decoder layers keeps: keys and values of its own positions, and those of the memory.

    `own[l]` and `memory[l]` belong to layer l; `memory_mask` (sequence, 1, 1, position) is True where the
    memory is not padding.
    """

    def __init__(
        self,
        own: list[KeysValues],
        memory: list[KeysValues],
        memory_mask: Tensor | None,
        rows: int,
        positions: int,
    ) -> None:
        self.own, self.memory, self.memory_mask = own, memory, memory_mask
        self.sequences, self.rows, self.positions = memory[0].sequences, rows, positions
        self._like = memory[0].keys
        device = self._like.device
        self._length = 0
        self.position = torch.full((1,), -1, device=device)
        self._row = torch.arange(rows, device=device)
        self._wrote = torch.full((self.sequences, rows, positions), -1, device=device)  # by row and position

    def __len__(self) -> int:
        """Positions decoded so far."""
        return self._length

    def position_of_next(self) -> Tensor:
        """The position (1,) that is decoded next."""
        return self.position + 1

    def next(self) -> tuple[Tensor, Tensor]:
        """The position (1,) to decode now, and what its attention adds (sequence, 1, row, position·row)."""
        if self._length == self.positions:
            raise ValueError(f"the cache has room for {self.positions} positions, and all are taken")
        self.position += 1
        self._length += 1
        self._wrote.index_copy_(2, self.position, self._row.expand(self.sequences, -1).unsqueeze(2))
        bound = min(self.positions, -(-self._length // BLOCK) * BLOCK)
        for kept in self.own:
            kept.bound(bound)
        elsewhere = self._wrote[:, :, :bound, None] != self._row
        mask = torch.zeros_like(elsewhere, dtype=self._like.dtype).masked_fill(elsewhere, -torch.inf)
        return self.position, mask.flatten(2).unsqueeze(1)

    def select(self, rows: Tensor) -> None:
        """Row j continues what row rows[j] was, one of the same sequence; rows are counted over all."""
        own = rows.view(self.sequences, self.rows) % self.rows
        self._wrote.copy_(self._wrote.gather(1, own.unsqueeze(2).expand_as(self._wrote)))

"""From token ids to vectors: the embedding, and the positions of a sentence."""

import math

import torch
from torch import Tensor, nn

from onenth.ops.few import linear_of_few


def sinusoids(positions: int, features: int) -> Tensor:
    """(positions, features): sin(t ω_j), then cos(t ω_j), with ω_j = 10000^(-j/(features/2 - 1)).

    Vaswani et al. (2017), as Tensor2Tensor lays it out: all sines, then all cosines.
    """
    half = features // 2
    rates = torch.exp(torch.arange(half) * (-math.log(10000) / max(1, half - 1)))
    angles = torch.arange(positions)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1)


class Tokens(nn.Module):
    """x_t = √features · E[id_t] + position_t, then dropout.

    Args:
        vocabulary, features: the size of E, drawn with variance 1/features.
        pad: the id that fills up short sentences.
        positions: the most a sentence may have.
        dropout: of the sum.
    """

    def __init__(self, vocabulary: int, features: int, pad: int, positions: int, dropout: float) -> None:
        super().__init__()
        self.vocabulary, self.features, self.pad, self.positions = vocabulary, features, pad, positions
        if features % 2:
            raise ValueError(f"{features} features have no pairs of sine and cosine: choose an even number")
        if not 0 <= pad < vocabulary:
            raise ValueError(f"pad={pad} is not an id of vocabulary={vocabulary}")
        self.embedding = nn.Embedding(vocabulary, features)
        nn.init.normal_(self.embedding.weight, std=features**-0.5)
        self.register_buffer("position", sinusoids(positions, features), persistent=False)
        self.dropout = nn.Dropout(dropout)

    position: Tensor

    def forward(self, ids: Tensor, start: int | Tensor = 0) -> Tensor:
        """x (batch, length, features) of ids (batch, length), the first of which is at position `start`."""
        length = ids.shape[1]
        if isinstance(start, int):
            where = self.position[start : start + length]
        else:
            where = self.position.index_select(0, start)
        x: Tensor = self.dropout(self.embedding(ids) * math.sqrt(self.features) + where)
        return x

    def padding(self, ids: Tensor) -> Tensor:
        """True (batch, length) where a sentence has ended."""
        return ids == self.pad

    def logits(self, x: Tensor) -> Tensor:
        """x Eᵀ: the embedding as the matrix of a softmax."""
        return linear_of_few(x, self.embedding.weight.to(x.dtype))

    def check(self, name: str, ids: Tensor, start: int = 0) -> None:
        """Refuses what is no batch of sentences of this vocabulary."""
        check_ids(name, ids, self.vocabulary)
        if start + ids.shape[1] > self.positions:
            raise ValueError(
                f"{name} has {start + ids.shape[1]} positions, the model positions={self.positions}"
            )


def check_ids(name: str, ids: object, vocabulary: int) -> None:
    """A batch of sentences of at least one token."""
    if not isinstance(ids, Tensor):
        raise TypeError(f"{name} is a {type(ids).__name__}: give a torch.Tensor of token ids")
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise TypeError(f"{name} is {ids.dtype}: token ids are whole numbers")
    if ids.dim() != 2:
        raise ValueError(f"{name} has the shape {tuple(ids.shape)} instead of (batch, length)")
    if ids.shape[1] == 0:
        raise ValueError(f"{name} has the shape {tuple(ids.shape)}: sentences of no tokens")
    if ids.device.type == "cpu" and ids.numel() and not torch.compiler.is_compiling():
        low, high = ids.aminmax()
        if low < 0 or high >= vocabulary:
            wrong = int(low) if low < 0 else int(high)
            raise ValueError(f"{name} has the id {wrong}, outside of vocabulary={vocabulary}")

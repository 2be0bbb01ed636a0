"""Two sentences to a class: one LSTM reads both, a perceptron compares what it read."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from onenth.models.pretrained import Config, Pretrained
from onenth.models.sequence import mean
from onenth.models.tokens import check_ids
from onenth.nn.lstm import PHMLSTM


@dataclass(frozen=True, kw_only=True)
class PairConfig(Config):
    """Sizes of a `PairClassifier`; the defaults are the paper's for natural language inference.

    vocabulary: token ids. Their vectors are fixed; put them in with `set_vectors`.
    features: of the vectors.
    hidden: of the encoder and of both layers of the perceptron.
    cell: "standard" or "paper", as for `PHMLSTM`.
    """

    vocabulary: int
    classes: int = 3
    features: int = 300
    hidden: int = 300
    dropout: float = 0.0
    pad: int = 0
    rules: Literal["per_gate", "fused", "shared"] = "per_gate"
    cell: Literal["standard", "paper"] = "standard"


class PairClassifier(Pretrained):
    """logits = perceptron([pool(premise); pool(hypothesis)]), with pool(x) = [max_t h_t; mean_t h_t].

    h is what one LSTM for both gives; the perceptron has two hidden layers.

    Example:
        >>> model = PairClassifier(PairConfig(vocabulary=100, n=5))
        >>> model(torch.tensor([[5, 6, 7], [8, 9, 0]]), torch.tensor([[5, 6], [8, 9]])).shape
        torch.Size([2, 3])
    """

    Config = PairConfig

    def __init__(self, config: PairConfig) -> None:
        super().__init__()
        self.config = config
        self.vectors = nn.Embedding(config.vocabulary, config.features)
        self.vectors.weight.requires_grad_(False)
        self.encoder = PHMLSTM(
            config.features,
            config.hidden,
            batch_first=True,
            rules=config.rules,
            cell=config.cell,
            **config.phm,
        )
        self.perceptron = nn.Sequential(
            nn.Dropout(config.dropout), nn.Linear(4 * config.hidden, config.hidden), nn.ReLU(),
            nn.Dropout(config.dropout), nn.Linear(config.hidden, config.hidden), nn.ReLU(),
            nn.Linear(config.hidden, config.classes),
        )  # fmt: skip

    @torch.no_grad()
    def set_vectors(self, vectors: Tensor) -> None:
        """Puts the vectors (vocabulary, features) of the token ids in."""
        if vectors.shape != self.vectors.weight.shape:
            wanted = tuple(self.vectors.weight.shape)
            raise ValueError(f"vectors has the shape {tuple(vectors.shape)} instead of {wanted}")
        self.vectors.weight.copy_(vectors)

    def forward(self, premise: Tensor, hypothesis: Tensor) -> Tensor:
        """Logits (batch, classes) of two batches of ids (batch, length), padded at their ends."""
        for name, ids in (("premise", premise), ("hypothesis", hypothesis)):
            check_ids(name, ids, self.config.vocabulary)
        if len(premise) != len(hypothesis):
            raise ValueError(f"there are {len(premise)} premises and {len(hypothesis)} hypotheses: one each")
        logits: Tensor = self.perceptron(torch.cat([self._read(premise), self._read(hypothesis)], 1))
        return logits

    def _read(self, ids: Tensor) -> Tensor:
        padding = ids == self.config.pad
        states, _ = self.encoder(
            self.vectors(ids)
        )  # at the ends of sentences, padding comes too late to matter
        return torch.cat([highest(states, padding), mean(states, padding)], 1)


def highest(x: Tensor, padding: Tensor) -> Tensor:
    """The maximum (batch, features) of x (batch, length, features) over what is not padding, 0 of nothing."""
    most = torch.where(padding.unsqueeze(2), -torch.inf, x).amax(1)
    return torch.where(padding.all(1, keepdim=True), 0, most)

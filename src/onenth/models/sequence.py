"""One sentence to a class: the encoder of a Transformer, the mean over its positions, and a head."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from onenth.models.pretrained import Config, Pretrained
from onenth.models.tokens import Tokens
from onenth.nn.sharing import Rules
from onenth.nn.transformer import PHMTransformerEncoder
from onenth.nn.transformer_layers import PHMTransformerEncoderLayer


@dataclass(frozen=True, kw_only=True)
class SequenceConfig(Config):
    """Sizes of a `SequenceClassifier`; the defaults are the paper's for subject-verb agreement."""

    vocabulary: int
    classes: int = 2
    hidden: int = 128
    filter: int = 512
    heads: int = 4
    layers: int = 2
    dropout: float = 0.1
    positions: int = 512
    pad: int = 0
    rules: Rules = "per_layer"


class SequenceClassifier(Pretrained):
    """logits = head(mean_t encoder(tokens)_t), over the positions that are not padding.

    Example:
        >>> model = SequenceClassifier(SequenceConfig(vocabulary=100, n=4))
        >>> model(torch.tensor([[5, 6, 7], [8, 9, 0]])).shape
        torch.Size([2, 2])
    """

    Config = SequenceConfig

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = Tokens(config.vocabulary, config.hidden, config.pad, config.positions, config.dropout)
        layer = PHMTransformerEncoderLayer(
            config.hidden, config.heads, config.filter, config.dropout,
            batch_first=True, norm_first=True, rules=config.rules, **config.phm,
        )  # fmt: skip
        self.encoder = PHMTransformerEncoder(layer, config.layers, nn.LayerNorm(config.hidden))
        self.head = nn.Linear(config.hidden, config.classes)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (batch, classes) of ids (batch, length); a sentence of padding alone counts as zeros."""
        self.tokens.check("ids", ids)
        padding = self.tokens.padding(ids)
        y = self.encoder(self.tokens(ids), src_key_padding_mask=padding)
        logits: Tensor = self.head(mean(y, padding))
        return logits


def mean(x: Tensor, padding: Tensor) -> Tensor:
    """The mean (batch, features) of x (batch, length, features) over what is not padding, 0 of nothing."""
    kept = (~padding).unsqueeze(2)
    return torch.where(kept, x, 0).sum(1) / kept.sum(1).clamp(min=1)

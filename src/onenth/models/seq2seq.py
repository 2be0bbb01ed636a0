"""Sequence to sequence: one embedding for source, target and softmax, and a Transformer between them."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from onenth.decoding import Decoded, beam_search, greedy, sample
from onenth.decoding.checks import check_count
from onenth.models.pretrained import Config, Pretrained
from onenth.models.tokens import Tokens
from onenth.nn.cache import Cache
from onenth.nn.sharing import Rules
from onenth.nn.transformer import PHMTransformer


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(Config):
    """Sizes of a `Seq2Seq`; the defaults are those behind the paper's table of translations.

    vocabulary: token ids, shared by both languages.
    hidden, filter, heads, layers: of the Transformer, so many layers in the encoder and in the decoder.
    dropout: of embeddings, residuals, attention weights and inside the feed-forward networks.
    positions: the most tokens of a sentence.
    pad, bos, eos: ids that fill up, begin and end a sentence.
    """

    vocabulary: int
    hidden: int = 512
    filter: int = 2048
    heads: int = 8
    layers: int = 6
    dropout: float = 0.1
    positions: int = 1024
    pad: int = 0
    bos: int = 1
    eos: int = 2
    rules: Rules = "per_layer"


class Seq2Seq(Pretrained):
    """A Transformer from sentences to sentences, in the arrangement of the authors' code.

    Pre-norm, sinusoidal positions, and the embedding as the matrix of the softmax.

    Example: the real, the quaternion and a PHM version.
        >>> import dataclasses
        >>> dense = Seq2SeqConfig(vocabulary=100, hidden=64, filter=128, layers=2)
        >>> for more in {}, {"rule": "quaternion"}, {"n": 4}:
        ...     model = Seq2Seq(dataclasses.replace(dense, **more))
        ...     print(sum(p.numel() for p in model.transformer.parameters()))
        167680
        44800
        46208
        >>> model = model.eval()
        >>> model.translate(torch.tensor([[5, 6, 7, 2]]), beam=4, max_length=8).tokens.shape[:2]
        torch.Size([1, 1])
    """

    Config = Seq2SeqConfig

    def __init__(self, config: Seq2SeqConfig, *, checkpoint: bool = False) -> None:
        super().__init__()
        self.config = config
        for name, own in (("bos", config.bos), ("eos", config.eos)):
            if not 0 <= own < config.vocabulary:
                raise ValueError(f"{name}={own} is not an id of vocabulary={config.vocabulary}")
        self.tokens = Tokens(config.vocabulary, config.hidden, config.pad, config.positions, config.dropout)
        self.transformer = PHMTransformer(
            config.hidden, config.heads, config.layers, config.layers, config.filter, config.dropout,
            batch_first=True, norm_first=True, rules=config.rules, checkpoint=checkpoint, **config.phm,
        )  # fmt: skip

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits (batch, length, vocabulary) of the token after each of target (batch, length)."""
        memory, padding = self.encode(source)
        self.tokens.check("target", target)
        if len(target) != len(source):
            raise ValueError(f"source has {len(source)} sentences and target {len(target)}: one each")
        y = self.transformer.decoder(
            self.tokens(target), memory, memory_key_padding_mask=padding, tgt_is_causal=True
        )
        return self.tokens.logits(y)

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """What the decoder attends to (batch, length, hidden), and where it is padding (batch, length)."""
        self.tokens.check("source", source)
        padding = self.tokens.padding(source)
        return self.transformer.encoder(self.tokens(source), src_key_padding_mask=padding), padding

    @torch.no_grad()
    def translate(
        self,
        source: Tensor,
        *,
        beam: int = 4,
        alpha: float = 0.6,
        n_best: int = 1,
        max_length: int | None = None,
    ) -> Decoded:
        """The best target sentences of source (batch, length), by beam search; greedily with a beam of 1.

        At most 50 tokens longer than the source where max_length is left out. `onenth.decoding` says more.
        """
        check_count("beam", beam, most=self.config.vocabulary, of="vocabulary")
        options = self._options(source, max_length)
        steps = Decoding(self, source, options["max_length"], rows=beam)
        if beam == 1 and n_best == 1:
            return greedy(steps, len(source), **options)
        return beam_search(steps, len(source), beam=beam, alpha=alpha, n_best=n_best, **options)

    @torch.no_grad()
    def sample(self, source: Tensor, *, max_length: int | None = None, **how: Any) -> Decoded:
        """Target sentences drawn at random; temperature, top_k, top_p, generator as for `decoding.sample`."""
        options = self._options(source, max_length)
        return sample(Decoding(self, source, options["max_length"], rows=1), len(source), **options, **how)

    def _options(self, source: Tensor, max_length: int | None) -> dict[str, Any]:
        self.tokens.check("source", source)
        own = self.config
        longest = min(own.positions, source.shape[1] + 50) if max_length is None else max_length
        if longest > own.positions:
            raise ValueError(f"max_length={longest} is more than the model's positions={own.positions}")
        ids = {"bos": own.bos, "eos": own.eos, "pad": own.pad}
        return {"max_length": longest, "device": source.device, **ids}


class Decoding:
    """A `Seq2Seq` as `onenth.decoding.Steps`: so many rows for each source sentence."""

    def __init__(self, model: Seq2Seq, source: Tensor, positions: int, rows: int = 1) -> None:
        if model.training:
            raise ValueError("the model is in training mode, in which it drops at random: call .eval() first")
        self.model, self.vocabulary = model, model.config.vocabulary
        memory, padding = model.encode(source)
        padding_or_none = padding if bool(padding.any()) else None
        decoder: Any = model.transformer.decoder
        self.cache: Cache = decoder.start(memory, padding_or_none, positions=positions, rows=rows)

    def logits(self, tokens: Tensor) -> Tensor:
        """(rows, vocabulary) after one more token (rows,)."""
        position = self.cache.position_of_next()
        x = self.model.tokens(tokens[:, None], position)
        decoder: Any = self.model.transformer.decoder
        return self.model.tokens.logits(decoder.step(x, self.cache)[:, 0])

    def select(self, rows: Tensor) -> None:
        """Row j continues what row rows[j] was."""
        self.cache.select(rows)

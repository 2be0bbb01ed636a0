"""Stacks of Transformer layers, and the Transformer of an encoder and a decoder."""

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as recomputed

from onenth.nn import init
from onenth.nn.attention import PHMMultiheadAttention
from onenth.nn.cache import Cache, KeysValues
from onenth.nn.sharing import Rules, check_rules, draw_rules, layers, one_rule
from onenth.nn.transformer_layers import (
    Activation,
    PHMTransformerDecoderLayer,
    PHMTransformerEncoderLayer,
    _Layer,
)
from onenth.rule import Rule


class _Stack(nn.Module):
    """A layer and copies of it, drawn anew; what they share is what the layer's `rules` says."""

    layers: Any  # an nn.ModuleList of them

    def __init__(self, layer: nn.Module, num_layers: int, norm: nn.Module | None, checkpoint: bool) -> None:
        super().__init__()
        if not isinstance(num_layers, int) or num_layers < 1:
            raise ValueError(f"num_layers={num_layers!r} must be a whole number of at least 1")
        if not isinstance(layer, _Layer):
            raise TypeError(f"a stack is made of PHM Transformer layers, not of {type(layer).__name__}")
        self.layers = nn.ModuleList([layer, *(_another(layer) for _ in range(num_layers - 1))])
        self.num_layers, self.norm, self.checkpoint = num_layers, norm, checkpoint

    def reset_parameters(self) -> None:
        """Draws everything anew, rules only where they were made here."""
        if self.layers[0].owns_rules:
            draw_rules(self)
        for layer in self.layers:
            layer.draw()
        if isinstance(self.norm, nn.LayerNorm):
            self.norm.reset_parameters()

    def _through(self, x: Tensor, *inputs: Any) -> Tensor:
        for layer in self.layers:
            if self.checkpoint and self.training and torch.is_grad_enabled():
                x = recomputed(layer, x, *inputs, use_reentrant=False)
            else:
                x = layer(x, *inputs)
        return x if self.norm is None else self.norm(x)


class PHMTransformerEncoder(_Stack):
    """`nn.TransformerEncoder`: a stack of encoder layers.

    Args:
        encoder_layer: the first layer. The others are copies, drawn anew; its `rules` says what they share.
        num_layers: how many.
        norm: applied to the last layer's output.
        checkpoint: keep each layer's input only, and compute the layer again in the backward.

    Example:
        >>> layer = PHMTransformerEncoderLayer(64, 8, 256, batch_first=True, n=4)
        >>> PHMTransformerEncoder(layer, 6)(torch.randn(2, 10, 64)).shape
        torch.Size([2, 10, 64])
    """

    def __init__(
        self,
        encoder_layer: PHMTransformerEncoderLayer,
        num_layers: int,
        norm: nn.Module | None = None,
        *,
        checkpoint: bool = False,
    ) -> None:
        super().__init__(encoder_layer, num_layers, norm, checkpoint)

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        return self._through(src, mask, src_key_padding_mask, bool(is_causal))


class PHMTransformerDecoder(_Stack):
    """`nn.TransformerDecoder`: a stack of decoder layers, which also decodes position by position.

    Args:
        decoder_layer, num_layers, norm, checkpoint: as for `PHMTransformerEncoder`.

    Example:
        >>> layer = PHMTransformerDecoderLayer(64, 8, 256, batch_first=True, n=4)
        >>> decoder, memory = PHMTransformerDecoder(layer, 6).eval(), torch.randn(2, 7, 64)
        >>> x = torch.randn(2, 3, 64)
        >>> with torch.no_grad():
        ...     at_once = decoder(x, memory, tgt_is_causal=True)
        ...     cache = decoder.start(memory, positions=3)
        ...     steps = [decoder.step(x[:, t : t + 1], cache) for t in range(3)]
        >>> torch.testing.assert_close(torch.cat(steps, 1), at_once)
    """

    def __init__(
        self,
        decoder_layer: PHMTransformerDecoderLayer,
        num_layers: int,
        norm: nn.Module | None = None,
        *,
        checkpoint: bool = False,
    ) -> None:
        super().__init__(decoder_layer, num_layers, norm, checkpoint)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        masks = tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask
        return self._through(tgt, memory, *masks, bool(tgt_is_causal), memory_is_causal)

    def start(
        self, memory: Tensor, memory_key_padding_mask: Tensor | None = None, *, positions: int, rows: int = 1
    ) -> Cache:
        """A cache to decode so many positions of so many rows for each sequence of the memory (batch, …)."""
        if positions < 1 or rows < 1:
            raise ValueError(f"positions={positions} and rows={rows} must be at least 1")
        batch, length = memory.shape[:2]
        mask = memory_key_padding_mask
        if mask is not None:
            if mask.shape != (batch, length) or mask.dtype != torch.bool:
                raise ValueError(
                    f"memory_key_padding_mask has the shape {tuple(mask.shape)} and dtype {mask.dtype} "
                    f"instead of {(batch, length)} and torch.bool"
                )
            mask = ~mask.view(batch, 1, 1, length)
        of_memory = [layer.multihead_attn.keys_values(memory) for layer in self.layers]
        heads = [(layer.self_attn.num_heads, layer.self_attn.head_dim) for layer in self.layers]
        like = of_memory[0].keys
        own = [KeysValues.room(batch, rows, number, positions, size, like) for number, size in heads]
        return Cache(own, of_memory, mask, rows, positions)

    def step(self, x: Tensor, cache: Cache) -> Tensor:
        """The output for one more position x (sequence·row, 1, features)."""
        position, mask = cache.next()
        for layer, own, memory in zip(self.layers, cache.own, cache.memory, strict=True):
            x = layer.step(x, own, memory, position, mask, cache.memory_mask)
        return x if self.norm is None else self.norm(x)


class PHMTransformer(nn.Module):
    """`nn.Transformer` with PHM layers: an encoder, and a decoder that attends to what it gives.

    Arguments, shapes and masks are those of torch's, and with n=1 so are the results. As there, all layers
    start as Glorot and Bengio's.

    Args:
        d_model, …, dtype: as for `nn.Transformer`.
        n, rule, rank, terms, component_rank: as for `PHMLinear`.
        rules: who shares a rule, as for `PHMTransformerEncoderLayer`; "shared" is one for the whole model.
        checkpoint: keep each layer's input only, and compute the layer again in the backward.

    Example:
        >>> model = PHMTransformer(64, 8, 2, 2, 256, batch_first=True, n=4)
        >>> model(torch.randn(2, 7, 64), torch.randn(2, 10, 64), tgt_is_causal=True).shape
        torch.Size([2, 10, 64])
    """

    encoder: nn.Module
    decoder: nn.Module

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = F.relu,
        custom_encoder: nn.Module | None = None,
        custom_decoder: nn.Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        rules: Rules = "per_layer",
        checkpoint: bool = False,
        **phm: Any,
    ) -> None:
        super().__init__()
        check_rules(rules)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        self._owns_rules = not isinstance(phm.get("rule"), Rule)
        if rules == "shared":
            phm = one_rule(phm, device, dtype)
        sizes = d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps
        more = batch_first, norm_first, bias, device, dtype

        def norm() -> nn.LayerNorm:
            return nn.LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is None:
            first = PHMTransformerEncoderLayer(*sizes, *more, rules=rules, **phm)
            custom_encoder = PHMTransformerEncoder(first, num_encoder_layers, norm(), checkpoint=checkpoint)
        if custom_decoder is None:
            last = PHMTransformerDecoderLayer(*sizes, *more, rules=rules, **phm)
            custom_decoder = PHMTransformerDecoder(last, num_decoder_layers, norm(), checkpoint=checkpoint)
        self.encoder, self.decoder = custom_encoder, custom_decoder
        self._as_glorot()

    def reset_parameters(self) -> None:
        """Draws everything anew, rules only where they were made here."""
        if self._owns_rules:
            draw_rules(self)
        for module in self.modules():
            if isinstance(module, _Layer):
                module.draw()
        self._as_glorot()

    def _as_glorot(self) -> None:
        """Draws again what attention and layers by themselves draw otherwise."""
        for module in self.modules():
            if isinstance(module, PHMMultiheadAttention):
                init.xavier_uniform_(module.out_proj)
            elif isinstance(module, _Layer):
                init.xavier_uniform_(module.linear1)
                init.xavier_uniform_(module.linear2)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        memory = self.encoder(src, src_mask, src_key_padding_mask, is_causal=src_is_causal)
        masks = tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask
        causal = {"tgt_is_causal": tgt_is_causal, "memory_is_causal": memory_is_causal}
        y: Tensor = self.decoder(tgt, memory, *masks, **causal)
        return y


def _another(layer: _Layer) -> nn.Module:
    """A copy of the layer with its own draw, and its own rules unless they are shared."""
    shares = layer.rules in ("per_role", "shared") or not layer.owns_rules
    memo = {id(own.rule): own.rule for own in layers(layer)} if shares else {}
    other = copy.deepcopy(layer, memo)
    other.owns_rules = not shares
    other.reset_parameters()
    return other

"""The layers of a Transformer: attention, and a feed-forward network of two PHM layers."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onenth.nn import init
from onenth.nn.attention import PHMMultiheadAttention, Projections
from onenth.nn.cache import KeysValues
from onenth.nn.linear import PHMLinear
from onenth.nn.sharing import Rules, check_rules, draw_rules, one_rule
from onenth.rule import Rule

Activation = Callable[[Tensor], Tensor]


class _Layer(nn.Module):
    """What both layers have: blocks x + dropout(block(x)), normed before or after, the last one this one:

    feedforward(x) = PHM(dropout(activation(PHM(x))))
    """

    attentions: ClassVar[dict[str, Projections]]  # name and projections of each

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        rules: Rules = "per_layer",
        **phm: Any,
    ) -> None:
        super().__init__()
        check_rules(rules)
        self.d_model, self.rules, self.norm_first = d_model, rules, norm_first
        self.owns_rules = not isinstance(phm.get("rule"), Rule)
        if rules == "shared":
            phm = one_rule(phm, device, dtype)
        within = "shared" if rules in ("per_attention", "per_block") else "per_layer"
        where = {"device": device, "dtype": dtype}
        more = {"batch_first": batch_first, "rules": within, **where, **phm}
        for name, projections in self.attentions.items():
            attention = PHMMultiheadAttention(d_model, nhead, dropout, bias, projections=projections, **more)
            setattr(self, name, attention)
        if rules == "per_block":
            phm = one_rule(phm, device, dtype)
        self.linear1 = PHMLinear(d_model, dim_feedforward, bias, **where, **phm)
        self.linear2 = PHMLinear(dim_feedforward, d_model, bias, **where, **phm)
        self.activation = _activation(activation)
        self.dropout = nn.Dropout(dropout)
        for number in range(1, len(self.attentions) + 2):
            setattr(self, f"norm{number}", nn.LayerNorm(d_model, layer_norm_eps, bias=bias, **where))

    def reset_parameters(self) -> None:
        """Draws everything anew, rules only where they were made here."""
        if self.owns_rules:
            draw_rules(self)
        self.draw()

    def draw(self) -> None:
        """Draws all but the rules."""
        for module in self.children():
            if isinstance(module, PHMMultiheadAttention):
                module.draw()
            elif isinstance(module, nn.LayerNorm):
                module.reset_parameters()
        for layer in (self.linear1, self.linear2):
            init.kaiming_uniform_(layer, a=math.sqrt(5))
            if layer.bias is not None:
                bound = 1 / math.sqrt(layer.in_features)
                nn.init.uniform_(layer.bias, -bound, bound)

    def _blocks(self, x: Tensor, *attend: Callable[[Tensor], Tensor]) -> Tensor:
        for index, block in enumerate((*attend, self._feedforward)):
            norm = getattr(self, f"norm{index + 1}")
            x = x + self.dropout(block(norm(x))) if self.norm_first else norm(x + self.dropout(block(x)))
        return x

    def _feedforward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return y

    def extra_repr(self) -> str:
        return f"norm_first={self.norm_first}, rules={self.rules!r}"


class PHMTransformerEncoderLayer(_Layer):
    """`nn.TransformerEncoderLayer` with PHM layers: self-attention, then PHM(ReLU(PHM(x))).

        x = norm1(x + attention(x))               with norm_first:  x = x + attention(norm1(x))
        y = norm2(x + feedforward(x))                               y = x + feedforward(norm2(x))

    Arguments, shapes and masks are those of torch's, and with n=1 so are the results.

    Args:
        d_model, …, dtype: as for `nn.TransformerEncoderLayer`.
        n, rule, rank, terms, component_rank: as for `PHMLinear`.
        rules: who shares a rule. "per_layer": each PHM layer has its own; "per_attention": those of an
            attention share one; "per_block": those of the feed-forward network, too; "per_role": those at
            the same place of all layers of a stack; "shared": all.

    Example:
        >>> layer = PHMTransformerEncoderLayer(64, 8, 256, batch_first=True, n=4)
        >>> layer(torch.randn(2, 10, 64)).shape
        torch.Size([2, 10, 64])
    """

    attentions: ClassVar[dict[str, Projections]] = {"self_attn": "qkv"}
    self_attn: PHMMultiheadAttention

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            y, _ = self.self_attn(
                x, x, x, src_key_padding_mask, False, attn_mask=src_mask, is_causal=is_causal
            )
            return y

        return self._blocks(src, attend)


class PHMTransformerDecoderLayer(_Layer):
    """`nn.TransformerDecoderLayer` with PHM layers: as the encoder's, with attention to a memory in between.

    The memory's keys and values are made by one PHM layer, the queries by another. Arguments, shapes and
    masks are those of torch's, and with n=1 so are the results.

    Args:
        d_model, …, dtype: as for `nn.TransformerDecoderLayer`.
        n, rule, rank, terms, component_rank: as for `PHMLinear`.
        rules: as for `PHMTransformerEncoderLayer`.

    Example:
        >>> layer = PHMTransformerDecoderLayer(64, 8, 256, batch_first=True, n=4)
        >>> layer(torch.randn(2, 10, 64), torch.randn(2, 7, 64), tgt_is_causal=True).shape
        torch.Size([2, 10, 64])
    """

    attentions: ClassVar[dict[str, Projections]] = {"self_attn": "qkv", "multihead_attn": "q_kv"}
    self_attn: PHMMultiheadAttention
    multihead_attn: PHMMultiheadAttention

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            y, _ = self.self_attn(
                x, x, x, tgt_key_padding_mask, False, attn_mask=tgt_mask, is_causal=tgt_is_causal
            )
            return y

        def attend_to_memory(x: Tensor) -> Tensor:
            padding = memory_key_padding_mask
            y, _ = self.multihead_attn(
                x, memory, memory, padding, False, attn_mask=memory_mask, is_causal=memory_is_causal
            )
            return y

        return self._blocks(tgt, attend, attend_to_memory)

    def step(
        self,
        x: Tensor,
        own: KeysValues,
        memory: KeysValues,
        position: Tensor,
        mask: Tensor,
        memory_mask: Tensor | None,
    ) -> Tensor:
        """One position x (rows, 1, features) after those whose keys and values are kept."""
        return self._blocks(
            x,
            lambda y: self.self_attn.extend(y, own, position, mask),
            lambda y: self.multihead_attn.attend(y, memory, memory_mask),
        )


def _activation(activation: object) -> Activation:
    known: dict[object, Activation] = {"relu": F.relu, "gelu": F.gelu}
    if callable(activation):
        return activation
    if activation not in known:
        raise ValueError(f'activation={activation!r} is unknown: write "relu", "gelu", or give a function')
    return known[activation]

"""Attention whose projections are PHM layers."""

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onenth.nn import init
from onenth.nn.cache import KeysValues
from onenth.nn.linear import PHMLinear
from onenth.nn.masks import merged
from onenth.nn.sharing import check_rules, draw_rules, layers, one_rule
from onenth.rule import Rule

Projections = Literal["qkv", "q_kv", "q_k_v"]


class PHMMultiheadAttention(nn.Module):
    """`nn.MultiheadAttention` with PHM layers: one for Q, K and V together, one over the joined heads.

        Q, K, V = split(PHM(X))
        head = softmax(Q Kᵀ / √d_k + mask) V          for each head's part of Q, K and V
        Y = PHM([head_1; …; head_h])

    with d_k = embed_dim / num_heads, as in the paper's section on the PHM-Transformer. Arguments, shapes and
    masks are those of `nn.MultiheadAttention`, and with n=1 so are the results. Two differences: a query
    that may attend to no key gets zeros for its heads instead of NaN, and `is_causal=True` needs no mask.

    The projections start with the variance of torch's (Glorot and Bengio's, for Q, K and V together).

    Args:
        embed_dim, …, dtype: as for `nn.MultiheadAttention`.
        n, rule, rank, terms, component_rank: as for `PHMLinear`.
        rules: "per_layer" learns a rule for each projection, "shared" one for all.
        projections: "qkv" makes queries, keys and values in one layer, "q_kv" keys and values in one, which
            saves arithmetic where they come from another sequence than the queries; "q_k_v" each in its own.
            Chosen by kdim and vdim where it is left out.

    Example:
        >>> attention = PHMMultiheadAttention(64, num_heads=8, batch_first=True, n=4)
        >>> x = torch.randn(2, 10, 64)
        >>> y, _ = attention(x, x, x, is_causal=True, need_weights=False)
        >>> y.shape
        torch.Size([2, 10, 64])
    """

    in_proj: PHMLinear
    q_proj: PHMLinear
    k_proj: PHMLinear
    v_proj: PHMLinear
    kv_proj: PHMLinear
    bias_k: nn.Parameter | None
    bias_v: nn.Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        rules: Literal["per_layer", "shared"] = "per_layer",
        projections: Projections | None = None,
        **phm: Any,
    ) -> None:
        super().__init__()
        check_rules(rules, ("per_layer", "shared"))
        _check_sizes(embed_dim, num_heads, dropout)
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        self.projections = projections or _projections(embed_dim, self.kdim, self.vdim)
        self._owns_rules = not isinstance(phm.get("rule"), Rule)
        if rules == "shared":
            phm = one_rule(phm, device, dtype)
        where = {"device": device, "dtype": dtype}
        for name, d, count in _split(self.projections, embed_dim, self.kdim, self.vdim):
            setattr(self, name, PHMLinear(d, count * embed_dim, bias, **where, **phm))
        self.out_proj = PHMLinear(embed_dim, embed_dim, bias, **where, **phm)
        for name in ("bias_k", "bias_v"):
            extra = nn.Parameter(torch.empty(1, 1, embed_dim, **where)) if add_bias_kv else None
            self.register_parameter(name, extra)
        self.draw()

    def reset_parameters(self) -> None:
        """Draws everything anew, rules only where they were made here."""
        if self._owns_rules:
            draw_rules(self)
        self.draw()

    def draw(self) -> None:
        """Draws all but the rules."""
        together = self.kdim == self.vdim == self.embed_dim  # torch draws the matrix of all three at once
        for name, d, count in _split(self.projections, self.embed_dim, self.kdim, self.vdim):
            k = self.embed_dim * (3 if together else count)
            init.uniform_(getattr(self, name), math.sqrt(6 / (d + k)))
        init.kaiming_uniform_(self.out_proj, a=math.sqrt(5))
        for layer in layers(self):
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                nn.init.xavier_normal_(extra)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """(y, weights); weights are None unless asked for. Shapes as in `nn.MultiheadAttention`."""
        batched = _check_input(self, query, key, value)
        if not batched:
            same_kv, same_qk = value is key, key is query
            at = 0 if self.batch_first else 1
            query = query.unsqueeze(at)
            key = query if same_qk else key.unsqueeze(at)
            value = key if same_kv else value.unsqueeze(at)
            if key_padding_mask is not None and key_padding_mask.dim() == 1:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        q, k, v = self._project(query, key, value)
        batch, heads, queries, _ = q.shape
        shape = batch, heads, queries, k.shape[2]
        if (
            is_causal
            and attn_mask is None
            and key_padding_mask is None
            and not self._extends
            and not need_weights
        ):
            mask = None
        else:
            mask, is_causal = merged(attn_mask, key_padding_mask, is_causal, shape, q), False
        if self._extends:
            k, v, mask = self._extend(k, v, mask)
        if need_weights:
            y, weights = self._weighted(q, k, v, mask)
            weights = weights.mean(1) if average_attn_weights else weights
        else:
            dropout = self.dropout if self.training else 0.0
            y, weights = F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal), None
        y = self.out_proj(self._join(y))
        if not batched:
            y, weights = y.squeeze(at), None if weights is None else weights.squeeze(0)
        return y, weights

    def keys_values(self, memory: Tensor) -> KeysValues:
        """Keys and values of a memory (batch, length, features), for `attend`: they are projected once."""
        _check_cached(self)
        _, k, v = self._project(None, memory, memory)
        return KeysValues.of(k, v)

    def attend(self, x: Tensor, kept: KeysValues, mask: Tensor | None = None) -> Tensor:
        """y of queries x (rows, 1, features), some rows for each of the sequences that are kept."""
        _check_cached(self)
        q, _, _ = self._project(x, None, None)
        return self._over(q, kept, mask)

    def extend(self, x: Tensor, kept: KeysValues, position: Tensor, mask: Tensor) -> Tensor:
        """Self-attention of one more position x (rows, 1, features), whose keys and values are kept too."""
        _check_cached(self)
        q, k, v = self._project(x, x, x)
        kept.write(position, k, v)
        return self._over(q, kept, mask)

    def _over(self, q: Tensor, kept: KeysValues, mask: Tensor | None) -> Tensor:
        """All rows of a sequence at once, as queries beside each other."""
        rows, heads, _, size = q.shape
        kept.check_rows(rows)
        q = q.view(kept.sequences, -1, heads, size).transpose(1, 2)  # (sequence, head, row, size)
        y = F.scaled_dot_product_attention(q, kept.keys, kept.values, mask)
        return self.out_proj(y.transpose(1, 2).reshape(rows, 1, self.embed_dim))

    @property
    def _extends(self) -> bool:
        return self.bias_k is not None or self.add_zero_attn

    def _project(self, query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
        """q, k, v (batch, heads, length, head_dim), where there is an input for them."""
        if self.projections == "q_k_v":
            parts = [self.q_proj, self.k_proj, self.v_proj]
            found = [
                None if x is None else part(x) for part, x in zip(parts, (query, key, value), strict=True)
            ]
        elif self.projections == "q_kv":
            q = None if query is None else self.q_proj(query)
            found = [q, *_parts(self.kv_proj, (key, value), 2)]
        else:
            found = _parts(self.in_proj, (query, key, value), 3)
        q, k, v = (None if y is None else self._heads(y) for y in found)
        return q, k, v

    def _heads(self, y: Tensor) -> Tensor:
        y = y.unflatten(-1, (self.num_heads, self.head_dim))
        return y.permute(0, 2, 1, 3) if self.batch_first else y.permute(1, 2, 0, 3)

    def _join(self, y: Tensor) -> Tensor:
        return (y.permute(0, 2, 1, 3) if self.batch_first else y.permute(2, 0, 1, 3)).flatten(-2)

    def _extend(self, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Learned and zero keys and values beside the others; every query may attend to them."""
        batch, heads, _, size = k.shape
        more: list[tuple[Tensor | None, Tensor | None]] = []
        if self.bias_k is not None:
            more.append((self.bias_k, self.bias_v))
        if self.add_zero_attn:
            more.append((None, None))
        for pair in more:
            own_k, own_v = (
                k.new_zeros(batch, heads, 1, size)
                if extra is None
                else extra.to(k.dtype).view(1, heads, 1, size).expand(batch, -1, -1, -1)
                for extra in pair
            )
            k, v = torch.cat([k, own_k], 2), torch.cat([v, own_v], 2)
            if mask is not None:
                mask = F.pad(mask, (0, 1), value=mask.dtype == torch.bool)
        return k, v, mask

    def _weighted(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        scores = q @ k.mT / math.sqrt(self.head_dim)
        if mask is None:
            weights = scores.softmax(-1)
        else:
            scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
            nowhere = (scores == -torch.inf).all(-1, keepdim=True)
            weights = scores.masked_fill(nowhere, 0).softmax(-1).masked_fill(nowhere, 0)
        weights = F.dropout(weights, self.dropout, self.training)
        return weights.to(v.dtype) @ v, weights

    def extra_repr(self) -> str:
        more = "" if self.dropout == 0 else f", dropout={self.dropout}"
        return (
            f"embed_dim={self.embed_dim}, num_heads={self.num_heads}{more}, projections={self.projections!r}"
        )


def _projections(embed_dim: int, kdim: int, vdim: int) -> Projections:
    if kdim == vdim == embed_dim:
        return "qkv"
    return "q_kv" if kdim == vdim else "q_k_v"


def _split(projections: object, embed_dim: int, kdim: int, vdim: int) -> list[tuple[str, int, int]]:
    """(name, input features, how many of q, k, v) of each projection."""
    if projections == "qkv" and kdim == vdim == embed_dim:
        return [("in_proj", embed_dim, 3)]
    if projections == "q_kv" and kdim == vdim:
        return [("q_proj", embed_dim, 1), ("kv_proj", kdim, 2)]
    if projections == "q_k_v":
        return [("q_proj", embed_dim, 1), ("k_proj", kdim, 1), ("v_proj", vdim, 1)]
    if projections not in ("qkv", "q_kv"):
        raise ValueError(f'projections={projections!r} is unknown: write "qkv", "q_kv" or "q_k_v"')
    raise ValueError(
        f"projections={projections!r} makes several of q, k and v from one input, but these have "
        f"embed_dim={embed_dim}, kdim={kdim} and vdim={vdim} features"
    )


def _parts(layer: PHMLinear, inputs: tuple[Any, ...], count: int) -> list[Any]:
    """Part j of the layer's output for input j; an input that several parts share is multiplied once."""
    outputs: dict[int, tuple[Tensor, ...]] = {}
    for x in inputs:
        if x is not None and id(x) not in outputs:
            outputs[id(x)] = layer(x).chunk(count, -1)
    return [None if x is None else outputs[id(x)][index] for index, x in enumerate(inputs)]


def _check_sizes(embed_dim: int, num_heads: int, dropout: float) -> None:
    for name, size in (("embed_dim", embed_dim), ("num_heads", num_heads)):
        if not isinstance(size, int) or isinstance(size, bool):
            raise TypeError(f"{name}={size!r} must be a whole number, not {type(size).__name__}")
        if size < 1:
            raise ValueError(f"{name}={size} must be at least 1")
    if embed_dim % num_heads:
        fits = ", ".join(str(h) for h in range(1, embed_dim + 1) if embed_dim % h == 0)
        raise ValueError(f"num_heads={num_heads} does not divide embed_dim={embed_dim}; these do: {fits}")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout={dropout} must be at least 0 and less than 1")


def _check_input(attention: PHMMultiheadAttention, query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether there is a batch, for inputs that belong together."""
    sizes = attention.embed_dim, attention.kdim, attention.vdim
    for name, x, size in zip(("query", "key", "value"), (query, key, value), sizes, strict=True):
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} is a {type(x).__name__}: give a torch.Tensor")
        if x.dim() not in (2, 3) or x.dim() != query.dim() or x.shape[-1] != size:
            dims = ("batch, length" if attention.batch_first else "length, batch") + f", {size}"
            raise ValueError(f"{name} has the shape {tuple(x.shape)} instead of ({dims}) or (length, {size})")
    batched = query.dim() == 3
    length = 1 if batched and attention.batch_first else 0
    if key.shape[length] != value.shape[length]:
        raise ValueError(f"key has {key.shape[length]} positions and value {value.shape[length]}: one each")
    if key.shape[length] == 0:
        raise ValueError("key has no positions: there is nothing to attend to")
    if batched:
        at = 1 - length
        counts = {name: x.shape[at] for name, x in (("query", query), ("key", key), ("value", value))}
        if len(set(counts.values())) > 1:
            raise ValueError(f"query, key and value are of different batches: {counts}")
    return batched


def _check_cached(attention: PHMMultiheadAttention) -> None:
    if not attention.batch_first:
        raise ValueError("keys and values are kept for batch_first=True only: build the attention so")
    if attention._extends:
        raise ValueError("keys and values are not kept with add_bias_kv or add_zero_attn")

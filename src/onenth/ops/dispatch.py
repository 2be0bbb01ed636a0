"""Which path computes the product: the one with the least arithmetic for these sizes and rows."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from onenth.ops.bilinear import bilinear
from onenth.ops.dense import build, dense
from onenth.precision import autocast_dtype
from onenth.rule import Rule


def product(rule: Rule, S: Tensor, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """y = x Hᵀ + bias with H = Σ_i A_i ⊗ S_i, by the cheapest path."""
    if rule.is_one:
        return F.linear(x, S[0], bias)
    lower = autocast_dtype(x)
    if lower is not None:
        x, bias = x.to(lower), None if bias is None else bias.to(lower)
    factors = rule.factors()
    if factors is not None and _prefers_bilinear(rule, factors.rank, S, x):
        U, V, W = (None if factor is None else factor.to(S.dtype) for factor in factors)
        return bilinear(U, V, W, S, x, bias)
    return dense(rule.tensor().to(S.dtype), S, x, bias)  # they differ where FSDP2 lowers what it shards


def weight(rule: Rule, S: Tensor) -> Tensor:
    """H (k, d), differentiable in the rule and in S."""
    return S[0] if rule.is_one else build(rule.tensor().to(S.dtype), S)


def _prefers_bilinear(rule: Rule, rank: int, S: Tensor, x: Tensor) -> bool:
    terms, o, c = S.shape
    k, d = rule.n_out * o, rule.n_in * c
    per_row = k * d - rank * (o * c + k + d)  # multiply-adds saved: the GEMM against products and mixing
    once = terms * (k * d - rank * o * c)  # building H against mixing S
    if torch.compiler.is_exporting():  # one program for any number of rows
        return per_row > 0
    return math.prod(x.shape[:-1]) * per_row + once > 0

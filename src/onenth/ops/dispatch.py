"""Which path computes the product: the one with the least predicted time that is accurate enough."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from onenth.bilinear import Certificate
from onenth.ops import cost
from onenth.ops.bilinear import bilinear, lean
from onenth.ops.cost import PathName, Work
from onenth.ops.decode import decode
from onenth.ops.dense import build, dense
from onenth.ops.few import linear_of_few
from onenth.precision import autocast_dtype
from onenth.rule import Rule

Precision = Literal["usual", "fast"]
EXTRA_ERROR = {"usual": 2.0, "fast": 8.0}  # over that of the dense path, which an algorithm may have


class Held(NamedTuple):
    """What a frozen layer has computed already."""

    A: Tensor
    S: Tensor
    H: Tensor | None = None  # (k, d)
    U: Tensor | None = None
    V: Tensor | None = None
    right: Tensor | None = None  # S̃ (r, o, c)
    certificate: Certificate | None = None  # of an algorithm that U, V and S̃ belong to


@dataclass
class Settings:
    """What `using` has asked for."""

    path: PathName | None = None
    precision: Precision = "usual"
    recompute: bool = False


_settings = Settings()


@contextmanager
def using(
    path: PathName | None = None, *, precision: Precision | None = None, recompute: bool | None = None
) -> Iterator[None]:
    """Chooses for all layers within how they compute. What is left out stays as it is.

    Args:
        path: "dense", "bilinear" or "decode" instead of the fastest; raises with the reasons where a layer
            cannot be computed so.
        precision: "usual" lets an algorithm for a fixed or frozen rule err up to twice as much as the dense
            path, "fast" up to eight times.
        recompute: True makes the products ỹ of a learned rule again in the backward instead of keeping them:
            less memory, R/n² of a dense product more arithmetic.

    Example:
        >>> from onenth import PHMLinear
        >>> layer, x = PHMLinear(64, 64, n=4, rank=8), torch.randn(2, 64)
        >>> with using("dense"):
        ...     y = layer(x)
        >>> torch.testing.assert_close(y, layer(x), rtol=1e-4, atol=1e-4)
    """
    if path not in (None, *get_args(PathName)):
        raise ValueError(f'path={path!r} is unknown: write "dense", "bilinear" or "decode"')
    if precision not in (None, *EXTRA_ERROR):
        raise ValueError(f'precision={precision!r} is unknown: write "usual" or "fast"')
    before = _settings.path, _settings.precision, _settings.recompute
    _settings.path = path or before[0]
    _settings.precision = precision or before[1]
    _settings.recompute = before[2] if recompute is None else recompute
    try:
        yield
    finally:
        _settings.path, _settings.precision, _settings.recompute = before


def product(rule: Rule, S: Tensor, x: Tensor, bias: Tensor | None = None, held: Held | None = None) -> Tensor:
    """y = x Hᵀ + bias with H = Σ_i A_i ⊗ S_i, by the fastest path."""
    if rule.is_one:
        return F.linear(x, S[0], bias) if held is None else linear_of_few(x, S[0], bias)
    lower = autocast_dtype(x)
    if lower is not None:
        x, bias = x.to(lower), None if bias is None else bias.to(lower)
    path = choose(work(rule, S, x.dtype, held), math.prod(x.shape[:-1]))
    if path == "dense" and held is not None and held.H is not None:
        return linear_of_few(x, held.H.to(x.dtype), bias)
    if path == "bilinear":
        U, V, W, right = _factors(rule, S, held)
        keeps = U.requires_grad and torch.is_grad_enabled() and not _settings.recompute
        return (bilinear if keeps else lean)(U, V, W, right, x, bias)
    A = rule.tensor().to(S.dtype) if held is None else held.A
    return (dense if path == "dense" else decode)(A, S, x, bias)


def weight(rule: Rule, S: Tensor) -> Tensor:
    """H (k, d), differentiable in the rule and in S."""
    return S[0] if rule.is_one else build(rule.tensor().to(S.dtype), S)


def work(rule: Rule, S: Tensor, dtype: torch.dtype, held: Held | None = None) -> Work:
    """What is to be computed, as far as time and accuracy depend on it."""
    _, o, c = S.shape
    rank, mixes_left, mixes_right, certificate = None, False, False, None
    if held is not None and held.right is not None:
        rank, mixes_left, certificate = held.right.shape[0], held.V is not None, held.certificate
    elif (products := rule.products()) is not None:
        (U, V, W), certificate = products
        rank, mixes_left, mixes_right = U.shape[1], V is not None, W is not None
    return Work(
        rule.terms, rule.n_out, rule.n_in, o, c, rank, mixes_left, mixes_right,
        error=1.0 if certificate is None else certificate.error(dtype, c),
        itemsize=dtype.itemsize,
        device=S.device.type,
        trains=torch.is_grad_enabled() and S.requires_grad,
        has_H=held is not None and held.H is not None,
    )  # fmt: skip


def precision() -> Precision:
    """What `using` asks for."""
    return _settings.precision


def choose(work: Work, rows: int) -> PathName:
    """The fastest path for so many rows, or the one that `using` asks for."""
    if _settings.path is not None:
        if against := cost.impossible(work, _settings.path):
            raise ValueError(f'the path "{_settings.path}" cannot compute this layer: {against}')
        return _settings.path
    thresholds = _thresholds(tuple(work), EXTRA_ERROR[_settings.precision])
    if torch.compiler.is_exporting():  # one program for any number of rows
        return thresholds[-1][1]
    for most, path in thresholds:
        if rows <= most:
            return path
    return thresholds[-1][1]


def _thresholds(work: tuple[Any, ...], extra_error: float) -> tuple[tuple[int, PathName], ...]:
    return cost.thresholds(Work(*work), extra_error)


# as torch.compiler.assume_constant_result would, without importing the whole compiler here
_thresholds._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _factors(rule: Rule, S: Tensor, held: Held | None) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor]:
    if held is not None and held.right is not None:
        assert held.U is not None
        return held.U, held.V, None, held.right
    products = rule.products()
    assert products is not None
    U, V, W = products[0]
    if U.dtype != S.dtype:  # they differ where FSDP2 lowers what it shards
        U, V, W = U.to(S.dtype), None if V is None else V.to(S.dtype), None if W is None else W.to(S.dtype)
    return U, V, W, S

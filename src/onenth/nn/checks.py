"""Errors for people: what a layer refuses, and what to write instead."""

import itertools
import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from onenth.precision import autocast_dtype
from onenth.rule import Rule

if TYPE_CHECKING:
    from onenth.nn.linear import PHMLinear


def check_arguments(in_features: object, out_features: object, bias: object) -> None:
    """What every layer needs: two sizes, and a bias or none."""
    for name, size in (("in_features", in_features), ("out_features", out_features)):
        if not isinstance(size, int) or isinstance(size, bool):
            raise TypeError(f"{name}={size!r} must be a whole number, not {type(size).__name__}")
        if size < 1:
            raise ValueError(f"{name}={size} must be at least 1")
    if not isinstance(bias, bool):
        raise TypeError(f"bias={bias!r} must be True or False; the number of segments is written n={bias!r}")


def placed(rule: Rule, device: Any, dtype: torch.dtype | None) -> tuple[torch.device, torch.dtype]:
    """A rule handed in settles device and dtype."""
    own = next(itertools.chain(rule.parameters(), rule.buffers()))
    if dtype not in (None, own.dtype):
        raise TypeError(f"dtype={dtype} contradicts the rule, which is {own.dtype}: convert one with .to()")
    if device is not None and torch.empty(0, device=device).device != own.device:
        raise ValueError(f"device={device} contradicts the rule, which is on {own.device}: move one to it")
    return own.device, own.dtype


def segment_sizes(layer: "PHMLinear") -> tuple[int, int]:
    """(k/n_out, d/n_in), or an error that names the sizes and every n that fits."""
    k, d, n_out, n_in = layer.out_features, layer.in_features, layer.rule.n_out, layer.rule.n_in
    if k % n_out == 0 and d % n_in == 0:
        return k // n_out, d // n_in
    wrong = [f"in_features={d} by {n_in}"] if d % n_in else []
    wrong += [f"out_features={k} by {n_out}"] if k % n_out else []
    common = math.gcd(k, d)
    fits = ", ".join(str(n) for n in range(1, common + 1) if common % n == 0)
    raise ValueError(
        f"{type(layer).__name__}({d}, {k}, n={layer.n}) cannot divide {' or '.join(wrong)}; "
        f"n that divide both {d} and {k}: {fits}"
    )


def check_input(layer: "PHMLinear", x: Tensor) -> None:
    """Refuses what the product would misread or fail on with less to say."""
    if not isinstance(x, Tensor):
        raise TypeError(f"the input is a {type(x).__name__}: give a torch.Tensor")
    own = layer.S if layer.component_rank is None else layer.s
    if x.dim() == 0 or x.shape[-1] != layer.in_features:
        shape = tuple(x.shape)
        raise ValueError(f"the input's last dimension must be in_features={layer.in_features}, got {shape}")
    if x.device != own.device:
        raise ValueError(f"the input is on {x.device}, the layer on {own.device}: move one with .to()")
    if not x.is_floating_point():
        raise TypeError(f"the input is {x.dtype}: a linear layer needs floating-point numbers")
    if x.dtype != own.dtype and autocast_dtype(x) is None:
        raise TypeError(
            f"the input is {x.dtype}, the layer {own.dtype}: convert one with .to(), or use torch.autocast"
        )


def check_component_rank(rank: object, o: int, c: int) -> None:
    """Components of o×c have a rank from 1 to the smaller of the two."""
    if not isinstance(rank, int) or isinstance(rank, bool):
        raise TypeError(f"component_rank={rank!r} must be a whole number, not {type(rank).__name__}")
    if not 1 <= rank <= min(o, c):
        raise ValueError(
            f"component_rank={rank} is out of range: components of {o}×{c} allow 1 to {min(o, c)}"
        )

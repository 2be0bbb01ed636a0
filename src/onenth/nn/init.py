"""Initialisation: what `torch.nn.init` does for a dense weight, for the H of a PHM layer.

Each function gives H the variance that its namesake gives a weight of the same size, by drawing the
components and leaving the rule as it is. The draw is normalised twice, because H has few free parameters:
components are made orthogonal to each other, so that every output and input segment gets its share under a
rule in normal form, and scaled so that the mean square of the realised H is the wanted variance exactly.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from onenth.nn.linear import PHMLinear

Draw = Callable[[Tensor], object]


def normal_(layer: "PHMLinear", std: float = 1.0) -> None:
    """H with elements of variance std²."""
    _fill(layer, abs(std) * std, lambda S: nn.init.normal_(S, std=std))


def uniform_(layer: "PHMLinear", bound: float) -> None:
    """H with the variance of U(-bound, bound)."""
    _fill(layer, abs(bound) * bound / 3, lambda S: nn.init.uniform_(S, -bound, bound))


def xavier_uniform_(layer: "PHMLinear", gain: float = 1.0) -> None:
    """Glorot and Bengio (2010), from a uniform distribution."""
    uniform_(layer, gain * math.sqrt(6 / (layer.in_features + layer.out_features)))


def xavier_normal_(layer: "PHMLinear", gain: float = 1.0) -> None:
    """Glorot and Bengio (2010), from a normal distribution."""
    normal_(layer, gain * math.sqrt(2 / (layer.in_features + layer.out_features)))


def kaiming_uniform_(
    layer: "PHMLinear", a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> None:
    """He et al. (2015), from a uniform distribution; `nn.Linear` starts with a=√5."""
    uniform_(layer, math.sqrt(3) * _kaiming_std(layer, a, mode, nonlinearity))


def kaiming_normal_(
    layer: "PHMLinear", a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> None:
    """He et al. (2015), from a normal distribution."""
    normal_(layer, _kaiming_std(layer, a, mode, nonlinearity))


@torch.no_grad()
def zeros_(layer: "PHMLinear") -> None:
    """H of zeros, as the last layer of a residual branch may start; the rule can still learn from S."""
    _parts(layer)[0].zero_()


def _kaiming_std(layer: "PHMLinear", a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f'mode={mode!r} is unknown: write "fan_in" or "fan_out"')
    fan = layer.in_features if mode == "fan_in" else layer.out_features
    return nn.init.calculate_gain(nonlinearity, a) / math.sqrt(fan)  # type: ignore[arg-type]


@torch.no_grad()
def _fill(layer: "PHMLinear", variance: float, draw: Draw) -> None:
    parts = _parts(layer)
    if not 0 < variance < math.inf:
        raise ValueError(f"a variance of {variance} cannot be drawn: it must be positive and finite")
    if any(part.is_meta for part in parts):
        return
    if layer.rule.is_one and len(parts) == 1:
        draw(parts[0][0])  # as nn.Linear does, to the bit
        return
    drawn = [torch.empty_like(part, dtype=torch.promote_types(part.dtype, torch.float32)) for part in parts]
    for part in drawn:
        draw(part)
    if len(drawn) == 1:
        drawn = [_orthogonal_terms(drawn[0])]
    S = drawn[0] if len(drawn) == 1 else drawn[0] @ drawn[1]
    realised = _mean_square(layer.rule.tensor().to(S.dtype), S)
    if not 0 < realised < math.inf:
        raise ValueError("the rule is zero or not finite: call its reset_parameters() before the layer's")
    for part, values in zip(parts, drawn, strict=True):
        part.copy_(values * (variance / realised) ** (0.5 / len(parts)))


def _parts(layer: "PHMLinear") -> list[nn.Parameter]:
    """[S], or [s, t]."""
    if not hasattr(layer, "rule"):
        raise TypeError(f"this initialises PHM layers, not {type(layer).__name__}: use torch.nn.init for it")
    return [part for name, part in layer.named_parameters(recurse=False) if name != "bias"]


def _orthogonal_terms(S: Tensor) -> Tensor:
    """The nearest components with ⟨S_i, S_j⟩ = 0, where they are long enough to stay what was drawn."""
    flat = S.flatten(1)
    if flat.shape[1] < 4 * flat.shape[0]:
        return S
    values, vectors = torch.linalg.eigh(flat @ flat.mT / flat.shape[1])
    return ((vectors * values.rsqrt()) @ vectors.mT @ flat).view_as(S)


def _mean_square(A: Tensor, S: Tensor) -> float:
    """The mean square of H's elements: Σ_ij ⟨A_i, A_j⟩⟨S_i, S_j⟩ over kd, without building H."""
    A, S = A.flatten(1), S.flatten(1)
    total = (A @ A.mT) * (S @ S.mT)
    return total.sum().item() / (A.shape[1] * S.shape[1])

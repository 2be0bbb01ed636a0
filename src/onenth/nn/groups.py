"""Learning rates under which a step of any parameter moves H as far as a step of a dense weight would."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from onenth.nn.linear import PHMLinear


def param_groups(model: nn.Module, lr: float, weight_decay: float = 0.0) -> list[dict[str, Any]]:
    """Parameter groups for an optimiser with steps of the size of its learning rate (Adam and its kin).

    A step of ±lr on every element of a dense weight changes it by lr. The same step on a rule or on
    components changes H by a multiple of lr, which depends on the size of what it is multiplied with: the
    learning rate of each is divided by that multiple, as it is now (so call this after initialising). A rule
    shared by several layers gets the root mean square over them. Rules are not decayed: only their direction
    matters, and the components carry the size. All other parameters get `lr` and `weight_decay`.

    Example:
        >>> model = PHMLinear(512, 2048, n=4)
        >>> optimizer = torch.optim.AdamW(param_groups(model, lr=1e-3, weight_decay=0.01))
    """
    if not 0 <= lr < math.inf or not 0 <= weight_decay < math.inf:
        raise ValueError(f"lr={lr} and weight_decay={weight_decay} must be finite and not negative")
    squares: dict[nn.Parameter, list[float]] = {}
    rules: set[nn.Parameter] = set()
    for module in model.modules():
        if isinstance(module, PHMLinear):
            rules.update(module.rule.parameters())
            for parameter, square in _squares(module):
                squares.setdefault(parameter, []).append(square)

    groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for parameter in model.parameters():
        own = squares.get(parameter, [1.0])
        scale = float(f"{(sum(own) / len(own)) ** 0.5:.3g}")  # layers of one kind in one group
        if not math.isfinite(scale):
            raise ValueError("a rule or components are not finite: initialise or load the model first")
        groups.setdefault((lr / scale if scale else lr, parameter in rules), []).append(parameter)
    return [
        {"params": found, "lr": rate, "weight_decay": 0.0 if of_rules else weight_decay}
        for (rate, of_rules), found in groups.items()
    ]


@torch.no_grad()
def _squares(layer: PHMLinear) -> list[tuple[nn.Parameter, float]]:
    """For each parameter the mean square of H's change when each of its elements moves by ±1 at random."""
    rule, S = layer.rule, _whole(layer.components())
    A = rule.tensor().square().mean((1, 2))  # over H, for each term: A_i²
    sizes = S.square().mean((1, 2))  # S_i²
    found: dict[str, Tensor] = {"rule.A": sizes.sum()}
    if layer.component_rank is None:
        found["S"] = A.sum()
    else:
        found["s"] = A @ _whole(layer.t).square().sum(1).mean(1)
        found["t"] = A @ _whole(layer.s).square().sum(2).mean(1)
    factors = rule.factors()
    if factors is not None:
        U, V, W = factors
        products = sizes if W is None else (W @ S.flatten(1)).square().mean(1)  # S̃_r²
        V = torch.eye(rule.n_in, dtype=S.dtype, device=S.device) if V is None else V
        left, right = U.square().mean(0), V.square().mean(1)
        found |= {"rule.U": right @ products, "rule.V": left @ products}
        found["rule.W"] = (left @ right) * sizes.sum()
    return [(parameter, found[name].item()) for name, parameter in layer.named_parameters() if name in found]


def _whole(tensor: Tensor) -> Tensor:
    """The tensor itself, gathered where it is sharded."""
    gathered: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return gathered

"""Optimisers and learning rates, as the settings of a recipe name them."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from onenth.lab.recipe import Training
from onenth.nn import param_groups


def optimizer(model: nn.Module, training: Training, device: torch.device) -> torch.optim.Optimizer:
    """Fused: it takes a flag on the device, `found_inf`, and with it set leaves everything as it is.

    Each group keeps its highest rate as `peak`.
    """
    groups = groups_of(model, training)
    for group in groups:
        group["peak"] = group["lr"]
        if training.speed == "capture":
            group["lr"] = torch.tensor(group["lr"], device=device)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[training.optimizer]
    captured = training.speed == "capture"
    betas = training.beta1, training.beta2
    return kind(groups, betas=betas, eps=training.epsilon, fused=True, capturable=captured)


def groups_of(model: nn.Module, training: Training) -> list[dict[str, Any]]:
    """Parameters with their highest learning rate and their weight decay."""
    groups = param_groups(model, training.learning_rate, training.weight_decay)
    if training.rates == "same":
        for group in groups:
            group["lr"] = training.learning_rate
    return groups


def schedule(training: Training, step: int) -> float:
    """The share of the highest rate at a step, counted from 1.

    Example:
        >>> import dataclasses
        >>> from onenth.lab.tasks import recipes
        >>> own = dataclasses.replace(recipes()["agreement/paper/n4"].training, warmup=100)
        >>> [schedule(own, step) for step in (1, 50, 100, 400)]
        [0.01, 0.5, 1.0, 0.5]
    """
    if step < training.warmup:
        return step / training.warmup
    if training.decay == "inverse-sqrt":
        return math.sqrt(training.warmup / step)
    if training.decay == "linear":
        return (training.steps + 1 - step) / (training.steps + 1 - training.warmup)
    return 1.0


def set_rate(optimizer: torch.optim.Optimizer, share: float) -> None:
    """Gives every group that share of its highest rate."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(share * group["peak"])
        else:
            group["lr"] = share * group["peak"]

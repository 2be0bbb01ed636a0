"""A PHM layer beside nn.Linear on this machine: is it right, and how long does it take?"""

import json
from typing import Any

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from onenth import PHMLinear
from onenth.lab.errors import Problem
from onenth.lab.measure.timing import Action, cell, contest

_DENSE = "nn.Linear"


def measure(
    d: int, k: int, rows: int, phm: dict[str, Any], device: torch.device, rounds: int
) -> dict[str, list[dict[str, Any]]]:
    """Milliseconds of a forward and of a training step, and their ratios to those of nn.Linear."""
    try:
        layers = {_DENSE: nn.Linear(d, k, device=device), "PHMLinear": PHMLinear(d, k, device=device, **phm)}
    except (ValueError, TypeError) as error:
        raise Problem(str(error)) from error
    x = torch.randn(rows, d, device=device)
    _check(layers["PHMLinear"], x)
    forward = {name: _forward(layer, x) for name, layer in layers.items()}
    steps = {name: _step(layer, x) for name, layer in layers.items()}
    return {"forward": contest(forward, rounds), "training step": contest(steps, rounds)}


def show(found: dict[str, list[dict[str, Any]]], as_json: bool) -> None:
    """Prints what was measured on stdout."""
    if as_json:
        print(json.dumps(found, indent=2))
        return
    grid = Table("", "layer", "ms", f"of {_DENSE}", box=box.SIMPLE, padding=(0, 1, 0, 0))
    for what, rows in found.items():
        for row in rows:
            grid.add_row(what, row["name"], f"{row['ms']:.3f}", cell(row))
    Console(highlight=False, soft_wrap=True).print(grid)


@torch.no_grad()
def _check(layer: Any, x: Tensor) -> None:
    """What is wrong is not timed."""
    wanted = nn.functional.linear(x.double(), layer.weight.double(), layer.bias.double())
    error = ((layer(x) - wanted).norm() / wanted.norm()).item()
    if not error < 1e-4:
        raise Problem(f"the layer is wrong by {error:.1e}, so it is not timed")


def _forward(layer: nn.Module, x: Tensor) -> Action:
    @torch.no_grad()
    def run() -> None:
        layer(x)
        _wait(x)

    return run


def _step(layer: nn.Module, x: Tensor) -> Action:
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-6, fused=True)
    own = x.clone().requires_grad_()

    def run() -> None:
        optimizer.zero_grad()
        own.grad = None
        layer(own).square().mean().backward()
        optimizer.step()
        _wait(x)

    return run


def _wait(x: Tensor) -> None:
    if x.is_cuda:
        torch.cuda.synchronize(x.device)

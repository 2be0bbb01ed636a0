"""Recipes that cannot be: told before anything is read or written."""

import math
from collections.abc import Iterator
from typing import Any

import torch

from onenth.lab.errors import Problem
from onenth.lab.recipe import Recipe
from onenth.lab.settings import settings
from onenth.lab.tasks import TASKS

_AT_LEAST = {
    "training.steps": 1, "training.batch_tokens": 1, "training.warmup": 0, "training.weight_decay": 0,
    "training.accumulate": 1, "training.longest": 1, "training.average": 1, "training.save_every": 1,
    "training.evaluate_every": 1, "training.patience": 1, "training.report_every": 1, "training.most_bad": 1,
    "training.workers": 0, "training.beta1": 0, "training.beta2": 0, "training.label_smoothing": 0,
    "model.vocabulary": 5, "model.dropout": 0, "model.hidden": 1, "model.filter": 1, "model.heads": 1,
    "model.layers": 1, "model.positions": 1,
    "search.beam": 1, "search.alpha": 0, "search.more": 0, "search.tokens": 1,
}  # fmt: skip
_ABOVE = {"training.learning_rate": 0, "training.epsilon": 0, "training.clip": 0}
_BELOW = {
    "training.beta1": 1, "training.beta2": 1, "training.label_smoothing": 1, "model.dropout": 1,
}  # fmt: skip


def check(recipe: Recipe) -> None:
    """Raises a Problem that names every setting that is out of bounds, or what the layers refuse."""
    values = {own.path: own.value for own in settings(recipe)}
    if wrong := [*_out_of_bounds(values)]:
        raise Problem(f"the recipe {recipe.name} cannot be: " + "; ".join(wrong))
    try:
        with torch.device("meta"):
            TASKS[recipe.task].model(recipe.model)
    except (ValueError, TypeError) as error:
        raise Problem(f"the recipe {recipe.name} cannot be: {error}") from error


def _out_of_bounds(values: dict[str, Any]) -> Iterator[str]:
    for path, value in values.items():
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        if not math.isfinite(value):
            yield f"{path}={value} must be finite"
        elif path in _AT_LEAST and value < _AT_LEAST[path]:
            yield f"{path}={value} must be at least {_AT_LEAST[path]}"
        elif path in _ABOVE and value <= _ABOVE[path]:
            yield f"{path}={value} must be above {_ABOVE[path]}"
        elif path in _BELOW and value >= _BELOW[path]:
            yield f"{path}={value} must be below {_BELOW[path]}"
    warmup, steps, decay = (values[f"training.{name}"] for name in ("warmup", "steps", "decay"))
    if warmup == 0 and decay == "inverse-sqrt":
        yield "training.warmup=0 leaves training.decay=inverse-sqrt without a start: write constant or linear"
    if warmup > steps and decay == "linear":
        yield f"training.warmup={warmup} leaves no step for training.decay=linear: training.steps={steps}"
    vocabulary, beam = values["model.vocabulary"], values.get("search.beam", 1)
    if beam > vocabulary:
        yield f"search.beam={beam} must be at most model.vocabulary={vocabulary}"

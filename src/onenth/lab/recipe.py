"""A recipe: everything that decides what a run comes to, in one frozen value.

Recipes are made by functions in the rooms of `onenth.lab.tasks`, and varied by `dataclasses.replace`, or by
path with `onenth.lab.settings`.
"""

from dataclasses import dataclass, field
from typing import Any, Literal


def setting(about: str, **default: Any) -> Any:
    """A field that can say what it is."""
    return field(metadata={"about": about}, **default)


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a model is trained.

    The learning rate rises for `warmup` steps to `learning_rate`, and falls after them, with decay:

        inverse-sqrt   rate(step) = learning_rate · √(warmup / step)
        linear         rate(step) = learning_rate · (steps + 1 − step) / (steps + 1 − warmup)
        constant       rate(step) = learning_rate
    """

    steps: int = setting("steps of the optimiser")
    batch_tokens: int = setting("tokens of a batch, padding included, over all ranks")
    learning_rate: float = setting("the highest, that of the last step of the warm-up")
    warmup: int = setting("steps of the warm-up")
    decay: Literal["inverse-sqrt", "linear", "constant"] = setting(
        "how the rate falls after them", default="inverse-sqrt"
    )
    optimizer: Literal["adam", "adamw"] = setting("the optimiser", default="adam")
    beta1: float = setting("of Adam", default=0.9)
    beta2: float = setting("of Adam", default=0.997)
    epsilon: float = setting("of Adam", default=1e-9)
    weight_decay: float = setting("of all parameters but rules", default=0.0)
    rates: Literal["same", "even"] = setting(
        "same: one rate for all; even: rules and components move H as far as a dense weight moves",
        default="same",
    )
    clip: float | None = setting("the largest norm of the gradient", default=None)
    label_smoothing: float = setting("of the targets", default=0.0)
    accumulate: int = setting("batches of a step", default=1)
    longest: int = setting("rows of more tokens are left out of training", default=256)
    average: int = setting("checkpoints whose mean is the model in the end", default=1)
    save_every: int = setting("steps between two checkpoints", default=1000)
    evaluate_every: int = setting("steps between two looks at the development set", default=1000)
    patience: int | None = setting("looks without a lower loss before it stops early", default=None)
    report_every: int = setting("steps between two lines of the log", default=50)
    most_bad: int = setting("batches without a finite loss and gradient before it gives up", default=10)
    precision: Literal["float32", "bfloat16", "float64"] = setting(
        "bfloat16: autocast, with parameters in float32", default="float32"
    )
    speed: Literal["eager", "compile", "capture"] = setting(
        "compile: torch.compile; capture: CUDA graphs; both with batches of fixed shapes", default="eager"
    )
    parallel: Literal["ddp", "fsdp"] = setting("what several ranks do", default="ddp")
    workers: int = setting("processes that prepare batches", default=0)
    deterministic: bool = setting("refuse operations that differ from run to run", default=False)


@dataclass(frozen=True, kw_only=True)
class Search:
    """How texts are decoded."""

    beam: int = setting("hypotheses of a sentence", default=5)
    alpha: float = setting("exponent of the length penalty", default=0.6)
    more: int = setting("tokens that a text may have beyond those of its source", default=50)
    tokens: int = setting("source tokens that are decoded at once, padding included", default=2048)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One row of a table, to be run.

    Args:
        name: task/setup/variant, followed by what was set by hand.
        model: `vocabulary` is the most entries; what the data give takes its place.
        search: None where nothing is decoded.
    """

    name: str
    task: str
    model: Any  # a configuration of onenth.models
    training: Training
    search: Search | None = None

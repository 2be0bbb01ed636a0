"""What the laboratory asks of a task."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from onenth.lab.data.batches import Examples
from onenth.lab.data.splits import Splits
from onenth.lab.data.vocabulary import Vocabulary
from onenth.lab.recipe import Recipe


@dataclass(frozen=True)
class Measured:
    """What a model is worth on some rows.

    Args:
        metrics: by name; what they are made of, too.
        lines: for each row its numbers, a tab, and what the model gave.
    """

    metrics: dict[str, Any]
    lines: list[str]


class Task(Protocol):
    """A task: from files or its embedded corpus to figures.

    `metric` names the figure that counts, `paper` holds it as printed, by variant.
    """

    name: str
    title: str
    metric: str
    paper: ClassVar[dict[str, float]]

    def corpus(self) -> Splits[Any]:
        """The embedded one."""

    def read(self, folder: Path) -> Splits[Any]:
        """Somebody's files."""

    def vocabulary(self, rows: Iterable[Any], most: int, cache: Path) -> Vocabulary:
        """Of the training set, of so many entries at most."""

    def examples(self, rows: Iterable[Any], vocabulary: Vocabulary) -> Examples: ...

    def model(self, config: Any) -> nn.Module: ...

    def load(self, folder: Path) -> nn.Module: ...

    def logits(self, model: nn.Module, tensors: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Logits (…, classes) of a batch, and the labels (…) they should have."""

    def measure(
        self,
        model: nn.Module,
        rows: Sequence[Any],
        vocabulary: Vocabulary,
        recipe: Recipe,
        device: torch.device,
    ) -> Measured: ...

    def numbers(self, line: str) -> list[int]:
        """Those of a line that `measure` gave: whether it is right, or what BLEU counts."""

    def baselines(self, splits: Splits[Any]) -> dict[str, float]:
        """What simple ways to answer reach on the test set."""

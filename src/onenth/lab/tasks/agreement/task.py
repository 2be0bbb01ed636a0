"""Agreement as a task: prefixes in, a number out."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from onenth.lab.data.encoded import Encoded
from onenth.lab.data.splits import Splits
from onenth.lab.data.vocabulary import Vocabulary, Words
from onenth.lab.engine.step import IGNORED
from onenth.lab.engine.validate import by_length
from onenth.lab.measure.accuracy import accuracy, by
from onenth.lab.recipe import Recipe
from onenth.lab.tasks.agreement import grammar, reader
from onenth.lab.tasks.agreement.rows import Sentence
from onenth.lab.tasks.task import Measured
from onenth.models import SequenceClassifier, SequenceConfig

LABELS = "VBZ", "VBP"  # singular, plural


class Prefixes:
    """Prefixes of sentences with their labels."""

    def __init__(self, rows: Iterable[Sentence], vocabulary: Vocabulary) -> None:
        self._words = Encoded.of(vocabulary.encode(row.words) for row in rows)
        self._labels = np.array([row.plural for row in rows], dtype=np.int64)
        self.lengths = self._words.lengths
        self.counts = np.ones_like(self._labels)

    def collate(self, rows: np.ndarray, length: int | None = None) -> dict[str, Tensor]:
        labels = np.where(rows < 0, IGNORED, self._labels[rows])
        return {"ids": self._words.padded(rows, length), "labels": torch.from_numpy(labels)}


class Agreement:
    """The task; `Task` says what its parts are for."""

    name = "agreement"
    title = "Subject-verb agreement"
    metric = "accuracy"
    paper: ClassVar[dict[str, float]] = {
        "dense": 94.80,
        "quaternion": 94.70,
        "n2": 95.14,
        "n4": 95.05,
        "n8": 95.62,
    }

    def corpus(self) -> Splits[Sentence]:
        return grammar.corpus()

    def read(self, folder: Path) -> Splits[Sentence]:
        return reader.read(folder)

    def vocabulary(self, rows: Iterable[Sentence], most: int, cache: Path) -> Vocabulary:
        return Words.build((row.words for row in rows), most)

    def examples(self, rows: Iterable[Sentence], vocabulary: Vocabulary) -> Prefixes:
        return Prefixes(rows, vocabulary)

    def model(self, config: SequenceConfig) -> nn.Module:
        return SequenceClassifier(config)

    def load(self, folder: Path) -> nn.Module:
        return SequenceClassifier.from_pretrained(folder)

    def logits(self, model: nn.Module, tensors: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        return model(tensors["ids"]), tensors["labels"]

    @torch.no_grad()
    def measure(
        self,
        model: nn.Module,
        rows: Sequence[Sentence],
        vocabulary: Vocabulary,
        recipe: Recipe,
        device: torch.device,
    ) -> Measured:
        """Accuracy in percent, of all and by the number of attractors."""
        examples = self.examples(rows, vocabulary)
        plural = np.zeros(len(rows), dtype=bool)
        for part in by_length(examples.lengths, recipe.training.batch_tokens):
            logits = model(examples.collate(part)["ids"].to(device))
            plural[part] = logits.argmax(1).cpu().numpy() == 1
        right = [bool(found) == row.plural for found, row in zip(plural, rows, strict=True)]
        attractors = by([row.attractors for row in rows], right)
        lines = [
            f"{int(ok)} {'-' if row.attractors is None else row.attractors}\t{LABELS[int(found)]}"
            for ok, row, found in zip(right, rows, plural, strict=True)
        ]
        metrics: dict[str, Any] = {"accuracy": accuracy(right)}
        metrics["attractors"] = {key: {"accuracy": own, "rows": n} for key, (own, n) in attractors.items()}
        return Measured(metrics, lines)

    def numbers(self, line: str) -> list[int]:
        return [int(line[0])]

    def baselines(self, splits: Splits[Sentence]) -> dict[str, float]:
        return grammar.baselines(splits.test)


AGREEMENT = Agreement()

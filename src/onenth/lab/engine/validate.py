"""A look at rows that are not trained on: their loss, and how many targets are the likeliest."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from onenth.lab.data.batches import Examples
from onenth.lab.engine.step import IGNORED, Logits


class Look(NamedTuple):
    loss: float  # cross entropy of a target
    accuracy: float  # of the targets, in percent


@torch.no_grad()
def validate(
    model: nn.Module, examples: Examples, logits: Logits, tokens: int, device: torch.device, low: bool
) -> Look:
    """Without dropout and without label smoothing; `tokens` of a batch, padding included."""
    training = model.training
    model.eval()
    loss, right = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.int64)
    for rows in by_length(examples.lengths, tokens):
        tensors = {name: own.to(device) for name, own in examples.collate(rows).items()}
        with torch.autocast(device.type, torch.bfloat16, enabled=low):
            found, labels = logits(model, tensors)
        one, other = _sums(found.flatten(0, -2), labels.flatten())
        loss += one.cpu()
        right += other.cpu()
    model.train(training)
    targets = int(examples.counts.sum())
    return Look(loss.item() / targets, 100 * right.item() / targets)


def by_length(lengths: np.ndarray, tokens: int) -> Iterator[np.ndarray]:
    """All rows, short ones first, in batches of at most so many tokens, padding included."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and (end + 1 - start) * lengths[order[end]] <= tokens:
            end += 1
        yield order[start:end]
        start = end


def _sums(found: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    loss = nn.functional.cross_entropy(found.double(), labels, ignore_index=IGNORED, reduction="sum")
    right = ((found.argmax(1) == labels) & (labels != IGNORED)).sum()
    return loss, right

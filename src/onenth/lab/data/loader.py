"""Batches one after another, prepared here or by worker processes, from any step on."""

import signal
from collections.abc import Iterator
from itertools import count
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from onenth.lab.data.batches import Batch, Batches


def stream(batches: Batches, start: int, workers: int) -> Iterator[Batch]:
    """Batch `start` of a run, and all after it, without an end."""
    if not workers:
        return map(_Numbered(batches).__getitem__, count(start))
    loader: DataLoader[Batch] = DataLoader(
        _Numbered(batches),
        batch_size=None,
        sampler=_From(start),
        collate_fn=_same,
        num_workers=workers,
        worker_init_fn=_work,
        generator=torch.Generator(),  # its own: starting workers must not draw from the one of the model
    )
    return iter(loader)


class _From(Sampler[int]):
    """start, start + 1, …"""

    def __init__(self, start: int) -> None:
        self.start = start

    def __iter__(self) -> Iterator[int]:
        return count(self.start)


class _Numbered(Dataset[Batch]):
    """Batch k of a run. The plan of an epoch is kept until another is asked for."""

    def __init__(self, batches: Batches) -> None:
        self.batches, self.size = batches, len(batches)
        self.epoch, self.planned = -1, batches.plan(0)[:0]

    def __getitem__(self, number: int) -> Batch:
        epoch, index = divmod(number, self.size)
        if epoch != self.epoch:
            self.epoch, self.planned = epoch, self.batches.plan(epoch)
        return self.batches.make(*self.planned[index])


def _same(batch: Any) -> Any:
    return batch


def _work(worker: int) -> None:
    """Workers end with the run, not by the signals that it answers."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

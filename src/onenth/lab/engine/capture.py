"""Steps as CUDA graphs: where kernels are small, launching them takes longer than running them."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Run = Callable[[list[dict[str, Tensor]], Tensor], tuple[Tensor, ...]]


class _Graph(NamedTuple):
    graph: torch.cuda.CUDAGraph
    tensors: list[dict[str, Tensor]]  # what the graph reads
    numbers: Tensor
    found: tuple[Tensor, ...]  # what it writes


class Captured:
    """A step that is captured once for every shape of its batches, and replayed from then on.

    The first step of a shape runs as it is, which makes all that a step makes only once; the second is
    captured. All graphs take their memory from one pool, as only one of them runs at a time.
    """

    def __init__(self, run: Run, device: torch.device) -> None:
        self._run = run
        self._stream = torch.cuda.Stream(device)
        self._seen: set[object] = set()
        self._graphs: dict[object, _Graph] = {}

    def __call__(self, tensors: list[dict[str, Tensor]], numbers: Tensor) -> tuple[Tensor, ...]:
        shapes = tuple(tuple((name, own.shape) for name, own in batch.items()) for batch in tensors)
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            if shapes not in self._seen:
                self._seen.add(shapes)
                found = self._run(tensors, numbers)
            else:
                if shapes not in self._graphs:
                    self._graphs[shapes] = self._capture(tensors, numbers)
                found = self._replay(self._graphs[shapes], tensors, numbers)
        torch.cuda.current_stream().wait_stream(self._stream)
        return found

    def _capture(self, tensors: list[dict[str, Tensor]], numbers: Tensor) -> _Graph:
        graph = torch.cuda.CUDAGraph()
        own = [{name: value.clone() for name, value in batch.items()} for batch in tensors]
        own_numbers = numbers.clone()
        pool = next(iter(self._graphs.values())).graph.pool() if self._graphs else None
        with torch.cuda.graph(graph, pool=pool, stream=self._stream):
            found = self._run(own, own_numbers)
        return _Graph(graph, own, own_numbers, found)

    @staticmethod
    def _replay(held: _Graph, tensors: list[dict[str, Tensor]], numbers: Tensor) -> tuple[Tensor, ...]:
        for own, given in zip(held.tensors, tensors, strict=True):
            for name, value in given.items():
                own[name].copy_(value)
        held.numbers.copy_(numbers)
        held.graph.replay()
        return tuple(value.clone() for value in held.found)

"""Memory for what a path makes on its way, kept from call to call.

A page that the system gives anew costs more than writing it does. On a CPU, H and mixed activations are made
in this memory instead, a piece at a time; each thread has its own.
"""

import math
import threading

import torch
from torch import Tensor, nn


class _Kept(threading.local):
    def __init__(self) -> None:
        self.buffers: dict[torch.dtype, Tensor] = {}


_kept = _Kept()


def scratch(like: Tensor, *shapes: tuple[int, ...]) -> list[Tensor]:
    """Uninitialised tensors of these shapes, in the precision of `like`, valid until the next call."""
    sizes = [math.prod(shape) for shape in shapes]
    buffer = _buffer(like, sum(sizes))[: sum(sizes)]
    return [part.view(shape) for part, shape in zip(buffer.split(sizes), shapes, strict=True)]


def release() -> None:
    """Gives back what this thread keeps."""
    _kept.buffers.clear()


def _buffer(like: Tensor, size: int) -> Tensor:
    if type(like) not in (Tensor, nn.Parameter):  # fake tensors and their like must not meet real ones
        return like.new_empty(size)
    buffer = _kept.buffers.get(like.dtype)
    if buffer is None or buffer.numel() < size:
        with torch.inference_mode(False):  # it will serve outside of it as well
            buffer = _kept.buffers[like.dtype] = torch.empty(size, dtype=like.dtype)
    return buffer

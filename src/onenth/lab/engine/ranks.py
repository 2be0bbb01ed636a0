"""The processes that train together: one, or those that torchrun starts."""

import contextlib
import gc
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from onenth.lab.errors import Problem
from onenth.sharding import shard

_PATIENCE = timedelta(minutes=30)  # the first rank evaluates while the others wait


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together."""

    rank: int
    count: int
    device: torch.device

    @property
    def first(self) -> bool:
        return self.rank == 0

    def wrap(self, model: nn.Module, parallel: str) -> nn.Module:
        """The model as it is trained: by itself, replicated, or sharded in place."""
        if self.count == 1:
            return model
        if parallel == "ddp":
            return DistributedDataParallel(model, forward_sync_buffers=False)
        shard(model, init_device_mesh(self.device.type, (self.count,)))
        return model

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, in place."""
        if self.count > 1:
            dist.all_reduce(tensor)
        return tensor

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all ranks, of one shape; on the CPU."""
        if self.count == 1:
            return [tensor.cpu()]
        own = tensor.to(self.device)
        found = [torch.empty_like(own) for _ in range(self.count)]
        dist.all_gather(found, own)
        return [each.cpu() for each in found]

    def agree(self, verdict: bool) -> bool:
        """The first rank's verdict, for all: what lies in a folder may change between two looks at it."""
        return bool(self.sum(torch.tensor([float(verdict and self.first)], device=self.device)))

    def barrier(self) -> None:
        self.sum(torch.zeros(1, device=self.device))


@contextlib.contextmanager
def joined(device: torch.device) -> Iterator[Ranks]:
    """The ranks of torchrun, of whose variables RANK, WORLD_SIZE and LOCAL_RANK tell; or one alone."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Ranks(0, 1, device)
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        if device.index >= torch.cuda.device_count():
            raise Problem(
                f"rank {device.index} of this machine has no GPU: there are {torch.cuda.device_count()}; "
                "start fewer processes, or train with --device cpu"
            )
        torch.cuda.set_device(device)
    own = device if device.type == "cuda" else None
    dist.init_process_group("nccl" if own else "gloo", timeout=_PATIENCE, device_id=own)
    try:
        yield Ranks(dist.get_rank(), count, device)
    finally:
        gc.collect()  # models that are sharded hold the group
        dist.destroy_process_group()


def whole(tensor: Tensor) -> Tensor:
    """A tensor's values, gathered from all ranks where it is sharded: then all have to ask."""
    if isinstance(tensor, DTensor):
        return tensor.full_tensor()
    return tensor


def place(target: Tensor, values: Tensor) -> None:
    """Puts whole values, which every rank has, into a tensor, sharded as that one is."""
    with torch.no_grad():
        if isinstance(target, DTensor):
            mesh, placements = target.device_mesh, target.placements
            own: Any = distribute_tensor(values.to(target.device), mesh, placements, src_data_rank=None)
            target.copy_(own)
        else:
            target.copy_(values)

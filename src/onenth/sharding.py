"""PHM layers under FSDP2: components are sharded, rules are whole on every rank."""

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Variable
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from onenth.nn import PHMLinear
from onenth.rule import Rule


def shard(model: nn.Module, mesh: DeviceMesh, **options: Any) -> None:
    """`torch.distributed.fsdp.fully_shard` for a model with PHM layers, in place.

    Components S (terms, k/n, d/n) are sharded over their outputs o where these divide evenly, so that each
    rank holds whole terms' slices; other parameters as usual. Rules are n³ numbers or fewer and often shared:
    they stay whole on every rank, and their gradients are averaged at the end of a backward. Call it once on
    the whole model; further options go to `fully_shard`. Optimise with `onenth.param_groups`, which keeps
    sharded and whole parameters in different groups, and clip with `clip_grad_norm_` from here.
    """
    group = mesh.get_group()
    ranks = mesh.size()
    owners = [module for module in model.modules() if isinstance(module, Rule)]
    rules = dict.fromkeys(own for rule in owners for own in rule.parameters())  # the same order on every rank

    waiting: set[Tensor] = set()

    def average() -> None:
        own = [parameter for parameter in rules if parameter in waiting]
        waiting.clear()
        for grads in _by_dtype([_grad(parameter) for parameter in own]):
            together = torch.cat([grad.flatten() for grad in grads])
            dist.all_reduce(together, group=group)
            together /= ranks
            for grad, mean in zip(grads, together.split([grad.numel() for grad in grads]), strict=True):
                grad.copy_(mean.view_as(grad))

    def arrived(parameter: Tensor) -> None:
        if not waiting:  # they meet once, at the end of the backward, in the order of the model
            Variable._execution_engine.queue_callback(average)
        waiting.add(parameter)

    for parameter in rules:
        dist.broadcast(parameter.data, src=dist.get_global_rank(group, 0), group=group)
        parameter.register_post_accumulate_grad_hook(arrived)

    components = {
        layer.S for layer in model.modules() if isinstance(layer, PHMLinear) and hasattr(layer, "S")
    }

    def placement(parameter: nn.Parameter) -> Shard | None:
        return Shard(1) if parameter in components and parameter.shape[1] % ranks == 0 else None

    fully_shard(model, mesh=mesh, ignored_params=set(rules), shard_placement_fn=placement, **options)


def clip_grad_norm_(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """`torch.nn.utils.clip_grad_norm_` over sharded and whole parameters; returns the norm before."""
    own = list(parameters)
    total = total_norm(own)
    clip_grads(own, max_norm, total)
    return total


def total_norm(parameters: Iterable[Tensor]) -> Tensor:
    """The norm of all gradients, sharded and whole."""
    norms = [get_total_norm([_grad(own) for own in part]) for part in _parts(parameters)]
    if not norms:
        return torch.zeros(())
    return torch.stack([norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]).norm()


def clip_grads(parameters: Iterable[Tensor], max_norm: float, total: Tensor) -> None:
    """Scales gradients of the norm `total` down to max_norm, where they are larger."""
    for part in _parts(parameters):
        clip_grads_with_norm_(part, max_norm, total)


def _parts(parameters: Iterable[Tensor]) -> Iterable[list[Tensor]]:
    """Parameters with gradients, the sharded and the whole ones: torch takes no mixture."""
    parts: dict[bool, list[Tensor]] = {}
    for parameter in parameters:
        if parameter.grad is not None:
            parts.setdefault(isinstance(parameter, DTensor), []).append(parameter)
    return parts.values()


def _by_dtype(grads: list[Tensor]) -> Iterable[list[Tensor]]:
    parts: dict[torch.dtype, list[Tensor]] = {}
    for grad in grads:
        parts.setdefault(grad.dtype, []).append(grad)
    return parts.values()


def _grad(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad

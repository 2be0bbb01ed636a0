"""All that a run needs to go on to the bit: parameters, the optimiser's moments, random numbers.

It is the same whatever trains it: one process may go on from what several saved, sharded or not.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from onenth.lab.engine.ranks import Ranks, place, whole
from onenth.lab.errors import Problem

Groups = dict[str, dict[str, Tensor]]


def gathered(model: nn.Module, optimizer: torch.optim.Optimizer, ranks: Ranks) -> Groups:
    """The groups of tensors of a checkpoint; every rank has to ask. `model` is without its wrapper."""
    moments = {
        f"{name}/{entry}": whole(value).detach()
        for name, parameter in model.named_parameters()
        for entry, value in sorted(optimizer.state.get(parameter, {}).items())  # alike on every rank
    }
    return {"model": parameters(model), "optimizer": moments, "random": _random(ranks)}


def parameters(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers, each once, whole."""
    return {name: whole(own).detach() for name, own in _tensors(model).items()}


def set_parameters(model: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Puts parameters and buffers in, as `parameters` names them."""
    for name, own in _tensors(model).items():
        place(own.detach(), values[name])


def restore(model: nn.Module, optimizer: torch.optim.Optimizer, groups: Groups) -> None:
    """Puts a checkpoint's groups into a model and an optimiser as they were made."""
    expected = {name: own.shape for name, own in _tensors(model).items()}
    found = {name: own.shape for name, own in groups["model"].items()}
    if expected != found:
        odd = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
        raise Problem(f"the checkpoint is of another model: {', '.join(odd[:3])} differ; name another folder")
    set_parameters(model, groups["model"])
    named = dict(model.named_parameters())
    for key, value in sorted(groups["optimizer"].items()):
        name, _, entry = key.partition("/")
        parameter = named[name]
        own = value.to(parameter.device)
        if isinstance(parameter, DTensor) and own.shape == parameter.shape:
            held = torch.zeros_like(parameter)
            place(held, own)
            own = held
        optimizer.state[parameter][entry] = own


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """Each tensor of the state under the first of its names."""
    first: dict[int, str] = {}
    state = model.state_dict(keep_vars=True)
    return {name: own for name, own in state.items() if first.setdefault(id(own), name) == name}


def _random(ranks: Ranks) -> dict[str, Tensor]:
    """The states of the generators of all ranks."""
    kinds = {"cpu": torch.get_rng_state()}
    if ranks.device.type == "cuda":
        kinds["cuda"] = torch.cuda.get_rng_state(ranks.device)
    return {
        f"{kind}/{rank}": state for kind, own in kinds.items() for rank, state in enumerate(ranks.gather(own))
    }


def set_random(ranks: Ranks, states: Mapping[str, Tensor]) -> None:
    """Ranks that were not there before keep the generators that the seed gave them."""
    if (own := states.get(f"cpu/{ranks.rank}")) is not None:
        torch.set_rng_state(own)
    if ranks.device.type == "cuda" and (own := states.get(f"cuda/{ranks.rank}")) is not None:
        torch.cuda.set_rng_state(own, ranks.device)

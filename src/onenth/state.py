"""Models in safetensors files: no pickle, a shared rule once, all or nothing on loading."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from onenth.nn.state import check_state

_TIED = "tied"  # the metadata entry that maps each further name of a shared tensor to the first


def save(model: nn.Module, path: str | os.PathLike[str]) -> None:
    """Writes the model's state, each tensor once: further names of a shared one are declared as tied.

    The file is written aside, synced and renamed, so that a crash leaves the old one or the new one, whole.
    """
    state = model.state_dict()
    _check_memory(state, "save")
    check_state(model, state, verb="save")
    first: dict[int, str] = {}
    tensors: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    for name, value in model.state_dict(keep_vars=True).items():
        owner = first.setdefault(id(value), name)
        if owner == name:
            tensors[name] = state[name].contiguous()
        else:
            tied[name] = owner
    with replacing(Path(path)) as aside:
        save_file(tensors, aside, metadata={_TIED: json.dumps(tied)})


def load(model: nn.Module, path: str | os.PathLike[str]) -> None:
    """Reads what `save` wrote into the model. Refuses a state that does not fit, and then changes nothing."""
    state = _read(path)
    _check_memory(model.state_dict(), "load")
    check_state(model, state)
    with torch.no_grad():
        model.load_state_dict(state)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, whose file takes the place of `path` at the end, on the disk too, or not at all."""
    aside = path.with_name(path.name + ".part")
    try:
        yield aside
        sync(aside)
        aside.replace(path)
        sync(path.parent)
    finally:
        aside.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Returns once the file, or the names in the folder, are on the disk."""
    folder = path.is_dir()
    if folder and os.name == "nt":
        return  # Windows opens no folders
    handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            tied = json.loads((file.metadata() or {}).get(_TIED, "{}"))
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        return state | {name: state[owner] for name, owner in tied.items() if owner in state}
    except (SafetensorError, json.JSONDecodeError, AttributeError, TypeError) as error:
        raise ValueError(f"{os.fspath(path)} is damaged or no safetensors file: {error}") from error


def _check_memory(state: dict[str, Tensor], verb: str) -> None:
    sharded = [name for name, value in state.items() if hasattr(value, "full_tensor")]
    if sharded:
        raise ValueError(f"cannot {verb}, {', '.join(sharded)} are sharded: use torch.distributed.checkpoint "
                         "or gather them with its get_model_state_dict(…, full_state_dict=True)")  # fmt: skip
    empty = [name for name, value in state.items() if value.is_meta]
    if empty:
        raise ValueError(f"cannot {verb}, {', '.join(empty)} are on the meta device: "
                         "call to_empty(device=…) and initialise or load the model first")  # fmt: skip

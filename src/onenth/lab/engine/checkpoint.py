"""Checkpoints in a folder: each is there in whole or not at all, and is checked before it is used.

`step-00000500/` holds a safetensors file for each group of tensors, `state.json` and the manifest that seals
them. It is written as `step-00000500.part`, synced and renamed. One that is saved anew stands aside as `.old`
between the two renames: who finds that alone puts it back. What is removed is first renamed to `.gone`.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse
from safetensors.torch import save as serialise
from torch import Tensor

from onenth.lab.engine.sealed import Damaged, from_json, seal, to_json, unsealed
from onenth.lab.errors import Problem
from onenth.state import sync

_FACTS = "state.json"
_TENSORS = ".safetensors"
_STEP = re.compile(r"step-(\d{8,})")
_LEFT = re.compile(r"step-\d{8,}\.(part|old|gone)")
_GROUP = re.compile(r"\w[\w-]*", re.ASCII)


@dataclass(frozen=True)
class Checkpoint:
    """What a training is at a step.

    Args:
        step: how many were done.
        folder: where it was read from.
        tensors: by group and name, on the CPU.
        facts: all else, as JSON has it.
    """

    step: int
    folder: Path
    tensors: dict[str, dict[str, Tensor]]
    facts: dict[str, Any]


class Store:
    """The checkpoints of one training, the newest `keep` of them.

    Making one puts right what a killed process left behind. So none may be made while another saves: that
    would look the same.

    Args:
        folder: of all checkpoints, made where it is missing.
        keep: how many stay; damaged ones are not counted and not removed.
        say: takes a sentence for a person.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store(Path(folder), keep=2, say=print)
        ...     for step in (100, 200, 300):
        ...         path = store.save(step, {"model": {"w": torch.full((2,), step)}}, {"loss": 1 / step})
        ...     found = store.newest()
        >>> path.name, found.step, found.tensors["model"]["w"].tolist(), found.facts
        ('step-00000300', 300, [300, 300], {'loss': 0.0033333333333333335})
    """

    def __init__(self, folder: Path, keep: int, say: Callable[[str], None]) -> None:
        if keep < 1:
            raise ValueError(f"keep is {keep}: at least one checkpoint stays")
        self.folder, self.keep, self._say = folder, keep, say
        self._damaged: set[int] = set()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._tidy()
        except OSError as error:
            raise Problem.at(folder, None, f"no place for checkpoints, {error.strerror}",
                             "name a folder that can be written") from error  # fmt: skip

    def save(self, step: int, tensors: Mapping[str, Mapping[str, Tensor]], facts: Mapping[str, Any]) -> Path:
        """Writes the checkpoint of a step, in the place of one that is there, and removes the oldest.

        Raises:
            Problem: it cannot be written; those that were there still are.
        """
        target = self._path(step)
        try:
            self._write(step, target, tensors, facts)
            self._damaged.discard(step)
            self._rotate(step)
        except OSError as error:
            reason = ", ".join(str(part) for part in (error.strerror, error.filename) if part)
            raise Problem(f"could not write {target}: {reason}: make room, or name another folder") from error
        except (ValueError, SafetensorError) as error:
            raise Problem(f"could not write {target}: {error}: save other values") from error
        return target

    def newest(self) -> Checkpoint | None:
        """The newest that is whole, or None where there is none at all. Says of each damaged one before it.

        Raises:
            Problem: there are checkpoints, all of them damaged: to start anew is for a person to choose.
        """
        steps = self.steps()
        while steps:
            try:
                return self._read(steps.pop())
            except Damaged as damage:
                if not steps:
                    raise Problem(f"{damage}; and no other is there: move it away to start anew") from damage
                self._say(f"{damage}; passing over to {self._path(steps[-1]).name}")
        return None

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, whole or not, in order."""
        names = (_STEP.fullmatch(path.name) for path in self.folder.iterdir())
        return sorted(int(name[1]) for name in names if name and name[0] == self._path(int(name[1])).name)

    def load(self, step: int) -> Checkpoint:
        """The checkpoint of a step.

        Raises:
            Problem: it is not there, or damaged.
        """
        others = [str(other) for other in self.steps() if other != step]
        remedy = f"choose another step: {', '.join(others)}" if others else "and no other step is there"
        if step not in self.steps():
            raise Problem(f"{self._path(step)} does not exist: {remedy}")
        try:
            return self._read(step)
        except Damaged as damage:
            raise Problem(f"{damage}: {remedy}") from damage

    def remove(self, step: int) -> None:
        """Takes the checkpoint of a step away."""
        _remove(self._path(step))

    def averaged(self, group: str, steps: Sequence[int]) -> dict[str, Tensor]:
        """The mean of a group's floating tensors over checkpoints, in float64, rounded at the end.

        Raises:
            Problem: a checkpoint cannot be loaded or has another layout, or other tensors differ.
        """
        if not steps:
            raise ValueError("steps is empty: there is no mean of no checkpoints")
        sums: dict[str, Tensor] = {}
        first: dict[str, Tensor] = {}
        for step in steps:
            state = self._group(step, group)
            first = first or state
            _check_alike(self._path(step), state, self._path(steps[0]), first)
            for name, value in state.items():
                if value.is_floating_point():
                    sums[name] = sums[name] + value.double() if name in sums else value.double()
        return {
            name: (sums[name] / len(steps)).to(value.dtype) if name in sums else value
            for name, value in first.items()
        }

    def _group(self, step: int, group: str) -> dict[str, Tensor]:
        tensors = self.load(step).tensors
        if group not in tensors:
            raise Problem(f"{self._path(step)} has no {group}{_TENSORS}: choose of {', '.join(tensors)}")
        return tensors[group]

    def _read(self, step: int) -> Checkpoint:
        folder = self._path(step)
        tensors: dict[str, dict[str, Tensor]] = {}
        facts = None
        try:
            for name, data in unsealed(folder, step):
                if name == _FACTS:
                    facts = from_json(folder, name, data)
                elif name.endswith(_TENSORS):
                    tensors[name.removesuffix(_TENSORS)] = _tensors(folder, name, data)
                else:
                    raise Damaged(folder, f"{name} belongs to no checkpoint")
            if not isinstance(facts, dict):
                raise Damaged(folder, f"{_FACTS} states no facts")
        except Damaged:
            self._damaged.add(step)
            raise
        return Checkpoint(step, folder, tensors, facts)

    def _write(
        self, step: int, target: Path, tensors: Mapping[str, Mapping[str, Tensor]], facts: Mapping[str, Any]
    ) -> None:
        part = target.with_suffix(".part")
        try:
            seal(part, step, _files(tensors, facts))
            if os.path.lexists(target):  # no folder is renamed onto another
                target.rename(target.with_suffix(".old"))
            part.rename(target)
            sync(self.folder)
        finally:
            self._tidy()

    def _rotate(self, saved: int) -> None:
        """Removes the oldest of those not known as damaged. The one just saved is whole, and stays."""
        sound = [step for step in self.steps() if step not in self._damaged]
        older = [step for step in sound if step != saved]
        for step in older[: max(len(sound) - self.keep, 0)]:
            _remove(self._path(step))

    def _tidy(self) -> None:
        """Removes what is no checkpoint, and puts one back that was being replaced."""
        left = {path for path in self.folder.iterdir() if _LEFT.fullmatch(path.name)}
        olds = {path for path in left if path.suffix == ".old"}
        for path in left - olds:
            shutil.rmtree(path)
        for path in olds:
            if path.with_suffix("").exists():
                _remove(path)
            else:
                path.rename(path.with_suffix(""))

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"


def _remove(path: Path) -> None:
    gone = path.with_suffix(".gone")
    path.rename(gone)
    shutil.rmtree(gone)


def _files(
    tensors: Mapping[str, Mapping[str, Tensor]], facts: Mapping[str, Any]
) -> Iterator[tuple[str, bytes]]:
    for group, named in tensors.items():
        if not _GROUP.fullmatch(group):
            raise ValueError(f"{group!r} cannot name a file")
        if "__metadata__" in named:
            raise ValueError(f"{group}: __metadata__ cannot name a tensor")
        yield group + _TENSORS, serialise(_separate(named))
    yield _FACTS, to_json(dict(facts))


def _separate(named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors on the CPU, each contiguous and in memory of its own."""
    separate: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, value in named.items():
        tensor = value.detach().cpu().contiguous()
        place = tensor.untyped_storage().data_ptr()
        separate[name] = tensor.clone() if place in seen else tensor
        seen.add(place)
    return separate


def _tensors(folder: Path, name: str, data: bytes) -> dict[str, Tensor]:
    try:
        return parse(data)
    except (SafetensorError, KeyError, ValueError) as error:
        raise Damaged(folder, f"{name} is no safetensors file, {error}") from error


def _check_alike(path: Path, state: dict[str, Tensor], where: Path, first: dict[str, Tensor]) -> None:
    layout, expected = ({n: (v.dtype, v.shape) for n, v in each.items()} for each in (state, first))
    other = sorted(n for n in layout.keys() | expected.keys() if layout.get(n) != expected.get(n))
    if not other:
        other = [n for n, v in state.items() if not v.is_floating_point() and not torch.equal(v, first[n])]
    if other:
        raise Problem(
            f"{path} has other {', '.join(other)} than {where}: average checkpoints of one training"
        )

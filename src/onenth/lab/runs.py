"""Finished runs in a folder, gathered by what was run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onenth.lab.errors import Problem
from onenth.lab.experiment import RESULT
from onenth.lab.measure import result as results
from onenth.lab.measure.bootstrap import spread
from onenth.lab.tasks import TASKS
from onenth.lab.tasks.task import Task


@dataclass(frozen=True)
class Finished:
    """A run and what it came to."""

    path: Path
    result: dict[str, Any]

    def numbers(self) -> np.ndarray:
        """What the metric is made of, for each sentence: (sentences,) answers, or (sentences, 10) counts."""
        task = TASKS[self.result["task"]]
        found = np.array([task.numbers(line) for line in results.outputs(self.path)])
        return found[:, 0] if found.shape[1] == 1 else found


@dataclass(frozen=True)
class Group:
    """The runs of one recipe on the same data, that differ by their seeds."""

    recipe: str
    runs: tuple[Finished, ...]

    @property
    def first(self) -> dict[str, Any]:
        return self.runs[0].result

    @property
    def setup(self) -> str:
        """task/setup, with what was set by hand: what variants that compare have in common."""
        name, plus, by_hand = self.recipe.partition("+")
        return name.rpartition("/")[0] + plus + by_hand

    @property
    def variant(self) -> str:
        return self.recipe.partition("+")[0].rpartition("/")[2]

    def metric(self, task: Task) -> tuple[float, float | None]:
        """Mean and standard deviation over seeds."""
        return spread([run.result["metrics"][task.metric] for run in self.runs])

    def mean(self, part: str, key: str) -> float:
        return sum(run.result[part][key] for run in self.runs) / len(self.runs)


def groups(folder: Path, task: str) -> list[Group]:
    """The runs of a task below a folder, in the order of its recipes."""
    found: dict[str, list[Finished]] = {}
    for path in _paths(folder):
        result = results.read(path)
        if result["task"] == task:
            found.setdefault(result["recipe"], []).append(Finished(path, result))
    for name, runs in found.items():
        _check_alike(name, runs)
    order = {name: number for number, name in enumerate(_order(task))}
    names = sorted(found, key=lambda name: (order.get(name.partition("+")[0], len(order)), name))
    return [Group(name, tuple(sorted(found[name], key=lambda run: run.result["seed"]))) for name in names]


def _paths(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        raise Problem.at(
            folder, None, "there is no such folder", "train something, or name the folder of the runs"
        )
    yield from sorted(folder.rglob(RESULT))


def _order(task: str) -> list[str]:
    from onenth.lab.tasks import recipes

    return [name for name, own in recipes().items() if own.task == task]


def _check_alike(name: str, runs: Sequence[Finished]) -> None:
    """Seeds of one recipe on one corpus, each once: anything else has no mean."""
    seeds: dict[int, Path] = {}
    for run in runs:
        seed, first = run.result["seed"], runs[0]
        if seed in seeds:
            raise Problem.at(
                run.path, None, f"seed {seed} of {name} is in {seeds[seed]}, too", "move one away"
            )
        if run.result["data"] != first.result["data"]:
            raise Problem.at(
                run.path, None, f"{name} was run on other data in {first.path}", "keep them in two folders"
            )
        if run.result["config"] != first.result["config"]:
            raise Problem.at(
                run.path, None, f"{name} was another recipe in {first.path}", "keep them in two folders"
            )
        seeds[seed] = run.path

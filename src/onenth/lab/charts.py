"""Pictures of runs: how they learned, and what became of them."""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onenth.lab.engine.report import lines
from onenth.lab.runs import Group
from onenth.lab.tasks import TASKS

_COLOURS = {
    "dense": "black", "quaternion": "tab:grey", "n2": "tab:cyan", "n4": "tab:blue", "n8": "tab:purple",
    "n16": "tab:brown", "n4-rank8": "tab:red", "n8-rank16": "tab:pink",
}  # fmt: skip
_OTHERS = ("tab:orange", "tab:green", "tab:olive")


def draw(groups: Sequence[Group], baselines: dict[str, float], folder: Path) -> list[Path]:
    """Writes learning curves and a bar chart of one task's groups; returns their paths."""
    task = TASKS[groups[0].first["task"]]
    figures = {f"{task.name}-learning.png": learning(groups), f"{task.name}.png": quality(groups, baselines)}
    for name, figure in figures.items():
        figure.savefig(folder / name, dpi=150)
    return [folder / name for name in figures]


def learning(groups: Sequence[Group]) -> Figure:
    """Loss in training, and on the development set, over the steps of the first seeds."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True)
    for colour, group in zip(_colours(groups), groups, strict=True):
        log = lines(group.runs[0].path.parent)
        for axis, key in ((left, "loss"), (right, "dev_accuracy")):
            points = [(line["step"], line[key]) for line in log if line.get(key) is not None]
            if points:
                axis.plot(*zip(*points, strict=True), color=colour, linewidth=1.5, label=group.variant)
    left.set(title="training", ylabel="loss", yscale="log")
    right.set(title="development set", ylabel="right targets, %")
    for axis in (left, right):
        _plain(axis)
        axis.set_xlabel("step")
    left.legend(frameon=False, fontsize=9)
    return figure


def quality(groups: Sequence[Group], baselines: dict[str, float]) -> Figure:
    """The metric of each group, beside what simple ways reach, with the parameters of its layers."""
    task = TASKS[groups[0].first["task"]]
    names = [*baselines, *(f"{group.variant}\n{group.first['parameters']['layers']:,}" for group in groups)]
    values = [*baselines.values(), *(group.metric(task)[0] for group in groups)]
    spreads = [0.0] * len(baselines) + [group.metric(task)[1] or 0.0 for group in groups]
    colours = ["lightgrey"] * len(baselines) + _colours(groups)
    figure = Figure(figsize=(1.15 * len(names) + 2, 4.2), layout="constrained")
    axis = figure.subplots()
    bars = axis.bar(names, values, yerr=[own or float("nan") for own in spreads], color=colours)
    axis.bar_label(bars, fmt="%.1f", fontsize=9)
    axis.set(
        title=f"{task.title}: {task.metric} on the test set, and parameters of the layers", ylim=(0, 109)
    )
    _plain(axis)
    return figure


def _colours(groups: Sequence[Group]) -> list[str]:
    others = cycle(_OTHERS)
    return [_COLOURS.get(group.variant) or next(others) for group in groups]


def _plain(axis: Axes) -> None:
    axis.spines[["top", "right"]].set_visible(False)

"""A task's table: every recipe that was run, its spread over seeds, and its difference from the first."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from onenth.lab.errors import Problem
from onenth.lab.measure.bootstrap import Difference, compare
from onenth.lab.runs import Group, groups
from onenth.lab.tasks import TASKS

_WIDTH = 110  # what a table needs


@dataclass(frozen=True)
class Row:
    """A recipe in a table; `difference` from the dense variant of its setup, where that was run."""

    recipe: str
    setup: str
    variant: str
    seeds: list[int]
    data: str
    layers: int
    mean: float
    deviation: float | None
    paper: float | None
    difference: Difference | None
    tokens_per_second: float
    seconds: float


def rows(folder: Path, task: str) -> list[Row]:
    """The rows of a task's table."""
    found = groups(folder, task)
    if not found:
        raise Problem.at(folder, None, f"holds no finished run of {task}", f"onenth train {task}/small/n4")
    return [_row(group, found, task) for group in found]


def show(folder: Path, task: str, as_json: bool) -> None:
    """Prints a table on stdout."""
    made = rows(folder, task)
    if as_json:
        print(json.dumps([asdict(row) for row in made], indent=2))
        return
    console = Console(highlight=False, soft_wrap=True)
    console.width = max(_WIDTH, console.width)  # in a narrower one, rich would cut figures
    for setup in dict.fromkeys(row.setup for row in made):
        for line in _lines([row for row in made if row.setup == setup], task, setup):
            console.print(line, markup=False) if isinstance(line, str) else console.print(line)


def _row(group: Group, others: list[Group], name: str) -> Row:
    task = TASKS[name]
    mean, deviation = group.metric(task)
    dense = next((own for own in others if (own.setup, own.variant) == (group.setup, "dense")), None)
    comparable = dense is not None and dense is not group and dense.first["data"] == group.first["data"]
    difference = None
    if comparable and dense is not None:
        difference = compare(*([run.numbers() for run in own.runs] for own in (group, dense)))
    return Row(
        recipe=group.recipe,
        setup=group.setup,
        variant=group.variant,
        seeds=[run.result["seed"] for run in group.runs],
        data=group.first["data"]["name"],
        layers=group.first["parameters"]["layers"],
        mean=mean,
        deviation=deviation,
        paper=task.paper.get(group.variant) if group.setup.endswith("/paper") else None,
        difference=difference,
        tokens_per_second=group.mean("training", "tokens_per_second"),
        seconds=group.mean("seconds", "training"),
    )


def _lines(found: list[Row], task: str, setup: str) -> Iterator[Table | str]:
    metric = TASKS[task].metric
    yield f"{TASKS[task].title}, {setup.replace('+', ', ')}"
    grid = Table(box=box.SIMPLE, padding=(0, 1, 0, 0))
    for title in ("variant", "layers", metric, "± seeds", "paper", "− dense", "95 %", "tokens/s", "training"):
        grid.add_column(title, justify="left" if title == "variant" else "right")
    for row in found:
        own = row.difference
        grid.add_row(
            row.variant,
            f"{row.layers:,}",
            f"{row.mean:.2f}",
            f"{row.deviation:.2f}" if row.deviation is not None else "1 seed",
            f"{row.paper:.2f}" if row.paper is not None else "–",
            f"{own.mean:+.2f}" if own else "–",
            f"{own.low:+.2f} to {own.high:+.2f}" if own else "–",
            f"{row.tokens_per_second:,.0f}",
            f"{row.seconds:.0f} s",
        )
    yield grid
    data = sorted({row.data for row in found})
    yield f"Test set of {', '.join(data)}. layers: parameters of the linear layers."

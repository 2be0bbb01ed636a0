"""The recipes on a terminal: all of them with their sizes, or one with its settings."""

import json
from typing import Any

import torch
from rich import box
from rich.console import Console
from rich.table import Table

from onenth.lab.experiment import parameters
from onenth.lab.recipe import Recipe
from onenth.lab.settings import settings, written
from onenth.lab.tasks import TASKS, recipe, recipes
from onenth.rule import Rule

_WIDTH = 120  # what a table of settings needs


def show(task: str | None, as_json: bool) -> None:
    """Prints all recipes, of one task or of all, on stdout."""
    found = [sizes(own) for own in recipes().values() if task in (None, own.task)]
    if as_json:
        print(json.dumps(found, indent=2))
        return
    grid = Table(box=box.SIMPLE, padding=(0, 1, 0, 0))
    for title in ("recipe", "parameters", "of layers", "arithmetic", "steps", "paper"):
        grid.add_column(title, justify="left" if title == "recipe" else "right")
    for own in found:
        grid.add_row(
            own["recipe"], f"{own['parameters']:,}", f"{own['layers']:,}", f"{own['arithmetic']:.3g}",
            f"{own['steps']:,}", "–" if own["paper"] is None else f"{own['paper']:.2f}",
        )  # fmt: skip
    console = Console(highlight=False, soft_wrap=True)
    console.print(grid)
    console.print(
        "parameters: with a full vocabulary; arithmetic: multiplications of the linear layers, as a share\n"
        "of those of dense ones; paper: accuracy or BLEU as printed. onenth list RECIPE shows all settings."
    )


def show_one(name: str, as_json: bool) -> None:
    """Prints the settings of a recipe, with what they are and what the paper's recipe has."""
    own = recipe(name)
    _, _, variant = name.partition("/")[2].partition("/")
    of_paper = {each.path: each.value for each in settings(recipe(f"{own.task}/paper/{variant}"))}
    rows = [{**each._asdict(), "paper": of_paper[each.path]} for each in settings(own)]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    grid = Table(box=box.SIMPLE, padding=(0, 1, 0, 0))
    for title in ("setting", "value", "paper", "takes", "what it is"):
        grid.add_column(title, no_wrap=title != "takes" and title != "what it is")
    for row in rows:
        grid.add_row(row["path"], _short(row["value"]), _short(row["paper"]), row["kind"], row["about"])
    console = Console(highlight=False, soft_wrap=True)
    console.width = max(_WIDTH, console.width)
    console.print(grid)


def sizes(own: Recipe) -> dict[str, Any]:
    """Parameters and arithmetic of a recipe's model, which is built on the meta device."""
    task, variant = TASKS[own.task], own.name.rpartition("/")[2]
    with torch.device("meta"):
        counted = parameters(task.model(own.model))
    return {
        "recipe": own.name,
        "parameters": counted["all"],
        "layers": counted["layers"],
        "arithmetic": _arithmetic(**own.model.phm),
        "steps": own.training.steps,
        "paper": task.paper.get(variant) if "/paper/" in own.name else None,
    }


def _arithmetic(n: int | None, rule: str, rank: int | None) -> float:
    """The share R/n² of a dense layer's multiplications that a rule of R products takes."""
    if n == 1:
        return 1.0
    own = Rule.of(rule, n, rank=rank)
    found = own.products()
    return 1.0 if found is None else min(1.0, found[0].U.shape[1] / (own.n_out * own.n_in))


def help_text() -> str:
    """All settings for `--help`, as tables in Markdown: the small and the paper's values of each task."""
    rows: dict[str, dict[str, list[str]]] = {}
    kinds: dict[str, str] = {}
    for task in TASKS:
        for setup in ("small", "paper"):
            for own in settings(recipe(f"{task}/{setup}/n4")):
                kinds[own.path] = own.kind.replace("a whole number", "int").replace("a number", "float")
                rows.setdefault(own.path, {}).setdefault(task, []).append(_short(own.value))
    lines = ["**Settings for `--set`**, with the values of the small recipes / of the paper's, for n4."]
    part = ""
    for path, values in rows.items():
        before, _, name = path.partition(".")
        if before != part:
            part = before
            lines += ["", f"| {part}. | takes | " + " | ".join(TASKS) + " |", "|---" * (2 + len(TASKS)) + "|"]
        cells = [" / ".join(dict.fromkeys(values.get(task, ["–"]))) for task in TASKS]
        lines.append(f"| {name} | {kinds[path]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else written(value)

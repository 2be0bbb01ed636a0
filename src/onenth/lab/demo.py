"""The demo: operators and rules learned from data, then two of the paper's tasks on embedded corpora."""

import time
from pathlib import Path

import torch
from rich.console import Console

from onenth.lab import artificial, artificial_report, charts, table
from onenth.lab.experiment import Experiment, perform
from onenth.lab.runs import groups
from onenth.lab.tasks import TASKS, recipe

VARIANTS = {
    "agreement": ("dense", "quaternion", "n2", "n4", "n8", "n4-rank8"),
    "style": ("dense", "n4", "n4-rank8"),
}
TARGETS = {"agreement": 99.0, "style": 90.0}  # of n=4, in percent and in BLEU


def show(folder: Path, seed: int) -> list[str]:
    """Runs, reports and draws everything; returns a sentence for every target that was missed."""
    began = time.perf_counter()
    report = Console(highlight=False, soft_wrap=True)
    missed = artificial_report.show(folder, seed, artificial.EXPERIMENTS)
    for task, variants in VARIANTS.items():
        missed += _task(task, variants, folder, seed, report)
    report.print(f"{time.perf_counter() - began:.0f} s in all. Everything is in {folder.resolve()}")
    return missed


def _task(name: str, variants: tuple[str, ...], folder: Path, seed: int, report: Console) -> list[str]:
    """Trains the variants of a task, prints its table, and draws it."""
    task, runs = TASKS[name], folder / "runs"
    progress = Console(stderr=True, highlight=False, soft_wrap=True)
    for variant in variants:
        own = Experiment(recipe(f"{name}/small/{variant}"), seed, None, runs, torch.device("cpu"))
        found = perform(own, progress, fresh=True)
        assert found is not None  # one process trains
        value, seconds = found["metrics"][task.metric], found["seconds"]["all"]
        progress.print(f"{own.recipe.name}: {task.metric} {value:.2f}, {seconds:.0f} s", markup=False)
    table.show(runs, name, as_json=False)
    simple = task.baselines(task.corpus())
    report.print("Without a model: " + ", ".join(f"{way} {value:.1f}" for way, value in simple.items()) + ".")
    made = groups(runs, name)
    drawn = charts.draw(made, simple, folder)
    report.print(*(f"  {path.name}" for path in drawn), "", sep="\n", markup=False)
    reached = {group.variant: group.metric(task)[0] for group in made}["n4"]
    target = TARGETS[name]
    return [] if reached >= target else [f"{name}: n4 reached {reached:.2f}, not {target:g}"]

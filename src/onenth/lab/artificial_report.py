"""The artificial experiments on a terminal: progress on stderr, a report on stdout, pictures in a folder."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from onenth.lab import artificial, pictures
from onenth.lab.artificial import Experiment, Result


def show(folder: Path, seed: int, experiments: Sequence[Experiment]) -> list[str]:
    """Runs the experiments, reports and draws them; returns a sentence for every target that was missed."""
    results = _run(experiments, seed)
    drawn = pictures.draw(results, folder)
    report = Console(highlight=False, soft_wrap=True)
    report.print(_table(results))
    report.print(
        "One operator is learned without its rule. Many that share one rule teach it: the learned terms\n"
        "then span the same space of matrices as the algebra's, which is all that a rule is."
    )
    report.print(f"{len(drawn)} pictures, in {folder.resolve()}:")
    report.print(*(f"  {path.name}" for path in drawn), sep="\n", markup=False)
    return [f"{result.experiment.name}: {result.missed}" for result in results if result.missed]


def _run(experiments: Sequence[Experiment], seed: int) -> list[Result]:
    console = Console(stderr=True, highlight=False)
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    results = []
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        for experiment in experiments:
            bar = bars.add_task(experiment.name, total=1.0)
            results.append(artificial.run(experiment, seed, partial(_move, bars, bar)))
            if not console.is_terminal:
                console.print(f"{experiment.name}: {results[-1].seconds:.1f} s")
    return results


def _move(bars: Progress, bar: TaskID, share: float) -> None:
    bars.update(bar, completed=share)


def _table(results: Sequence[Result]) -> Table:
    titles = "experiment", "n", "layers", "loss", "largest angle", "rule learned", "time"
    table = Table(*titles, box=box.SIMPLE, padding=(0, 1, 0, 0))
    for column in table.columns[1:]:
        column.justify = "right"
    for result in results:
        experiment = result.experiment
        angle, learned = "–", "–"
        if result.angles:
            angle = f"{result.angles[-1]:.2g} rad"
            learned = "yes" if result.angles[-1] < artificial.SAME else "no"
        table.add_row(
            experiment.name,
            str(experiment.n),
            str(experiment.layers),
            f"{result.losses[-1]:.1e}",
            angle,
            learned,
            f"{result.seconds:.1f} s",
            style="red" if result.missed else None,
        )
    return table

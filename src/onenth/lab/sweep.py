"""Many experiments one after another; those that are finished are not run again."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import torch
from rich.console import Console

from onenth.lab.check import check
from onenth.lab.errors import Problem
from onenth.lab.experiment import RESULT, Experiment, perform
from onenth.lab.recipe import Recipe
from onenth.lab.settings import change
from onenth.lab.tasks import recipe, recipes
from onenth.lab.tasks.variants import VARIANTS, name_of, options_of


def planned(setup: str, variants: Sequence[str], assignments: Sequence[str]) -> list[Recipe]:
    """The recipes of a setup such as agreement/small, in so many variants; all are checked at once."""
    if f"{setup}/dense" not in recipes():
        setups = sorted({name.rpartition("/")[0] for name in recipes()})
        raise Problem(f"there is no setup {setup!r}: write one of {', '.join(setups)}")
    found = [change(_variant(recipe(f"{setup}/dense"), variant), assignments) for variant in variants]
    for own in found:
        check(own)
    return found


def variants(n: Iterable[int], rank: Iterable[int | None], rule: Iterable[str]) -> Iterator[str]:
    """The names of all combinations. A named algebra has its own n, and no rank; n=1 is dense.

    Example:
        >>> [*variants([1, 4, 8], [None, 8], ["learned", "quaternion"])]
        ['dense', 'n4', 'n4-rank8', 'n8', 'n8-rank8', 'quaternion']
    """
    found = [
        name_of(own, products, kind) if kind in ("learned", "diagonal") else name_of(None, None, kind)
        for kind, own, products in product(rule, n, rank)
    ]
    yield from dict.fromkeys(found)


def run(
    chosen: Sequence[Recipe],
    seeds: Sequence[int],
    data: Path | None,
    out: Path,
    device: torch.device,
    console: Console,
) -> list[Experiment]:
    """Runs every recipe with every seed; seeds on the outside, so that every recipe soon has one."""
    made = [Experiment(own, seed, data, out, device) for seed, own in product(seeds, chosen)]
    for number, experiment in enumerate(made, 1):
        done = (experiment.folder / RESULT).exists()
        state = "finished before" if done else "running"
        console.print(
            f"{number}/{len(made)} {experiment.recipe.name}, seed {experiment.seed}: {state}", markup=False
        )
        perform(experiment, console)
    return made


def _variant(dense: Recipe, name: str) -> Recipe:
    """The dense recipe with the layers of a variant."""
    setup = dense.name.rpartition("/")[0]
    if name in VARIANTS:
        return recipe(f"{setup}/{name}")
    return replace(dense, name=f"{setup}/{name}", model=replace(dense.model, **options_of(name)))

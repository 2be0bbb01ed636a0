"""One experiment: a recipe, a seed and data in; a model, its outputs and a result out.

RUNS/agreement/small/n4/seed-0/
    recipe.json              what is run, and on which data
    checkpoints/             see engine/checkpoint.py
    log.jsonl, tensorboard/  losses, rates, looks at the development set
    model/                   the model in the end, with its vocabulary
    result.json              what it is worth; beside it the outputs, a line for each sentence
"""

import dataclasses
import hashlib
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from safetensors import SafetensorError
from torch import nn

from onenth.lab import check, settings
from onenth.lab.data import aside
from onenth.lab.data import vocabulary as vocabularies
from onenth.lab.data.batches import Examples
from onenth.lab.data.files import digest
from onenth.lab.data.splits import Splits
from onenth.lab.data.vocabulary import Vocabulary, Words
from onenth.lab.engine.ranks import Ranks, joined
from onenth.lab.engine.report import Reporter, Silence
from onenth.lab.engine.run import Run, Trained
from onenth.lab.errors import Problem
from onenth.lab.measure import result as results
from onenth.lab.measure.memory import peak_memory
from onenth.lab.recipe import Recipe
from onenth.lab.tasks import TASKS
from onenth.lab.tasks.task import Task
from onenth.nn.sharing import layers

RESULT, RECIPE, MODEL = "result.json", "recipe.json", "model"

_LONG = 120  # characters; a name of a folder has 255 at most


@dataclass(frozen=True)
class Experiment:
    """What is to be run.

    Args:
        recipe: how.
        seed: decides every number drawn.
        data: somebody's files; None for the embedded corpus.
        out: the folder of all runs.
        device: to train on.
    """

    recipe: Recipe
    seed: int
    data: Path | None
    out: Path
    device: torch.device

    @property
    def folder(self) -> Path:
        """Named after the recipe; many settings made by hand are told by their hash."""
        name, plus, by_hand = self.recipe.name.partition("+")
        if len(by_hand) > _LONG:
            by_hand = hashlib.sha256(by_hand.encode()).hexdigest()[:12]
        return self.out / (name + plus + by_hand) / f"seed-{self.seed}"

    @property
    def task(self) -> Task:
        return TASKS[self.recipe.task]


def perform(experiment: Experiment, console: Console, *, fresh: bool = False) -> dict[str, Any] | None:
    """The result of an experiment: made, taken up where it was left, or read where it is finished.

    Ranks other than the first return None.
    """
    check.check(experiment.recipe)
    with joined(experiment.device) as ranks:
        return _perform(experiment, console, fresh, ranks)


def _perform(experiment: Experiment, console: Console, fresh: bool, ranks: Ranks) -> dict[str, Any] | None:
    began = time.perf_counter()
    recipe, folder, task = experiment.recipe, experiment.folder, experiment.task
    splits = read(task, experiment.data)
    if ranks.first:
        if fresh and folder.exists():
            shutil.rmtree(folder)
        _claim(experiment, splits)
    if ranks.agree((folder / RESULT).exists()):
        return results.read(folder / RESULT) if ranks.first else None
    vocabulary = _vocabulary(experiment, splits, ranks)
    torch.manual_seed(experiment.seed)
    trained = _train(experiment, splits, vocabulary, _model(task, recipe, vocabulary), ranks, console)
    if not ranks.first:
        return None
    evaluated = time.perf_counter()
    held = _save_model(folder, trained.model, vocabulary)
    measured = task.measure(trained.model, splits.test, vocabulary, recipe, ranks.device)
    ended = time.perf_counter()
    path, progress = folder / RESULT, trained.progress
    found = {
        "schema": results.SCHEMA,
        "recipe": recipe.name,
        "task": recipe.task,
        "seed": experiment.seed,
        "config": dataclasses.asdict(recipe),
        "data": {"name": splits.name, "hashes": dict(splits.hashes)},
        "about": {**results.about(ranks.device), "ranks": ranks.count},
        "model": held,
        "parameters": parameters(trained.model),
        "seconds": {
            "training": progress.seconds, "evaluation": ended - evaluated, "all": ended - began,
        },
        "training": {
            "steps": progress.step,
            "averaged": trained.averaged,
            "bad": progress.bad,
            "tokens_per_second": progress.tokens / max(1e-9, progress.seconds),
            "peak_memory": peak_memory(ranks.device),
        },
        "metrics": measured.metrics,
        "outputs": results.write_outputs(path, measured.lines),
    }  # fmt: skip
    results.write(path, found)
    return found


def evaluate(
    folder: Path, data: Path | None, split: str, device: torch.device
) -> tuple[dict[str, Any], Sequence[str]]:
    """The metrics and outputs of a finished run's model, on any data."""
    task, recipe, model, vocabulary = load(folder, device)
    splits, held = read(task, data), results.read(folder / RESULT)["data"]
    if data is None and dict(splits.hashes) != held["hashes"]:
        raise Problem(f"{folder} was trained on {held['name']}, not on the embedded corpus: name --data")
    rows = getattr(splits, split)
    _check_positions(recipe, task.examples(rows, vocabulary), split)
    measured = task.measure(model, rows, vocabulary, recipe, device)
    return measured.metrics, measured.lines


def load(folder: Path, device: torch.device) -> tuple[Task, Recipe, nn.Module, Vocabulary]:
    """The model of a finished run, with what it takes to use it."""
    held = results.read(folder / RESULT)
    if held["task"] not in TASKS:
        raise Problem.at(folder / RESULT, None, f"is of the task {held['task']!r}, which is not known here")
    task, recipe = TASKS[held["task"]], _recipe(held["config"])
    for name, sha256 in held["model"].items():
        if not (path := folder / MODEL / name).is_file() or digest(path) != sha256:
            raise Problem.at(path, None, "is not the file that the run left", "train it again with --fresh")
    model = task.load(folder / MODEL)
    name = next((name for name in held["model"] if name.startswith("vocabulary.")), "vocabulary.txt")
    return task, recipe, model.to(device), vocabularies.load(folder / MODEL / name)


def read(task: Task, data: Path | None) -> Splits[Any]:
    """Somebody's files, or the embedded corpus."""
    return task.corpus() if data is None else task.read(data)


def parameters(model: nn.Module) -> dict[str, int]:
    """Of the whole model, and of its linear layers alone."""
    own = {parameter for layer in layers(model) for parameter in layer.parameters()}
    return {
        "all": sum(parameter.numel() for parameter in model.parameters()),
        "layers": sum(parameter.numel() for parameter in own),
    }


def _claim(experiment: Experiment, splits: Splits[Any]) -> None:
    """Makes the folder this experiment's, or finds that it is."""
    path = experiment.folder / RECIPE
    own: dict[str, Any] = {
        "seed": experiment.seed,
        "data": {"name": splits.name, "hashes": dict(splits.hashes)},
        **dataclasses.asdict(experiment.recipe),
    }
    try:
        experiment.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Problem.at(
            experiment.folder, None, f"cannot be made ({error.strerror})", "name another --out"
        ) from error
    if path.exists():
        try:
            there = json.loads(path.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise Problem.at(path, None, f"is damaged ({error})", "start anew with --fresh") from error
        if not isinstance(there, dict):
            raise Problem.at(path, None, "is no recipe", "start anew with --fresh")
        differ = [*settings.differences(own, there)]
        if differ:
            raise Problem.at(
                experiment.folder,
                None,
                f"holds a run of another recipe or other data, {'; '.join(differ[:5])}",
                "name another --out, or start anew with --fresh",
            )
    else:
        aside.write(path, (json.dumps(own, indent=2) + "\n").encode())


def _recipe(config: dict[str, Any]) -> Recipe:
    """A recipe from what a result says of it."""
    from onenth.lab.tasks import recipe

    base = recipe(config["name"].partition("+")[0])
    parts = {
        part: dataclasses.replace(getattr(base, part), **config[part])
        for part in ("model", "training", "search")
        if config.get(part) is not None
    }
    return dataclasses.replace(base, name=config["name"], **parts)


def _vocabulary(experiment: Experiment, splits: Splits[Any], ranks: Ranks) -> Vocabulary:
    """Made by the first rank, which leaves it in the cache for the others."""
    most, cache = experiment.recipe.model.vocabulary, experiment.out / "cache"
    if ranks.first:
        experiment.task.vocabulary(splits.train, most, cache)
    ranks.barrier()
    return experiment.task.vocabulary(splits.train, most, cache)


def _model(task: Task, recipe: Recipe, vocabulary: Vocabulary) -> nn.Module:
    model = task.model(dataclasses.replace(recipe.model, vocabulary=len(vocabulary)))
    return model.double() if recipe.training.precision == "float64" else model


def _train(
    experiment: Experiment,
    splits: Splits[Any],
    vocabulary: Vocabulary,
    model: nn.Module,
    ranks: Ranks,
    console: Console,
) -> Trained:
    recipe, folder, task = experiment.recipe, experiment.folder, experiment.task
    train, dev = (task.examples(rows, vocabulary) for rows in (splits.train, splits.dev))
    _check_positions(recipe, dev, "dev")
    _check_positions(recipe, task.examples(splits.test, vocabulary), "test")
    longest = min(recipe.training.longest, recipe.model.positions)
    training = dataclasses.replace(recipe.training, longest=longest)
    label = f"{recipe.name}, seed {experiment.seed}"
    teller = Reporter(folder, label, training.steps, console) if ranks.first else Silence()
    with teller as tell:
        run = Run(
            training, experiment.seed, model, task.logits, train, dev, folder / "checkpoints", ranks, tell
        )
        return run()


def _check_positions(recipe: Recipe, examples: Examples, split: str) -> None:
    longest, positions = int(examples.lengths.max()), recipe.model.positions
    if longest > positions:
        raise Problem(
            f"a row of {split} has {longest} tokens, and the model positions for {positions}: "
            f"--set model.positions={longest}"
        )


def _save_model(folder: Path, model: Any, vocabulary: Vocabulary) -> dict[str, str]:
    """The hashes of the files that the model is in now."""
    ending = ".txt" if isinstance(vocabulary, Words) else ".model"
    try:
        model.save_pretrained(folder / MODEL)
    except SafetensorError as error:
        raise Problem.at(folder / MODEL, None, f"could not be written ({error})", "make room") from error
    vocabulary.save(folder / MODEL / f"vocabulary{ending}")
    return {path.name: digest(path) for path in sorted((folder / MODEL).iterdir())}

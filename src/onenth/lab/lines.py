"""Lines in, lines out: a trained model at work on text of any length."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import torch

from onenth.lab.errors import Problem
from onenth.lab.experiment import load
from onenth.lab.recipe import Search
from onenth.lab.tasks.style.task import translate

_AT_ONCE = 256  # lines that are sorted by length together


def translated(
    folder: Path, lines: Iterable[str], search: dict[str, Any], n_best: int, device: torch.device
) -> Iterator[str]:
    """The best text for each line; of several, the number of the line, the score and the text in columns.

    `search` holds what differs from the recipe's.
    """
    task, recipe, model, vocabulary = load(folder, device)
    if recipe.search is None:
        raise Problem(f"{folder} is a run of {task.name}, which translates nothing: name one of style")
    options = Search(**{**vars(recipe.search), **search})
    if n_best > options.beam:
        raise Problem(f"--n-best {n_best} is more than the hypotheses of a beam of {options.beam}")
    number = 0
    for part in _parts(lines):
        for best in translate(model, part, vocabulary, options, device, n_best):
            number += 1
            if n_best == 1:
                yield best[0][0]
            else:
                yield from (f"{number}\t{score:.4f}\t{text}" for text, score in best)


def read(stream: IO[bytes]) -> Iterator[str]:
    """Lines of UTF-8."""
    for number, line in enumerate(stream, 1):
        try:
            yield line.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise Problem.at(
                Path("stdin"), number, f"byte {error.start + 1} is not UTF-8", "convert it with iconv"
            ) from None


def _parts(lines: Iterable[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for line in lines:
        part.append(line)
        if len(part) == _AT_ONCE:
            yield part
            part = []
    if part:
        yield part

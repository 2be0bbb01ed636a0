"""Pairs of sentences from files: what is given, and how it is to be said.

Three layouts, each plain or as .xz, .gz or .zst; `dev` may be called `valid`.

    Shakespeare   train.modern train.original   dev.modern dev.original   test.modern test.original
                  or with .nltktok at the end, as in github.com/harsh19/Shakespearizing-Modern-English, data/
    any other     train.source train.target     dev.source dev.target     test.source test.target
                  or train.tsv dev.tsv test.tsv, each row a source, a tabulator and its target
"""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from onenth.lab.data.files import digest, find, lines
from onenth.lab.data.splits import Splits, Stream
from onenth.lab.errors import Problem

_SPLITS = {"train": ("train",), "dev": ("dev", "valid"), "test": ("test",)}
_LAYOUTS = {  # what follows the name of a split: of the source and the target, or of both in one
    "modern and original": (".modern", ".original"),
    "modern.nltktok and original.nltktok": (".modern.nltktok", ".original.nltktok"),
    "source and target": (".source", ".target"),
    "tsv": (".tsv",),
}
_OFFICIAL = "the official files are in the folder data/ of github.com/harsh19/Shakespearizing-Modern-English"


class Pair(NamedTuple):
    """A sentence, and what it is to become."""

    source: str
    target: str


def read(folder: Path) -> Splits[Pair]:
    """All three parts, in whichever layout the folder has."""
    layout = _layout(folder)
    paths = _paths(folder, layout)
    train = Stream(lambda: _rows(paths["train"]))
    dev, test = (list(_rows(paths[split])) for split in ("dev", "test"))
    hashes = {path.name: digest(path) for parts in paths.values() for path in parts}
    return Splits(folder.resolve().name, train, dev, test, hashes)


def _layout(folder: Path) -> str:
    """The only one of which the folder has a file."""
    found = {}
    for layout, endings in _LAYOUTS.items():
        names = [name + ending for split in _SPLITS.values() for name in split for ending in endings]
        if there := [path for name in names if (path := find(folder, name))]:
            found[layout] = there[0].name
    if len(found) > 1:
        raise Problem.at(folder, None, f"{' and '.join(found.values())} are of different distributions",
                         "keep one in the folder")  # fmt: skip
    if not found:
        what = "there is nothing to read, neither train.modern, nor train.source, nor train.tsv"
        raise Problem.at(folder, None, what, f"name the folder that has them; {_OFFICIAL}")
    return next(iter(found))


def _paths(folder: Path, layout: str) -> dict[str, list[Path]]:
    paths: dict[str, list[Path]] = {split: [] for split in _SPLITS}
    missing = []
    for split, names in _SPLITS.items():
        there = [name for name in names if any(find(folder, name + ending) for ending in _LAYOUTS[layout])]
        if len(there) > 1:
            raise Problem.at(folder, None, f"{' and '.join(there)} are both there", "keep one of them")
        for ending in _LAYOUTS[layout]:
            name = (there or names)[0] + ending
            path = find(folder, name)
            if path:
                paths[split].append(path)
            else:
                missing.append(name)
    if missing:
        where = _OFFICIAL if "modern" in layout else "add them, plain or as .xz, .gz or .zst"
        raise Problem.at(folder, None, f"{', '.join(missing)} missing", where)
    return paths


def _rows(paths: list[Path]) -> Iterator[Pair]:
    if len(paths) == 1:
        yield from _from_one(paths[0])
        return
    streams = [lines(path) for path in paths]
    for number, (source, target) in enumerate(zip_longest(*streams), 1):
        if source is None or target is None:
            longer = number + sum(1 for _ in streams[source is None])
            counts = (number - 1, longer) if source is None else (longer, number - 1)
            what = f"it has {counts[0]} lines and {paths[1].name} has {counts[1]}"
            raise Problem.at(paths[0], None, what, "line by line they must belong together: fetch both again")
        yield _pair((source, target), paths, number)


def _from_one(path: Path) -> Iterator[Pair]:
    for number, line in enumerate(lines(path), 1):
        fields = line.split("\t")
        if len(fields) != 2:
            what = f"the row has {len(fields)} field{'s' * (len(fields) != 1)} instead of 2"
            raise Problem.at(path, number, what, "write a source, a tabulator and its target")
        yield _pair((fields[0], fields[1]), [path, path], number)


def _pair(row: tuple[str, str], paths: list[Path], number: int) -> Pair:
    for text, path, side in zip(row, paths, ("source", "target"), strict=True):
        if not text.strip():
            raise Problem.at(path, number, f"the {side} is empty", "write it, or remove the pair")
    return Pair(*row)

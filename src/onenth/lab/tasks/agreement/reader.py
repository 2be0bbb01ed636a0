"""The agreement corpora that people have: which of them a folder holds, and its sentences."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from onenth.lab.data.files import ARCHIVES, digest, find
from onenth.lab.data.splits import Splits
from onenth.lab.errors import Problem
from onenth.lab.tasks.agreement.rows import Sentence, counted, full, prefixes, table

__all__ = ["Sentence", "read"]

_TABLE = "agr_50_mostcommon_10K.tsv"
_SOURCE = "http://tallinzen.net/media/rnn_agreement"
_REMEDY = (
    f"fetch {_SOURCE}/{_TABLE}.gz, or the numpred files in {_SOURCE}/rnn_agr_simple.tar.gz (see "
    "github.com/TalLinzen/rnn_agreement), or write train.tsv, dev.tsv and test.tsv"
)
_Endings = dict[str, tuple[str, ...]]
_TXT: _Endings = {"train": ("train.txt",), "dev": ("dev.txt",), "test": ("test.txt",)}
_TSV: _Endings = {"train": ("train.tsv",), "dev": ("dev.tsv", "valid.tsv", "val.tsv"), "test": ("test.tsv",)}

Parts = tuple[list[Sentence], list[Sentence], list[Sentence]]


class _Held(NamedTuple):
    """What a folder holds of one distribution."""

    title: str
    files: list[Path]
    missing: list[str]
    parts: Callable[[], Parts]


def read(folder: Path) -> Splits[Sentence]:
    """The one distribution that is complete in the folder, each file plain or as .xz, .gz or .zst.

    agr_50_mostcommon_10K.tsv
        The table of Linzen et al. (2016): 9 % of its rows are for training, 1 % are dev and 90 % test, as
        there. They are taken in the order of the SHA-256 of their text: a shuffle, the same everywhere.
    numpred.train, numpred.val, numpred.test
        A label and a prefix in each row. The parts numpred.test.0 to .5 of the test set tell the attractors;
        a row in none of them, or in two, has None. Without numpred.test, .1 to .5 are the test set, with .0
        if it is there.
    …train.txt, …dev.txt, …test.txt
        Whole sentences under a header with sentence, verb_idx and verb_pos.
    …train.tsv, …dev.tsv, …test.tsv
        One's own rows: a label (VBZ, VBP, singular or plural), the number of attractors or -, a source and a
        prefix; the source, or it and the number, may be left out of all. The second file may be …valid.tsv or
        …val.tsv.
    """
    held = [*_table(folder), *_numpred(folder)]
    held += [*_three(folder, _TXT, full), *_three(folder, _TSV, counted)]
    whole = [each for each in held if not each.missing]
    if len(whole) > 1:
        raise Problem.at(folder, None, f"{' and '.join(each.title for each in whole)} are both there",
                         "keep the one that is meant, or name another folder")  # fmt: skip
    if not whole:
        parts = [f"beside {each.files[0].name}, {' and '.join(each.missing)} is missing" for each in held]
        raise Problem.at(folder, None, "; ".join(parts) or "no agreement corpus is there", _REMEDY)
    chosen = whole[0]
    train, dev, test = chosen.parts()
    return Splits(chosen.title, train, dev, test, {path.name: digest(path) for path in chosen.files})


def _table(folder: Path) -> Iterator[_Held]:
    path = find(folder, _TABLE)
    if path:
        yield _Held(_TABLE, [path], [], partial(_shuffled, path))


def _shuffled(path: Path) -> Parts:
    keyed = [(hashlib.sha256(text.encode()).digest(), sentence) for text, sentence in table(path)]
    keyed.sort(key=lambda pair: pair[0])
    rows = [sentence for _, sentence in keyed]
    train, dev = len(rows) * 9 // 100, len(rows) // 100
    if not dev:
        raise Problem.at(path, None, f"{len(rows)} rows are too few to give 1 % of them to dev",
                         f"fetch {_SOURCE}/{_TABLE}.gz again")  # fmt: skip
    return rows[:train], rows[train : train + dev], rows[train + dev :]


def _numpred(folder: Path) -> Iterator[_Held]:
    train, dev = find(folder, "numpred.train"), _only(folder, "numpred.val", "numpred.valid")
    test = find(folder, "numpred.test")
    by_count = {count: path for count in range(6) if (path := find(folder, f"numpred.test.{count}"))}
    missing = [] if train else ["numpred.train"]
    missing += [] if dev else ["numpred.val"]
    if not test and not by_count:
        missing.append("numpred.test")
    elif not test:
        missing += [f"numpred.test.{count}" for count in range(1, 6) if count not in by_count]
    files = [path for path in (train, dev, test, *by_count.values()) if path]

    def parts() -> Parts:
        assert train
        assert dev
        return [*prefixes(train)], [*prefixes(dev)], _numpred_test(test, by_count)

    if files:
        yield _Held("numpred", files, missing, parts)


def _numpred_test(test: Path | None, by_count: dict[int, Path]) -> list[Sentence]:
    parts = {count: list(prefixes(path, count)) for count, path in by_count.items()}
    if test is None:
        return [row for part in parts.values() for row in part]
    rows = list(prefixes(test))
    known: dict[Sentence, set[int]] = defaultdict(set, {row: set() for row in rows})
    for count, part in parts.items():
        for number, row in enumerate(part, 1):
            bare = row._replace(attractors=None)
            if bare not in known:
                raise Problem.at(by_count[count], number, f"the row is not in {test.name}",
                                 "the files are of different versions, fetch them again")  # fmt: skip
            known[bare].add(count)
    return [row._replace(attractors=min(known[row]) if len(known[row]) == 1 else None) for row in rows]


def _three(folder: Path, endings: _Endings, rows: Callable[[Path], Iterator[Sentence]]) -> Iterator[_Held]:
    """Each prefix with which one of the three files is there."""
    names = [path.with_suffix("").name if path.suffix in ARCHIVES else path.name for path in folder.iterdir()]
    every = [ending for group in endings.values() for ending in group]
    starts = {name.removesuffix(end) for name in names for end in every if name.endswith(end)}
    for start in sorted(starts):
        found = {part: _only(folder, *(start + end for end in group)) for part, group in endings.items()}
        paths = [path for path in found.values() if path]
        missing = [start + endings[part][0] for part, path in found.items() if not path]
        title = start.rstrip("-_.") or endings["train"][0]
        yield _Held(title, paths, missing, partial(_each, rows, paths))


def _each(rows: Callable[[Path], Iterator[Sentence]], paths: list[Path]) -> Parts:
    train, dev, test = ([*rows(path)] for path in paths)
    return train, dev, test


def _only(folder: Path, *names: str) -> Path | None:
    found = [path for name in names if (path := find(folder, name))]
    if len(found) > 1:
        raise Problem.at(folder, None, f"{' and '.join(path.name for path in found)} are both there",
                         "keep the one that is meant")  # fmt: skip
    return found[0] if found else None

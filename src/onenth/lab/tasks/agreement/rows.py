"""The rows of each format that agreement corpora come in: what precedes a verb, and the verb's number."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from onenth.lab.data.files import lines
from onenth.lab.errors import Problem

_PLURAL = {"VBZ": False, "VBP": True, "singular": False, "plural": True}


class Sentence(NamedTuple):
    """The words before a verb, one space between each two, and whether the verb is plural.

    `attractors`: the nouns between subject and verb that are of the other number, None if nobody counted.
    """

    words: str
    plural: bool
    attractors: int | None


def table(path: Path) -> Iterator[tuple[str, Sentence]]:
    """The key to shuffle by and the sentence of each row of Linzen's table, which the csv module wrote."""
    rows = csv.reader(lines(path), delimiter="\t", strict=True)
    try:
        sentence, label, verb, attractors, width = _columns(
            path, next(rows), "sentence", "verb_pos", "verb_index", "n_diff_intervening"
        )
        for row in rows:
            at = path, rows.line_num
            _check_width(at, row, width)
            yield (
                "\t".join(row),
                Sentence(
                    _before(at, row[sentence], _whole(at, "verb_index", row[verb]) - 1),
                    _plural(at, row[label]),
                    _whole(at, "n_diff_intervening", row[attractors]),
                ),
            )
    except csv.Error as error:
        raise Problem.at(path, rows.line_num, f"the row cannot be read ({error})", "fetch it again") from None


def full(path: Path) -> Iterator[Sentence]:
    """Whole sentences under a header, with verb_pos and verb_idx, the place of the verb counted from 0."""
    rows = enumerate(lines(path), 1)
    sentence, label, verb, width = _columns(
        path, next(rows)[1].split("\t"), "sentence", "verb_pos", "verb_idx"
    )
    number = 1
    for number, line in rows:
        at, row = (path, number), line.split("\t")
        _check_width(at, row, width)
        words = _before(at, row[sentence], _whole(at, "verb_idx", row[verb]))
        yield Sentence(words, _plural(at, row[label]), None)
    if number == 1:
        raise Problem.at(path, None, "there are no rows below the header", "fetch it again")


def prefixes(path: Path, attractors: int | None = None) -> Iterator[Sentence]:
    """Rows of a label and a prefix; `attractors` is known of the file as a whole, or not."""
    for number, line in enumerate(lines(path), 1):
        at, row = (path, number), line.split("\t")
        _check_width(at, row, 2)
        yield Sentence(_words(at, row[1].split(" ")), _plural(at, row[0]), attractors)


def counted(path: Path) -> Iterator[Sentence]:
    """Rows of 2 to 4 fields, as many in all rows: label, attractors or `-`, source, prefix."""
    width = 0
    for number, line in enumerate(lines(path), 1):
        at, row = (path, number), line.split("\t")
        if number == 1:
            width = len(row)
            if not 2 <= width <= 4:
                what = f"{width} fields separated by tabs"
                raise Problem.at(*at, what, "write label, prefix or label, attractors, prefix")
        _check_width(at, row, width)
        attractors = None if width == 2 or row[1] == "-" else _whole(at, "the number of attractors", row[1])
        yield Sentence(_words(at, row[-1].split(" ")), _plural(at, row[0]), attractors)


def _columns(path: Path, header: list[str], *names: str) -> list[int]:
    """The index of each of the columns, and the number of all."""
    missing = [name for name in names if header.count(name) != 1]
    if missing:
        what = f"the header has the columns {', '.join(header)}"
        raise Problem.at(path, 1, what, f"{', '.join(missing)} must be among them, once")
    return [*map(header.index, names), len(header)]


def _check_width(at: tuple[Path, int], row: Sequence[str], width: int) -> None:
    if len(row) != width:
        what = f"{len(row)} fields separated by tabs where there should be {width}"
        raise Problem.at(*at, what, "correct the row, or fetch the file again")


def _plural(at: tuple[Path, int], label: str) -> bool:
    if label not in _PLURAL:
        raise Problem.at(*at, f"the label is {label!r}", "write VBZ or singular, VBP or plural")
    return _PLURAL[label]


def _whole(at: tuple[Path, int], name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise Problem.at(*at, f"{name} is {text!r}", "write a whole number")
    return int(text)


def _before(at: tuple[Path, int], sentence: str, verb: int) -> str:
    tokens = [token for token in sentence.split(" ") if token]
    if not 0 <= verb < len(tokens):
        what = f"the verb is outside of the sentence of {len(tokens)} words"
        raise Problem.at(*at, what, "correct its index, or fetch the file again")
    return _words(at, tokens[:verb])


def _words(at: tuple[Path, int], tokens: Sequence[str]) -> str:
    words = " ".join(token for token in tokens if token)
    if not words:
        raise Problem.at(*at, "there is no word before the verb", "remove the row")
    return words

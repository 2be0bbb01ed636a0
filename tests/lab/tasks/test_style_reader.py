"""Pairs of sentences in each layout, and what is wrong with files that are no such pairs."""

import gzip
import hashlib
import lzma
from dataclasses import replace

import pytest
import zstandard

from onenth.lab.errors import Problem
from onenth.lab.tasks.style import reader
from onenth.lab.tasks.style.reader import Pair

ROWS = {
    "train": [("do you know him ?", "knowest thou him ?"), ("come  here .", "come hither ."), ("é", "è")],
    "dev": [("you see .", "thou seest .")],
    "test": [("it is late .", "'tis late ."), ("no .", "nay .")],
}
PACK = {"": bytes, ".xz": lzma.compress, ".gz": gzip.compress, ".zst": zstandard.compress}
SIDES = {"modern": (".modern", ".original"), "nltktok": (".modern.nltktok", ".original.nltktok"),
         "source": (".source", ".target"), "tsv": (".tsv",)}  # fmt: skip


def read(folder):
    """The training set is a stream, of which each reading finds the same."""
    splits = reader.read(folder)
    train = list(splits.train)
    assert list(splits.train) == train
    return replace(splits, train=train)


def write(folder, layout, pack="", dev="dev"):
    for split, rows in ROWS.items():
        texts = ["\t".join(row) for row in rows], [row[0] for row in rows], [row[1] for row in rows]
        for ending, lines in zip(SIDES[layout], texts[:1] if layout == "tsv" else texts[1:], strict=True):
            path = folder / ((dev if split == "dev" else split) + ending + pack)
            path.write_bytes(PACK[pack]("".join(f"{line}\n" for line in lines).encode()))


@pytest.mark.parametrize("dev", ["dev", "valid"])
@pytest.mark.parametrize("pack", PACK)
@pytest.mark.parametrize("layout", SIDES)
def test_every_layout_is_read(tmp_path, layout, pack, dev):
    write(tmp_path, layout, pack, dev)
    splits = read(tmp_path)
    assert {name: list(getattr(splits, name)) for name in ROWS} == ROWS
    assert splits.train[0] == Pair(source="do you know him ?", target="knowest thou him ?")
    assert splits.name == tmp_path.name
    assert splits.hashes == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.iterdir()
    }


def assert_refused(folder, match):
    with pytest.raises(Problem, match=match):
        read(folder)


@pytest.mark.parametrize(
    ("layout", "removed", "match"),
    [
        ("modern", ["test.original"], r": test\.original missing: the official files .* github\.com/harsh19"),
        ("nltktok", ["dev.modern.nltktok", "test.modern.nltktok"],
         r": dev\.modern\.nltktok, test\.modern\.nltktok missing: the official"),
        ("modern", ["dev.modern", "dev.original"], r": dev\.modern, dev\.original missing"),
        ("source", ["train.source"], r": train\.source missing: add"),
        ("tsv", ["train.tsv", "test.tsv"], r": train\.tsv, test\.tsv missing: add"),
    ],
)  # fmt: skip
def test_missing_files_are_named(tmp_path, layout, removed, match):
    write(tmp_path, layout)
    for name in removed:
        (tmp_path / name).unlink()
    assert_refused(tmp_path, match)


def test_half_of_valid_is_missed_under_its_own_name(tmp_path):
    write(tmp_path, "modern", dev="valid")
    (tmp_path / "valid.original").unlink()
    assert_refused(tmp_path, r": valid\.original missing")


@pytest.mark.parametrize("other", ["nltktok", "source", "tsv"])
def test_two_distributions_are_refused(tmp_path, other):
    write(tmp_path, "modern")
    write(tmp_path, other, ".gz")
    assert_refused(tmp_path, rf"train\.modern and train{SIDES[other][0]}\.gz are of different distributions")


@pytest.mark.parametrize("other", ["valid.modern", "valid.original.xz"])
def test_dev_and_valid_at_once_are_refused(tmp_path, other):
    write(tmp_path, "modern")
    (tmp_path / other).write_text("no .\n")
    assert_refused(tmp_path, "dev and valid are both there: keep one")


def test_an_empty_folder_says_where_the_files_are(tmp_path):
    (tmp_path / "readme.txt").write_text("no")
    assert_refused(tmp_path, r"neither train\.modern, nor train\.source, nor train\.tsv: .*harsh19")
    assert_refused(tmp_path / "none", "none: there is no such folder")


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("train.original", "a\nb\n", r"train\.modern: it has 3 lines and train\.original has 2"),
        ("dev.modern", "a\nb\n", r"dev\.modern: it has 2 lines and dev\.original has 1"),
        ("train.original", "a\n\nb\n", r"train\.original:2: the target is empty: write it"),
        ("test.modern", "a\n \t\n", r"test\.modern:2: the source is empty"),
        ("test.modern", "", r"test\.modern: the file is empty"),
    ],
)
def test_damaged_sides_are_refused(tmp_path, name, content, match):
    write(tmp_path, "modern")
    (tmp_path / name).write_text(content)
    assert_refused(tmp_path, match)


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ("a", r"train\.tsv:2: the row has 1 field instead of 2: write"),
        ("", r"train\.tsv:2: the row has 1 field instead of 2"),
        ("a\tb\tc", r"train\.tsv:2: the row has 3 fields instead of 2"),
        ("a\t", r"train\.tsv:2: the target is empty"),
        (" \tb", r"train\.tsv:2: the source is empty"),
    ],
)
def test_damaged_rows_are_refused(tmp_path, row, match):
    write(tmp_path, "tsv")
    (tmp_path / "train.tsv").write_text(f"a\tb\n{row}\nc\td\n")
    assert_refused(tmp_path, match)

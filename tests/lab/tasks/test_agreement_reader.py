"""Every distribution of the agreement corpora is read as it is written, and no row is guessed."""

import csv
import gzip
import hashlib
import io
import lzma
import random

import pytest
import zstandard

from onenth.lab.errors import Problem
from onenth.lab.tasks.agreement.reader import Sentence, read

PACK = {"": bytes, ".xz": lzma.compress, ".gz": gzip.compress, ".zst": zstandard.compress}
every_ending = pytest.mark.parametrize("ending", PACK)
TABLE = "agr_50_mostcommon_10K.tsv"
HEADER = "sentence\tsubj_idx\tverb_idx\tverb_pos\tverb\tinflected_verb\n"
FULL = {
    "train": HEADER + "the keys  to it are here .\t1\t4\tVBP\tare\tis\nit is so .\t0\t1\tVBZ\tis\tare\n",
    "dev": HEADER + "they see us\t0\t1\tVBP\tsee\tsees\n",
    "test": HEADER + 'a " quote VBZ\t1\t3\tVBZ\thas\thave\n',
}
FULL_READ = [
    [Sentence("the keys to it", True, None), Sentence("it", False, None)],
    [Sentence("they", True, None)],
    [Sentence('a " quote', False, None)],
]
NUMPRED = {
    "numpred.train": "VBP\tthe keys\nVBZ\tthe NN of NNS\n",
    "numpred.val": "VBZ\tit\n",
    **{f"numpred.test.{count}": f"VBP\tkeys{' of NN' * count}\nVBZ\tkey\n" for count in range(1, 6)},
}
OWN = {
    "train.tsv": "plural\t2\tmine\tkeys to it\nsingular\t-\tmine\ta key\n",
    "dev.tsv": "VBZ\t-\ta key\nVBP\t10\tkeys\n",
    "test.tsv": "VBP\tkeys\n",
}
OWN_READ = [
    [Sentence("keys to it", True, 2), Sentence("a key", False, None)],
    [Sentence("a key", False, None), Sentence("keys", True, 10)],
    [Sentence("keys", True, None)],
]


@pytest.fixture
def folder(tmp_path):
    """Writes files by name into the folder, and returns it."""

    def write(files, ending=""):
        for name, text in files.items():
            (tmp_path / (name + ending)).write_bytes(PACK[ending](text.encode()))
        return tmp_path

    return write


def parts(splits):
    return [list(splits.train), list(splits.dev), list(splits.test)]


def named(files, change):
    return {change(name): text for name, text in files.items()}


def official(rows):
    """The table as the csv module writes it, its columns in another order than the official one."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t")
    writer.writerow(["verb_pos", "n_diff_intervening", "subj", "verb_index", "sentence"])
    writer.writerows(rows)
    return {TABLE: text.getvalue()}


@every_ending
def test_whole_sentences_are_cut_before_the_verb(folder, ending):
    found = read(folder(named(FULL, lambda part: f"wiki-{part}.txt"), ending))
    assert found.name == "wiki"
    assert parts(found) == FULL_READ


@every_ending
@pytest.mark.parametrize("dev", ["dev.tsv", "valid.tsv", "val.tsv"])
@pytest.mark.parametrize("prefix", ["", "my_"])
def test_own_rows_have_two_to_four_fields(folder, ending, dev, prefix):
    found = read(folder(named(OWN, lambda name: prefix + (dev if name == "dev.tsv" else name)), ending))
    assert parts(found) == OWN_READ


@every_ending
@pytest.mark.parametrize("zero", [False, True])
def test_test_files_by_attractors_are_the_test_set(folder, ending, zero):
    found = read(folder(NUMPRED | ({"numpred.test.0": "VBZ\tkey 0\n"} if zero else {}), ending))
    assert found.train == [Sentence("the keys", True, None), Sentence("the NN of NNS", False, None)]
    assert found.dev == [Sentence("it", False, None)]
    expected = [Sentence("key 0", False, 0)] if zero else []
    for n in range(1, 6):
        expected += [Sentence("keys" + " of NN" * n, True, n), Sentence("key", False, n)]
    assert found.test == expected


def test_beside_the_whole_test_set_they_tell_its_attractors(folder):
    files = {name: NUMPRED[name] for name in ("numpred.train", "numpred.val")}
    files["numpred.test"] = "VBZ\ta\nVBP\ta\nVBP\tb\nVBP\tb\nVBZ\tc\n"
    plain = read(folder(files)).test
    assert [row.attractors for row in plain] == [None] * 5
    both = read(folder({"numpred.test.0": "VBP\ta\nVBZ\tc\n", "numpred.test.3": "VBP\tb\nVBZ\tc\n"})).test
    assert [(row.words, row.plural) for row in both] == [(row.words, row.plural) for row in plain]
    assert [row.attractors for row in both] == [None, 0, 3, 3, None]
    with pytest.raises(Problem, match=r"test\.1:2: the row is not in numpred\.test"):
        read(folder({"numpred.test.1": "VBP\tb\nVBZ\tb\n"}))


def test_the_official_table_is_read_by_its_header_and_split_as_published(folder):
    rows = []
    for number in range(300):
        draw = random.Random(number)
        before = [draw.choice(["the", "keys", '"', "''", 'a"b', "é"]) for _ in range(1 + number % 7)]
        rows.append([draw.choice(["VBZ", "VBP"]), number % 5, "keys", len(before) + 1, " ".join(
            [*before, "verb", str(number), "."])])  # fmt: skip
    found = read(folder(official(rows)))
    order = sorted(rows, key=lambda row: hashlib.sha256("\t".join(map(str, row)).encode()).digest())
    expected = [Sentence(row[4].split(" verb ")[0], row[0] == "VBP", row[1]) for row in order]
    assert parts(found) == [expected[:27], expected[27:30], expected[30:]]


def test_hashes_are_of_every_file_read_and_of_no_other(folder):
    where = folder(OWN, ".gz")
    folder({"notes.md": "n", "other-train.txt": "o"})
    assert read(where).hashes == {
        name: hashlib.sha256((where / name).read_bytes()).hexdigest()
        for name in ("train.tsv.gz", "dev.tsv.gz", "test.tsv.gz")
    }


COMPLETE = {
    "numpred": NUMPRED,
    "wiki": named(FULL, lambda part: f"wiki-{part}.txt"),
    "b": named(OWN, lambda name: f"b_{name}"),
    TABLE: official([["VBZ", 0, "a", 2, f"a is {n}"] for n in range(100)]),
}


@pytest.mark.parametrize("chosen", COMPLETE)
def test_a_complete_distribution_is_read_beside_incomplete_ones(folder, chosen):
    for name, files in COMPLETE.items():
        folder(files if name == chosen else dict(list(files.items())[1:]))
    assert read(folder({})).name == chosen


@pytest.mark.parametrize("other", list(COMPLETE)[1:])
def test_two_complete_ones_are_refused(folder, other):
    with pytest.raises(Problem, match=r"numpred and .* are both there: keep the one|and numpred are both"):
        read(folder(NUMPRED | COMPLETE[other]))


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({}, r"no agreement corpus is there: fetch http://tallinzen\.net/\S+/agr_50_mostcommon_10K\.tsv\.gz"
             r".*github\.com/TalLinzen/rnn_agreement"),
        ({"numpred.val": "VBZ\tit\n"}, r"beside numpred\.val, numpred\.train and numpred\.test is missing"),
        ({n: t for n, t in NUMPRED.items() if n != "numpred.test.4"}, r"numpred\.test\.4 is missing"),
        ({"a-train.txt": HEADER, "b_test.tsv": ""},
         r"a-train\.txt, a-dev\.txt and a-test\.txt is missing; beside b_test\.tsv, b_train\.tsv and b_dev"),
        (OWN | {"val.tsv": "VBZ\ta\n"}, r"dev\.tsv and val\.tsv are both there: keep the one"),
        (NUMPRED | {"numpred.valid": "VBZ\ta\n"}, r"numpred\.val and numpred\.valid are both there"),
        (OWN | {"train.tsv.gz": ""}, r"train\.tsv and train\.tsv\.gz are both there"),
    ],
)  # fmt: skip
def test_what_is_missing_or_there_twice_is_named(folder, files, what):
    with pytest.raises(Problem, match=what):
        read(folder(files))


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(Problem, match="none: there is no such folder"):
        read(tmp_path / "none")


@pytest.mark.parametrize("name", ["train.tsv", "dev.tsv", "test.tsv"])
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("VBZ\ta\nVBX\tb\n", ":2: the label is 'VBX': write VBZ"),
        ("vbz\ta\n", ":1: the label is 'vbz'"),
        ("VBZ\ta\nVBZ\n", ":2: 1 fields separated by tabs where there should be 2"),
        ("VBZ\t1\ts\ta\nVBZ\t1\ts\n", ":2: 3 fields separated by tabs where there should be 4"),
        ("VBZ\t1\ts\ta\tb\n", ":1: 5 fields"),
        ("VBZ a\n", ":1: 1 fields"),
        ("VBZ\ta\n\nVBZ\ta\n", ":2: 1 fields"),
        ("VBZ\t\n", ":1: there is no word before the verb"),
        ("VBZ\t1\t  \n", ":1: there is no word before the verb"),
        ("VBZ\t-1\ta\n", ":1: the number of attractors is '-1': write a whole number"),
        ("VBZ\t1.0\ta\n", ":1: the number of attractors is '1.0'"),
        ("VBZ\t²\ta\n", ":1: the number of attractors is '²'"),
        ("VBZ\t\ta\n", ":1: the number of attractors is ''"),
        ("", ": the file is empty"),
    ],
)
def test_a_bad_own_row_is_named(folder, name, text, what):
    with pytest.raises(Problem, match=name + what):
        read(folder(OWN | {name: text}))


@pytest.mark.parametrize("name", NUMPRED)
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("VBZ\ta\nVB\tb\n", ":2: the label is 'VB'"),
        ("VBZ\t1\ta\n", ":1: 3 fields"),
        ("VBZ\t \n", ":1: there is no word"),
    ],
)
def test_a_bad_numpred_row_is_named(folder, name, text, what):
    with pytest.raises(Problem, match=name + what):
        read(folder(NUMPRED | {name: text}))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (HEADER, ": there are no rows below the header"),
        (HEADER.replace("verb_idx", "verb"), ":1: the header has the columns .*: verb_idx must be among"),
        (HEADER.replace("subj_idx", "verb_idx"), ":1: the header .*: verb_idx must be"),
        (HEADER + "it is\t0\t1\tVBZ\tis\n", ":2: 5 fields separated by tabs where there should be 6"),
        (HEADER + "it is\t0\t2\tVBZ\tis\tare\n", ":2: the verb is outside of the sentence of 2 words"),
        (HEADER + "it is\t0\t-1\tVBZ\tis\tare\n", ":2: verb_idx is '-1': write a whole"),
        (HEADER + "is it\t1\t0\tVBZ\tis\tare\n", ":2: there is no word before the verb"),
        (HEADER + "it is\t0\t1\tVBD\tis\tare\n", ":2: the label is 'VBD'"),
    ],
)  # fmt: skip
def test_a_bad_whole_sentence_is_named(folder, text, what):
    with pytest.raises(Problem, match=r"dev\.txt" + what):
        read(folder(named(FULL | {"dev": text}, lambda part: f"{part}.txt")))


@pytest.mark.parametrize(
    ("row", "what"),
    [
        (["VBZ", 0, "a", 9, "a is"], ":102: the verb is outside of the sentence of 2 words"),
        (["VBZ", 0, "a", 0, "a is"], ":102: the verb is outside"),
        (["VBZ", 0, "a", "x", "a is"], ":102: verb_index is 'x'"),
        (["VBZ", "", "a", 2, "a is"], ":102: n_diff_intervening is ''"),
        (["VBG", 0, "a", 2, "a is"], ":102: the label is 'VBG'"),
        (["VBZ", 0, "a", 2], ":102: 4 fields"),
    ],
)
def test_a_bad_row_of_the_table_is_named(folder, row, what):
    with pytest.raises(Problem, match=TABLE + what):
        read(folder(official([["VBZ", 0, "a", 2, f"a is {n}"] for n in range(100)] + [row])))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (
            lambda text: text.replace("verb_index", "index"),
            ":1: the header .*: verb_index must be among them",
        ),
        (lambda text: text + '"VBZ\t0\ta\t2\ta is', ":102: the row cannot be read"),
        (lambda text: text[:900], ": .* rows are too few to give 1 % of them to dev"),
    ],
)
def test_a_damaged_table_is_refused(folder, change, what):
    text = official([["VBZ", 0, "a", 2, f"a is {n}"] for n in range(100)])[TABLE]
    whole_rows = change(text).rpartition("\r\n")[0] if len(change(text)) == 900 else change(text)
    with pytest.raises(Problem, match=TABLE + what):
        read(folder({TABLE: whole_rows}))

"""Vocabularies: ids that mean the same in both kinds, and texts that come back."""

import hashlib
import pickle
from collections import Counter

import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onenth.lab.data import pieces as module
from onenth.lab.data.vocabulary import BOS, EOS, PAD, UNK, Pieces, Words, load
from onenth.lab.errors import Problem

TEXTS = ["the keys of the old door", "the key is here", "keys are not doors", "a door has the key"] * 5


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def pieces(request, cache):
    return Pieces.train(iter(TEXTS), 290, cache, request.param)


@pytest.fixture
def words():
    return Words.build(TEXTS, most=5)


def test_special_tokens_are_the_first_ids(pieces):
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    model = sentencepiece.SentencePieceProcessor(model_proto=pieces._model)
    assert [model.pad_id(), model.bos_id(), model.eos_id(), model.unk_id()] == [0, 1, 2, 3]


def test_words_are_the_most_frequent_and_then_alphabetical(words):
    counts = Counter(" ".join(TEXTS).split())
    expected = sorted(sorted(counts), key=counts.get, reverse=True)[:5]
    assert [words.decode([index]) for index in range(4, len(words))] == expected
    assert len(words) == 9
    assert Words.build(reversed(TEXTS), most=5).encode(" ".join(expected)) == [4, 5, 6, 7, 8]


def test_words_encode_and_decode(words):
    ids = words.encode("the  key <pad> opens </s> the\tdoor")
    assert [index == UNK for index in ids] == [False, False, True, True, True, False, False]
    assert words.decode([BOS, *ids, EOS, PAD]) == "the key <unk> <unk> <unk> the door"


@pytest.mark.parametrize("index", [-1, 9])
def test_an_id_outside_is_refused(words, index):
    with pytest.raises(ValueError, match=f"{index} is not an id of a vocabulary of 9 tokens"):
        words.decode([index])


def test_an_id_outside_is_refused_by_pieces(pieces):
    for index in (-1, len(pieces)):
        with pytest.raises(ValueError, match="is not an id of a vocabulary"):
            pieces.decode([index])


LINE = st.text(st.characters(exclude_characters="\n", codec="utf-8"))


@settings(deadline=None, max_examples=60)
@given(LINE)
@example(" a  b ")
@example("\u2581 \ue000\ue0000\ue0001 \u2581")
@example("\0\t\r\x85\u2028\ufeff")
@example("<s> </s> <pad> <unk> <0x41>")
@example("e\u0301 \u00e9 \ufb01 \u4e2d\U00010348")
def test_any_line_comes_back(pieces, text):
    ids = pieces.encode(text)
    assert min(ids, default=4) > UNK
    assert pieces.decode([BOS, *ids, EOS, PAD]) == text
    assert pieces.encode_all([text, "the key"]) == [ids, pieces.encode("the key")]


def test_pieces_of_texts_without_spaces_keep_spaces(cache):
    pieces = Pieces.train(["key", "keys"] * 9, 280, cache)
    assert pieces.decode(pieces.encode(" the key ")) == " the key "


def test_what_was_trained_on_is_cut_into_few_pieces(pieces):
    assert 260 < len(pieces) <= 290
    assert len(pieces.encode("the key of the door")) < len("the key of the door") / 2


def test_a_long_text_is_not_passed_over(cache):
    pieces = Pieces.train(["keys " * 4000, "door"], 270, cache)
    assert min(pieces.encode("keys")) >= 260  # not spelled in bytes


def test_training_is_the_same_every_time_and_done_once(tmp_path, monkeypatch):
    first = Pieces.train(iter(TEXTS), 290, tmp_path / "a")
    assert Pieces.train(TEXTS, 290, tmp_path / "b")._model == first._model

    def refused(*arguments):
        raise AssertionError("trained again")

    monkeypatch.setattr(module, "_trained", refused)
    assert Pieces.train(iter(TEXTS), 290, tmp_path / "a")._model == first._model
    others = [(TEXTS[1:], 290, "bpe"), (TEXTS, 291, "bpe"), (TEXTS, 290, "unigram")]
    others += [(["".join(TEXTS[:2]), *TEXTS[2:]], 290, "bpe")]
    for texts, size, kind in others:
        with pytest.raises(AssertionError, match="trained again"):
            Pieces.train(texts, size, tmp_path / "a", kind)
    assert [path.suffix for path in (tmp_path / "a").iterdir()] == [".model"]


def test_a_damaged_model_in_the_cache_is_made_anew(tmp_path):
    first = Pieces.train(TEXTS, 290, tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:300] + b"?" + whole[301:])
    assert Pieces.train(TEXTS, 290, tmp_path)._model == first._model
    assert path.read_bytes() == whole


def test_both_kinds_come_back_from_their_files(words, pieces, tmp_path):
    for vocabulary, name in ((words, "v.txt"), (pieces, "v.model")):
        vocabulary.save(tmp_path / name)
        back = load(tmp_path / name)
        assert type(back) is type(vocabulary)
        assert len(back) == len(vocabulary)
        assert back.encode("the old door\u00e9") == vocabulary.encode("the old door\u00e9")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v.model", "v.txt"]


def test_words_are_stored_by_line(words, tmp_path):
    words.save(tmp_path / "v.txt")
    lines = (tmp_path / "v.txt").read_text().splitlines()
    assert lines[:4] == ["<pad>", "<s>", "</s>", "<unk>"]
    assert [words.encode(line) for line in lines[4:]] == [[index] for index in range(4, 9)]


def test_sentencepiece_reads_the_file(pieces, tmp_path):
    pieces.save(tmp_path / "v.model")
    own = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "v.model"))
    assert own.encode("the old door") == pieces.encode("the old door")


def assert_refused(act, match):
    with pytest.raises(Problem, match=match):
        act()


HEAD = "<pad>\n<s>\n</s>\n<unk>\n"


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (HEAD + "key\ndoor\nkey\n", r"v\.txt:7: the word 'key' is on line 5, too: remove"),
        (HEAD + "key\nold door\n", r"v\.txt:6: 'old door' is not one word"),
        (HEAD + "key\n\ndoor\n", r"v\.txt:6: '' is not one word"),
        ("key\ndoor\n", r"v\.txt:1: the word is 'key' instead of '<pad>'"),
        (HEAD, r"v\.txt: this has 4 lines, and no words"),
        ("", r"v\.txt: the file is empty"),
    ],
)
def test_a_damaged_list_of_words_is_refused(tmp_path, content, match):
    (tmp_path / "v.txt").write_text(content)
    assert_refused(lambda: load(tmp_path / "v.txt"), match)


def test_a_damaged_model_is_refused_everywhere(pieces, tmp_path):
    path = tmp_path / "v.model"
    pieces.save(path)
    whole = path.read_bytes()
    for place in range(0, len(whole), 97):
        for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :]):
            path.write_bytes(damaged)
            assert_refused(
                lambda: load(path), r"v\.model: this is damaged, or no file that Pieces\.save wrote"
            )


@pytest.mark.parametrize("content", [pickle.dumps({"a": 1}), b"\xff" * 99, b"", HEAD.encode()])
def test_another_file_is_refused(tmp_path, content):
    (tmp_path / "v.model").write_bytes(content)
    assert_refused(lambda: load(tmp_path / "v.model"), r"v\.model: this is damaged, or no file")


@pytest.mark.parametrize("name", ["none.txt", "none.model", "v.json"])
def test_a_file_that_is_not_there_or_no_vocabulary(tmp_path, name):
    match = "this is no vocabulary" if name == "v.json" else "there is no such file|it cannot be read"
    assert_refused(lambda: load(tmp_path / name), match)


def test_a_file_in_no_folder_is_not_written(words, pieces, tmp_path):
    for vocabulary in (words, pieces):
        assert_refused(lambda own=vocabulary: own.save(tmp_path / "no" / "v"), "v: it cannot be written")


@pytest.mark.parametrize(
    ("texts", "size", "match"),
    [
        ([], 300, "the texts are empty"),
        (["", "  "], 300, "the texts are empty"),
        (["the key"], 260, "give at least 261"),
        (["abcdefghijklmnopqrstuvwxyz"], 270, "give at least 286"),
        (["the key", "a\nb"], 300, "text 2 of a vocabulary has a newline in it"),
        (["the\0key"], 300, "text 1 of a vocabulary has a NUL in it"),
    ],
)
def test_texts_that_cannot_be_trained_on(tmp_path, texts, size, match):
    assert_refused(lambda: Pieces.train(iter(texts), size, tmp_path), match)
    assert list(tmp_path.iterdir()) == []


def test_a_size_that_the_texts_cannot_fill(cache, tmp_path):
    assert 260 < len(Pieces.train(["the key"], 20_000, cache)) < 300
    assert 260 < len(Pieces.train(TEXTS, 20_000, cache, "unigram")) < 400
    match = "there is too little text to train size=20000 pieces on: give more text"
    assert_refused(lambda: Pieces.train(["x" * 50], 20_000, tmp_path, "unigram"), match)


@pytest.mark.parametrize(
    ("texts", "most", "match"),
    [([], 5, "no words"), (["<s> <pad>"], 5, "no words"), (["key"], 0, "most=0"), (["k\0y"], 5, "NUL")],
)
def test_texts_that_words_cannot_be_built_from(texts, most, match):
    assert_refused(lambda: Words.build(texts, most), match)


def test_the_cache_must_be_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    assert_refused(lambda: Pieces.train(TEXTS, 290, tmp_path / "file"), "file: it cannot be made")


def test_the_name_in_the_cache_is_a_hash(cache, pieces):
    for path in cache.iterdir():
        content = path.read_bytes()
        assert len(path.stem) == 64
        assert content[-32:] == hashlib.sha256(content[:-35]).digest()

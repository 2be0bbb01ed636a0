"""BLEU equals sacrebleu's, as a whole and from statistics."""

import math
import random

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from onenth.lab.errors import Problem
from onenth.lab.measure.bleu import TOKENIZERS, bleu, of, statistics

WORDS = ["the", "The", "cat", "sat", "don't", "3.5", "mat.", "(well),", "x&amp;y", "—", "is", "a"]


def corpus(seed, sentences=20, kept=0.7, longest=15):
    chance = random.Random(seed)
    references = [" ".join(chance.choices(WORDS, k=chance.randint(1, longest))) for _ in range(sentences)]
    hypotheses = [
        " ".join(word if chance.random() < kept else chance.choice(WORDS) for word in text.split())
        for text in references
    ]
    return hypotheses, references


CORPORA = {
    "usual": corpus(0),
    "poor": corpus(1, sentences=4, kept=0),
    "perfect": corpus(2, kept=1),
    "short": corpus(3, longest=3),
    "long hypotheses": (corpus(4)[1], [text[: len(text) // 2] for text in corpus(4)[1]]),
    "short hypotheses": ([text[: len(text) // 2] for text in corpus(5)[1]], corpus(5)[1]),
    "nothing said": (["", ""], ["the cat", "sat"]),
    "nothing in common": (["a b c d e"], ["v w x y z"]),
    "two tokens in common": (["a b c d e f"], ["a b x d e y"]),
    "one token in common": (["a b c d e f"], ["a x y z v w"]),
    "an empty reference": (["the cat sat on it", "well"], ["the cat sat on it", ""]),
}


@pytest.mark.parametrize("tokenize", ["13a", "none"])
@pytest.mark.parametrize("name", CORPORA)
def test_statistics_make_sacrebleus_bleu(name, tokenize):
    hypotheses, references = CORPORA[name]
    expected = BLEU(tokenize=tokenize, force=True).corpus_score(hypotheses, [references])
    found = statistics(hypotheses, references, tokenize)
    assert found.shape == (len(hypotheses), 10)
    assert found.sum(0).tolist() == [
        *expected.counts, *expected.totals, expected.sys_len, expected.ref_len,
    ]  # fmt: skip
    assert of(found.sum(0)).item() == pytest.approx(expected.score, abs=1e-9)
    assert bleu(hypotheses, references, tokenize).value == expected.score


def test_resamples_are_computed_at_once():
    hypotheses, references = corpus(6)
    rows = np.random.default_rng(0).integers(20, size=(3, 40, 20))
    rows[0, 0] = 0  # one sentence, twenty times
    found = of(statistics(hypotheses, references)[rows].sum(2))
    assert found.shape == (3, 40)
    for at in np.ndindex(3, 40):
        own = [hypotheses[row] for row in rows[at]], [[references[row] for row in rows[at]]]
        assert found[at] == pytest.approx(BLEU().corpus_score(*own).score, abs=1e-9)


def test_bleu_by_hand():
    """Of 7 tokens 6 match, of 6 pairs 4, of 5 triples 3, of 4 fours 2; one token less than the reference."""
    expected = 100 * math.exp(1 - 8 / 7) * (6 / 7 * 4 / 6 * 3 / 5 * 2 / 4) ** 0.25
    assert bleu(["a b c d e x g"], ["a b c d e f g h"]).value == pytest.approx(expected)


def test_case_counts():
    assert bleu(["The cat sat on it"], ["the cat sat on it"]).value < 100


@pytest.mark.parametrize("tokenize", TOKENIZERS)
def test_the_signature_names_the_tokens(tokenize):
    signature = bleu(*corpus(0), tokenize).signature
    assert f"nrefs:1|case:mixed|eff:no|tok:{tokenize}|smooth:exp|version:" in signature


@pytest.mark.parametrize("tokenize", ["13a", "none"])
def test_nothing_is_said_of_text_cut_already(tokenize, caplog):
    texts = ["well , this has been cut already ."] * 100
    assert bleu(texts, texts, tokenize).value == pytest.approx(100)
    statistics(texts, texts, tokenize)
    assert not caplog.text


REFUSED = {
    "one text": (("a b", "a b"), "put it into a list"),
    "two lengths": ((["a", "b"], ["a"]), "2 hypotheses and 1 references"),
    "nothing": (([], []), "no sentences"),
    "unknown tokens": ((["a"], ["a"], "flores200"), "'flores200': choose one of 13a, char, intl, none, zh"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("act", [bleu, statistics])
def test_refuses_what_has_no_bleu(name, act):
    arguments, match = REFUSED[name]
    with pytest.raises(Problem, match=match):
        act(*arguments)


def test_refuses_other_statistics():
    with pytest.raises(ValueError, match=r"10 statistics, and the shape is \(4, 11\)"):
        of(np.ones((4, 11)))

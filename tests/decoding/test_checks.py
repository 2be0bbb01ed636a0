"""Bad input is refused in words that say what to write instead."""

import math

import pytest
import torch

from onenth.decoding import beam_search, greedy, sample


class Model:
    vocabulary = 8

    def __init__(self, logits=None):
        self.given = logits

    def logits(self, tokens):
        return torch.zeros(len(tokens), 8) if self.given is None else self.given

    def select(self, rows):
        pass


class Nothing:
    vocabulary = 8

    def logits(self, tokens):
        return torch.zeros(len(tokens), 8)


def beam(sentences=2, steps=None, **options):
    return beam_search(steps or Model(), sentences, **options)


def rows(count=2, steps=None, **options):
    return greedy(steps or Model(), count, **options)


def drawn(count=2, steps=None, **options):
    return sample(steps or Model(), count, **options)


def given(logits):
    return beam(steps=Model(logits), beam=2)


CASES = {
    "beam 0": (lambda: beam(beam=0), ValueError, ["beam=0", "at least 1"]),
    "beam above the vocabulary": (lambda: beam(beam=9), ValueError, ["beam=9", "steps.vocabulary=8"]),
    "beam float": (lambda: beam(beam=4.0), TypeError, ["beam=4.0", "float"]),
    "n_best 0": (lambda: beam(n_best=0), ValueError, ["n_best=0", "at least 1"]),
    "n_best above beam": (lambda: beam(beam=3, n_best=4), ValueError, ["n_best=4", "beam=3"]),
    "alpha -1": (lambda: beam(alpha=-1), ValueError, ["alpha=-1", "at least 0"]),
    "alpha NaN": (lambda: beam(alpha=math.nan), ValueError, ["alpha=nan", "finite"]),
    "alpha infinite": (lambda: beam(alpha=math.inf), ValueError, ["alpha=inf", "finite"]),
    "alpha string": (lambda: beam(alpha="1"), TypeError, ["alpha='1'", "str"]),
    "alpha too large": (lambda: beam(alpha=1e6), ValueError, ["alpha=1000000.0", "max_length=256"]),
    "sentences 0": (lambda: beam(0), ValueError, ["sentences=0", "at least 1"]),
    "sentences bool": (lambda: beam(True), TypeError, ["sentences=True", "bool"]),
    "rows 0": (lambda: rows(0), ValueError, ["rows=0", "at least 1"]),
    "max_length 0": (lambda: rows(max_length=0), ValueError, ["max_length=0", "at least 1"]),
    "max_length float": (lambda: rows(max_length=9.0), TypeError, ["max_length=9.0", "float"]),
    "max_length of three": (
        lambda: rows(max_length=torch.ones(3).long()), ValueError, ["max_length", "(3,)", "(2,)"],
    ),
    "max_lengths float": (lambda: rows(max_length=torch.ones(2)), TypeError, ["max_length", "float32"]),
    "max_lengths 0": (lambda: rows(max_length=torch.tensor([3, 0])), ValueError, ["max_length=0"]),
    "min_length": (lambda: rows(max_length=3, min_length=4), ValueError, ["min_length=4", "max_length=3"]),
    "min_length -1": (lambda: rows(min_length=-1), ValueError, ["min_length=-1", "at least 0"]),
    "stop_every 0": (lambda: rows(stop_every=0), ValueError, ["stop_every=0", "at least 1"]),
    "bos": (lambda: rows(bos=8), ValueError, ["bos=8", "vocabulary − 1=7"]),
    "bos of a row": (lambda: rows(bos=torch.tensor([0, 8])), ValueError, ["bos=8", "vocabulary − 1=7"]),
    "bos of three": (lambda: rows(bos=torch.ones(3).long()), ValueError, ["bos", "(3,)", "(2,)"]),
    "bos None": (lambda: rows(bos=None), TypeError, ["bos=None", "NoneType"]),
    "eos": (lambda: beam(eos=-1), ValueError, ["eos=-1", "at least 0"]),
    "pad": (lambda: drawn(pad=8), ValueError, ["pad=8", "vocabulary − 1=7"]),
    "temperature 0": (lambda: drawn(temperature=0), ValueError, ["temperature=0", "greedy"]),
    "temperature NaN": (lambda: drawn(temperature=math.nan), ValueError, ["temperature=nan", "finite"]),
    "temperature tiny": (lambda: drawn(temperature=1e-50), ValueError, ["temperature=1e-50", "greedy"]),
    "top_p 0": (lambda: drawn(top_p=0), ValueError, ["top_p=0", "above 0"]),
    "top_p 1.5": (lambda: drawn(top_p=1.5), ValueError, ["top_p=1.5", "at most 1"]),
    "top_k 0": (lambda: drawn(top_k=0), ValueError, ["top_k=0", "at least 1"]),
    "top_k above": (lambda: drawn(top_k=9), ValueError, ["top_k=9", "steps.vocabulary=8"]),
    "top_k float": (lambda: drawn(top_k=3.0), TypeError, ["top_k=3.0", "float"]),
    "no steps": (lambda: rows(steps=object()), TypeError, ["object", "vocabulary", "onenth.decoding.Steps"]),
    "no logits": (lambda: rows(steps=type("No", (), {"vocabulary": 3})()), TypeError, ["No", "logits"]),
    "no select": (lambda: beam(steps=Nothing()), TypeError, ["Nothing", "select"]),
    "logits too wide": (lambda: given(torch.zeros(4, 9)), ValueError, ["steps.logits", "(4, 8)", "(4, 9)"]),
    "logits of few": (lambda: given(torch.zeros(2, 8)), ValueError, ["steps.logits", "(4, 8)", "(2, 8)"]),
    "logits with time": (lambda: given(torch.zeros(4, 1, 8)), ValueError, ["steps.logits", "(4, 1, 8)"]),
    "logits list": (lambda: given([0.0]), TypeError, ["steps.logits", "list"]),
    "logits whole": (lambda: given(torch.zeros(4, 8).long()), TypeError, ["steps.logits", "int64"]),
    "logits elsewhere": (
        lambda: given(torch.zeros(4, 8, device="meta")), ValueError, ["steps.logits", "meta", "device="],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(case):
    act, kind, words = CASES[case]
    with pytest.raises(kind) as refusal:
        act()
    for word in words:
        assert word in str(refusal.value)


def test_select_is_for_beams():
    assert rows(steps=Nothing(), max_length=2).lengths.tolist() == [[2], [2]]
    assert beam(steps=Nothing(), beam=1, max_length=2).scores.isfinite().all()


def test_gradients_are_not_kept():
    logits = torch.zeros(2, 8, requires_grad=True)
    assert not rows(steps=Model(logits), max_length=3).scores.requires_grad

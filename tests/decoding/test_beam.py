"""Beam search against every possible text, and against lists."""

import math
import random

import pytest
import torch
from decoding.models import Tree, assert_same, automaton, dense, exhaustive, search, texts

from onenth.decoding import beam_search


def found(of, vocabulary, *, beam, sentences=1, **options):
    steps = Tree(of, vocabulary, sentences, beam)
    return beam_search(steps, sentences, beam=beam, bos=0, eos=vocabulary - 1, pad=0, **options)


@pytest.mark.parametrize("case", range(100))
def test_a_full_beam_finds_the_best_of_all_texts_of_two_tokens(case):
    draw = random.Random(case)
    vocabulary = draw.randint(2, 6)
    options = {"alpha": draw.choice([0, draw.uniform(0, 3)]), "max_length": draw.randint(1, 2)}
    options["n_best"] = draw.randint(1, vocabulary)
    of = dense(case, vocabulary)
    assert_same(
        texts(found(of, vocabulary, beam=vocabulary, **options)), exhaustive(of, vocabulary, **options)
    )


@pytest.mark.parametrize("case", range(100))
def test_a_beam_as_wide_as_the_automaton_finds_the_best_of_all_its_texts(case):
    draw = random.Random(case)
    vocabulary = draw.randint(2, 6)
    beam = draw.randint(1, vocabulary)
    options = {"alpha": draw.choice([0, draw.uniform(0, 3)]), "max_length": draw.randint(1, 4)}
    options["n_best"] = draw.randint(1, beam)
    of = automaton(case, vocabulary, width=beam)
    decoded = found(of, vocabulary, beam=beam, **options)
    assert_same(texts(decoded), exhaustive(of, vocabulary, **options))
    missing = decoded.scores == -math.inf
    assert not decoded.lengths[missing].any()
    assert not decoded.tokens[missing].any()


@pytest.mark.parametrize("case", range(200))
def test_it_does_what_lists_do(case):
    draw = random.Random(case)
    vocabulary = draw.randint(2, 9)
    beam = draw.randint(1, vocabulary)
    options = {"alpha": draw.choice([0, draw.uniform(0, 2)]), "max_length": draw.randint(3, 12)}
    options |= {"n_best": draw.randint(1, beam), "min_length": draw.choice([0, 0, 1, 2, 3])}
    of = dense(case, vocabulary, spread=draw.uniform(0.5, 3), end=draw.uniform(-1, 2))
    expected = search(of, vocabulary, beam=beam, **options)
    decoded = found(of, vocabulary, beam=beam, **options)
    assert_same(texts(decoded), expected)
    assert_same(texts(found(of, vocabulary, beam=beam, stop_every=None, **options)), expected)
    assert decoded.scores[0].tolist() == sorted(decoded.scores[0].tolist(), reverse=True)


@pytest.mark.parametrize("case", range(20))
def test_a_batch_is_its_sentences(case):
    draw = random.Random(case)
    vocabulary, sentences = draw.randint(3, 8), 5
    beam = draw.randint(1, vocabulary)
    limits = torch.tensor([draw.randint(1, 9) for _ in range(sentences)])
    first = torch.tensor([draw.randrange(vocabulary) for _ in range(sentences)])
    of = dense(case, vocabulary, end=1.0)
    steps = Tree(of, vocabulary, sentences, beam)
    decoded = beam_search(
        steps, sentences, beam=beam, n_best=beam, bos=first, eos=vocabulary - 1, max_length=limits,
        stop_every=draw.randint(1, 4),
    )  # fmt: skip
    for sentence in range(sentences):
        assert_same(
            texts(decoded, sentence),
            search(
                of, vocabulary, beam=beam, alpha=0.6, n_best=beam, max_length=int(limits[sentence]),
                sentence=sentence, bos=int(first[sentence]),
            ),
        )  # fmt: skip


def test_it_stops_as_soon_as_nothing_better_can_come():
    ends = torch.tensor([-9.0, -9.0, 9.0])
    steps = Tree(lambda sentence, prefix: ends, 3, 2, 2)
    decoded = beam_search(steps, 2, beam=2, eos=2, max_length=100)
    assert decoded.tokens.tolist() == [[[2]], [[2]]]
    assert {len(prefix) for prefix in steps.prefixes} == {1}


def test_without_an_eos_all_go_to_the_end():
    of = dense(0, 5)
    decoded = beam_search(Tree(of, 5, 1, 3), 1, beam=3, n_best=3, bos=0, eos=None, max_length=7)
    assert decoded.lengths.tolist() == [[7, 7, 7]]
    assert len(set(texts(decoded))) == 3


def test_padding():
    steps = Tree(lambda sentence, prefix: torch.tensor([0.0, -9, -9, 9 if sentence else -9]), 4, 2, 2)
    decoded = beam_search(steps, 2, beam=2, eos=3, pad=1, max_length=3)
    assert decoded.tokens.tolist() == [[[0, 0, 0]], [[3, 1, 1]]]
    assert decoded.lengths.tolist() == [[3], [1]]


def test_a_sentence_without_a_text():
    steps = Tree(lambda sentence, prefix: torch.full((3,), -math.inf if sentence else 0.0), 3, 2, 2)
    decoded = beam_search(steps, 2, beam=2, n_best=2, bos=0, eos=2, max_length=2)
    assert decoded.scores[1].tolist() == [-math.inf, -math.inf]
    assert decoded.lengths[1].tolist() == [0, 0]
    assert decoded.scores[0].isfinite().all()


@pytest.mark.parametrize("stop_every", [1, 3, None])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_logits_that_are_no_numbers_are_named(value, stop_every):
    of = dense(0, 5, end=-9.0)

    def spoilt(sentence, prefix):
        logits = of(sentence, prefix).clone()
        if sentence == 1 and len(prefix) == 3:
            logits[3] = value
        return logits

    with pytest.raises(ValueError, match=rf"steps\.logits gave {value} at step 2, row 2"):
        found(spoilt, 5, beam=2, sentences=2, max_length=9, stop_every=stop_every)


def test_what_is_dead_may_be_anything():
    of = automaton(1, 4, width=2)

    def spoilt(sentence, prefix):
        logits = of(sentence, prefix)
        return logits * math.nan if logits.max() == -math.inf else logits

    options = {"alpha": 0.6, "max_length": 4, "n_best": 3}
    assert_same(texts(found(spoilt, 4, beam=3, **options)), exhaustive(of, 4, **options))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_is_normalised_in_float32(dtype):
    of = dense(0, 6)
    low = found(lambda *place: of(*place).to(dtype), 6, beam=3, max_length=5)
    exact = found(lambda *place: of(*place).to(dtype).double(), 6, beam=3, max_length=5)
    assert low.scores.dtype == torch.float32
    assert torch.equal(low.tokens, exact.tokens)
    torch.testing.assert_close(low.scores.double(), exact.scores, rtol=1e-6, atol=0)

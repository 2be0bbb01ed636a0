"""Greedy decoding and sampling."""

import math

import pytest
import torch
from decoding.models import Tree, assert_same, dense, texts

from onenth.decoding import beam_search, greedy, sample


class Constant:
    """The same distribution at every step."""

    def __init__(self, logits):
        self.row, self.vocabulary = logits, len(logits)

    def logits(self, tokens):
        return self.row.expand(len(tokens), -1)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def loop(of, vocabulary, max_length, min_length, sentence):
    """The likeliest token, over and over."""
    tokens, logp = (0,), 0.0
    while len(tokens) <= max_length and (len(tokens) == 1 or tokens[-1] != vocabulary - 1):
        own = of(sentence, tokens).log_softmax(0)
        possible = own[:-1] if len(tokens) < min_length else own
        logp += possible.max().item()
        tokens += (int(possible.argmax()),)
    return [(logp, tokens[1:])]


@pytest.mark.parametrize("case", range(50))
def test_greedy_is_a_loop_and_a_beam_of_one(case):
    vocabulary, max_length, min_length = 2 + case % 7, 1 + case % 11, case % 2
    of = dense(case, vocabulary, end=0.5)
    options = {"bos": 0, "eos": vocabulary - 1, "max_length": max_length, "min_length": min_length}
    decoded = greedy(Tree(of, vocabulary, 4), 4, **options)
    one = beam_search(Tree(of, vocabulary, 4), 4, beam=1, alpha=0, **options)
    for sentence in range(4):
        expected = loop(of, vocabulary, max_length, min_length, sentence)
        assert_same(texts(decoded, sentence), expected)
        assert_same(texts(one, sentence), expected)


def test_greedy_takes_a_limit_and_a_beginning_for_each_row():
    decoded = greedy(
        Constant(torch.eye(4)[1]), 3, bos=torch.tensor([0, 1, 2]), eos=3, max_length=torch.tensor([1, 3, 2])
    )
    assert decoded.tokens[:, 0].tolist() == [[1, 0, 0], [1, 1, 1], [1, 1, 0]]
    assert decoded.lengths.tolist() == [[1], [3], [2]]


def test_a_shortest_length_keeps_the_end_away():
    logits = torch.tensor([0.0, 1.0, 9.0])
    for decoded in (
        greedy(Constant(logits), 2, eos=2, min_length=3),
        sample(Constant(logits), 2, eos=2, min_length=3, top_k=1),
        beam_search(Tree(lambda *place: logits, 3, 2, 2), 2, beam=2, eos=2, min_length=3),
    ):
        assert decoded.lengths.tolist() == [[3], [3]]
        assert decoded.tokens[:, 0].tolist() == [[1, 1, 2]] * 2


@pytest.mark.parametrize("decode", [greedy, sample])
def test_a_row_without_a_possible_token_does_not_exist(decode):
    table = torch.tensor([[0.0, 0, -math.inf], [-math.inf] * 3, [-math.inf, -math.inf, 0]])
    table[0, 0] = -math.inf
    steps = Tree(lambda sentence, prefix: table[prefix[-1]], 3, 2)
    decoded = decode(steps, 2, bos=torch.tensor([0, 2]), eos=2, max_length=4)
    assert (decoded.scores[0].item(), decoded.lengths[0].item()) == (-math.inf, 0)
    assert not decoded.tokens[0].any()
    assert (decoded.scores[1].item(), decoded.lengths[1].item()) == (0, 1)


@pytest.mark.parametrize("stop_every", [1, 4, None])
@pytest.mark.parametrize("decode", [greedy, sample])
def test_logits_that_are_no_numbers_are_named(decode, stop_every):
    of = dense(0, 5, end=-20.0)

    def spoilt(sentence, prefix):
        return of(sentence, prefix) * (math.nan if (sentence, len(prefix)) == (1, 3) else 1)

    with pytest.raises(ValueError, match=r"steps\.logits gave nan at step 2, row 1"):
        decode(Tree(spoilt, 5, 3), 3, bos=0, eos=4, max_length=9, stop_every=stop_every)


def test_a_row_that_ended_may_be_anything():
    logits = torch.tensor([-9.0, -9.0, 9.0])
    steps = Tree(
        lambda sentence, prefix: logits.flip(0) if sentence else logits * (len(prefix) < 2 or math.nan), 3, 2
    )
    assert greedy(steps, 2, eos=2, max_length=3).lengths.tolist() == [[1], [3]]


LOGITS = torch.tensor([1.0, -math.inf, 0.3, 2.0, -1.0, 0.0, 1.5, -2.0])


@pytest.mark.parametrize(
    ("options", "support"),
    [
        ({}, [0, 2, 3, 4, 5, 6, 7]),
        ({"temperature": 0.5}, [0, 2, 3, 4, 5, 6, 7]),
        ({"top_k": 3}, [0, 3, 6]),
        ({"top_k": 8}, [0, 2, 3, 4, 5, 6, 7]),
        ({"top_p": 0.5}, [3, 6]),
        ({"top_p": 0.01}, [3]),
        ({"top_p": 1.0}, [0, 2, 3, 4, 5, 6, 7]),
        ({"top_k": 3, "top_p": 0.8}, [3, 6]),
        ({"temperature": 2.0, "top_k": 4, "top_p": 0.7}, [0, 3, 6]),
    ],
)
def test_frequencies(options, support):
    rows = 40_000
    decoded = sample(Constant(LOGITS), rows, eos=None, max_length=1, generator=seeded(), **options)
    counts = decoded.tokens.flatten().bincount(minlength=8)
    assert counts.nonzero().flatten().tolist() == support
    share = torch.zeros(8)
    share[support] = (LOGITS[support] / options.get("temperature", 1)).softmax(0)
    expected = rows * share[support]
    chi = ((counts[support] - expected).square() / expected).sum()
    freedom = len(support) - 1
    assert chi <= freedom + 4 * math.sqrt(2 * freedom)
    torch.testing.assert_close(decoded.scores.flatten(), LOGITS.log_softmax(0)[decoded.tokens.flatten()])


def test_the_same_seed_draws_the_same():
    steps = Constant(torch.randn(50))
    one, two, other = (
        sample(steps, 8, max_length=20, top_p=0.9, generator=seeded(s)).tokens for s in (1, 1, 2)
    )
    assert torch.equal(one, two)
    assert one.shape != other.shape or not torch.equal(one, other)

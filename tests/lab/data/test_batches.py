"""Batches: every row once an epoch, the same for a seed, of the size that was asked for."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from onenth.lab.data.batches import EMPTY, Batches, bounds
from onenth.lab.data.encoded import Encoded
from onenth.lab.data.loader import stream
from onenth.lab.errors import Problem


class Rows:
    """Rows of given lengths, each of its own number over and over."""

    def __init__(self, lengths):
        self.lengths = np.array(lengths)
        self.counts = self.lengths - 1
        self._ids = Encoded.of([[row + 1] * length for row, length in enumerate(lengths)])

    def collate(self, rows, length=None):
        return {"ids": self._ids.padded(rows, length)}


LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=80)
SETTINGS = {
    "lengths": LENGTHS, "tokens": st.integers(1, 300), "seed": st.integers(0, 2**32 - 1),
    "epoch": st.integers(0, 5), "fixed": st.booleans(), "ranks": st.integers(1, 3),
}  # fmt: skip


@settings(max_examples=50)
@given(**SETTINGS)
def test_every_row_is_in_one_batch_of_an_epoch(lengths, tokens, seed, epoch, fixed, ranks):
    rows = Rows(lengths)
    longest = max(1, max(lengths) - 3)
    if min(lengths) > longest:
        longest = max(lengths)
    parts = [Batches(rows, tokens, longest, seed, rank, ranks, fixed) for rank in range(ranks)]
    plan = parts[0].plan(epoch)
    assert len(plan) == len(parts[0])
    assert parts[0].left_out == sum(length > longest for length in lengths)
    seen = []
    for own, length in plan:
        assert len(own) * length <= tokens or len(own) == 1
        made = [part.make(own, length) for part in parts]
        assert {batch.count for batch in made} == {int(rows.counts[own].sum())}
        assert {batch.tokens for batch in made} == {int(rows.lengths[own].sum())}
        ids = [batch.tensors["ids"] for batch in made]
        assert all(len(each) >= 1 for each in ids)
        if fixed:
            assert {each.shape for each in ids} == {(-(-max(1, tokens // length) // ranks), length)}
        else:
            assert all(each.shape[1] <= max(rows.lengths[own]) for each in ids)
        for each in ids:
            for row in each:
                if row[0] > 0:
                    seen.append(int(row[0]) - 1)
                    assert (row != 0).sum() == rows.lengths[row[0] - 1]
    assert sorted(seen) == [row for row, length in enumerate(lengths) if length <= longest]


@given(**SETTINGS)
def test_the_plan_is_that_of_its_seed_and_epoch(lengths, tokens, seed, epoch, fixed, ranks):
    rows = Rows(lengths)
    one, other = (Batches(rows, tokens, 60, seed, rank, ranks, fixed) for rank in (0, ranks - 1))
    for (a, x), (b, y) in zip(one.plan(epoch), other.plan(epoch), strict=True):
        assert np.array_equal(a, b)
        assert x == y


def test_epochs_and_seeds_have_orders_of_their_own():
    rows = Rows([5] * 200)
    orders = {
        tuple(np.concatenate([own for own, _ in Batches(rows, 40, 60, seed).plan(epoch)]))
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(orders) == 9


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("start", [0, 1, 7, 30])
def test_a_stream_goes_on_from_any_batch(start, workers):
    batches = Batches(Rows([1 + row % 17 for row in range(50)]), 64, 60, 0)
    planned = [own for epoch in range(6) for own in batches.plan(epoch)]
    ahead = stream(batches, start, workers)
    for rows, length in planned[start : start + 25]:
        found, wanted = next(ahead), batches.make(rows, length)
        assert np.array_equal(found.rows, rows)
        assert torch.equal(found.tensors["ids"], wanted.tensors["ids"])


def test_starting_a_stream_draws_no_random_numbers():
    before = torch.get_rng_state()
    next(stream(Batches(Rows([3]), 64, 60, 0), 0, 2))
    assert torch.equal(torch.get_rng_state(), before)


def test_rows_that_are_all_too_long_are_a_problem():
    with pytest.raises(Problem, match=r"no row of the training set has at most 5 tokens.*training\.longest"):
        Batches(Rows([6, 7]), 64, 5, 0)


@given(longest=st.integers(1, 5000))
def test_lengths_of_batches_waste_less_than_half(longest):
    found = [*bounds(longest)]
    assert found == sorted(set(found))
    assert found[-1] >= longest
    assert len(found) == 1 or found[-2] < longest
    assert all(b <= 1.5 * a for a, b in pairwise(found))


@given(st.lists(st.lists(st.integers(1, 9), max_size=6), max_size=8))
def test_sentences_come_back(sentences):
    encoded = Encoded.of(sentences)
    assert len(encoded) == len(sentences)
    assert [encoded[row].tolist() for row in range(len(sentences))] == sentences


def test_padding():
    encoded = Encoded.of([[4, 5, 6], [7]])
    assert encoded.padded(np.array([1, 0])).tolist() == [[7, 0, 0], [4, 5, 6]]
    assert encoded.padded(np.array([0, EMPTY]), 5, pad=-1).tolist() == [[4, 5, 6, -1, -1], [-1] * 5]
    assert encoded.padded(np.array([0])).dtype == torch.int64

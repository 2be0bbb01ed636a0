"""Two stages give what one gives."""

import math

import pytest
import torch

from onenth.decoding.beams import Beams
from onenth.decoding.plan import Plan
from onenth.decoding.sampling import nucleus
from onenth.decoding.top import LARGE, draw, top


@pytest.mark.parametrize("columns", [7, LARGE - 1, LARGE, LARGE + 1, LARGE + 31, 3 * LARGE + 17])
@pytest.mark.parametrize("k", [1, 5, 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_top_is_topk(columns, k, dtype):
    logits = torch.randn(6, columns, dtype=dtype)
    logits[1, -1] = 9  # in what no block holds
    logits[2, : columns - 3] = -math.inf
    values, places = top(logits, k)
    torch.testing.assert_close(values, logits.topk(k).values, rtol=0, atol=0)
    assert torch.equal(logits.gather(1, places), values)
    assert all(len(set(row)) == k for row in places.tolist())


@pytest.mark.parametrize("column", [0, LARGE // 2, LARGE + 2])
def test_top_shows_what_is_no_number(column):
    logits = torch.randn(2, LARGE + 3)
    logits[1, column] = math.nan
    assert top(logits, 3)[0][:, 0].isnan().tolist() == [False, True]


@pytest.mark.parametrize("columns", [5, LARGE, LARGE + 5])
def test_draws_are_as_frequent_as_the_shares(columns):
    draws = 4_000
    shares = torch.zeros(columns)
    places = torch.tensor([0, 2, columns // 2 + 1, columns - 1])
    shares[places] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    drawn = draw(shares.expand(draws, -1), torch.Generator().manual_seed(0)).flatten()
    counts = drawn.bincount(minlength=columns)
    assert counts.sum() == counts[places].sum()
    expected = draws * torch.tensor([0.1, 0.2, 0.3, 0.4])
    assert ((counts[places] - expected).square() / expected).sum() < 16


@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0, 12.0])
@pytest.mark.parametrize("top_p", [0.2, 0.9])
def test_the_nucleus_is_that_of_a_sort(spread, top_p):
    shares = (spread * torch.randn(3, 5000, dtype=torch.float64)).softmax(1)
    largest, places = nucleus(shares, top_p)
    for row in range(3):
        sizes = shares[row].sort(descending=True).values.cumsum(0)
        count = int((sizes < top_p).sum()) + 1
        kept = largest[row] > 0
        assert abs(int(kept.sum()) - count) <= (spread == 0)  # where all shares are equal, by rounding
        assert torch.equal(shares[row, places[row]][kept], largest[row][kept])


def test_a_step_is_compiled_as_one_graph():
    class Model:
        vocabulary = 11
        logits = select = None

    options = {
        "bos": 1,
        "eos": 2,
        "pad": 0,
        "max_length": 6,
        "min_length": 2,
        "stop_every": 1,
        "device": None,
    }
    plan = Plan.make(Model(), ("sentences", 2), 3, **options)
    eager, compiled = (Beams(plan, 0.6, 2, torch.float32) for _ in range(2))
    step = torch.compile(compiled.advance, backend="eager", fullgraph=True, dynamic=False)
    for logits in 2 * torch.randn(6, 6, 11):
        eager.advance(logits)
        step(logits)
    for one, two in zip(eager.best(), compiled.best(), strict=True):
        assert torch.equal(one, two)

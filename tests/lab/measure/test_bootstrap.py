"""The bootstrap: its distribution by enumeration, and whether its intervals and p hold what they say."""

import math
from itertools import product
from statistics import NormalDist, mean

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from onenth.lab.errors import Problem
from onenth.lab.measure.bleu import statistics
from onenth.lab.measure.bootstrap import compare, spread

REFERENCES = ["the cat sat on the mat", "a dog ran", "it is what it is , he said", "no one knew of it at all"]
TEXTS = [
    ["the cat sat on a mat", "a dog ran", "it is what it was , he said", "no one knew it at all"],
    ["the cat is on the mat", "the dog ran", "it is what it is he said", "no one knew of it"],
    ["the cat sat on the mat", "a dog", "what it is , he said", "none knew of it at all"],
    ["cat sat mat", "a dog went", "it is so , he said", "no one knew of this at all"],
    ["the cat sat on the rug", "one dog ran", "it is what it is", "we knew of it at all"],
]
ANSWERS = [[1, 1, 0, 1], [0, 1, 0, 1], [1, 1, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]]


def accuracy_of(run, rows):
    return 100 * sum(ANSWERS[run][row] for row in rows) / len(rows)


def bleu_of(run, rows):
    texts, references = [TEXTS[run][row] for row in rows], [REFERENCES[row] for row in rows]
    return BLEU(tokenize="none").corpus_score(texts, [references]).score


MEASURES = {
    "accuracy": (accuracy_of, [np.array(run) for run in ANSWERS]),
    "BLEU": (bleu_of, [statistics(run, REFERENCES, "none") for run in TEXTS]),
}


def seed_draws(runs):
    """All equally likely draws: one less than there are runs."""
    return list(product(runs, repeat=max(len(runs) - 1, 1)))


@pytest.mark.parametrize(("a", "b"), [([0], [3]), ([0], [1]), ([0, 1, 2], [3, 4])], ids=str)
@pytest.mark.parametrize("measure", MEASURES)
def test_resamples_are_distributed_as_all_draws_that_there_are(measure, a, b):
    value, runs = MEASURES[measure]
    every = []
    for rows in product(range(4), repeat=4):
        values = [value(run, rows) for run in range(5)]
        every += [
            mean(values[run] for run in own) - mean(values[run] for run in other)
            for own in seed_draws(a)
            for other in seed_draws(b)
        ]
    found = compare([runs[run] for run in a], [runs[run] for run in b], resamples=20_000, seed=1)
    observed = mean(value(run, range(4)) for run in a) - mean(value(run, range(4)) for run in b)
    assert found.mean == pytest.approx(observed)
    for bound, share in ((found.low, 0.025), (found.high, 0.975)):
        around = np.quantile(every, [share - 0.006, share + 0.006])  # five standard errors of a share
        assert around[0] - 1e-9 <= bound <= around[1] + 1e-9
    beyond = min(np.mean(np.array(every) <= 1e-9), np.mean(np.array(every) >= -1e-9))
    assert found.p == pytest.approx(min(1, 2 * beyond), abs=0.02)


def test_one_run_each_is_the_paired_bootstrap():
    random = np.random.default_rng(0)
    a = random.random(60) < 0.8
    b = a ^ (random.random(60) < 0.15)
    loop = np.array([
        100 * (np.mean(a[rows]) - np.mean(b[rows])) for rows in random.integers(60, size=(20_000, 60))
    ])  # fmt: skip
    found = compare([a], [b], resamples=20_000)
    step = 100 / 60
    assert found.low == pytest.approx(np.quantile(loop, 0.025), abs=step / 2)
    assert found.high == pytest.approx(np.quantile(loop, 0.975), abs=step / 2)
    assert found.p == pytest.approx(2 * min((loop <= 1e-9).mean(), (loop >= -1e-9).mean()), abs=0.02)
    assert found.high - found.low < np.ptp(np.quantile(unpaired(a, b, random), [0.025, 0.975])) - step


def unpaired(a, b, random):
    rows = random.integers(60, size=(2, 5_000, 60))
    return 100 * (a[rows[0]].mean(1) - b[rows[1]].mean(1))


@pytest.mark.parametrize("sentences", [7, 1500])
def test_blocks_change_nothing_but_the_memory(sentences, monkeypatch):
    random = np.random.default_rng(2)
    a, b = random.integers(2, size=(2, 3, sentences))
    whole = compare(a, b, resamples=100, seed=5)
    monkeypatch.setattr("onenth.lab.measure.bootstrap._DRAWS", 30 * sentences)
    assert compare(a, b, resamples=100, seed=5) == whole
    assert compare(a, b, resamples=100, seed=6) != whole


def share_that_holds(seeds, by_seed, sentences, corpora):
    """An answer is right where the sentence is easy enough for the system and the seed."""
    random, ahead, held = np.random.default_rng(3), 0.3, 0
    sd = math.sqrt(1 + 0.5**2 + by_seed**2 + 0.2**2)
    true = 100 * (NormalDist(-1, sd).cdf(ahead) - NormalDist(-1, sd).cdf(0))
    for corpus in range(corpora):
        easy, systems = random.normal(size=sentences), []
        for count, shift in zip(seeds, (ahead, 0), strict=True):
            of_system = easy + 0.5 * random.normal(size=sentences) + shift
            of_seed = by_seed * random.normal(size=(count, 1)) + 0.2 * random.normal(size=(count, sentences))
            systems.append(of_system + of_seed > -1)
        found = compare(*systems, resamples=200, seed=corpus)
        held += found.low <= true <= found.high
    return held / corpora


@pytest.mark.parametrize(("seeds", "by_seed"), [((1, 1), 0.0), ((5, 5), 0.1), ((12, 6), 0.2)], ids=str)
def test_the_interval_holds_the_true_difference_as_often_as_it_says(seeds, by_seed):
    held = share_that_holds(seeds, by_seed, sentences=200, corpora=400)
    assert abs(held - 0.95) < 3.5 * math.sqrt(0.95 * 0.05 / 400)


@pytest.mark.full
@pytest.mark.parametrize(("seeds", "share"), [(2, 0.70), (3, 0.87), (5, 0.91), (8, 0.94)])
def test_few_seeds_that_decide_most_hold_as_often_as_the_docstring_says(seeds, share):
    held = share_that_holds((seeds, seeds), 0.5, sentences=800, corpora=800)
    assert abs(held - share) < 3.5 * math.sqrt(share * (1 - share) / 800)


def like_bleu(random, skill, sentences=100):
    """Statistics as a system of some skill has them: matches of k tokens with the probability skillᵏ."""
    length = random.integers(8, 20, size=sentences)
    all_ = length[:, None] - np.arange(4)
    matches = random.binomial(all_, skill ** np.arange(1, 5))
    return np.column_stack([matches, all_, length, np.full(sentences, 14)])


def test_p_is_uniform_where_there_is_no_difference():
    random, corpora = np.random.default_rng(4), 500
    ps = np.sort([
        compare([like_bleu(random, 0.7)], [like_bleu(random, 0.7)], resamples=200, seed=corpus).p
        for corpus in range(corpora)
    ])  # fmt: skip
    distance = np.abs(ps - (np.arange(corpora) + 0.5) / corpora).max()
    assert distance < 1.95 / math.sqrt(corpora)  # Kolmogorov and Smirnov, one in a thousand


def test_p_is_small_where_the_difference_is_obvious():
    random = np.random.default_rng(5)
    found = compare(*([like_bleu(random, skill) for _ in range(4)] for skill in (0.8, 0.5)))
    assert found.p == pytest.approx(2 / 1001)
    assert 0 < found.low < found.mean < found.high
    back = compare(*([like_bleu(random, skill) for _ in range(4)] for skill in (0.5, 0.8)))
    assert back.p == pytest.approx(2 / 1001)
    assert back.low < back.mean < back.high < 0


@pytest.mark.parametrize("measure", MEASURES)
def test_a_system_does_not_differ_from_itself(measure):
    run = MEASURES[measure][1][0]
    found = compare([run], [run])
    assert (found.mean, found.low, found.high, found.p) == (0, 0, 0, 1)


ONE, OTHER = np.array([1, 0, 1]), np.array([1, 0, 1, 1])
REFUSED = {
    "no runs": ([], [ONE], "a has no runs"),
    "no sentences": ([ONE], [np.ones(0)], "b has no runs, or none with sentences"),
    "a run, not a list": (ONE, [ONE], "a has no runs"),
    "runs of two lengths": ([ONE], [ONE, OTHER], r"runs of b have the shapes \[\(3,\), \(4,\)\]"),
    "systems of two lengths": ([ONE], [OTHER], "runs of a have 3 answers, runs of b 4 answers"),
    "two measures": ([ONE], [np.ones((3, 10))], "3 answers, runs of b 3 sentences with statistics of BLEU"),
    "probabilities": ([np.array([0.3, 1])], [ONE], "runs of a, of the shape .2,., are neither"),
    "NaN": ([ONE], [np.full((3, 10), np.nan)], "runs of b, .* are neither answers nor statistics"),
    "other statistics": ([np.ones((3, 9))], [ONE], r"\(3, 9\), are neither"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_what_does_not_compare(name):
    a, b, match = REFUSED[name]
    with pytest.raises(Problem, match=match):
        compare(a, b)


def test_refuses_no_resamples():
    with pytest.raises(Problem, match="0 resamples"):
        compare([ONE], [ONE], resamples=0)


def test_spread_is_mean_and_sample_deviation():
    values = np.random.default_rng(6).normal(size=5)
    assert spread(values.tolist()) == pytest.approx((values.mean(), values.std(ddof=1)))
    assert spread([3.0]) == (3.0, None)
    for wrong in ([], [1.0, math.nan], [math.inf]):
        with pytest.raises(Problem, match="no mean"):
            spread(wrong)

"""Accuracy, of all and by a key."""

from fractions import Fraction

import numpy as np
import pytest

from onenth.lab.errors import Problem
from onenth.lab.measure.accuracy import accuracy, by


@pytest.mark.parametrize("right", [[True], [False], [True, False, False], [True] * 7 + [False] * 2])
def test_accuracy_is_the_share_in_percent(right):
    assert accuracy(right) == pytest.approx(float(100 * Fraction(right.count(True), len(right))))
    assert accuracy(np.array(right)) == accuracy(right)


def test_by_counts_each_key_and_puts_the_unknown_last():
    random = np.random.default_rng(0)
    keys = [None if key == 11 else key for key in random.integers(12, size=300).tolist()]
    right = (random.random(300) < 0.7).tolist()
    found = by(keys, right)
    assert list(found) == [*map(str, range(11)), "?"]
    for key, (value, count) in found.items():
        own = [r for k, r in zip(keys, right, strict=True) if k == (None if key == "?" else int(key))]
        assert (value, count) == (pytest.approx(100 * np.mean(own)), len(own))
    assert by([], []) == {}


def test_refuses_what_has_no_accuracy():
    with pytest.raises(Problem, match="no answers"):
        accuracy([])
    with pytest.raises(Problem, match="3 keys for 2 answers"):
        by([0, 1, None], [True, False])

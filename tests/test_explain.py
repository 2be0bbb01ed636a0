"""Explanations name the path taken, and why the others were not."""

import pytest
import torch
from torch import nn

from onenth import PHMLinear, explain, freeze, using


def test_a_learned_rule() -> None:
    layer = PHMLinear(2048, 1024, n=4)
    with torch.no_grad():
        found = explain(layer, rows=1)
    title, header, *lines = str(found).splitlines()
    assert title == "PHMLinear(2048, 1024, n=4), 1 row, float32 on cpu, inference"
    assert header.split() == ["path", "predicted", "error"]
    dense, bilinear, decode = (line.split() for line in lines)
    assert (found.path, decode[0], decode[-1]) == ("decode", "decode", "taken")
    assert "times as long" in " ".join(dense)
    assert "its rule has no factors" in " ".join(bilinear)
    assert "training" in str(explain(layer, rows=3))
    assert "3 rows" in str(explain(layer, rows=3))


def test_an_algorithm_that_errs_too_much() -> None:
    layer = PHMLinear(2048, 2048, rule="octonion", dtype=torch.bfloat16)
    assert "it would err 4.2 times as much as the dense path, more than 2" in str(explain(layer, rows=1024))
    with using(precision="fast"):
        found = explain(layer, rows=1024)
    assert found.path == "bilinear"
    assert found.candidates[1].error == pytest.approx(4.2, abs=0.1)


def test_a_frozen_layer() -> None:
    layer = PHMLinear(1024, 1024, n=4).eval()
    freeze(layer, rows=1024)
    found = explain(layer, rows=1024)
    assert found.path == "bilinear"
    assert str(found).splitlines()[0].endswith("frozen")


def test_one_segment_has_one_path() -> None:
    found = explain(PHMLinear(8, 8, n=1))
    assert found.path == "dense"
    assert len(found.candidates) == 1


@pytest.mark.parametrize(
    ("layer", "rows", "error", "message"),
    [
        (nn.Linear(4, 4), 1, TypeError, "takes a PHMLinear, not Linear"),
        (PHMLinear(4, 4, n=2), 0, ValueError, "rows=0"),
        (PHMLinear(4, 4, n=2), 1.5, ValueError, "rows=1.5"),
    ],
)
def test_bad_input_is_refused(layer, rows, error, message) -> None:
    with pytest.raises(error, match=message):
        explain(layer, rows)

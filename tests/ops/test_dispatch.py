"""The choice of a path: by cost and accuracy, by request, and refused with reasons."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from onenth import PHMLinear, using
from onenth.ops import cost, dispatch
from onenth.ops.cost import Work

RESULTS = Path(__file__).parents[2] / "results"


def work(layer: PHMLinear, dtype: torch.dtype = torch.float32, *, trains: bool = False) -> Work:
    with torch.set_grad_enabled(trains):
        return dispatch.work(layer.rule, layer.S, dtype)


def chosen(layer: PHMLinear, rows: int, dtype: torch.dtype = torch.float32) -> str:
    return dispatch.choose(work(layer, dtype), rows)


def test_few_rows_are_decoded_and_many_are_not() -> None:
    full, low = PHMLinear(2048, 2048, n=4), PHMLinear(2048, 2048, n=4, rank=8)
    assert (chosen(full, 1), chosen(full, 1024)) == ("decode", "dense")
    assert (chosen(low, 1), chosen(low, 1024)) == ("decode", "bilinear")
    assert chosen(PHMLinear(2048, 2048, n=4, rank=16), 1024) == "dense"


def test_an_algorithm_is_taken_where_it_is_accurate_enough() -> None:
    layer = PHMLinear(2048, 2048, rule="quaternion")
    assert chosen(layer, 1024) == "bilinear"
    assert chosen(layer, 1024, torch.bfloat16) == "dense"
    with using(precision="fast"):
        assert chosen(layer, 1024, torch.bfloat16) == "bilinear"


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("options", [{"n": 2}, {"n": 8}, {"n": 4, "rank": 12}, {"n": 8, "rank": 16}], ids=str)
def test_thresholds_are_where_the_best_path_changes(options: dict, trains: bool) -> None:
    layer = work(PHMLinear(768, 768, **options), trains=trains)
    thresholds = cost.thresholds(layer, 2.0)
    assert all(one[0] < other[0] and one[1] != other[1] for one, other in pairwise(thresholds))
    for rows in [*range(1, 200), 500, 1000, 5000]:
        found = next(path for most, path in thresholds if rows <= most)
        assert found == cost.best(layer, rows, 2.0), rows


@pytest.mark.parametrize("file", sorted(RESULTS.glob("paths-*.json")), ids=lambda file: file.stem)
def test_the_model_picks_what_was_measured_fastest(file: Path) -> None:
    """On recorded times: within a tenth of the fastest at 95 % of the points, seen before or not."""
    recorded = json.loads(file.read_text())
    near = 0
    for point in recorded["points"]:
        picked = cost.best(Work(**point["work"]), point["rows"], 2.0)
        near += point["seconds"][picked] <= 1.1 * min(point["seconds"].values())
    assert near >= 0.95 * len(recorded["points"]) > 700


def test_times_of_both_processors_are_recorded() -> None:
    assert len(list(RESULTS.glob("paths-*.json"))) == 4


def test_a_path_can_be_asked_for() -> None:
    layer, x = PHMLinear(32, 48, n=4, rank=8, dtype=torch.float64), torch.randn(3, 32, dtype=torch.float64)
    wanted = layer(x)
    for path in cost.PATHS:
        with using(path):
            assert chosen(layer, 3) == path
            torch.testing.assert_close(layer(x), wanted)


def test_requests_nest_and_end() -> None:
    before = dispatch.Settings()
    with using("dense", recompute=True):
        with using("decode"):
            assert dispatch._settings == dispatch.Settings("decode", "usual", recompute=True)
        assert dispatch._settings == dispatch.Settings("dense", "usual", recompute=True)
        with pytest.raises(ZeroDivisionError), using(precision="fast", recompute=False):
            _ = 1 // (dispatch._settings != dispatch.Settings("dense", "fast", recompute=False))
        assert dispatch._settings == dispatch.Settings("dense", "usual", recompute=True)
    assert dispatch._settings == before


@pytest.mark.parametrize("options", [{"n": 4}, {"n": (2, 4)}, {"rule": torch.ones(2, 4, 4)}], ids=str)
def test_a_path_that_cannot_serve_is_refused_with_the_reason(options: dict) -> None:
    layer = PHMLinear(16, 16, **options)
    with (
        using("bilinear"),
        pytest.raises(ValueError, match=r'"bilinear" cannot .* no factors.*rank=.*freeze'),
    ):
        layer(torch.randn(2, 16))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": "fast"}, 'path=\'fast\' is unknown: write "dense", "bilinear" or "decode"'),
        ({"path": 1}, "path=1 is unknown"),
        ({"precision": "exact"}, 'precision=\'exact\' is unknown: write "usual" or "fast"'),
    ],
)
def test_an_unknown_request_is_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message), using(**arguments):
        pass


@pytest.mark.parametrize(("rank", "path"), [(8, "bilinear"), (4, "bilinear"), (16, "dense"), (None, "dense")])
def test_an_exported_program_takes_one_path_for_any_number_of_rows(monkeypatch, rank, path) -> None:
    layer = PHMLinear(1024, 1024, n=4, rank=rank)
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: True)
    assert chosen(layer, 1) == chosen(layer, 10_000) == path

"""Operators and rules are learned from data, and the checks that say so can fail."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from onenth import algebra
from onenth.lab.artificial import EXPERIMENTS, Experiment, recovery, remixed, run

ROTATION, HAMILTON = EXPERIMENTS[:2]


def sine(learned, true):
    """Of the largest angle between the spans: how far a unit matrix of the true one is from the learned."""
    Q, R = (np.linalg.qr(A.flatten(1).numpy().T)[0] for A in (learned, true))
    return np.linalg.norm(R - Q @ (Q.T @ R), 2)


def hamilton(w, x, y, z):
    """Equation 3 of the paper."""
    return torch.tensor([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]], dtype=torch.float64)


@pytest.mark.parametrize("seed", range(5))
def test_a_rotation_is_learned(seed):
    result = run(ROTATION, seed)
    [H] = result.operators
    assert result.losses[-1] < 1e-10
    assert result.missed == ""
    assert torch.allclose(H @ H.T, torch.eye(3, dtype=torch.float64), atol=1e-6)
    assert torch.linalg.det(H).item() == pytest.approx(1)


@pytest.mark.parametrize("seed", range(5))
def test_a_hamilton_product_is_learned_and_its_rule_is_not(seed):
    result = run(HAMILTON, seed)
    [H] = result.operators
    assert result.losses[-1] < 1e-10
    assert result.missed == ""
    assert torch.allclose(H, hamilton(*H[:, 0].tolist()), atol=1e-6)
    assert sine(result.learned, result.true) > math.sin(0.5)


ALL = [(name, seed) for name in ("complex", "quaternion", "octonion") for seed in range(50)]
QUICK = [(name, seed) for name, seed in ALL if seed < (3 if name == "octonion" else 5)]
FULL = [*(case for case in ALL if case not in QUICK), *(("sedenion", seed) for seed in range(10))]


@pytest.mark.parametrize(
    ("name", "seed"), [*QUICK, *(pytest.param(*case, marks=pytest.mark.full) for case in FULL)]
)
def test_the_rule_of_an_algebra_is_recovered(name, seed):
    experiment = recovery(name)
    result = run(experiment, seed)
    assert experiment.layers >= 2 * experiment.n
    assert result.missed == ""
    assert result.losses[-1] < 1e-10
    assert len(result.angles) == len(result.losses)
    assert result.angles[-1] == pytest.approx(sine(result.learned, algebra.get(name).A), rel=1e-3, abs=1e-14)
    assert result.angles[-1] < 1e-6
    assert torch.allclose(remixed(result.learned, result.true), result.true, atol=1e-6)


@pytest.mark.parametrize(("name", "layers"), [("complex", 1), ("quaternion", 1), ("quaternion", 3)])
def test_fewer_operators_than_dimensions_do_not_give_the_rule(name, layers):
    result = run(recovery(name, layers))
    assert result.losses[-1] < 1e-10
    assert sine(result.learned, result.true) > 0.1
    assert "not below 0.0001" in result.missed


def test_the_experiments_are_the_papers_and_the_four_algebras():
    assert [(e.algebra, e.n, e.layers, e.recovers) for e in EXPERIMENTS] == [
        (None, 3, 1, False),
        ("quaternion", 4, 1, False),
        ("complex", 2, 8, True),
        ("quaternion", 4, 8, True),
        ("octonion", 8, 16, True),
        ("sedenion", 16, 32, True),
    ]


@pytest.mark.parametrize("experiment", [HAMILTON, recovery("complex")], ids=lambda e: e.name)
def test_the_seed_decides_everything(experiment):
    first = run(experiment, 3)
    torch.manual_seed(1)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    with torch.no_grad():
        again = run(experiment, 3)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    assert torch.equal(again.learned, first.learned)
    assert torch.equal(again.operators, first.operators)
    assert (again.losses, again.angles) == (first.losses, first.angles)
    assert run(experiment, 4).losses != first.losses


def test_progress_grows_from_0_to_1():
    shares = []
    result = run(recovery("complex"), progress=shares.append)
    assert len(shares) == len(result.losses)
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)


def test_a_missed_target_is_named():
    learned = run(HAMILTON)
    for loss in (1e-9, math.nan):
        assert "not below 1e-10" in replace(learned, losses=(1.0, loss)).missed
    assert "not above 0.5" in replace(learned, angles=(1.5, 0.4)).missed
    recovered = replace(learned, experiment=Experiment("", 4, 8, "quaternion", recovers=True))
    assert "the quaternion one, not below 0.0001" in recovered.missed
    assert "not below" in replace(recovered, angles=(math.nan,)).missed


def test_remixed_terms_match_where_the_spans_do():
    true = algebra.get("quaternion").A
    mixing = torch.randn(4, 4, dtype=torch.float64)
    assert torch.allclose(remixed(torch.einsum("ij,jpq->ipq", mixing, true), true), true)
    other = remixed(torch.randn(4, 4, 4, dtype=torch.float64), true)
    assert not torch.allclose(other, true, atol=0.1)

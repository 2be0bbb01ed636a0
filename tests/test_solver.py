"""The solver reaches the ranks it should, and says so where it does not."""

import time
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from onenth import algebra
from onenth.bilinear import certify
from onenth.solver import NotReached, decompose, frontier


def random_rule(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("seed", range(10))
def test_a_random_rule_of_four_takes_seven_products(seed: int) -> None:
    A = random_rule(4, 4, 4, seed=seed)
    factors, certificate = decompose(A, 7)
    assert certificate.residual < 1e-12
    assert certificate == certify(A, factors)
    assert (factors.tensor() - A).norm() < 1e-12 * A.norm()


@pytest.mark.parametrize("rank", [24, 26])
def test_a_random_rule_of_eight_takes_at_most_26(rank: int) -> None:
    start = time.process_time()
    certificate = decompose(random_rule(8, 8, 8), rank, restarts=2).certificate
    assert certificate.residual < 1e-12
    assert certificate.bf16 < 2.5
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("name", "rank"),
    [("complex", 3), ("split-complex", 2), ("dual", 3), ("quaternion", 8), ("cyclic(4)", 5), ("cyclic(5)", 7),
     ("clifford(2,0)", 7), ("clifford(2,1)", 14), ("octonion", 26)],
)  # fmt: skip
def test_algebras_reach_their_ranks(name: str, rank: int) -> None:
    certificate = decompose(algebra.get(name).A, rank, restarts=4).certificate
    assert certificate.residual < 1e-10
    assert certificate.largest < 3


@pytest.mark.parametrize(("name", "rank"), [("complex", 2), ("quaternion", 7), ("clifford(2,0)", 6)])
def test_refusal_carries_the_certificate(name: str, rank: int) -> None:
    with pytest.raises(NotReached, match=rf"no factors within residual 1e-10; .* rank {rank}: ") as refused:
        decompose(algebra.get(name).A, rank, restarts=2)
    factors, certificate = refused.value.closest
    assert certificate.residual > 1e-3
    assert certificate == certify(algebra.get(name).A, factors)


def test_a_loose_tolerance_accepts_an_approximate_rule() -> None:
    assert 1e-3 < decompose(algebra.get("quaternion").A, 7, tolerance=0.9).certificate.residual < 0.9


@pytest.mark.parametrize("shape", [(3, 4, 2), (1, 3, 3), (2, 1, 5), (1, 1, 1)])
def test_rectangular_rules(shape: tuple[int, int, int]) -> None:
    _, n_out, n_in = shape
    A = random_rule(*shape)
    factors, certificate = decompose(A, n_out * n_in)
    assert factors.tensor().shape == A.shape
    assert certificate.residual < 1e-10


def test_the_frontier_trades_products_for_growth() -> None:
    points = [
        algorithm.certificate for algorithm in frontier(algebra.get("quaternion").A, range(6, 13), restarts=2)
    ]
    assert points[0].rank == 8
    assert all(fewer.rank < more.rank for fewer, more in pairwise(points))
    assert all(fewer.growth > more.growth for fewer, more in pairwise(points))


def test_the_frontier_chooses_ranks_by_itself() -> None:
    assert frontier(random_rule(4, 4, 4), restarts=2)[0].certificate.rank == 7


def test_the_frontier_refuses_where_no_rank_will_do() -> None:
    with pytest.raises(NotReached) as refused:
        frontier(algebra.get("quaternion").A, [5, 6], restarts=1)
    assert refused.value.closest.certificate.rank == 6
    with pytest.raises(ValueError, match="ranks is empty"):
        frontier(algebra.get("quaternion").A, [])


def test_the_seed_decides_and_the_global_generator_is_left_alone() -> None:
    A = random_rule(4, 4, 4)
    state = torch.get_rng_state()
    one, same, other = (decompose(A, 7, seed=seed).factors for seed in (1, 1, 2))
    assert all(map(torch.equal, one, same))
    assert not torch.equal(one.U, other.U)
    assert torch.equal(state, torch.get_rng_state())


def test_any_precision_and_a_gradient_are_taken() -> None:
    A = random_rule(3, 3, 3).float().requires_grad_()
    factors, certificate = decompose(A, 6)
    assert certificate.residual < 1e-10
    assert not factors.U.requires_grad


def test_time_runs_out() -> None:
    start = time.monotonic()
    with pytest.raises(NotReached):
        decompose(random_rule(8, 8, 8), 24, restarts=1000, seconds=0.05)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    ("A", "options", "error", "message"),
    [
        ([[1.0]], {}, TypeError, "A is list; give the tensor"),
        (torch.ones(4, 4), {}, ValueError, r"has the shape \(4, 4\)"),
        (torch.ones(0, 4, 4), {}, ValueError, r"has the shape \(0, 4, 4\)"),
        (torch.ones(2, 2, 2) * 1j, {}, TypeError, "real numbers"),
        (torch.full((2, 2, 2), torch.nan), {}, ValueError, "8 entries that are NaN"),
        (torch.zeros(2, 2, 2), {}, ValueError, "A is zero"),
        (torch.ones(17, 17, 17), {}, ValueError, r"up to 16 in each dimension.*Rule\.learned"),
        (torch.ones(2, 2, 2), {"rank": 0}, ValueError, "rank=0 must be at least 1"),
        (torch.ones(2, 2, 2), {"rank": 2.0}, TypeError, "rank=2.0 must be a whole number"),
        (torch.ones(2, 2, 2), {"restarts": 0}, ValueError, "restarts=0"),
        (torch.ones(2, 2, 2), {"seconds": 0}, ValueError, "seconds=0"),
        (torch.ones(2, 2, 2), {"tolerance": -1.0}, ValueError, "tolerance=-1.0"),
    ],
)
def test_bad_input_is_refused(A: Tensor, options: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        decompose(A, **{"rank": 2, **options})


@pytest.mark.full
@pytest.mark.parametrize("seed", range(30))
def test_every_random_rule_of_four_takes_seven_products(seed: int) -> None:
    assert decompose(random_rule(4, 4, 4, seed=100 + seed), 7).certificate.growth < 6


@pytest.mark.full
def test_octonions_take_25_products() -> None:
    certificate = decompose(algebra.get("octonion").A, 25, restarts=8).certificate
    assert certificate.residual < 1e-12
    assert certificate.growth < 4


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_rule_of_sixteen() -> None:
    certificate = decompose(algebra.get("sedenion").A, 104, restarts=1, seconds=600).certificate
    assert certificate.residual < 1e-10

"""Principal angles against cases built by hand, and rules recognised through what may hide them."""

import math
import sys
import time
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from onenth import algebra
from onenth.algebra import Algebra
from onenth.describe import Description, Neighbour, describe, known, principal_angles

PLAIN = [
    "complex",
    "dual",
    "split-complex",
    "quaternion",
    "clifford(1,1)",
    "cyclic(3)",
    "complex^2",
    "octonion",
]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def orthogonal(n: int, seed: int) -> Tensor:
    return torch.linalg.qr(draw(n, n, seed=seed)).Q


def mixed(A: Tensor, seed: int = 3) -> Tensor:
    return torch.einsum("ij,jpq->ipq", draw(len(A), len(A), seed=seed), A)


def hidden(A: Tensor, seed: int) -> Tensor:
    n = len(A)
    return orthogonal(n, 10 * seed) @ mixed(A, 10 * seed + 1) @ orthogonal(n, 10 * seed + 2)


def angle(found: Description, name: str) -> Neighbour:
    return next(neighbour for neighbour in found.neighbours if neighbour.name == name)


@pytest.fixture
def only(monkeypatch) -> Callable[[Algebra], None]:
    """Makes one algebra the only known one: the search takes its time for each."""
    return lambda K: monkeypatch.setattr(sys.modules["onenth.describe"], "known", lambda n: [K])


# Principal angles


@pytest.mark.parametrize("small", [0.0, 1e-12, 1e-9, 1e-6, 1e-3])
def test_angles_known_by_construction(small):
    angles = torch.tensor(
        [small, 0.3, math.pi / 4, 1.2, math.pi / 2 - 1e-9, math.pi / 2], dtype=torch.float64
    )
    e = torch.linalg.qr(draw(12, 12)).Q  # spans turned by the given angles, one plane for each
    A = e[:6]
    B = angles.cos()[:, None] * e[:6] + angles.sin()[:, None] * e[6:]
    A, B = (mixed(X.reshape(6, 3, 4), seed) for seed, X in enumerate((A, B), start=1))
    torch.testing.assert_close(principal_angles(A, B), angles, rtol=0, atol=2e-13)
    torch.testing.assert_close(principal_angles(B, A), angles, rtol=0, atol=2e-13)


def test_spans_of_different_and_deficient_dimension():
    e = torch.eye(6, dtype=torch.float64).reshape(6, 2, 3)
    dependent = torch.stack([e[0], e[1], e[0] + e[1], 3 * e[1]])  # a plane, by four matrices
    tilted = torch.stack([e[0], (e[1] + e[2]) / math.sqrt(2), e[3]])
    expected = torch.tensor([0, math.pi / 4], dtype=torch.float64)
    torch.testing.assert_close(principal_angles(dependent, tilted), expected)
    torch.testing.assert_close(principal_angles(tilted, dependent), expected)


def test_the_rank_is_judged_in_the_precision_given():
    A = draw(2, 3, 3)
    almost = torch.stack([A[0], A[0] + 1e-9 * A[1]])
    assert len(principal_angles(almost, A)) == 2
    assert len(principal_angles(almost.float(), A)) == 1


def test_integer_and_half_precision_tensors():
    K = algebra.get("quaternion").A
    for dtype in (torch.int64, torch.float16, torch.bfloat16, torch.float32):
        angles = principal_angles(K.to(dtype), K)
        assert angles.dtype == torch.float64
        assert angles.max() < 1e-12


# Laws


@pytest.mark.parametrize("name", PLAIN)
def test_an_algebra_is_itself_with_its_own_laws(name):
    K = algebra.get(name)
    for rule in (K, K.A, mixed(K.A)):
        found = describe(rule, change_of_basis=False)
        assert found.neighbours[0].angle < 1e-7
        assert found.neighbours[0].changed is None
        assert angle(found, name).angle < 1e-7
        assert found.rank == K.n
        assert found.unit < 1e-7
        assert (found.associator < 1e-9) == (algebra.associator(K) == 0)
        assert (found.commutator < 1e-9) == (algebra.commutator(K) == 0)


def test_laws_of_division_algebras_survive_mixing_exactly():
    for name in ("quaternion", "octonion"):
        K = algebra.get(name)
        found = describe(mixed(K.A), change_of_basis=False)
        assert found.commutator == pytest.approx(algebra.commutator(K))
        assert found.associator == pytest.approx(algebra.associator(K))


@pytest.mark.parametrize("name", ["complex", "quaternion", "cyclic(3)", "clifford(2,0)", "octonion"])
def test_laws_are_seen_through_bases_of_input_and_output(name):
    K = algebra.get(name)
    P, Q = torch.linalg.qr(draw(2, K.n, K.n)).Q
    found = describe(mixed(P @ K.A @ Q), change_of_basis=False)
    assert (found.commutator < 1e-9) == (algebra.commutator(K) == 0)
    assert (found.associator < 1e-9) == (algebra.associator(K) == 0)


def test_a_span_turned_from_the_identity_has_its_unit_at_that_angle():
    A = torch.zeros(2, 2, 2, dtype=torch.float64)
    A[0] = math.cos(0.2) * torch.eye(2) + math.sin(0.2) * torch.diag(torch.tensor([1.0, -1.0]))
    A[1, 0, 1], A[1, 1, 0] = -1, 1
    assert describe(A, change_of_basis=False).unit == pytest.approx(0.2)


def test_real_powers_need_a_vector_beyond_the_basis():
    found = describe(algebra.get("real^4"), change_of_basis=False)
    assert found.commutator < 1e-12
    assert found.associator < 1e-12


@pytest.mark.parametrize(
    ("A", "reason"),
    [
        (draw(3, 2, 5), "differ in size, 2 and 5"),
        (draw(3, 4, 4), "needs 4 independent terms, not 3"),
        (draw(9, 4, 4), "needs 4 independent terms, not 9"),
        (draw(4, 4, 4)[[0, 1, 1, 2]], "needs 4 independent terms, not 3"),
        (torch.cat([draw(3, 1, 3), torch.zeros(3, 2, 3)], 1), "no vector u"),
    ],
)
def test_a_rule_without_laws_says_why(A, reason):
    found = describe(A, change_of_basis=False)
    assert reason in found.reason
    assert reason in str(found)
    assert found.unit is found.commutator is found.associator is None
    assert bool(found.neighbours) == (A.shape[1] == A.shape[2])


# Neighbours


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 8, 16])
def test_known_algebras_have_the_dimension_and_differ(n):
    found = known(n)
    assert all(K.n == n for K in found)
    assert len(set(found)) == len(found)
    assert algebra.cyclic(n) in found
    assert algebra.get(f"real^{n}") in found
    assert all(algebra.get(K.name) == K for K in found)


def test_known_algebras_by_name():
    assert [K.name for K in known(4)] == [
        "quaternion", "clifford(1,1)", "clifford(2,0)", "cyclic(4)", "real^4", "complex^2",
    ]  # fmt: skip
    assert [K.name for K in known(6)] == ["cyclic(6)", "real^6", "complex^3"]
    assert known(512) == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["quaternion", "octonion"])
def test_division_algebras_are_found_behind_orthogonal_changes_of_basis(name, seed, only):
    K = algebra.get(name)
    only(K)
    found = describe(hidden(K.A, seed))
    assert angle(found, name).angle > 0.5
    assert angle(found, name).changed < 1e-5


@pytest.mark.parametrize("name", ["complex", "dual", "cyclic(3)", "clifford(1,1)", "cyclic(4)", "real^4"])
def test_other_algebras_are_found_too(name, only):
    K = algebra.get(name)
    only(K)
    assert angle(describe(hidden(K.A, seed=5)), name).changed < 1e-5


def test_a_skew_change_of_basis_within_the_bound_is_undone(only):
    K = algebra.get("quaternion")
    only(K)
    stretch = torch.tensor([2.0, 1.0, 1.0, 0.5], dtype=torch.float64)
    found = describe((stretch[:, None] * hidden(K.A, seed=6)) * stretch)
    assert angle(found, "quaternion").changed < 1e-5


def test_isomorphic_algebras_are_found_to_be_one_another():
    found = describe(algebra.get("split-complex"))
    assert angle(found, "real^2").angle > 0.5
    assert angle(found, "real^2").changed < 1e-5
    assert angle(found, "complex").changed > 0.1


def test_a_random_tensor_is_near_nothing():
    found = describe(draw(3, 3, 3).float())
    assert min(neighbour.changed for neighbour in found.neighbours) > 0.3
    assert found.unit > 0.3
    assert found.associator > 0.3
    order = [neighbour.changed for neighbour in found.neighbours]
    assert order == sorted(order)
    assert all(neighbour.changed <= neighbour.angle for neighbour in found.neighbours)


def test_fewer_terms_than_the_algebra_has(only):
    K = algebra.get("quaternion")
    only(K)
    found = describe(hidden(K.A, seed=7)[:3])
    assert found.rank == 3
    assert found.neighbours[0].changed < 1e-5


@pytest.mark.full
@pytest.mark.parametrize(("n", "limit"), [(4, 30), (8, 120)])
def test_it_takes_seconds(n, limit):
    start = time.perf_counter()
    describe(draw(n, n, n))
    assert time.perf_counter() - start < limit


# How it behaves


class Holder(nn.Module):
    def __init__(self, A: Tensor) -> None:
        super().__init__()
        self.A = nn.Parameter(A)

    def tensor(self) -> Tensor:
        return self.A * 2


def test_an_object_with_a_tensor_is_a_rule():
    K = algebra.get("quaternion")
    found = describe(Holder(K.A.float()), change_of_basis=False)
    assert found.neighbours == describe(2 * K.A.float(), change_of_basis=False).neighbours
    assert found.shape == (4, 4, 4)


def test_the_result_repeats_and_leaves_the_random_state_alone(only):
    only(algebra.cyclic(3))
    before = torch.get_rng_state()
    first = describe(draw(3, 3, 3))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(1)
    assert describe(draw(3, 3, 3)) == first


def test_it_works_in_any_surroundings(only):
    only(algebra.get("complex"))
    rule = Holder(draw(2, 2, 2))
    expected = describe(rule)
    with torch.inference_mode():
        assert describe(rule) == expected
    with torch.no_grad():
        assert describe(rule) == expected
    with torch.device("meta"):
        assert describe(rule) == expected
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert describe(rule) == expected
    assert rule.A.grad is None


def test_the_table_reads():
    neighbours = Neighbour("quaternion", 1.4863, 3.2e-8), Neighbour("clifford(1,1)", math.pi / 2, None)
    found = Description((4, 4, 4), 4, 0.0, 0.61237, 0.05, "", neighbours)
    assert str(found) == "\n".join(
        [
            "rule of 4 terms, 4 × 4; 4 independent",
            "unit               0   rad between the identity and the span",
            "commutator     0.612   0 commutative, 1 anticommutative",
            "associator      0.05   0 associative",
            "",
            "largest angle to  as it is, rad   after change of basis",
            "quaternion                 1.49                 3.2e-08",
            "clifford(1,1)              1.57                       –",
        ]
    )
    assert str(describe(draw(3, 2, 5))).endswith("no known algebra has this shape")


BAD = {
    "a name": ("quaternion", TypeError, "cannot describe str; .*algebra.get makes one"),
    "a list": ([[[1.0]]], TypeError, "cannot describe list"),
    "a matrix": (torch.eye(4), ValueError, r"shape \(4, 4\); it must be \(terms, n_out, n_in\)"),
    "empty": (torch.zeros(0, 4, 4), ValueError, r"shape \(0, 4, 4\)"),
    "NaN": (torch.full((2, 2, 2), math.nan), ValueError, "NaN or infinity"),
    "infinity": (torch.full((2, 2, 2), math.inf), ValueError, "NaN or infinity"),
    "zero": (torch.zeros(2, 2, 2), ValueError, "zero everywhere"),
    "complex": (torch.ones(2, 2, 2) * 1j, ValueError, "complex64"),
    "meta": (torch.ones(2, 2, 2, device="meta"), ValueError, "meta"),
    "a module's NaN": (Holder(torch.full((2, 2, 2), math.nan)), ValueError, "NaN or infinity"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    rule, error, message = BAD[case]
    with pytest.raises(error, match=message):
        describe(rule)


@pytest.mark.parametrize("other", [torch.ones(2, 3, 2), torch.ones(2, 2), torch.ones(3, 3, 3)])
def test_spans_of_different_spaces_are_named(other):
    with pytest.raises(ValueError, match="same n_out and n_in"):
        principal_angles(torch.ones(2, 2, 2), other)


def test_an_algebra_is_a_rule():
    bent = Algebra("bent", algebra.get("quaternion").A + 0.1 * draw(4, 4, 4))
    found = describe(bent, change_of_basis=False)
    assert 0.05 < angle(found, "quaternion").angle < 1
    assert found.neighbours[0].name == "quaternion"

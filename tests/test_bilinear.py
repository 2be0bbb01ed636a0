"""Certificates against measured errors, and the stored algorithms against exact arithmetic."""

from fractions import Fraction
from importlib.resources import files
from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

import onenth.bilinear
from onenth import algebra
from onenth.algorithms import clifford, closed, known
from onenth.bilinear import Factors, certify, extra_error
from onenth.ops.bilinear import formula as bilinear
from onenth.ops.dense import dense
from onenth.solver import decompose

STORED = sorted(
    entry.name.removesuffix(".json") for entry in files("onenth.algorithms").joinpath("data").iterdir()
)
FEWEST = {
    "complex": 3, "split-complex": 2, "dual": 3, "quaternion": 8, "octonion": 25, "sedenion": 92,
    "cyclic(3)": 4, "cyclic(4)": 5, "cyclic(16)": 23,
    "clifford(2,0)": 7, "clifford(1,1)": 7, "clifford(0,2)": 8,
    "clifford(3,0)": 21, "clifford(2,1)": 14, "clifford(1,2)": 21, "clifford(0,3)": 16, "clifford(2,2)": 49,
    "clifford(3,1)": 49, "clifford(4,0)": 56, "clifford(1,3)": 56, "clifford(0,4)": 56,
}  # fmt: skip


def measured(A: Tensor, factors: Factors, dtype: torch.dtype, columns: int) -> float:
    """Error of the bilinear path over that of the dense path, everything held in this precision."""
    generator = torch.Generator().manual_seed(columns)
    terms, _, n_in = A.shape
    S = torch.randn(terms, 32, columns, generator=generator).to(dtype)
    x = torch.randn(64, n_in * columns, generator=generator).to(dtype)
    exact = dense(A, S.double(), x.double(), None)
    held = [M.to(dtype) for M in factors]
    errors = [
        dense(A.to(dtype), S, x, None).double() - exact,
        bilinear(*held, S, x, None)[0].double() - exact,
    ]
    return (errors[1].norm() / errors[0].norm()).item()


def exactly(factors: Factors) -> dict[tuple[int, int, int], Fraction]:
    """The rule of these factors in fractions, where it is not zero."""
    U, V, W = ([[Fraction(x) for x in row] for row in M.tolist()] for M in factors)
    A: dict[tuple[int, int, int], Fraction] = {}
    for r in range(factors.rank):
        terms = [(i, w) for i, w in enumerate(W[r]) if w]
        outs = [(p, row[r]) for p, row in enumerate(U) if row[r]]
        ins = [(q, v) for q, v in enumerate(V[r]) if v]
        for (i, w), (p, u), (q, v) in product(terms, outs, ins):
            A[i, p, q] = A.get((i, p, q), Fraction(0)) + w * u * v
    return {index: value for index, value in A.items() if value}


@pytest.mark.parametrize("name", STORED)
def test_stored_algorithms_are_exact(name: str) -> None:
    A = algebra.get(name).A
    for factors, certificate in known(name):
        if all((64 * M).frac().eq(0).all() for M in factors):
            wanted = {tuple(index): Fraction(A[tuple(index)].item()) for index in A.nonzero().tolist()}
            assert exactly(factors) == wanted
            assert certificate.residual == 0
        else:
            assert name.startswith(("cyclic", "octonion", "sedenion"))
            assert certificate.residual < 1e-13


def test_stored_algorithms_reach_the_known_ranks() -> None:
    assert {name: known(name)[0].certificate.rank for name in FEWEST} == FEWEST
    assert set(FEWEST) <= set(STORED)


@pytest.mark.parametrize("name", STORED)
def test_every_stored_algorithm_is_worth_its_products(name: str) -> None:
    points = [algorithm.certificate for algorithm in known(name)]
    assert [point.rank for point in points] == sorted(point.rank for point in points)
    for fewer, more in pairwise(points):
        assert more.growth < fewer.growth or more.bf16 < fewer.bf16


def test_names_are_read_as_algebra_get_reads_them() -> None:
    assert known("Clifford(2, 0)")[0].certificate.rank == 7
    assert known("cayley-dickson(5)") == []
    with pytest.raises(ValueError, match="did you mean 'quaternion'"):
        known("quaternoin")


def test_closed_forms_are_what_is_stored() -> None:
    forms = {
        "complex": closed.gauss(),
        "dual": closed.dual(),
        "quaternion": closed.twisted(algebra.get("quaternion").A),
        "cyclic(6)": closed.cyclic(6),
        "clifford(1,3)": clifford.clifford(1, 3),
    }
    for name, factors in forms.items():
        assert any(
            algorithm.factors.rank == factors.rank and all(map(torch.allclose, algorithm.factors, factors))
            for algorithm in known(name)
        ), name


def test_closed_forms_refuse_other_algebras() -> None:
    with pytest.raises(ValueError, match="e_i e_q"):
        closed.twisted(algebra.get("cyclic(4)").A)
    with pytest.raises(ValueError, match="multiply"):
        closed.strassen(algebra.get("quaternion").A, torch.eye(4, dtype=torch.float64).view(4, 2, 2))


CASES = ["complex", "dual", "quaternion", "clifford(2,0)", "octonion", "cyclic(5)", "sedenion", "random"]


def rounding(length: int, in_steps: bool) -> float:
    """How often a product of this length rounds here: libraries differ in how they split its sum."""
    if not in_steps:
        return 1.0
    generator = torch.Generator().manual_seed(length)
    x, S = (torch.randn(rows, length, generator=generator) for rows in (256, 64))
    exact = x.double() @ S.double().mT
    error = ((x @ S.mT).double() - exact).norm() / exact.norm()
    return (error.item() / (onenth.bilinear._ETA * 2**-24)) ** 2


def cases(name: str) -> tuple[Tensor, list[Factors]]:
    if name == "random":
        A = torch.randn(4, 4, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        return A, [decompose(A, 7, restarts=1).factors]
    return algebra.get(name).A, [algorithm.factors for algorithm in known(name)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("columns", [4, 48, 256])
@pytest.mark.parametrize("name", CASES)
def test_predicted_errors_are_those_measured(
    name: str, columns: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    A, found_factors = cases(name)
    shipped = [extra_error(A, factors, dtype, columns) for factors in found_factors]
    monkeypatch.setattr(onenth.bilinear, "_product", rounding)
    for factors, wary in zip(found_factors, shipped, strict=True):
        predicted = extra_error(A, factors, dtype, columns)
        found = max(1.0, measured(A, factors, dtype, columns))
        assert predicted / 1.5 < found < predicted * 1.5
        assert found < wary * 1.5  # without knowing the machine: rather too much than too little


def test_an_inexact_rule_is_predicted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onenth.bilinear, "_product", rounding)
    A = algebra.get("quaternion").A
    factors = closed.twisted(A)
    factors = factors._replace(U=factors.U * 1.01)
    for dtype in (torch.float32, torch.bfloat16):
        assert extra_error(A, factors, dtype, 64) == pytest.approx(measured(A, factors, dtype, 64), rel=0.3)


def test_growth_does_not_change_with_scale() -> None:
    A, factors = algebra.get("octonion").A, known("octonion")[0].factors
    scale = torch.rand(factors.rank, dtype=torch.float64) + 0.5
    scaled = Factors(factors.U / scale.square(), factors.V * scale[:, None], factors.W * scale[:, None])
    before, after = certify(A, factors), certify(A, scaled)
    assert after.growth == pytest.approx(before.growth)
    assert after.residual < 1e-13


def test_the_certificate_of_gauss() -> None:
    certificate = certify(algebra.get("complex").A, closed.gauss())
    assert (certificate.rank, certificate.share, certificate.residual, certificate.largest) == (3, 0.75, 0, 1)
    assert certificate.growth == pytest.approx(2**0.5)
    assert certificate.bf16 == pytest.approx(
        5**0.5
    )  # g (1/2, 1/2, 1), two exact mixes, and one rounding of y
    assert str(certificate).startswith("rank 3: 75% of the dense arithmetic, residual 0.0e+00, growth 1.41")


def test_none_stands_for_the_identity() -> None:
    U = torch.randn(5, 3, dtype=torch.float64)
    eye = torch.eye(3, dtype=torch.float64)
    bare, spelled = Factors(U, None, None), Factors(U, eye, eye)
    assert certify(bare.tensor(), bare) == certify(bare.tensor(), spelled)


def test_certify_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match=r"\(2, 2, 2\), and A is \(4, 4, 4\)"):
        certify(algebra.get("quaternion").A, closed.gauss())
    with pytest.raises(ValueError, match="zeros only"):
        certify(torch.zeros(2, 2, 2), closed.gauss())
    with pytest.raises(TypeError, match="int8"):
        extra_error(algebra.get("complex").A, closed.gauss(), torch.int8)

"""The nearest operator: optimal where a closed form says so, monotone elsewhere."""

import time

import pytest
import torch
from torch import Tensor, nn

from onenth import PHMLinear, Rule, algebra, nearest
from onenth.fit import nearest_with
from onenth.ops import reference


def rearranged(W: Tensor, n_out: int, n_in: int) -> Tensor:
    """Block (p, q) of W as row (p, q), written out."""
    o, c = W.shape[0] // n_out, W.shape[1] // n_in
    return torch.stack(
        [W[p * o : (p + 1) * o, q * c : (q + 1) * c].reshape(-1) for p in range(n_out) for q in range(n_in)]
    )


def weight_of(values: dict[str, Tensor], A: Tensor) -> Tensor:
    S = values["S"] if "S" in values else values["s"] @ values["t"]
    return reference.kronecker(A, S)


def relative(H: Tensor, W: Tensor) -> float:
    return ((H - W).norm() / W.norm()).item()


@pytest.mark.parametrize(
    ("n", "terms"), [(2, None), (4, None), (4, 2), (8, None), (3, None), ((2, 6), None), ((6, 3), 5)]
)
@pytest.mark.parametrize("seed", range(3))
def test_learned_rules_reach_the_truncated_svd(n: int, terms: int | None, seed: int) -> None:
    W = torch.randn(48, 72, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = nearest(W, n=n, terms=terms)
    n_out, n_in = n if isinstance(n, tuple) else (n, n)
    kept = terms or min(n_out, n_in)
    singular = torch.linalg.svdvals(rearranged(W, n_out, n_in))
    best = (singular[kept:].square().sum().sqrt() / W.norm()).item()
    assert found.error == pytest.approx(best, rel=1e-6)
    assert found.bound == pytest.approx(best, rel=1e-6)
    assert relative(weight_of(found.values, found.values["rule.A"]), W) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("n", [2, 3, 4, 8, 16])
@pytest.mark.parametrize("spread", [1.0, 1e-2])
def test_planted_sums_of_kronecker_products_are_recovered(n: int, spread: float) -> None:
    A = (
        torch.randn(n, n, n, dtype=torch.float64)
        * torch.logspace(0, torch.tensor(spread).log10(), n)[:, None, None]
    )
    W = reference.kronecker(A.double(), torch.randn(n, 5, 7, dtype=torch.float64))
    found = nearest(W, n=n)
    assert found.error < 1e-12
    assert relative(weight_of(found.values, found.values["rule.A"]), W) < 1e-12


@pytest.mark.parametrize("rule", ["complex", "quaternion", "octonion", "dual", "clifford(2,1)", "tensor"])
def test_fixed_rules_reach_the_least_squares_solution(rule: str) -> None:
    A = torch.randn(3, 4, 2, dtype=torch.float64) if rule == "tensor" else algebra.get(rule).A
    W = torch.randn(48, 32, dtype=torch.float64)
    found = nearest(W, rule=A if rule == "tensor" else rule)
    M = rearranged(W, *A.shape[1:])
    solution = torch.linalg.lstsq(A.flatten(1).mT, M).solution
    best = ((M - A.flatten(1).mT @ solution).norm() / W.norm()).item()
    assert found.error == pytest.approx(best, rel=1e-10)
    torch.testing.assert_close(found.values["S"].flatten(1), solution)
    assert set(found.values) == {"S"}


def test_a_rule_handed_in_stays_as_it_is() -> None:
    rule = Rule.learned(4).double()
    before = rule.A.detach().clone()
    W = torch.randn(16, 16, dtype=torch.float64)
    found = nearest(W, rule=rule)
    assert set(found.values) == {"S"}
    assert torch.equal(rule.A, before)
    own = reference.kronecker(before, torch.randn(4, 4, 4, dtype=torch.float64))
    assert nearest(own, rule=rule).error < 1e-12


@pytest.mark.parametrize("options", [{"n": 4, "rank": 8}, {"n": 4, "rank": 4}], ids=str)
def test_the_rule_whose_form_is_fitted_is_left_alone(options: dict) -> None:
    rule = Rule.learned(**options, dtype=torch.float64)
    before = rule.tensor().detach().clone()
    nearest_with(rule, torch.randn(16, 16, dtype=torch.float64), None, keep=False)
    assert torch.equal(rule.tensor(), before)


def test_the_diagonal_rule_is_optimal() -> None:
    W = torch.randn(24, 32, dtype=torch.float64)
    found = nearest(W, n=4, rule="diagonal")
    blocks = rearranged(W, 4, 4).view(4, 4, -1)  # (p, q, oc)
    lost = sum(torch.linalg.svdvals(blocks[:, q])[1:].square().sum() for q in range(4))
    assert found.error == pytest.approx((lost.sqrt() / W.norm()).item(), rel=1e-9)


DESCENDING = [
    {"n": 4, "rank": 8},
    {"n": 4, "rank": 4},
    {"n": 4, "rank": 1},
    {"n": 4, "rank": 6, "terms": 2},
    {"n": 8, "rank": 16},
    {"n": 4, "component_rank": 2},
    {"n": 4, "rank": 8, "component_rank": 2},
    {"rule": "quaternion", "component_rank": 3},
    {"n": 4, "rule": "diagonal", "component_rank": 2},
    {"n": (2, 4), "component_rank": 2},
]


@pytest.mark.parametrize("options", DESCENDING, ids=str)
def test_the_others_descend_and_report_the_gap(options: dict) -> None:
    W = torch.randn(40, 48, dtype=torch.float64)
    found = nearest(W, **options)
    assert all(later <= earlier for earlier, later in zip(found.errors, found.errors[1:], strict=False))
    assert found.gap >= -1e-12
    layer = PHMLinear.from_linear(_dense(W), **options)
    assert relative(layer.weight.detach(), W) == pytest.approx(found.error, rel=1e-9)


@pytest.mark.parametrize(
    "options", [{"n": 4, "rank": 4}, {"n": 4, "rank": 8}, {"n": 4, "component_rank": 2}], ids=str
)
def test_what_is_of_the_form_is_found_again(options: dict) -> None:
    torch.manual_seed(3)
    W = PHMLinear(48, 40, dtype=torch.float64, **options).to_linear().weight.detach()
    assert nearest(W, **options).error < 0.05


@pytest.mark.parametrize("options", [{"n": 4}, {"n": 4, "rank": 8}, {"n": 4, "rule": "diagonal"}], ids=str)
def test_fitted_rules_have_the_size_of_drawn_ones(options: dict) -> None:
    layer = PHMLinear.from_linear(nn.Linear(48, 40), **options)
    assert layer.rule.tensor().square().sum().item() == pytest.approx(16, rel=1e-5)


@pytest.mark.parametrize(
    "W", [torch.zeros(8, 8), torch.eye(8), torch.ones(8, 8)], ids=["zero", "identity", "ones"]
)
@pytest.mark.parametrize(
    "options",
    [
        {"n": 2},
        {"n": 4},
        {"n": 4, "rank": 8},
        {"n": 4, "component_rank": 1},
        {"rule": "quaternion"},
        {"n": 4, "rule": "diagonal"},
    ],
    ids=str,
)
def test_degenerate_weights(W: Tensor, options: dict) -> None:
    found = nearest(W, **options)
    assert all(value.isfinite().all() for value in found.values.values())
    assert 0 <= found.error <= 1 + 1e-12
    if not W.any():
        assert found.error == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layers_keep_dtype_and_bias(dtype: torch.dtype) -> None:
    dense = nn.Linear(32, 64, dtype=dtype)
    layer = PHMLinear.from_linear(dense, n=4)
    assert {parameter.dtype for parameter in layer.parameters()} == {dtype}
    assert torch.equal(layer.bias, dense.bias)
    assert PHMLinear.from_linear(nn.Linear(32, 64, bias=False), n=4).bias is None


def test_without_segments_nothing_is_lost() -> None:
    dense = nn.Linear(12, 20)
    layer = PHMLinear.from_linear(dense, n=1)
    torch.testing.assert_close(layer.S[0], dense.weight, rtol=1e-6, atol=0)
    x = torch.randn(3, 12)
    torch.testing.assert_close(layer(x), dense(x))


@pytest.mark.full
def test_a_large_matrix_takes_three_seconds() -> None:
    W = torch.randn(4096, 11008)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        found = nearest(W, n=8)
        seconds.append(time.perf_counter() - begin)
    torch.set_num_threads(threads)
    assert found.error == pytest.approx(found.bound, rel=1e-9)
    assert min(seconds) < 3


def _dense(W: Tensor) -> nn.Linear:
    dense = nn.Linear(W.shape[1], W.shape[0], dtype=W.dtype)
    with torch.no_grad():
        dense.weight.copy_(W)
    return dense

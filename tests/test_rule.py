"""Rules: sizes, normal form, starts, and what each may be asked for."""

import pytest
import torch

from onenth import PHMLinear, Rule, algebra
from onenth.rule import FixedRule
from onenth.rule import _algorithms as known

LEARNED = [
    lambda: Rule.learned(4),
    lambda: Rule.learned((2, 5)),
    lambda: Rule.learned(8, terms=3),
    lambda: Rule.learned(4, rank=1),
    lambda: Rule.learned(4, rank=4),
    lambda: Rule.learned(8, rank=16),
    lambda: Rule.learned(4, rank=16),
    lambda: Rule.learned(8, rank=8, start="identity"),
    lambda: Rule.learned(8, rank=20, start="identity"),
    lambda: Rule.learned((2, 4), rank=5),
    lambda: Rule.diagonal(5),
    lambda: Rule.diagonal((2, 3)),
]


@pytest.mark.parametrize("make", LEARNED)
@pytest.mark.parametrize("seed", range(3))
def test_drawn_rules_are_in_normal_form(make, seed: int) -> None:
    torch.manual_seed(seed)
    rule = make().double()
    A2 = rule.tensor().detach().square()
    assert A2.shape == (rule.terms, rule.n_out, rule.n_in)
    torch.testing.assert_close(
        A2.sum((0, 2)), torch.full((rule.n_out,), float(rule.n_in)).double(), rtol=1e-5, atol=0
    )
    torch.testing.assert_close(
        A2.sum((0, 1)), torch.full((rule.n_in,), float(rule.n_out)).double(), rtol=1e-5, atol=0
    )


@pytest.mark.parametrize(
    ("options", "terms", "parameters"),
    [
        ({"n": 4}, 4, {"A": (4, 4, 4)}),
        ({"n": (2, 5)}, 2, {"A": (2, 2, 5)}),
        ({"n": 4, "rank": 8}, 4, {"U": (4, 8), "V": (8, 4), "W": (8, 4)}),
        ({"n": 4, "rank": 4}, 4, {"U": (4, 4), "V": (4, 4)}),
        ({"n": 4, "rank": 3}, 3, {"U": (4, 3), "V": (3, 4)}),
        ({"n": 4, "rank": 6, "terms": 2}, 2, {"U": (4, 6), "V": (6, 4), "W": (6, 2)}),
    ],
)
def test_what_is_learned(options: dict, terms: int, parameters: dict) -> None:
    rule = Rule.learned(**options)
    assert rule.terms == terms
    assert {name: tuple(value.shape) for name, value in rule.named_parameters()} == parameters


@pytest.mark.parametrize("rank", [1, 3, 4, 6, 8, 16])
def test_factors_multiply_to_the_rule(rank: int) -> None:
    rule = Rule.learned(4, rank=rank).double()
    U, V, W = rule.factors()
    W = torch.eye(rank) if W is None else W
    wanted = sum(W[r, :, None, None] * torch.outer(U[:, r], V[r]) for r in range(rank))
    torch.testing.assert_close(rule.tensor(), wanted.double())


@pytest.mark.parametrize("start", ["orthogonal", "identity"])
@pytest.mark.parametrize(("n", "rank"), [(4, 4), (4, 8), (8, 8), (8, 16), (16, 32)])
def test_factors_start_well_conditioned(start: str, n: int, rank: int) -> None:
    for seed in range(5):
        torch.manual_seed(seed)
        rule = Rule.learned(n, rank=rank, start=start)
        for factor in rule.parameters():
            assert torch.linalg.cond(factor) < 10
        assert torch.linalg.cond(rule.tensor().flatten(1)) < 100
        torch.testing.assert_close(rule.V.norm(dim=1), torch.ones(rank))


def test_the_identity_start_multiplies_segments_one_by_one() -> None:
    rule = Rule.learned(4, rank=4, start="identity")
    assert torch.equal(rule.V, torch.eye(4))
    assert rule.W is None
    rule = Rule.learned(4, rank=8, start="identity")
    pairs = {(int(v.argmax()), int(w.argmax())) for v, w in zip(rule.V, rule.W, strict=True)}
    assert len(pairs) == 8  # no product is there twice


def test_the_diagonal_rule_is_the_rank_n_rule_with_identities() -> None:
    rule = Rule.diagonal(4)
    i = torch.arange(4)
    A = torch.zeros(4, 4, 4)
    A[i, :, i] = rule.U.detach().mT
    torch.testing.assert_close(rule.tensor().detach(), A)


def test_fixed_rules_learn_nothing_and_keep_their_tensor() -> None:
    rule = Rule.fixed("quaternion")
    assert list(rule.parameters()) == []
    assert torch.equal(rule.tensor(), algebra.get("quaternion").A.float())
    given = torch.randn(3, 2, 5)
    assert torch.equal(Rule.fixed(given).tensor(), given)
    assert Rule.fixed(given).n == (2, 5)


def test_a_fixed_rule_survives_a_lower_precision_in_its_state() -> None:
    A = torch.randn(4, 4, 4, dtype=torch.float64)
    layer = PHMLinear(8, 8, rule=A, dtype=torch.float64)
    low = {name: value.bfloat16() for name, value in layer.state_dict().items()}
    layer.load_state_dict(low)
    with pytest.raises(ValueError, match="another rule"):
        layer.load_state_dict(low | {"rule.A": A + 0.1})


def test_of_reads_a_layers_arguments() -> None:
    assert isinstance(Rule.of("quaternion"), FixedRule)
    assert Rule.of("learned", 4, rank=8).rank == 8
    assert Rule.of("diagonal", 4).rank == 4
    rule = Rule.learned(4)
    assert Rule.of(rule) is rule
    assert Rule.of(rule, 4) is rule
    assert Rule.of(rule, (4, 4)) is rule
    assert Rule.of(algebra.get("octonion")).n == 8


def test_without_segments_the_rule_is_the_constant_one() -> None:
    for rule in (Rule.learned(1), Rule.learned(1, rank=1), Rule.diagonal(1), Rule.fixed("real")):
        assert rule.is_one
        assert list(rule.parameters()) == []
    assert not Rule.fixed(2 * torch.ones(1, 1, 1)).is_one


def test_drawing_again_gives_another_rule_and_the_same_one_from_the_same_seed() -> None:
    for make in LEARNED:
        rule = make()
        torch.manual_seed(1)
        rule.reset_parameters()
        first = rule.tensor().detach().clone()
        rule.reset_parameters()
        assert not torch.equal(rule.tensor(), first)
        torch.manual_seed(1)
        rule.reset_parameters()
        assert torch.equal(rule.tensor(), first)


def test_an_algebra_can_first_be_asked_for_on_the_meta_device() -> None:
    """Its algorithms are read then, and numbers are needed to certify them."""
    known.cache_clear()
    with torch.device("meta"):
        layer = PHMLinear(8, 8, rule="quaternion")
    assert layer.S.is_meta
    known.cache_clear()
    layer = PHMLinear(8, 8, rule="quaternion")
    found = layer.rule.products()
    assert found is not None
    assert found[0].U.shape == (4, 8)

"""H starts with the variance of a dense weight, for every kind of layer."""

import math

import pytest
import torch
from torch import Tensor, nn

from onenth import PHMLinear, Rule
from onenth.nn import init

LEARNED = [
    *({"n": n} for n in (2, 3, 4, 5, 8, 16)),
    *({"n": 4, "rank": rank} for rank in (1, 3, 4, 6, 8, 16)),
    {"n": 8, "rank": 16},
    {"n": 16, "rank": 16},
    {"n": 16, "rank": 32},
    {"n": 8, "rule": "diagonal"},
    {"n": (4, 2)},
    {"n": (2, 8), "terms": 5},
    {"n": 4, "terms": 2},
]
OTHERS = [
    *({"rule": name} for name in ("complex", "dual", "quaternion", "octonion", "sedenion", "clifford(2,1)")),
    {"rule": 3 * torch.eye(4).repeat(3, 1, 1)},
    {"n": 4, "component_rank": 3},
    {"n": 16, "component_rank": 1},
]


def sizes(options: dict) -> tuple[int, int]:
    """(d, k) from 256 on that the options divide."""
    layer = PHMLinear(240, 240, device="meta", **options) if options.get("n") in (3, 5) else None
    return (240 * 2, 270) if layer is not None else (256, 512)


def squares(layer: PHMLinear) -> Tensor:
    return layer.to_linear().weight.double().square()


@pytest.mark.parametrize("options", LEARNED + OTHERS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_variance_of_output_and_input_gradient(options: dict, seed: int) -> None:
    torch.manual_seed(seed)
    d, k = sizes(options)
    H2 = squares(PHMLinear(d, k, **options))
    dense = 1 / (3 * d)  # of an element of nn.Linear's weight
    assert H2.sum(1).mean().item() == pytest.approx(d * dense, rel=1e-5)  # output, for inputs of variance 1
    assert H2.sum(0).mean().item() == pytest.approx(k * dense, rel=1e-5)  # input gradient


@pytest.mark.parametrize("options", LEARNED, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_learned_rules_share_it_among_segments(options: dict, seed: int) -> None:
    torch.manual_seed(seed)
    d, k = sizes(options)
    layer = PHMLinear(d, k, **options)
    H2 = squares(layer).view(layer.rule.n_out, k // layer.rule.n_out, layer.rule.n_in, d // layer.rule.n_in)
    assert H2.mean((1, 2, 3)).mul(3 * d).sub(1).abs().max() < 0.05
    assert H2.mean((0, 1, 3)).mul(3 * d).sub(1).abs().max() < 0.05


def test_outputs_vary_as_those_of_a_dense_layer() -> None:
    x = torch.randn(4096, 256)
    dense = nn.Linear(256, 512, bias=False)(x).var().item()
    for options in LEARNED[-4:] + OTHERS[:4]:
        assert PHMLinear(256, 512, bias=False, **options)(x).var().item() == pytest.approx(dense, rel=0.05)


def test_a_shared_rule_that_has_grown_is_allowed_for() -> None:
    rule = Rule.learned(4)
    with torch.no_grad():
        rule.A.mul_(7)
    for width in (256, 1024):
        assert squares(PHMLinear(width, 256, rule=rule)).mean().item() == pytest.approx(
            1 / (3 * width), rel=1e-5
        )


@pytest.mark.parametrize(
    "name", ["normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_"]
)
@pytest.mark.parametrize(
    "options", [{"n": 4}, {"n": 8, "rank": 16}, {"rule": "octonion"}, {"n": 4, "component_rank": 5}], ids=str
)
def test_as_the_namesake_in_torch(name: str, options: dict) -> None:
    layer, dense = PHMLinear(512, 1024, **options), torch.empty(1024, 512)
    getattr(init, name)(layer)
    getattr(nn.init, name)(dense)
    assert squares(layer).mean().item() == pytest.approx(dense.square().mean().item(), rel=0.02)


def test_as_the_namesake_in_torch_with_arguments() -> None:
    layer = PHMLinear(512, 1024, n=4)
    init.kaiming_normal_(layer, mode="fan_out", nonlinearity="relu")
    assert squares(layer).mean().item() == pytest.approx(2 / 1024, rel=1e-5)
    init.xavier_uniform_(layer, gain=3)
    assert squares(layer).mean().item() == pytest.approx(9 * 2 / 1536, rel=1e-5)
    init.uniform_(layer, 0.5)
    assert squares(layer).mean().item() == pytest.approx(0.25 / 3, rel=1e-5)


@pytest.mark.parametrize("options", [{"n": 4}, {"n": 4, "rank": 8}, {"n": 4, "component_rank": 2}], ids=str)
def test_a_layer_of_zeros_can_learn(options: dict) -> None:
    layer = PHMLinear(16, 16, **options)
    init.zeros_(layer)
    assert not layer.to_linear().weight.any()
    layer(torch.randn(8, 16)).sum().backward()
    assert (layer.S if "component_rank" not in options else layer.s).grad.any()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda layer: init.normal_(layer, std=-1.0), ValueError, "variance of -1"),
        (lambda layer: init.normal_(layer, std=0.0), ValueError, "variance of 0"),
        (lambda layer: init.uniform_(layer, math.inf), ValueError, "variance of inf"),
        (lambda layer: init.normal_(nn.Linear(2, 2)), TypeError, "not Linear: use torch.nn.init"),
    ],
)
def test_nonsense_is_refused(call, error, words) -> None:
    with pytest.raises(error, match=words):
        call(PHMLinear(16, 16, n=4))


@pytest.mark.parametrize("name", ["xavier_uniform_", "kaiming_normal_"])
def test_without_segments_it_is_torch_to_the_bit(name: str) -> None:
    layer, dense = PHMLinear(32, 64, n=1), nn.Linear(32, 64)
    torch.manual_seed(5)
    getattr(init, name)(layer)
    torch.manual_seed(5)
    getattr(nn.init, name)(dense.weight)
    assert torch.equal(layer.S[0], dense.weight)


def test_components_stay_close_to_what_was_drawn() -> None:
    S = PHMLinear(512, 512, n=8).S
    bound = math.sqrt(3 * S.square().mean().item())  # of a uniform distribution with this variance
    assert S.abs().max() < 1.1 * bound
    assert (S.abs() < bound / 2).float().mean().item() == pytest.approx(0.5, abs=0.01)


def test_half_precision_layers_are_drawn_in_single() -> None:
    torch.manual_seed(0)
    low = PHMLinear(256, 256, n=4, dtype=torch.bfloat16)
    torch.manual_seed(0)
    high = PHMLinear(256, 256, n=4)
    assert torch.equal(low.rule.A, high.rule.A.bfloat16())
    torch.testing.assert_close(low.S.float(), high.S, rtol=0.02, atol=1e-3)

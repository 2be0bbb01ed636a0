"""Under its learning rate, a step of any parameter moves H as far as a step of a dense weight."""

import pytest
import torch
from torch import nn

from onenth import PHMLinear, QuaternionLinear, Rule, param_groups

VARIANTS = [
    {"n": 4},
    {"n": 16},
    {"n": (2, 4), "terms": 3},
    {"n": 4, "rank": 8},
    {"n": 8, "rank": 8},
    {"n": 8, "rank": 16},
    {"n": 4, "rule": "diagonal"},
    {"n": 4, "component_rank": 4},
    {"rule": "dual"},
    {"n": 1},
]


def rates(groups: list[dict]) -> dict[nn.Parameter, float]:
    return {parameter: group["lr"] for group in groups for parameter in group["params"]}


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_each_parameter_moves_the_weight_by_the_learning_rate(options: dict) -> None:
    layer = PHMLinear(128, 256, dtype=torch.float64, **options)
    lr = 1e-6
    found = rates(param_groups(layer, lr))
    before = layer.to_linear().weight
    for name, parameter in layer.named_parameters():
        if name == "bias":
            assert found[parameter] == lr
            continue
        moves = []
        for _ in range(200 if name.startswith("rule") else 10):
            step = found[parameter] * torch.randn_like(parameter).sign()
            with torch.no_grad():
                parameter.add_(step)
                moves.append((layer.weight - before).square().mean())
                parameter.sub_(step)
        assert torch.stack(moves).mean().sqrt().item() == pytest.approx(lr, rel=0.05), name


def test_a_shared_rule_gets_one_rate_between_those_of_its_layers() -> None:
    rule = Rule.learned(4)
    layers = [PHMLinear(width, 64, rule=rule) for width in (64, 1024)]
    alone = [rates(param_groups(layer, 1e-3))[rule.A] for layer in layers]
    together = rates(param_groups(nn.ModuleList(layers), 1e-3))[rule.A]
    assert alone[0] < together < alone[1]


def test_rules_do_not_decay_and_everything_else_does() -> None:
    model = nn.Sequential(PHMLinear(64, 64, n=4, rank=8), nn.LayerNorm(64), nn.Linear(64, 4))
    groups = param_groups(model, lr=1e-3, weight_decay=0.1)
    decay = {parameter: group["weight_decay"] for group in groups for parameter in group["params"]}
    assert set(decay) == set(model.parameters())
    assert sum(len(group["params"]) for group in groups) == len(decay)
    for name, parameter in model.named_parameters():
        assert decay[parameter] == (0.0 if "rule" in name else 0.1), name


def test_layers_of_one_kind_share_groups() -> None:
    model = nn.Sequential(*[PHMLinear(256, 256, n=4) for _ in range(6)], QuaternionLinear(256, 256))
    assert len(param_groups(model, lr=1e-3)) == 2


def test_an_optimiser_takes_them() -> None:
    model = PHMLinear(32, 32, n=4)
    optimizer = torch.optim.AdamW(param_groups(model, lr=1e-3, weight_decay=0.01), fused=True)
    before = model.to_linear().weight.clone()
    model(torch.randn(8, 32)).square().sum().backward()
    optimizer.step()
    moved = (model.weight - before).square().mean().sqrt().item()
    assert 0.5e-3 < moved < 4e-3


@pytest.mark.parametrize(("lr", "decay"), [(-1e-3, 0.0), (float("nan"), 0.0), (1e-3, -0.1)])
def test_nonsense_is_refused(lr: float, decay: float) -> None:
    with pytest.raises(ValueError, match=r"lr=|weight_decay="):
        param_groups(PHMLinear(8, 8, n=2), lr, decay)

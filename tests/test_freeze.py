"""Frozen layers: equal outputs, what is kept, what is noticed, what undoes it, and what is refused."""

import copy
import io

import pytest
import torch
from torch import Tensor, nn
from variants import KINDS, VARIANTS

from onenth import PHMLinear, Rule, check_frozen, freeze, load, save, unfreeze, using
from onenth.ops.dense import build

ROUNDING = {"rtol": 1e-10, "atol": 1e-10}


def layer_and_input(name: str, rows: int = 5) -> tuple[PHMLinear, Tensor]:
    layer = VARIANTS[name](dtype=torch.float64).eval()
    return layer, torch.randn(rows, layer.in_features, dtype=torch.float64)


def quaternion(size: int = 256, **options) -> PHMLinear:
    return PHMLinear(size, size, rule="quaternion", **options).eval()


@pytest.mark.parametrize("rows", [1, 300])
@pytest.mark.parametrize("name", VARIANTS)
def test_outputs_are_equal(name: str, rows: int) -> None:
    layer, x = layer_and_input(name, rows)
    wanted = layer(x)
    freeze(layer, rows=rows)
    torch.testing.assert_close(layer(x), wanted, **ROUNDING)
    torch.testing.assert_close(layer(x[:0]), wanted[:0])
    check_frozen(layer)


@pytest.mark.parametrize(
    ("options", "rank"),
    [({"n": 4}, 7), ({"n": 2}, 3), ({"rule": "quaternion"}, 8), ({"n": 8, "rank": 16}, None),
     ({"n": (4, 2)}, None)],
)  # fmt: skip
def test_outputs_are_within_the_certificate(options: dict, rank: int | None) -> None:
    layer = PHMLinear(512, 512, **options).eval()
    x = torch.randn(1024, 512)
    exact = x.double() @ layer.to_linear().weight.double().T + layer.bias.double()
    with using("dense"):
        dense = (layer(x) - exact).norm()
    [report] = freeze(layer, rows=1024).layers
    assert report.paths == {1024: "bilinear"}
    allowed = 1.0
    if rank is not None:
        assert report.certificate.rank <= rank
        allowed = report.certificate.fp32
        assert allowed <= 2
    assert (layer(x) - exact).norm() <= 1.5 * allowed * dense


def test_a_layer_keeps_what_its_rows_need() -> None:
    layer = PHMLinear(1024, 1024, n=4, rank=12).eval()
    assert freeze(layer, rows=1).layers[0].nbytes == 0  # decode reads S as it is
    assert layer._frozen.held.H is None
    report = freeze(layer, rows=[1, 4096])
    assert report.layers[0].paths == {1: "decode", 4096: "bilinear"}
    assert report.layers[0].nbytes == 12 * 256 * 256 * 4  # S̃
    assert freeze(PHMLinear(1024, 1024, n=16).eval(), rows=1024).layers[0].nbytes == 1024 * 1024 * 4  # H


def test_the_report_reads_well() -> None:
    model = nn.Sequential(quaternion(2048), nn.ReLU(), PHMLinear(2048, 64, n=1).eval())
    text = str(freeze(model, rows=[1, 1024]))
    assert text.startswith(
        "2 layers frozen, 8,388,608 bytes kept\n  0: 1 rows: decode, 1024 rows: bilinear\n"
    )
    assert "rank 8: 50% of the dense arithmetic" in text


def test_no_algorithm_says_why() -> None:
    bf16 = PHMLinear(512, 512, n=8, dtype=torch.bfloat16).eval()
    [report] = freeze(bf16, rows=1024, seconds=0.5).layers
    assert report.paths == {1024: "dense"}
    assert report.certificate is None
    assert "no algorithm errs at most 2 times as much as the dense path: rank 2" in report.note
    [report] = freeze(PHMLinear(1700, 1700, n=17).eval(), rows=1024).layers
    assert "the solver goes up to n=16" in report.note


def test_fast_precision_takes_fewer_products() -> None:
    layer = PHMLinear(1024, 1024, rule="octonion").eval()
    assert freeze(layer, rows=1024).layers[0].certificate.rank == 27
    assert freeze(layer, rows=1024, precision="fast").layers[0].certificate.rank == 25


def test_a_shared_rule_is_searched_once(monkeypatch) -> None:
    calls = []
    search = onenth_freeze()._search
    monkeypatch.setattr(onenth_freeze(), "_search", lambda *given: calls.append(given[0]) or search(*given))
    rule = Rule.learned(4)
    model = nn.Sequential(PHMLinear(512, 512, rule=rule), PHMLinear(512, 512, rule=rule)).eval()
    assert len(freeze(model, rows=1024).layers) == 2
    assert calls == [rule]
    model(torch.randn(3, 512))  # without a warning: both have noticed that the rule no longer learns


def onenth_freeze():
    import sys

    return sys.modules["onenth.freeze"]  # the name in the package is the function


@pytest.mark.parametrize("name", KINDS)
def test_gradients_reach_the_input_only(name: str) -> None:
    layer, x = layer_and_input(name)
    x.requires_grad_()
    direction = torch.randn(5, layer.out_features, dtype=torch.float64)
    [wanted] = torch.autograd.grad(layer(x), x, direction)
    freeze(layer, rows=5)
    learning = [name for name, p in layer.named_parameters() if p.requires_grad]
    assert learning == (["bias"] if name != "n=1" else learning)
    [found] = torch.autograd.grad(layer(x), x, direction)
    torch.testing.assert_close(found, wanted, **ROUNDING)


@pytest.mark.parametrize("undo", ["unfreeze", "train"])
def test_it_is_undone(undo: str) -> None:
    rule = Rule.learned(4)
    model = nn.Sequential(PHMLinear(64, 64, rule=rule), PHMLinear(64, 64, rule=rule)).eval()
    model[1].S.requires_grad_(False)
    before = {name: p.requires_grad for name, p in model.named_parameters()}
    freeze(model)
    assert not rule.A.requires_grad
    unfreeze(model) if undo == "unfreeze" else model.train()
    assert {name: p.requires_grad for name, p in model.named_parameters()} == before
    assert all(layer._frozen is None for layer in model)
    model(torch.randn(2, 64)).sum().backward()
    assert rule.A.grad is not None


def test_freezing_twice_is_freezing_once() -> None:
    layer = quaternion()
    freeze(layer)
    freeze(layer)
    layer.train()
    assert layer.S.requires_grad


def test_evaluation_mode_leaves_it_frozen() -> None:
    layer = quaternion()
    freeze(layer)
    layer.eval()
    assert layer._frozen is not None


def in_place(layer: PHMLinear) -> None:
    with torch.no_grad():
        layer.S.mul_(2)


def of_the_rule(layer: PHMLinear) -> None:
    with torch.no_grad():
        layer.rule.U[0, 0] += 1


def state(layer: PHMLinear) -> None:
    layer.load_state_dict({name: 2 * value for name, value in layer.state_dict().items()})


def file(layer: PHMLinear) -> None:
    other = PHMLinear(256, 256, n=4, rank=8)
    path = "layer.safetensors"
    save(other, path)
    load(layer, path)


def data(layer: PHMLinear) -> None:
    layer.S.data = layer.S.data + 1


def parameter(layer: PHMLinear) -> None:
    layer.S = nn.Parameter(layer.S + 1)


def learns(layer: PHMLinear) -> None:
    layer.S.requires_grad_(True)


@pytest.mark.parametrize(
    "change",
    [in_place, of_the_rule, state, file, data, parameter, learns, lambda own: own.double(),
     lambda own: own.reset_parameters()],
)  # fmt: skip
def test_changes_are_noticed(change, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    layer = PHMLinear(256, 256, n=4, rank=8).eval()
    freeze(layer, rows=[1, 1024])
    change(layer)
    x = torch.randn(3, 256, dtype=layer.S.dtype)
    with pytest.warns(UserWarning, match=r"frozen PHMLinear\(256, 256\) have changed.*onenth\.freeze"):
        y = layer(x)
    torch.testing.assert_close(
        y, x @ build(layer.rule.tensor(), layer.S).T + layer.bias, rtol=1e-4, atol=1e-4
    )
    assert layer.S.requires_grad
    layer(x)  # and says so once


def test_a_change_of_the_bias_needs_no_notice() -> None:
    layer = quaternion()
    freeze(layer)
    x = torch.randn(2, 256)
    before = layer(x)
    with torch.no_grad():
        layer.bias += 1
    torch.testing.assert_close(layer(x), before + 1)


@pytest.mark.parametrize("name", ["n=4", "rank 8 of n=4", "components of rank 2", "quaternion"])
def test_what_torch_does_not_see_is_found_when_asked(name: str) -> None:
    layer, x = layer_and_input(name, rows=300)
    model = nn.Sequential(layer)
    freeze(model, rows=300)
    kept = model(x)
    for own in layer.parameters():
        own.data.mul_(2)
    torch.testing.assert_close(model(x), kept + layer.bias / 2)  # not noticed
    with pytest.raises(ValueError, match=r"weights of 0 have changed.*call onenth\.freeze again"):
        check_frozen(model)
    freeze(model, rows=300)
    check_frozen(model)
    assert not torch.allclose(model(x), kept)


@pytest.mark.parametrize("name", KINDS)
def test_a_copy_is_frozen_by_itself(name: str) -> None:
    layer, x = layer_and_input(name)
    wanted = layer(x)
    freeze(layer, rows=5)
    memory = io.BytesIO()
    torch.save(layer, memory)
    memory.seek(0)
    for other in (copy.deepcopy(layer), torch.load(memory, weights_only=False)):
        torch.testing.assert_close(other(x), wanted, **ROUNDING)
        assert other._frozen is not None
        with torch.no_grad():
            for own in layer.parameters():
                own.add_(0)
        torch.testing.assert_close(other(x), wanted, **ROUNDING)  # without a warning


def test_the_state_is_that_of_the_layer() -> None:
    layer = PHMLinear(256, 256, n=4).eval()
    before = layer.state_dict()
    freeze(layer)
    assert layer.state_dict().keys() == before.keys()


def test_autocast_lowers_once() -> None:
    layer = PHMLinear(512, 512, n=4, rank=8).eval()
    freeze(layer, rows=1024)
    x = torch.randn(600, 512)
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
        lowered = layer._frozen._lowered[torch.bfloat16]
        assert lowered.right.dtype == torch.bfloat16
        layer(x)
        assert layer._frozen._lowered[torch.bfloat16] is lowered
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), layer(x), rtol=0.05, atol=0.05)


def trained(model: nn.Module) -> nn.Module:
    return model.train()


def hooked(model: nn.Module) -> nn.Module:
    def renormalise(module, inputs):
        pass

    model[0].register_forward_pre_hook(renormalise)
    return model


def hooked_rule(model: nn.Module) -> nn.Module:
    model[0].rule.register_forward_pre_hook(lambda module, inputs: None)
    return model


def parametrized(model: nn.Module) -> nn.Module:
    nn.utils.parametrizations.weight_norm(model[0], "S")
    return model


@pytest.mark.parametrize(
    ("make", "options", "error", "message"),
    [
        (trained, {}, ValueError, "0 is in training mode.*model.eval()"),
        (hooked, {}, ValueError, r"0 has hooks that may change its weights before a call \(renormalise\)"),
        (hooked_rule, {}, ValueError, "0 has hooks"),
        (parametrized, {}, ValueError, "0 has a parametrization.*remove_parametrizations"),
        (lambda model: model.to("meta"), {}, ValueError, r"0\.S is on the meta device"),
        (nn.Module.eval, {"rows": 0}, ValueError, "rows=0 must be at least 1"),
        (nn.Module.eval, {"rows": []}, ValueError, "rows is empty"),
        (nn.Module.eval, {"rows": [1, 2.5]}, TypeError, "rows=2.5 must be a whole number"),
        (nn.Module.eval, {"rows": True}, TypeError, "rows=True must be a whole number"),
        (nn.Module.eval, {"precision": "exact"}, ValueError, "precision='exact' is unknown"),
        (nn.Module.eval, {"seconds": 0}, ValueError, "seconds=0 must be more than 0"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(make, options, error, message) -> None:
    model = make(nn.Sequential(quaternion()))
    before = [p.requires_grad for p in model.parameters()]
    with pytest.raises(error, match=message):
        freeze(model, **options)
    assert model[0]._frozen is None
    assert [p.requires_grad for p in model.parameters()] == before

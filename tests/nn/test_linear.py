"""What holds for every kind of layer, and what each kind is."""

import copy
import math

import pytest
import torch
from safetensors.torch import load_model, save_model
from torch import nn
from variants import KINDS, VARIANTS, assert_same_state

from onenth import PHMLinear, Rule, load, save
from onenth.ops import reference

ROUNDING = {"rtol": 1e-12, "atol": 1e-12}  # of sums in float64
ROWS = [1, 3, 100]  # few and many take different paths


@pytest.fixture(params=VARIANTS)
def make(request):
    return VARIANTS[request.param]


@pytest.fixture
def layer(make):
    return make(dtype=torch.float64)


def dy_like(y):
    generator = torch.Generator().manual_seed(2)
    return torch.randn(y.shape, generator=generator, dtype=torch.float64).to(y.dtype)


def gradients(y, inputs):
    return torch.autograd.grad(y, inputs, dy_like(y))


def defined(layer, x):
    """The output by the definition."""
    y = reference.product(layer.rule.tensor(), layer.components(), x)
    return y if layer.bias is None else y + layer.bias


class TestEveryLayer:
    @pytest.mark.parametrize("rows", ROWS)
    def test_equals_its_definition_with_all_gradients(self, layer, rows):
        x = torch.randn(rows, layer.in_features, dtype=torch.float64, requires_grad=True)
        inputs = [x, *layer.parameters()]
        y, expected = layer(x), defined(layer, x)
        torch.testing.assert_close(y, expected, **ROUNDING)
        found = gradients(y, inputs)
        for own, wanted in zip(found, gradients(expected, inputs), strict=True):
            torch.testing.assert_close(own, wanted, **ROUNDING)

    @pytest.mark.parametrize("rows", ROWS)
    def test_equals_its_dense_twin(self, layer, rows):
        twin = layer.to_linear()
        assert type(twin) is nn.Linear
        assert torch.equal(twin.weight, layer.weight)
        x = torch.randn(rows, layer.in_features, dtype=torch.float64, requires_grad=True)
        torch.testing.assert_close(layer(x), twin(x), **ROUNDING)
        torch.testing.assert_close(gradients(layer(x), x), gradients(twin(x), x), **ROUNDING)
        if layer.bias is not None:
            found, expected = gradients(layer(x), layer.bias), gradients(twin(x), twin.bias)
            torch.testing.assert_close(found, expected, **ROUNDING)

    def test_weight_is_the_kronecker_sum_and_differentiable(self, layer):
        parameters = [p for name, p in layer.named_parameters() if name != "bias"]
        expected = reference.kronecker(layer.rule.tensor(), layer.components())
        torch.testing.assert_close(torch.Tensor(layer.weight.detach()), expected.detach(), **ROUNDING)
        found = gradients(layer.weight * 1, parameters)
        for own, wanted in zip(found, gradients(expected, parameters), strict=True):
            torch.testing.assert_close(own, wanted, **ROUNDING)

    @pytest.mark.parametrize("leading", [(), (5,), (2, 3), (2, 1, 3), (2, 3, 1, 2)], ids=str)
    def test_any_number_of_leading_dimensions(self, layer, leading):
        x = torch.randn(*leading, layer.in_features, dtype=torch.float64)
        y = layer(x)
        assert y.shape == (*leading, layer.out_features)
        torch.testing.assert_close(y, defined(layer, x), **ROUNDING)

    @pytest.mark.parametrize("leading", [(0,), (3, 0), (0, 2, 4)], ids=str)
    def test_empty_batch(self, layer, leading):
        x = torch.zeros(*leading, layer.in_features, dtype=torch.float64, requires_grad=True)
        y = layer(x)
        assert y.shape == (*leading, layer.out_features)
        y.sum().backward()
        assert x.grad.shape == x.shape
        for parameter in layer.parameters():
            assert torch.equal(parameter.grad, torch.zeros_like(parameter))

    @pytest.mark.parametrize("rows", ROWS)
    def test_strided_transposed_and_expanded_inputs(self, layer, rows):
        d = layer.in_features
        views = {
            "strided": torch.randn(rows, 2 * d, dtype=torch.float64)[:, ::2],
            "transposed": torch.randn(d, rows, dtype=torch.float64).T,
            "permuted": torch.randn(d, rows, 2, dtype=torch.float64).permute(2, 1, 0),
            "expanded": torch.randn(d, dtype=torch.float64).expand(rows, d),
            "constant": torch.randn(rows, 1, dtype=torch.float64).expand(rows, d),
        }
        for name, x in views.items():
            x = x.detach().requires_grad_()
            dense = x.detach().contiguous().requires_grad_()
            torch.testing.assert_close(layer(x), layer(dense), **ROUNDING, msg=name)
            torch.testing.assert_close(gradients(layer(x), x), gradients(layer(dense), dense), **ROUNDING)

    def test_strided_output_gradient(self, layer):
        x = torch.randn(5, layer.in_features, dtype=torch.float64, requires_grad=True)
        dy = torch.randn(layer.out_features, 5, dtype=torch.float64).T
        inputs = [x, *layer.parameters()]
        found = torch.autograd.grad(layer(x), inputs, dy)
        for own, wanted in zip(found, torch.autograd.grad(layer(x), inputs, dy.contiguous()), strict=True):
            torch.testing.assert_close(own, wanted, **ROUNDING)

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
    def test_state_dict_restores_the_bits(self, make, dtype):
        layer, other = make(dtype=dtype), make(dtype=dtype)
        x = torch.randn(5, layer.in_features).to(dtype)
        assert not torch.equal(layer(x), other(x))
        assert other.load_state_dict(layer.state_dict()) == ([], [])
        assert torch.equal(layer(x), other(x))

    def test_deepcopy_is_equal_and_independent(self, layer):
        x = torch.randn(5, layer.in_features, dtype=torch.float64)
        before, twin = layer(x), copy.deepcopy(layer)
        assert torch.equal(twin(x), before)
        with torch.no_grad():
            for tensor in [*twin.parameters(), *twin.buffers()]:
                tensor.fill_(7)
        assert torch.equal(layer(x), before)

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
    def test_safetensors_restore_the_bits(self, make, dtype, tmp_path):
        layer = make(dtype=dtype)
        x = torch.randn(5, layer.in_features).to(dtype)
        pairs = {"own": (save, load), "safetensors": (save_model, load_model), "mixed": (save, load_model)}
        for name, (write, read) in pairs.items():
            other = make(dtype=dtype)
            write(layer, tmp_path / name)
            read(other, tmp_path / name)
            assert torch.equal(layer(x), other(x)), name

    def test_meta_device_then_reset_draws_as_if_made_there(self, make):
        torch.manual_seed(3)
        expected = make(dtype=torch.float32)
        with torch.device("meta"):
            layer = make(dtype=torch.float32)
        assert {t.device.type for t in [*layer.parameters(), *layer.buffers()]} == {"meta"}
        layer.to_empty(device="cpu")
        with torch.no_grad():
            for tensor in [*layer.parameters(), *layer.buffers()]:
                tensor.fill_(math.nan)
        torch.manual_seed(3)
        layer.rule.reset_parameters()
        if layer._owns_rule:
            torch.manual_seed(3)
        layer.reset_parameters()
        assert_same_state(layer, expected.state_dict())

    def test_meta_device_then_load(self, make):
        expected = make(dtype=torch.float32)
        with torch.device("meta"):
            layer = make(dtype=torch.float32)
        layer.to_empty(device="cpu").load_state_dict(expected.state_dict())
        assert_same_state(layer, expected.state_dict())

    def test_meta_device_gives_shapes(self, make):
        layer = make(dtype=torch.float32, device="meta")
        y = layer(torch.empty(2, 3, layer.in_features, device="meta"))
        assert y.is_meta
        assert y.shape == (2, 3, layer.out_features)

    def test_to_converts_everything(self, make):
        layer = make(dtype=torch.float64)
        x = torch.randn(5, layer.in_features, dtype=torch.float64)
        y = layer(x)
        single = copy.deepcopy(layer).float()
        assert {t.dtype for t in single.state_dict().values()} == {torch.float32}
        assert single(x.float()).dtype == torch.float32
        torch.testing.assert_close(single(x.float()), y.float(), rtol=1e-5, atol=1e-5)
        half = copy.deepcopy(layer).to(torch.bfloat16)
        assert half(x.bfloat16()).dtype == torch.bfloat16

    @pytest.mark.parametrize("rows", [2, 64])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
    def test_errs_little_more_than_nn_linear(self, make, dtype, rows):
        layer = make(dtype=dtype)
        exact = copy.deepcopy(layer).double()
        dense = exact.to_linear().to(dtype)
        batches = torch.randn(128 // rows, rows, layer.in_features).to(dtype)
        wanted = defined(exact, batches.double())
        found, usual = (torch.stack([module(x) for x in batches]) for module in (layer, dense))
        assert relative(found, wanted) <= 2 * relative(usual, wanted)

    def test_repr_says_what_it_is(self, layer):
        text = repr(layer)
        assert text.startswith(type(layer).__name__ + "(")
        assert f"in_features={layer.in_features}, out_features={layer.out_features}" in text
        assert f"bias={layer.bias is not None}" in text
        assert f"n={layer.n}" in text or layer.rule.is_one
        if layer.rule.rank is not None and "diagonal" not in text:
            assert f"rank={layer.rule.rank}" in text
        assert ("component_rank=" in text) == (layer.component_rank is not None)

    def test_autocast_computes_in_bfloat16_and_learns_in_float32(self, make):
        layer = make(dtype=torch.float32)
        x = torch.randn(64, layer.in_features, requires_grad=True)
        inputs = [x, *layer.parameters()]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = layer(x)
        assert y.dtype == torch.bfloat16
        expected = layer(x)
        assert relative(y, expected) < 0.01
        for own, wanted in zip(gradients(y, inputs), gradients(expected, inputs), strict=True):
            assert own.dtype == torch.float32
            assert relative(own, wanted) < 0.02

    def test_autocast_leaves_float64_alone(self, layer):
        x = torch.randn(5, layer.in_features, dtype=torch.float64)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = layer(x)
        assert torch.equal(y, layer(x))

    def test_frozen_parameters_get_no_gradient(self, layer):
        x = torch.randn(40, layer.in_features, dtype=torch.float64, requires_grad=True)
        wanted = gradients(layer(x), list(layer.parameters()))
        for frozen in layer.parameters():
            frozen.requires_grad_(False)
            y = layer(x)
            torch.autograd.backward(y, dy_like(y))
            assert frozen.grad is None
            for other, expected in zip(layer.parameters(), wanted, strict=True):
                if other is not frozen:
                    torch.testing.assert_close(other.grad, expected, **ROUNDING)
            frozen.requires_grad_(True)
            layer.zero_grad()


def relative(own, wanted):
    return ((own.double() - wanted.double()).norm() / wanted.double().norm()).item()


def assert_repeats(name, times):
    layer = VARIANTS[name](dtype=torch.float32)
    x = torch.randn(33, layer.in_features, requires_grad=True)
    inputs = [x, *layer.parameters()]
    y = layer(x)
    first = [y, *gradients(y, inputs)]
    for _ in range(times):
        y = layer(x)
        assert all(map(torch.equal, [y, *gradients(y, inputs)], first))


@pytest.mark.parametrize("name", KINDS)
def test_twenty_repeats_give_the_same_bits(name):
    assert_repeats(name, 20)


@pytest.mark.full
@pytest.mark.parametrize("name", VARIANTS)
def test_250_repeats_give_the_same_bits(name):
    assert_repeats(name, 250)


class TestOneIsNnLinear:
    """n=1 is nn.Linear, to the bit."""

    @pytest.fixture(params=[True, False], ids=["bias", "no bias"])
    def twins(self, request):
        torch.manual_seed(5)
        dense = nn.Linear(6, 10, request.param)
        torch.manual_seed(5)
        return PHMLinear(6, 10, request.param, n=1), dense

    def test_same_draw(self, twins):
        layer, dense = twins
        assert torch.equal(layer.S[0], dense.weight)
        assert torch.equal(layer.weight, dense.weight)
        assert (layer.bias is None) == (dense.bias is None)
        assert dense.bias is None or torch.equal(layer.bias, dense.bias)

    def test_same_parameter_count(self, twins):
        layer, dense = twins
        assert count(layer) == count(dense)

    @pytest.mark.parametrize("autocast", [False, True])
    def test_same_output_and_gradients(self, twins, autocast):
        layer, dense = twins
        x = torch.randn(7, 6, requires_grad=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            y, expected = layer(x), dense(x)
        assert torch.equal(y, expected)
        found = gradients(y, [x, *layer.parameters()])
        for own, wanted in zip(found, gradients(expected, [x, *dense.parameters()]), strict=True):
            assert torch.equal(own.view_as(wanted), wanted)

    def test_every_way_to_write_it(self):
        for options in ({"n": 1}, {"rule": "real"}, {"n": 1, "rule": "diagonal"}, {"n": 1, "rank": 1}):
            assert PHMLinear(6, 10, **options).rule.is_one, options


def count(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("layer", "parameters"),
    [
        (PHMLinear(512, 2048, n=4), 512 * 2048 // 4 + 4**3 + 2048),
        (PHMLinear(512, 2048, False, n=4), 512 * 2048 // 4 + 4**3),
        (PHMLinear(512, 2048, n=16), 512 * 2048 // 16 + 16**3 + 2048),
        (PHMLinear(12, 10, n=(2, 4)), 12 * 10 * 2 // 8 + 2 * 2 * 4 + 10),
        (PHMLinear(12, 20, n=4, terms=2), 12 * 20 * 2 // 16 + 2 * 4 * 4 + 20),
        (PHMLinear(32, 48, n=4, rank=8), 32 * 48 // 4 + 8 * (4 + 4 + 4) + 48),  # U, V and W
        (PHMLinear(32, 48, n=4, rank=8, terms=3), 32 * 48 * 3 // 16 + 8 * (4 + 4 + 3) + 48),
        (PHMLinear(32, 48, n=4, rank=4), 32 * 48 // 4 + 4 * (4 + 4) + 48),  # no W
        (PHMLinear(32, 48, n=4, rank=3), 32 * 48 * 3 // 16 + 3 * (4 + 4) + 48),
        (PHMLinear(32, 48, n=4, rule="diagonal"), 32 * 48 // 4 + 4 * 4 + 48),  # U alone
        (PHMLinear(32, 48, rule="quaternion"), 32 * 48 // 4 + 48),
        (PHMLinear(32, 48, n=4, component_rank=2), 4 * 2 * (8 + 12) + 4**3 + 48),
    ],
    ids=repr,
)
def test_parameter_count(layer, parameters):
    assert count(layer) == parameters


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        ({"n": 1}, 721_200),
        ({"n": 2}, 361_264),
        ({"n": 5}, 146_200),
        ({"n": 10}, 81_200),
        ({"rule": "quaternion"}, 180_000 + 1_200),
    ],
    ids=str,
)
def test_lstm_of_the_paper(options, parameters):
    """Four gates of input and hidden state, and one bias; the paper counts the quaternion LSTM without it."""
    layers = nn.ModuleList(PHMLinear(300, 300, False, **options) for _ in range(8))
    assert count(layers) + 4 * 300 == parameters


def test_shared_rule_is_counted_once():
    rule = Rule.learned(4)
    model = nn.Sequential(PHMLinear(8, 12, rule=rule), PHMLinear(12, 16, rule=rule))
    assert count(model) == 8 * 12 // 4 + 12 + 12 * 16 // 4 + 16 + 4**3


def test_shared_rule_gets_the_gradients_of_all_its_layers():
    rule = Rule.learned(4, dtype=torch.float64)
    first, second = PHMLinear(8, 12, rule=rule), PHMLinear(12, 16, rule=rule)
    x = torch.randn(5, 8, dtype=torch.float64)
    found = gradients(second(first(x)), rule.A)
    torch.testing.assert_close(found, gradients(defined(second, defined(first, x)), rule.A), **ROUNDING)


def test_reset_leaves_a_rule_handed_in_alone():
    rule = Rule.learned(4)
    layer, before = PHMLinear(8, 12, rule=rule), rule.A.detach().clone()
    components = layer.S.detach().clone()
    layer.reset_parameters()
    assert torch.equal(rule.A, before)
    assert not torch.equal(layer.S, components)


def test_reset_draws_a_rule_of_its_own():
    layer = PHMLinear(8, 12, n=4)
    before = layer.rule.A.detach().clone()
    layer.reset_parameters()
    assert not torch.equal(layer.rule.A, before)


class TestFromLinear:
    @pytest.mark.parametrize("name", KINDS)
    @pytest.mark.parametrize("bias", [True, False])
    def test_converts_back_what_it_can_express(self, name, bias):
        layer = VARIANTS[name](dtype=torch.float64)
        options = {"component_rank": layer.component_rank}
        dense = layer.to_linear()
        if not bias:
            dense.bias = None
        found = PHMLinear.from_linear(dense, rule=layer.rule, **options)
        torch.testing.assert_close(found.to_linear().weight, dense.weight, rtol=1e-9, atol=1e-9)
        assert (found.bias is None) == (dense.bias is None)
        assert dense.bias is None or torch.equal(found.bias, dense.bias)

    def test_learns_the_rule_too(self):
        dense = PHMLinear(12, 20, n=4, dtype=torch.float64).to_linear()
        found = PHMLinear.from_linear(dense, n=4)
        torch.testing.assert_close(found.to_linear().weight, dense.weight, **ROUNDING)

    def test_n_1_keeps_the_bits(self):
        dense = nn.Linear(6, 10)
        back = PHMLinear.from_linear(dense, n=1).to_linear()
        assert torch.equal(back.weight, dense.weight)
        assert torch.equal(back.bias, dense.bias)

    def test_leaves_the_dense_layer_alone(self):
        dense = nn.Linear(8, 12)
        before = copy.deepcopy(dense)
        layer = PHMLinear.from_linear(dense, n=4)
        with torch.no_grad():
            layer.bias.zero_()
        assert_same_state(dense, before.state_dict())

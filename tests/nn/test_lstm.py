"""The LSTM and its cell: equal to torch's, to the quaternion's and to the paper's, and what they refuse."""

import copy
import itertools
import math

import pytest
import torch
from torch import nn
from torch.nn.functional import linear
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence
from variants import assert_same_state

from onenth import PHMLSTM, PHMLinear, Rule, check_frozen, freeze, load, param_groups, save, unfreeze
from onenth.nn import PHMLSTMCell, gates
from onenth.nn.lstm_run import one_chunk

ROUNDING = {"rtol": 1e-12, "atol": 1e-12}  # of sums in float64
DOUBLE = {"dtype": torch.float64}
D, H = 8, 12  # input and hidden size

KINDS = {
    "n=1": {"n": 1},
    "n=2": {"n": 2},
    "n=4": {"n": 4},
    "n=(2, 4)": {"n": (2, 4)},
    "3 terms": {"n": 4, "terms": 3},
    "rank 6": {"n": 4, "rank": 6},
    "rank 3": {"n": 4, "rank": 3},
    "diagonal": {"n": 4, "rule": "diagonal"},
    "quaternion": {"rule": "quaternion"},
    "components of rank 2": {"n": 4, "component_rank": 2},
    "fused": {"n": 4, "rules": "fused"},
    "fused quaternion": {"rule": "quaternion", "rules": "fused"},
    "shared": {"n": 4, "rules": "shared"},
    "shared rank 6": {"n": 4, "rank": 6, "rules": "shared"},
}
SHAPES = {
    "plain": {},
    "layers": {"num_layers": 3},
    "bidirectional": {"bidirectional": True},
    "both, batch first": {"num_layers": 2, "bidirectional": True, "batch_first": True},
    "no bias": {"bias": False, "num_layers": 2},
    "projected": {"proj_size": 4, "num_layers": 2, "bidirectional": True},
}
# torch's, where a compiled program is interrupted
INTERRUPTED = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf Tensor")
PROJECTED = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")


@pytest.fixture(params=KINDS)
def options(request):
    return KINDS[request.param]


@pytest.fixture(params=SHAPES)
def shape(request):
    return SHAPES[request.param]


def sequence(lstm, steps=5, batch=3, dtype=torch.float64):
    sizes = (batch, steps) if lstm.batch_first else (steps, batch)
    return torch.randn(*sizes, lstm.input_size, dtype=dtype)


def start(lstm, *batch, dtype=torch.float64):
    states = lstm.num_layers * (1 + lstm.bidirectional)
    sizes = lstm.proj_size or lstm.hidden_size, lstm.hidden_size
    return tuple(torch.randn(states, *batch, size, dtype=dtype) for size in sizes)


def flat(result):
    """The tensors of an output and its states."""
    y, (h, c) = result
    return [y.data if isinstance(y, PackedSequence) else y, h, c]


def gradients(tensors, inputs):
    weights = (torch.linspace(-1, 1, t.numel(), dtype=torch.float64).to(t.dtype).view_as(t) for t in tensors)
    return torch.autograd.grad(sum((t * w).sum() for t, w in zip(tensors, weights, strict=True)), inputs)


def assert_close(found, wanted, **close):
    for own, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(own, other, **close or ROUNDING)


def assert_same(found, wanted):
    for own, other in zip(found, wanted, strict=True):
        assert torch.equal(own, other)


def count(module):
    return sum(p.numel() for p in module.parameters())


@PROJECTED
class TestEqualsItsDenseTwin:
    def test_every_kind(self, options):
        lstm = PHMLSTM(D, H, 2, bidirectional=True, **options, **DOUBLE)
        twin = lstm.to_lstm()
        assert type(twin) is nn.LSTM
        x = sequence(lstm).requires_grad_()
        found, wanted = flat(lstm(x)), flat(twin(x))
        assert_close(found, wanted)
        assert_close(gradients(found, [x]), gradients(wanted, [x]))

    def test_every_shape(self, shape):
        lstm = PHMLSTM(D, H, **shape, n=4, **DOUBLE)
        twin = lstm.to_lstm()
        x, hx = sequence(lstm), start(lstm, 3)
        assert_close(flat(lstm(x)), flat(twin(x)))
        assert_close(flat(lstm(x, hx)), flat(twin(x, hx)))
        hx = start(lstm)
        assert_close(flat(lstm(x[:, 1], hx)), flat(twin(x[:, 1], hx)))
        assert_close(flat(lstm(x[:, 1])), flat(twin(x[:, 1])))

    @pytest.mark.parametrize("lengths", [[5, 3, 2], [2, 5, 3], [4, 4, 4], [1, 5, 1]], ids=str)
    def test_packed(self, shape, lengths):
        lstm = PHMLSTM(D, H, **shape, n=4, **DOUBLE)
        twin = lstm.to_lstm()
        packed = pack_padded_sequence(sequence(lstm), lengths, lstm.batch_first, enforce_sorted=False)
        hx = start(lstm, 3)
        for arguments in ((packed,), (packed, hx)):
            found, wanted = lstm(*arguments), twin(*arguments)
            assert_close(flat(found), flat(wanted))
            assert_same(found[0][1:], wanted[0][1:])

    def test_rules_and_components_learn_through_the_built_weights(self, options):
        """dA and dS are those of the weights, made by the chain rule in another way."""
        lstm = PHMLSTM(D, H, **options, **DOUBLE)
        twin, x = lstm.to_lstm(), sequence(lstm)
        parameters = [p for name, p in lstm.named_parameters() if "bias" not in name]
        found = gradients(flat(lstm(x)), parameters)
        dense = gradients(flat(twin(x)), [twin.weight_ih_l0, twin.weight_hh_l0])
        layers = [layer for layer in lstm.modules() if isinstance(layer, PHMLinear)]
        blocks = [block for dW in dense for block in dW.chunk(len(layers) // 2)]
        wanted = torch.autograd.grad(
            sum((layer.weight * block).sum() for layer, block in zip(layers, blocks, strict=True)), parameters
        )
        assert_close(found, wanted)

    def test_large_weights_are_built_one_by_one(self, options, monkeypatch):
        lstm = PHMLSTM(D, H, 2, **options, **DOUBLE)
        wanted = flat(lstm(x := sequence(lstm)))
        monkeypatch.setattr(gates, "SHORT", 0)
        assert_close(flat(lstm(x)), wanted)

    def test_rules_that_some_gates_share(self):
        lstm = PHMLSTM(D, D, n=4, **DOUBLE)
        own = lstm.layers[0]
        own.input.f.rule = own.hidden.o.rule = own.input.i.rule
        x = sequence(lstm)
        assert_close(flat(lstm(x)), flat(lstm.to_lstm()(x)))
        for part, W in ((own.input, lstm.weights()[0].input), (own.hidden, lstm.weights()[0].hidden)):
            for gate, block in zip("ifgo", W.chunk(4), strict=True):
                torch.testing.assert_close(block, part[gate].to_linear().weight, **ROUNDING)

    def test_dropout_acts_between_layers_in_training(self):
        lstm = PHMLSTM(D, H, 2, dropout=0.5, n=4, **DOUBLE)
        twin, x = lstm.to_lstm(), sequence(lstm)
        torch.manual_seed(1)
        found = flat(lstm(x))
        torch.manual_seed(1)
        assert_same(found, flat(twin(x)))
        lstm.eval()
        assert_same(flat(lstm(x)), flat(twin.eval()(x)))
        assert not torch.equal(lstm(x)[0], found[0])


class TestOneIsNnLSTM:
    """n=1 is nn.LSTM by the same kernel, to the bit, where its second bias is zero."""

    @pytest.fixture(params=[torch.float32, torch.float64], ids=str)
    def twins(self, request, shape):
        dense = nn.LSTM(D, H, **shape, dtype=request.param)
        for name, parameter in dense.named_parameters():
            if name.startswith("bias_hh"):
                nn.init.zeros_(parameter)
        return PHMLSTM.from_lstm(dense, n=1), dense

    @PROJECTED
    @pytest.mark.parametrize("packed", [False, True])
    def test_same_bits(self, twins, packed):
        lstm, dense = twins
        dtype = next(dense.parameters()).dtype
        x = sequence(dense, dtype=dtype)
        hx = [state.requires_grad_() for state in start(dense, 3, dtype=dtype)]
        given = pack_padded_sequence(x, [5, 3, 2], dense.batch_first) if packed else x
        found, wanted = flat(lstm(given, hx)), flat(dense(given, tuple(hx)))
        assert_same(found, wanted)
        own = gradients(found, [*hx, *lstm.parameters()])
        other = gradients(wanted, [*hx, *dense.parameters()])
        assert_same(own[:2], other[:2])
        by_name = dict(zip([name for name, _ in dense.named_parameters()], other[2:], strict=True))
        for (name, _), gradient in zip(lstm.named_parameters(), own[2:], strict=True):
            assert torch.equal(gradient, expected(name, by_name).view_as(gradient)), name

    def test_same_bits_of_odd_sizes(self):
        lstm = PHMLSTM(5, 5, 2, n=1, **DOUBLE)
        twin, x = lstm.to_lstm(), sequence(lstm)
        assert_same(flat(lstm(x)), flat(twin(x)))
        for own in lstm.weights():  # sums are rounded otherwise where memory is aligned otherwise
            assert own.input.data_ptr() % 64 == own.hidden.data_ptr() % 64 == 0

    def test_same_parameter_count_but_for_one_bias(self):
        assert count(PHMLSTM(D, H, 2, n=1)) == count(nn.LSTM(D, H, 2)) - 2 * 4 * H


def expected(name, dense):
    """The gradient of nn.LSTM's weights that belongs to a parameter of `layers` or `reverse`."""
    direction, layer, kind, *gate = name.split(".")
    suffix = f"l{layer}" + ("_reverse" if direction == "reverse" else "")
    if kind == "bias":
        return dense[f"bias_ih_{suffix}"]
    if kind == "projection":
        return dense[f"weight_hr_{suffix}"]
    return dense[f"weight_{'ih' if kind == 'input' else 'hh'}_{suffix}"].chunk(4)["ifgo".index(gate[0])]


class TestFromLSTM:
    @PROJECTED
    @pytest.mark.parametrize("kind", ["n=1", "n=4", "diagonal", "quaternion", "fused", "shared"])
    def test_finds_what_it_can_express(self, kind, shape):
        dense = PHMLSTM(D, H, **shape, **KINDS[kind], **DOUBLE).to_lstm().eval()
        with torch.no_grad():
            for name, parameter in dense.named_parameters():
                if "bias" in name:
                    parameter.normal_()
        found = PHMLSTM.from_lstm(dense, **KINDS[kind])
        assert not found.training
        x = sequence(dense)
        assert_close(flat(found(x)), flat(dense(x)), rtol=1e-9, atol=1e-9)

    def test_is_nearest_gate_by_gate(self):
        dense = nn.LSTM(D, H, **DOUBLE)
        found = PHMLSTM.from_lstm(dense, n=4)
        for part, W in (("input", dense.weight_ih_l0), ("hidden", dense.weight_hh_l0)):
            for gate, block in zip("ifgo", W.chunk(4), strict=True):
                as_linear = nn.Linear(block.shape[1], H, bias=False, **DOUBLE)
                as_linear.weight.data.copy_(block)
                layer = getattr(found.layers[0], part)[gate]
                wanted = PHMLinear.from_linear(as_linear, n=4).to_linear().weight
                torch.testing.assert_close(layer.to_linear().weight, wanted, **ROUNDING)

    @pytest.mark.parametrize("sizes", [(12, 12), (8, 12)], ids=str)
    def test_a_shared_rule_is_the_best_for_all(self, sizes):
        dense = nn.LSTM(*sizes, **DOUBLE)

        def error(lstm):
            [own] = lstm.weights()
            pairs = (own.input, dense.weight_ih_l0), (own.hidden, dense.weight_hh_l0)
            return sum((H - W).square().sum() for H, W in pairs).item()

        found = PHMLSTM.from_lstm(dense, n=2, rules="shared")
        for gate in "ifgo":  # the best rules of single gates are worse for all
            rule = PHMLSTM.from_lstm(dense, n=2).layers[0].input[gate].rule
            assert error(found) < error(PHMLSTM.from_lstm(dense, rule=rule))

    def test_a_rule_handed_in_is_taken_as_it_is(self):
        rule = Rule.learned(4, **DOUBLE)
        before = rule.A.detach().clone()
        found = PHMLSTM.from_lstm(nn.LSTM(D, H, **DOUBLE), rule=rule)
        assert torch.equal(rule.A, before)
        assert found.rule is rule

    def test_cell(self):
        dense = PHMLSTMCell(D, H, n=4, **DOUBLE).to_lstm_cell()
        with torch.no_grad():
            dense.bias_hh.normal_()
        found = PHMLSTMCell.from_lstm_cell(dense, n=4)
        x = torch.randn(3, D, **DOUBLE)
        assert_close(found(x), dense(x), rtol=1e-9, atol=1e-9)


def hamilton(a, x):
    """a ⊗ x for quaternions a (o, c, 4) that multiply x (batch, c, 4), summed over c (batch, o, 4)."""
    (r, i, j, k), (s, t, u, v) = a.unbind(-1), x.unsqueeze(1).unbind(-1)
    parts = [
        r * s - i * t - j * u - k * v,
        r * t + i * s + j * v - k * u,
        r * u - i * v + j * s + k * t,
        r * v + i * u - j * t + k * s,
    ]
    return torch.stack(parts, dim=-1).sum(2)


def test_quaternion_lstm_is_made_of_hamilton_products():
    lstm = PHMLSTM(D, H, rule="quaternion", **DOUBLE)
    own, x = lstm.layers[0], sequence(lstm)

    def multiply(part, gate, x):
        S = getattr(own, part)[gate].S.permute(1, 2, 0)  # (o, c, 4)
        y = hamilton(S, x.view(len(x), 4, -1).transpose(1, 2))
        return y.transpose(1, 2).flatten(1)

    h = c = torch.zeros(3, H, **DOUBLE)
    for x_t, y_t in zip(x, lstm(x)[0], strict=True):
        biases = dict(zip("ifgo", own.bias.chunk(4), strict=True))
        y = {
            gate: multiply("input", gate, x_t) + multiply("hidden", gate, h) + biases[gate] for gate in "ifgo"
        }
        c = y["f"].sigmoid() * c + y["i"].sigmoid() * y["g"].tanh()
        h = y["o"].sigmoid() * c.tanh()
        torch.testing.assert_close(y_t, h, **ROUNDING)


def paper_loop(own, x, h, c):
    """One direction of one layer by the paper's equations; x′ of the paper is g here."""
    outputs = []
    for x_t in x:
        y = linear(x_t, own.input) + linear(h, own.hidden)
        y = y if own.bias is None else y + own.bias
        size = y.shape[-1] // 4
        i, f, x_prime, o = (y[..., k * size : (k + 1) * size] for k in range(4))
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(x_prime)
        h = o * c
        if own.projection is not None:
            h = linear(h, own.projection)
        outputs.append(h)
    return torch.stack(outputs), h, c


def paper_lstm(lstm, x, hx):
    """All layers and directions, for (step, feature)."""
    weights, last = lstm.weights(), []
    directions = 1 + lstm.bidirectional
    for layer in range(lstm.num_layers):
        found = []
        for direction in range(directions):
            index = layer * directions + direction
            y, h, c = paper_loop(weights[index], x.flip(0) if direction else x, hx[0][index], hx[1][index])
            found.append(y.flip(0) if direction else y)
            last.append((h, c))
        x = torch.cat(found, dim=-1)
    h, c = (torch.stack(states) for states in zip(*last, strict=True))
    return x, (h, c)


class TestPaperCell:
    @pytest.fixture
    def lstm(self, shape):
        return PHMLSTM(D, H, **shape, n=4, cell="paper", **DOUBLE)

    def test_equals_the_equations(self, lstm):
        x, hx = sequence(lstm), start(lstm, 3)
        y, (h, c) = lstm(x, hx)
        for k in range(3):
            one = x[k] if lstm.batch_first else x[:, k]
            wanted = flat(paper_lstm(lstm, one, (hx[0][:, k], hx[1][:, k])))
            assert_close([y[k] if lstm.batch_first else y[:, k], h[:, k], c[:, k]], wanted)
            assert_close(flat(lstm(one, (hx[0][:, k], hx[1][:, k]))), wanted)

    def test_packed_rows_are_as_alone(self, lstm):
        rows = [torch.randn(length, D, **DOUBLE) for length in (2, 5, 3)]
        hx = start(lstm, 3)
        packed, (h, c) = lstm(pack_sequence(rows, enforce_sorted=False), hx)
        y, lengths = pad_packed_sequence(packed)
        for k, row in enumerate(rows):
            wanted = flat(paper_lstm(lstm, row, (hx[0][:, k], hx[1][:, k])))
            assert_close([y[: lengths[k], k], h[:, k], c[:, k]], wanted)

    def test_kinds(self, options):
        lstm = PHMLSTM(D, H, **options, cell="paper", **DOUBLE)
        x, hx = sequence(lstm), start(lstm, 3)
        assert_close(flat(lstm(x, hx)), flat(paper_lstm(lstm, x, hx)))

    def test_is_another_one(self):
        standard, paper = (PHMLSTM(D, H, n=1, cell=cell, **DOUBLE) for cell in ("standard", "paper"))
        paper.load_state_dict(standard.state_dict())
        x = sequence(paper)
        assert not torch.allclose(standard(x)[0], paper(x)[0], atol=1e-3)

    def test_dropout(self):
        lstm = PHMLSTM(D, H, 2, dropout=1.0, n=4, cell="paper", **DOUBLE)
        x = sequence(lstm)
        y = lstm(x)[0]
        torch.testing.assert_close(y, lstm(torch.zeros_like(x))[0], **ROUNDING)
        assert y.abs().max() > 1e-3
        lstm.eval()
        assert not torch.allclose(lstm(x)[0], lstm(torch.zeros_like(x))[0])


class TestCell:
    def test_equals_its_dense_twin(self, options):
        cell = PHMLSTMCell(D, H, **options, **DOUBLE)
        twin, x = cell.to_lstm_cell(), torch.randn(3, D, **DOUBLE)
        hx = torch.randn(3, H, **DOUBLE), torch.randn(3, H, **DOUBLE)
        assert_close(cell(x), twin(x))
        assert_close(cell(x, hx), twin(x, hx))
        assert_close(cell(x[0]), twin(x[0]))
        one = hx[0][0], hx[1][0]
        assert_close(cell(x[0], one), twin(x[0], one))

    def test_n_1_has_the_bits_of_its_dense_twin(self):
        cell = PHMLSTMCell(3, 5, n=1)
        x, twin = torch.randn(7, 3), cell.to_lstm_cell()
        found, wanted = cell(x), twin(x)
        assert_same(found, wanted)
        own, dense = (gradients(y, list(m.parameters())) for y, m in ((found, cell), (wanted, twin)))
        assert torch.equal(own[0], dense[2])
        assert_same([torch.cat(own[k : k + 4], dim=1)[0] for k in (1, 5)], dense[:2])

    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("kind", ["standard", "paper"])
    def test_is_a_step_of_the_lstm(self, kind, bias):
        lstm = PHMLSTM(D, H, bias=bias, n=4, cell=kind, **DOUBLE)
        cell = PHMLSTMCell(D, H, bias, n=4, cell=kind, **DOUBLE)
        cell.gates.load_state_dict(lstm.layers[0].state_dict())
        x, state = sequence(lstm), None
        for x_t, y_t in zip(x, lstm(x)[0], strict=True):
            state = cell(x_t, state)
            torch.testing.assert_close(state[0], y_t, **ROUNDING)

    def test_reset_and_repr(self):
        cell = PHMLSTMCell(D, H, n=4)
        before = copy.deepcopy(cell.state_dict())
        cell.reset_parameters()
        assert not any(torch.equal(value, before[name]) for name, value in cell.state_dict().items())
        assert "8, 12, bias=True, rules='per_gate', cell='standard'" in repr(cell)


FULL = pytest.mark.full


@pytest.mark.parametrize(
    "kind",
    ["n=2", "shared", *(pytest.param(k, marks=FULL) for k in ("n=1", "rank 3", "quaternion", "fused"))],
)
@pytest.mark.parametrize("cell", ["standard", "paper"])
def test_gradients_are_those_of_finite_differences(kind, cell):
    lstm = PHMLSTM(4, 4, bidirectional=True, cell=cell, **KINDS[kind], **DOUBLE)
    names, parameters = zip(*lstm.named_parameters(), strict=True)
    x, hx = sequence(lstm, steps=2, batch=1).requires_grad_(), start(lstm, 1)

    def run(x, *values):
        by_name = dict(zip(names, values, strict=True))
        return tuple(flat(torch.func.functional_call(lstm, by_name, (x, hx), tie_weights=True)))

    assert torch.autograd.gradcheck(run, (x, *parameters))


@pytest.mark.parametrize(
    ("module", "parameters"),
    [
        (PHMLSTM(300, 300, n=1), 721_200),
        (PHMLSTM(300, 300, n=2), 361_264),
        (PHMLSTM(300, 300, n=5), 146_200),
        (PHMLSTM(300, 300, n=10), 81_200),
        (PHMLSTM(300, 300, bias=False, rule="quaternion"), 180_000),
        (PHMLSTMCell(300, 300, n=5), 146_200),
        (PHMLSTM(300, 300, n=5, rules="shared"), 146_200 - 7 * 125),
        (PHMLSTM(300, 300, n=5, rules="fused"), 146_200 - 6 * 125),
        (PHMLSTM(300, 300, rule=Rule.learned(5)), 146_200 - 7 * 125),
        (PHMLSTM(300, 300, 2, bidirectional=True, n=5), 4 * 146_200 + 2 * 4 * 300 * 300 // 5),
    ],
    ids=lambda value: "" if isinstance(value, nn.Module) else str(value),
)
def test_parameter_count(module, parameters):
    """The first five are the paper's, who counts the quaternion LSTM without its bias."""
    assert count(module) == parameters


class TestStart:
    @pytest.mark.parametrize("hidden", [24, 240])
    def test_variance_of_nn_lstm(self, options, hidden):
        lstm = PHMLSTM(D, hidden, 2, proj_size=hidden // 3, **options)
        rounding = 0.3 if lstm.layers[0].projection.rule.is_one else 1e-4  # n=1 is drawn as nn.LSTM is
        for layer in (module for module in lstm.modules() if isinstance(module, PHMLinear)):
            variance = layer.weight.square().mean().item()
            assert variance == pytest.approx(1 / (3 * hidden), rel=rounding)
        for own in lstm.weights():
            assert 0.8 < own.bias.abs().max() * math.sqrt(hidden) <= 1

    def test_reset_draws_everything(self, options):
        lstm = PHMLSTM(D, H, 2, bidirectional=True, **options)
        before = copy.deepcopy(lstm.state_dict())
        lstm.reset_parameters()
        learned = {name for name, _ in lstm.named_parameters(remove_duplicate=False)}
        for name, value in lstm.state_dict().items():
            assert torch.equal(value, before[name]) == (name not in learned), name

    def test_reset_leaves_a_rule_handed_in_alone(self):
        rule = Rule.learned(4)
        lstm, before = PHMLSTM(D, H, rule=rule), rule.A.detach().clone()
        lstm.reset_parameters()
        assert torch.equal(rule.A, before)

    def test_meta_device_then_reset_draws_as_if_made_there(self, options):
        torch.manual_seed(3)
        wanted = PHMLSTM(D, H, 2, bidirectional=True, **options)
        with torch.device("meta"):
            lstm = PHMLSTM(D, H, 2, bidirectional=True, **options)
        assert lstm(torch.empty(5, 3, D, device="meta"))[0].shape == (5, 3, 2 * H)
        lstm.to_empty(device="cpu")
        torch.manual_seed(3)
        lstm.reset_parameters()
        assert_same_state(lstm, wanted.state_dict())

    def test_param_groups_see_every_gate(self):
        lstm = PHMLSTM(D, H, n=4)
        rates = {p: group["lr"] for group in param_groups(lstm, lr=1e-3) for p in group["params"]}
        assert len(rates) == 17
        assert rates[lstm.layers[0].hidden.f.rule.A] > 2e-3
        assert rates[lstm.layers[0].bias] == 1e-3


class TestState:
    def test_names(self):
        lstm = PHMLSTM(D, H, 2, bidirectional=True, proj_size=4, n=4)
        names = lstm.state_dict().keys()
        assert {
            "layers.0.input.i.S",
            "layers.1.hidden.o.rule.A",
            "reverse.0.bias",
            "reverse.1.projection.S",
        } <= names
        assert "layers.0.input.S" in PHMLSTM(D, H, n=4, rules="fused").state_dict()
        assert "rule.A" in PHMLSTM(D, H, n=4, rules="shared").state_dict()
        assert "gates.hidden.g.S" in PHMLSTMCell(D, H, n=4).state_dict()

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
    def test_round_trips_restore_the_bits(self, options, dtype, tmp_path):
        def make():
            return PHMLSTM(D, H, 2, bidirectional=True, dtype=dtype, **options)

        lstm, other, third = make(), make(), make()
        x = sequence(lstm, dtype=dtype)
        wanted = flat(lstm(x))
        assert not torch.equal(other(x)[0], wanted[0])
        assert other.load_state_dict(lstm.state_dict()) == ([], [])
        assert_same(flat(other(x)), wanted)
        save(lstm, tmp_path / "lstm")
        load(third, tmp_path / "lstm")
        assert_same(flat(third(x)), wanted)

    def test_loading_is_all_or_nothing(self):
        model = nn.Sequential(PHMLSTM(D, H, n=4))
        before = copy.deepcopy(model.state_dict())
        state = {name: value + 1 for name, value in before.items()}
        state["0.layers.0.hidden.o.S"] = torch.full_like(state["0.layers.0.hidden.o.S"], math.nan)
        for load_into, prefix in ((model, ""), (model[0], "0.")):
            with pytest.raises(
                ValueError, match=r"layers\.0\.hidden\.o\.S has 36 entries that are not finite"
            ):
                load_into.load_state_dict({name.removeprefix(prefix): v for name, v in state.items()})
            assert_same_state(model, before)

    def test_deepcopy_is_equal_and_independent(self, options):
        lstm = PHMLSTM(D, H, **options, **DOUBLE)
        x = sequence(lstm)
        before, twin = flat(lstm(x)), copy.deepcopy(lstm)
        assert_same(flat(twin(x)), before)
        with torch.no_grad():
            for tensor in [*twin.parameters(), *twin.buffers()]:
                tensor.fill_(7)
        assert_same(flat(lstm(x)), before)


class TestFrozen:
    @pytest.fixture
    def lstm(self):
        return PHMLSTM(D, H, 2, bidirectional=True, n=4, **DOUBLE).eval()

    def test_keeps_its_weights(self, lstm, monkeypatch):
        x = sequence(lstm)
        wanted = flat(lstm(x))
        freeze(lstm, rows=1024)
        assert_same(flat(lstm(x)), wanted)
        monkeypatch.setattr(gates, "build", None)  # not called again
        assert_same(flat(lstm(x)), wanted)
        twin = copy.deepcopy(lstm)
        assert_same(flat(twin(x)), wanted)
        check_frozen(lstm)

    @pytest.mark.parametrize(
        "undo", [unfreeze, nn.Module.train, nn.Module.requires_grad_], ids=lambda f: f.__name__
    )
    @pytest.mark.filterwarnings("ignore:the weights of a frozen PHMLinear")
    def test_is_undone(self, lstm, undo):
        x = sequence(lstm)
        freeze(lstm, rows=1024)
        lstm(x)
        undo(lstm)
        lstm(x)[0].sum().backward()
        assert all(p.grad is not None for p in lstm.parameters())

    def test_notices_a_change(self, lstm):
        x = sequence(lstm)
        freeze(lstm, rows=1024)
        before = lstm(x)[0]
        with torch.no_grad():
            lstm.reverse[1].hidden.o.S.mul_(2)
        with pytest.warns(UserWarning, match="have changed"):
            after = lstm(x)[0]
        assert not torch.equal(before, after)
        assert torch.equal(lstm(x)[0], after)

    def test_freezing_again_keeps_the_new_weights(self, lstm):
        x = sequence(lstm)
        freeze(lstm, rows=1024)
        lstm(x)
        unfreeze(lstm)
        with torch.no_grad():
            lstm.layers[0].input.i.S.mul_(2)
        wanted = flat(lstm(x))
        freeze(lstm, rows=1024)
        assert_same(flat(lstm(x)), wanted)

    def test_autocast_uses_its_precision(self, lstm):
        lstm = lstm.float()
        x = sequence(lstm, dtype=torch.float32)
        with torch.autocast("cpu", torch.bfloat16):
            wanted = lstm(x)[0]
            freeze(lstm, rows=1024)
            assert torch.equal(lstm(x)[0], wanted)
        assert lstm(x)[0].dtype == torch.float32


@pytest.mark.parametrize("cell", ["standard", "paper"])
def test_empty_batch(cell):
    lstm = PHMLSTM(D, H, n=4, cell=cell)
    y, (h, c) = lstm(torch.zeros(5, 0, D))
    assert (y.shape, h.shape, c.shape) == ((5, 0, H), (1, 0, H), (1, 0, H))
    y.sum().backward()
    for parameter in lstm.parameters():
        assert torch.equal(parameter.grad, torch.zeros_like(parameter))


def test_autocast_is_that_of_nn_lstm(options):
    lstm = PHMLSTM(D, H, 2, **options)
    twin, x = lstm.to_lstm(), sequence(lstm, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found, wanted = flat(lstm(x)), flat(twin(x))
    assert found[0].dtype == torch.bfloat16
    assert_same(found, wanted)
    grads = gradients(found, list(lstm.parameters()))
    for own, exact in zip(grads, gradients(flat(lstm(x)), list(lstm.parameters())), strict=True):
        assert own.dtype == torch.float32
        assert (own - exact).norm() < 0.05 * exact.norm()


def test_autocast_of_the_papers_cell():
    lstm = PHMLSTM(D, H, n=4, cell="paper")
    x = sequence(lstm, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        y = lstm(x)[0]
    assert (y - lstm(x)[0]).norm() < 0.02 * y.norm()


@INTERRUPTED
class TestCompiled:
    @pytest.fixture(autouse=True)
    def fresh(self):
        torch.compiler.reset()
        yield
        torch.compiler.reset()

    @pytest.mark.parametrize("cell", ["standard", "paper"])
    @pytest.mark.parametrize("packed", [False, True])
    @pytest.mark.parametrize("kind", [pytest.param("n=1", marks=FULL), "shared rank 6"])
    def test_equals_eager(self, cell, packed, kind):
        lstm = PHMLSTM(D, H, cell=cell, **KINDS[kind], **DOUBLE)
        head = nn.Linear(H, 2, **DOUBLE)

        def run(x):
            y, (h, c) = lstm(pack_padded_sequence(x, [4, 2]) if packed else x * 1)
            return y.data if packed else y, (head(h).relu(), c)

        x = sequence(lstm, steps=4, batch=2)
        parameters = [*lstm.parameters(), *head.parameters()]
        found, wanted = flat(torch.compile(run, backend="aot_eager")(x)), flat(run(x))
        assert_close(found, wanted)
        assert_close(gradients(found, parameters), gradients(wanted, parameters))

    def test_the_loop_and_the_cell_without_a_break(self):
        lstm, x = PHMLSTM(D, H, n=4, cell="paper", **DOUBLE), torch.randn(3, 2, D, **DOUBLE)
        compiled = torch.compile(lstm, backend="aot_eager", fullgraph=True)
        assert_close(flat(compiled(x)), flat(lstm(x)))
        cell = PHMLSTMCell(D, H, n=4, **DOUBLE)
        assert_close(torch.compile(cell, backend="aot_eager", fullgraph=True)(x[0]), cell(x[0]))

    @pytest.mark.parametrize("cell", ["standard", "paper"])
    def test_exported(self, cell):
        lstm = PHMLSTM(D, H, n=4, cell=cell, **DOUBLE)
        x = sequence(lstm)
        batch = {1: torch.export.Dim.DYNAMIC}  # of as many steps, as torch exports nn.LSTM
        run = torch.export.export(lstm, (x,), dynamic_shapes=(batch,)).module()
        x = sequence(lstm, batch=4)
        assert_close(flat(run(x)), flat(lstm(x)))


def test_learns():
    """The sign of a sum over steps, which needs memory."""
    lstm, head = PHMLSTM(4, 16, batch_first=True, n=4), nn.Linear(16, 1)
    optimizer = torch.optim.AdamW([*param_groups(lstm, lr=3e-3), {"params": head.parameters(), "lr": 3e-3}])
    losses = []
    for _ in range(150):
        x = torch.randn(64, 8, 4)
        target = (x[..., 0].sum(1) > 0).float()
        loss = nn.functional.binary_cross_entropy_with_logits(head(lstm(x)[1][0][0])[:, 0], target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-10:]) / 10 < 0.3 < sum(losses[:10]) / 10


def test_one_chunk_is_where_cudnn_looks():
    lstm = PHMLSTM(D, H, 2, bidirectional=True, n=4)
    weights, again = ([tensor for own in lstm.weights() for tensor in own.flat()] for _ in range(2))
    chunk = one_chunk(again)
    assert_same(chunk, weights)
    order = [t for t in chunk if t.dim() == 2] + [t for t in chunk if t.dim() == 1]
    for before, after in itertools.pairwise(order):
        assert after.data_ptr() == before.data_ptr() + before.nbytes
    own, wanted = (gradients(tensors, list(lstm.parameters())) for tensors in (chunk, weights))
    assert_same(own, wanted)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cudnn_takes_the_weights_as_they_are():
    """Else it warns, and warnings are errors."""
    lstm = PHMLSTM(D, H, 2, bidirectional=True, n=4, device="cuda")
    x = sequence(lstm, dtype=torch.float32).cuda()
    assert_close(flat(lstm(x)), flat(lstm.to_lstm()(x)), rtol=1e-5, atol=1e-5)


def lstm(**options):
    return PHMLSTM(D, H, n=4, **options)


def packed(sizes, features=D):
    return PackedSequence(torch.ones(sum(sizes), features), torch.tensor(sizes))


ones, zeros = torch.ones(5, 3, D), torch.zeros(1, 3, H)
REFUSED = {
    "input_size": (lambda: PHMLSTM(10, 12, n=4), ValueError, ["input_size=10 by 4", "10 and 12: 1, 2"]),
    "hidden_size": (lambda: PHMLSTM(8, 6, n=4), ValueError, ["hidden_size=6 by 4", "8 and 6: 1, 2"]),
    "both sizes": (lambda: PHMLSTM(10, 6, n=4), ValueError, ["input_size=10 by 4 or hidden_size=6"]),
    "proj_size divided": (lambda: lstm(proj_size=6), ValueError, ["proj_size=6 by 4"]),
    "fused": (lambda: PHMLSTM(8, 6, n=4, rules="fused"), ValueError, ["hidden_size=6 by 4"]),
    "cell's sizes": (lambda: PHMLSTMCell(10, 6, n=4), ValueError, ["PHMLSTMCell(10, 6", "input_size=10"]),
    "no n": (lambda: PHMLSTM(8, 12), ValueError, ["n=4"]),
    "another n": (lambda: PHMLSTM(8, 12, n=2, rule=Rule.learned(4)), ValueError, ["n=2", "n=4"]),
    "rank of a name": (lambda: PHMLSTM(8, 12, rule="quaternion", rank=8), ValueError, ["rank=8"]),
    "component_rank": (lambda: lstm(component_rank=9), ValueError, ["component_rank=9"]),
    "rule's dtype": (lambda: PHMLSTM(8, 12, rule=Rule.learned(4), **DOUBLE), TypeError, ["float64"]),
    "dtype": (lambda: lstm(dtype=torch.int64), TypeError, ["int64"]),
    "input_size 0": (lambda: PHMLSTM(0, 12, n=4), ValueError, ["input_size=0", "at least 1"]),
    "hidden_size float": (lambda: PHMLSTM(8, 12.0, n=4), TypeError, ["hidden_size=12.0", "float"]),
    "num_layers 0": (lambda: lstm(num_layers=0), ValueError, ["num_layers=0", "at least 1"]),
    "num_layers bool": (lambda: lstm(num_layers=True), TypeError, ["num_layers=True", "bool"]),
    "bias": (lambda: lstm(bias=4), TypeError, ["bias=4", "True or False"]),
    "batch_first": (lambda: lstm(batch_first=1), TypeError, ["batch_first=1"]),
    "bidirectional": (lambda: lstm(bidirectional=2), TypeError, ["bidirectional=2"]),
    "proj_size negative": (lambda: lstm(proj_size=-4), ValueError, ["proj_size=-4", "at least 0"]),
    "proj_size": (lambda: lstm(proj_size=12), ValueError, ["proj_size=12", "hidden_size=12"]),
    "dropout": (lambda: lstm(num_layers=2, dropout=1.5), ValueError, ["dropout=1.5", "0 to 1"]),
    "dropout NaN": (lambda: lstm(num_layers=2, dropout=math.nan), ValueError, ["dropout=nan"]),
    "dropout bool": (lambda: lstm(num_layers=2, dropout=True), TypeError, ["dropout=True"]),
    "rules": (lambda: lstm(rules="per_layer"), ValueError, ["'per_layer'", '"per_gate", "fused", "shared"']),
    "cell": (lambda: lstm(cell="lstm"), ValueError, ["'lstm'", '"standard", "paper"']),
    "no tensor": (lambda: lstm()([1.0]), TypeError, ["the input is a list"]),
    "dimensions": (lambda: lstm()(torch.ones(1, 5, 3, D)), ValueError, ["2 or 3 dimensions, got 4"]),
    "features": (lambda: lstm()(torch.ones(5, 3, 7)), ValueError, ["input_size=8", "(5, 3, 7)"]),
    "features packed": (lambda: lstm()(packed([2, 1], 7)), ValueError, ["input_size=8", "(3, 7)"]),
    "input's dtype": (lambda: lstm()(ones.double()), TypeError, ["float64", "float32"]),
    "whole numbers": (lambda: lstm()(ones.long()), TypeError, ["int64"]),
    "input's device": (lambda: lstm()(ones.to("meta")), ValueError, ["meta", "cpu"]),
    "no steps": (lambda: lstm()(ones[:0]), ValueError, ["no steps", "(0, 3, 8)"]),
    "no steps, batch first": (lambda: lstm(batch_first=True)(ones[:, :0]), ValueError, ["no steps"]),
    "no steps unbatched": (lambda: lstm()(ones[:0, 0]), ValueError, ["no steps", "(0, 8)"]),
    "hx alone": (lambda: lstm()(ones, zeros), TypeError, ["pair (h_0, c_0)", "Tensor"]),
    "hx of three": (lambda: lstm()(ones, (zeros,) * 3), TypeError, ["pair", "3 of them"]),
    "hx batch": (lambda: lstm()(ones, (zeros[:, :2], zeros)), ValueError, ["h_0", "(1, 2, 12)"]),
    "hx size": (lambda: lstm()(ones, (zeros, zeros[..., :8])), ValueError, ["c_0", "(1, 3, 8)"]),
    "hx unbatched": (lambda: lstm()(ones[:, 0], (zeros, zeros)), ValueError, ["(1, 12)", "(1, 3, 12)"]),
    "hx dtype": (lambda: lstm()(ones, (zeros, zeros.double())), TypeError, ["c_0", "float64"]),
    "hx packed": (lambda: lstm()(packed([2, 1]), (zeros, zeros)), ValueError, ["(1, 2, 12)", "(1, 3, 12)"]),
    "cell's dimensions": (lambda: PHMLSTMCell(D, H, n=4)(ones), ValueError, ["1 or 2 dimensions, got 3"]),
    "cell's states": (
        lambda: PHMLSTMCell(D, H, n=4)(ones[0], (zeros, zeros[0])), ValueError, ["(3, 12)", "(1, 3, 12)"]
    ),
    "from another": (lambda: PHMLSTM.from_lstm(nn.GRU(D, H), n=4), TypeError, ["nn.LSTM", "GRU"]),
    "from another cell": (lambda: PHMLSTMCell.from_lstm_cell(nn.LSTM(D, H), n=4), TypeError, ["LSTMCell"]),
    "taken": (lambda: PHMLSTM.from_lstm(nn.LSTM(D, H), n=4, bias=True), TypeError, ["bias", "leave it out"]),
    "from to paper": (lambda: PHMLSTM.from_lstm(nn.LSTM(D, H), n=4, cell="paper"), ValueError, ["'paper'"]),
    "paper to": (lambda: lstm(cell="paper").to_lstm(), ValueError, ["'paper'"]),
    "paper cell to": (lambda: PHMLSTMCell(D, H, n=4, cell="paper").to_lstm_cell(), ValueError, ["'paper'"]),
    "state of nn.LSTM": (lambda: lstm().load_state_dict(nn.LSTM(D, H).state_dict()), ValueError, ["missing"]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, kind, words = REFUSED[name]
    with pytest.raises(kind) as error:
        call()
    for word in words:
        assert word in str(error.value)


def test_dropout_of_a_single_layer_is_warned_of():
    with pytest.warns(UserWarning, match=r"dropout=0\.1 .* num_layers=1"):
        lstm(dropout=0.1)

"""The LSTM and its cell: equal to torch's, to the quaternion's and to the paper's."""

import copy

import pytest
import torch
from lstms import (
    DOUBLE,
    KINDS,
    PROJECTED,
    ROUNDING,
    D,
    H,
    assert_close,
    assert_same,
    count,
    flat,
    gradients,
    sequence,
    start,
)
from torch import nn
from torch.nn.functional import linear
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence

from onenth import PHMLSTM, PHMLinear, Rule
from onenth.nn import PHMLSTMCell, gates


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

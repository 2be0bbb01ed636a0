"""The LSTM in every mode: derivatives, starts, states, frozen, lowered, compiled."""

import copy
import itertools
import math

import pytest
import torch
from lstms import (
    DOUBLE,
    INTERRUPTED,
    KINDS,
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
from torch.nn.utils.rnn import pack_padded_sequence
from variants import assert_same_state

from onenth import PHMLSTM, PHMLinear, Rule, check_frozen, freeze, load, param_groups, save, unfreeze
from onenth.nn import PHMLSTMCell, gates
from onenth.nn.lstm_run import one_chunk

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

"""Compiled and exported layers: no breaks, the same numbers, few recompilations."""

import copy

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter
from variants import KINDS, VARIANTS

from onenth import PHMLinear, Rule, freeze, using
from onenth.ops import cost, dispatch

ROUNDING = {"rtol": 1e-12, "atol": 1e-12}  # of sums in float64
FUSED = {"rtol": 1e-5, "atol": 1e-5}  # of sums in float32, ordered anew


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def results(run, layer, x):
    x = x.detach().requires_grad_()
    y = run(x)
    dy = torch.linspace(-1, 1, y.numel()).to(y).view_as(y)
    return [y, *torch.autograd.grad(y, [x, *layer.parameters()], dy)]


def assert_compiles(name, backend, *, rows=(7,), dtype=torch.float64, **close):
    layer = VARIANTS[name](dtype=dtype)
    x = torch.randn(*rows, layer.in_features, dtype=dtype)
    compiled = torch.compile(layer, backend=backend, fullgraph=True)
    for own, wanted in zip(results(compiled, layer, x), results(layer, layer, x), strict=True):
        torch.testing.assert_close(own, wanted, **close or ROUNDING)
    layer.eval()
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), layer(x), **close or ROUNDING)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", KINDS)
def test_compiled_equals_eager(name, backend):
    assert_compiles(name, backend)


@pytest.mark.full
@pytest.mark.parametrize("name", VARIANTS)
def test_every_kind_compiles(name):
    assert_compiles(name, "aot_eager", rows=(2, 3))


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated")  # torch's own, on first use
@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("name", VARIANTS)
def test_every_kind_compiles_with_inductor(name, rows):
    assert_compiles(name, "inductor", rows=(rows,), dtype=torch.float32, **FUSED)


class TestRecompilation:
    """A program serves any number of rows on one side of a threshold between paths."""

    def programs(self, layer, sizes):
        counter = CompileCounter()
        compiled = torch.compile(layer, backend=counter, fullgraph=True)
        counts = []
        for rows in sizes:
            x = torch.randn(rows, layer.in_features)
            torch.testing.assert_close(compiled(x), layer(x))
            counts.append(counter.frame_count)
        return counts

    @pytest.mark.parametrize("name", KINDS)
    def test_at_most_one_over_eight_batch_sizes(self, name):
        assert self.programs(VARIANTS[name](), [12, 13, 17, 24, 40, 64, 99, 128])[-1] <= 2

    def test_one_more_across_a_threshold(self):
        layer = PHMLinear(512, 512, n=4, rank=8)
        work = dispatch.work(layer.rule, layer.S, layer.S.dtype)
        [(least, _), *_] = cost.thresholds(work, 2.0)  # decode up to so many rows, then bilinear
        assert 3 < least < 1000
        sizes = [least - 1, least, least - 2, least + 1, least + 2, least + 50, 1000, least]
        assert self.programs(layer, sizes) == [1, 2, 2, 3, 3, 3, 3, 3]


@pytest.mark.parametrize("path", cost.PATHS)
def test_a_forced_path_compiles(path):
    layer = PHMLinear(64, 48, n=4, rank=6, dtype=torch.float64)
    x = torch.randn(5, 64, dtype=torch.float64)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    for chosen in (path, "dense"):  # a change of mind is noticed
        with using(chosen):
            for own, wanted in zip(results(compiled, layer, x), results(layer, layer, x), strict=True):
                torch.testing.assert_close(own, wanted, **ROUNDING)


def test_a_compiled_program_recomputes_where_it_is_asked_to():
    layer = PHMLinear(64, 48, n=4, rank=6, dtype=torch.float64)
    x = torch.randn(50, 64, dtype=torch.float64)
    targets = []

    def backend(graph, inputs):
        targets.extend(str(node.target) for node in graph.graph.nodes)
        return graph.forward

    with using("bilinear", recompute=True):
        torch.compile(layer, backend=backend, fullgraph=True)(x)
    assert any("lean" in target for target in targets)


@pytest.mark.parametrize("name", KINDS)
def test_a_frozen_layer_compiles(name):
    layer = VARIANTS[name](dtype=torch.float64).eval()
    x = torch.randn(7, layer.in_features, dtype=torch.float64)
    wanted = layer(x)
    freeze(layer, rows=7)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), wanted, **ROUNDING)


def model_with_shared_rule(dtype=torch.float64):
    rule = Rule.learned(4, rank=6, dtype=dtype)
    return nn.Sequential(
        PHMLinear(32, 48, rule=rule),
        nn.ReLU(),
        PHMLinear(48, 32, n=4, dtype=dtype),
        nn.ReLU(),
        PHMLinear(32, 16, rule=rule),
    )


def test_a_shared_rule_gets_all_its_gradients():
    model = model_with_shared_rule()
    x = torch.randn(9, 32, dtype=torch.float64)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for own, wanted in zip(results(compiled, model, x), results(model, model, x), strict=True):
        torch.testing.assert_close(own, wanted, **ROUNDING)


def trained(model, run):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        x = torch.linspace(-1, 1, 32 * (step + 3), dtype=torch.float64).view(-1, 32)
        run(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.state_dict()


def test_training_sees_each_step():
    model = model_with_shared_rule()
    twin = copy.deepcopy(model)
    start = copy.deepcopy(model.state_dict())
    found = trained(model, torch.compile(model, backend="aot_eager", fullgraph=True))
    wanted = trained(twin, twin)
    for name, value in found.items():
        torch.testing.assert_close(value, wanted[name], **ROUNDING)
        assert not torch.equal(value, start[name])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", KINDS)
def test_a_jvp_inside_is_right(name, backend):
    layer = VARIANTS[name](dtype=torch.float64)
    x, v = (torch.randn(5, layer.in_features, dtype=torch.float64) for _ in range(2))
    compiled = torch.compile(lambda x, v: torch.func.jvp(layer, (x,), (v,)), backend=backend, fullgraph=True)
    y, tangent = compiled(x, v)
    H = layer.weight.detach()
    torch.testing.assert_close(y, layer(x), **ROUNDING)
    torch.testing.assert_close(tangent, v @ H.T, **ROUNDING)
    assert tangent.abs().max() > 0.1


@pytest.mark.parametrize("name", KINDS)
def test_a_jvp_in_the_parameters_inside_is_right(name):
    layer = VARIANTS[name](dtype=torch.float64)
    x = torch.randn(5, layer.in_features, dtype=torch.float64)
    values = {name: p.detach() for name, p in layer.named_parameters()}
    tangents = {name: torch.randn_like(p) for name, p in values.items()}

    def at(values):
        return torch.func.functional_call(layer, values, x)

    compiled = torch.compile(
        lambda values, tangents: torch.func.jvp(at, (values,), (tangents,)),
        backend="aot_eager",
        fullgraph=True,
    )
    step = 1e-6
    ahead, behind = ({n: values[n] + s * tangents[n] for n in values} for s in (step, -step))
    difference = (at(ahead) - at(behind)) / (2 * step)
    tangent = compiled(values, tangents)[1]
    torch.testing.assert_close(tangent, difference, rtol=1e-6, atol=1e-6)
    assert tangent.abs().max() > 0.1


@pytest.mark.parametrize("name", KINDS)
def test_a_jvp_of_a_compiled_layer_is_refused_by_torch(name):
    layer = VARIANTS[name](dtype=torch.float64)
    x = torch.randn(5, layer.in_features, dtype=torch.float64)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    compiled(x)  # a program for the plain call is there already
    with pytest.raises(torch._dynamo.exc.Unsupported, match="jvp"):
        torch.func.jvp(compiled, (x,), (x,))


@pytest.mark.parametrize("name", KINDS)
def test_vmap_and_grad_inside_are_right(name):
    layer = VARIANTS[name](dtype=torch.float64)
    x = torch.randn(3, 5, layer.in_features, dtype=torch.float64)
    per_batch = torch.vmap(torch.func.grad(lambda x: layer(x).square().sum()))
    compiled = torch.compile(per_batch, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), 2 * layer(x) @ layer.weight.detach(), **ROUNDING)


@pytest.mark.parametrize("name", KINDS)
def test_autocast_inside(name):
    layer = VARIANTS[name](dtype=torch.float32)

    def run(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return layer(x)

    x = torch.randn(16, layer.in_features)
    found = results(torch.compile(run, backend="aot_eager", fullgraph=True), layer, x)
    assert found[0].dtype == torch.bfloat16
    assert {gradient.dtype for gradient in found[1:]} == {torch.float32}
    for own, wanted in zip(found, results(run, layer, x), strict=True):
        torch.testing.assert_close(own, wanted, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", KINDS)
def test_the_weight_can_be_read_inside(name):
    layer = VARIANTS[name](dtype=torch.float64)
    x = torch.randn(5, layer.in_features, dtype=torch.float64)
    compiled = torch.compile(lambda x: x @ layer.weight.T, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), x @ layer.weight.detach().T, **ROUNDING)


@pytest.mark.parametrize("name", KINDS)
def test_exported_for_any_batch(name, tmp_path):
    layer = VARIANTS[name](dtype=torch.float64)
    example = torch.randn(5, layer.in_features, dtype=torch.float64)
    program = torch.export.export(layer, (example,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    torch.export.save(program, tmp_path / "layer.pt2")
    back = torch.export.load(tmp_path / "layer.pt2").module()
    for rows in (2, 3, 5, 64, 300):
        x = torch.randn(rows, layer.in_features, dtype=torch.float64)
        torch.testing.assert_close(back(x), layer(x), **ROUNDING)
    assert not [node for node in program.graph.nodes if "onenth" in str(node.target)]


@pytest.mark.full
@pytest.mark.parametrize("name", VARIANTS)
def test_every_kind_is_exported(name):
    layer = VARIANTS[name](dtype=torch.float64)
    example = torch.randn(2, 5, layer.in_features, dtype=torch.float64)
    dynamic = ({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},)
    run = torch.export.export(layer, (example,), dynamic_shapes=dynamic).module()
    for leading in ((2, 5), (3, 2), (7, 31)):
        x = torch.randn(*leading, layer.in_features, dtype=torch.float64)
        torch.testing.assert_close(run(x), layer(x), **ROUNDING)

"""The paths: equal results, what they keep, what they never make, and how they are registered."""

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch.utils._python_dispatch import TorchDispatchMode

import onenth.ops.bilinear
import onenth.ops.decode
import onenth.ops.dense
from onenth import PHMLinear, using
from onenth.ops import product, reference
from onenth.ops.bilinear import bilinear, lean
from onenth.ops.decode import decode
from onenth.ops.dense import dense

FACTORED = [
    {"n": 4, "rank": 8},
    {"n": 4, "rank": 3},
    {"n": 4, "rank": 6, "terms": 2},
    {"n": 4, "rule": "diagonal"},
]
UNFACTORED = [{"n": 4}, {"n": (2, 4), "terms": 3}, {"rule": "quaternion"}]
VARIANTS = [
    {"n": 8},
    {"rule": "octonion"},
    {"n": 8, "component_rank": 2},
    {"n": 8, "rank": 16},
    {"n": 8, "rank": 8},
]


class Largest(TorchDispatchMode):
    """Remembers the number of elements of the largest tensor that any operation returns."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in torch.utils._pytree.tree_leaves(result):
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.numel())
        return result


@pytest.mark.parametrize("rows", [(), (1,), (3,), (3, 7), (0,)], ids=str)
@pytest.mark.parametrize("options", [*FACTORED, *UNFACTORED], ids=str)
@pytest.mark.parametrize("piece", [2**22, 12 * 11, 12 * 3], ids="H in pieces of {}".format)
def test_paths_agree(options: dict, rows: tuple[int, ...], piece: int, monkeypatch) -> None:
    monkeypatch.setattr(onenth.ops.bilinear, "_step", lambda rank, S: 5)  # more than one chunk
    monkeypatch.setattr(onenth.ops.dense, "SHORT", 0)
    monkeypatch.setattr(onenth.ops.dense, "PIECE", piece)
    monkeypatch.setattr(onenth.ops.decode, "BLOCK", 5)
    monkeypatch.setattr(onenth.ops.decode, "LARGE", 2**26 if piece == 2**22 else 0)
    layer = PHMLinear(12, 20, dtype=torch.float64, **options)
    x = torch.randn(*rows, 12, dtype=torch.float64, requires_grad=True)
    inputs = [x, *layer.parameters()]
    direction = torch.randn(*rows, 20, dtype=torch.float64)
    A = layer.rule.tensor()
    wanted = reference.product(A, layer.S, x) + layer.bias
    gradients = torch.autograd.grad(wanted, inputs, direction, retain_graph=True)
    found = {"dense": dense(A, layer.S, x, layer.bias), "decode": decode(A, layer.S, x, layer.bias)}
    if (products := layer.rule.products()) is not None:
        found["bilinear"] = bilinear(*products[0], layer.S, x, layer.bias)
        found["lean"] = lean(*products[0], layer.S, x, layer.bias)
    for name, y in found.items():
        torch.testing.assert_close(y, wanted, msg=name)
        found_gradients = torch.autograd.grad(y, inputs, direction, retain_graph=True)  # they share A
        torch.testing.assert_close(found_gradients, gradients)


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_nothing_is_larger_than_the_dense_weight(options: dict) -> None:
    layer = PHMLinear(128, 128, **options)
    x = torch.randn(16, 128, requires_grad=True)
    with Largest() as largest:
        layer(x).sum().backward()
    assert largest.elements <= 128 * 128


def test_the_usual_formula_is_larger() -> None:
    layer = PHMLinear(128, 128, n=8)
    with Largest() as largest:
        torch.einsum("ipq,ioc->ipoqc", layer.rule.A, layer.S).sum(0)
    assert largest.elements == 8 * 128 * 128


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_the_dense_weight_is_not_kept_for_the_backward(options: dict) -> None:
    layer = PHMLinear(128, 128, **options)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        layer(torch.randn(16, 128, requires_grad=True))
    assert kept
    assert max(kept) < 128 * 128


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_a_compiler_does_not_keep_it_either(options: dict) -> None:
    layer = PHMLinear(128, 128, **options)
    kept = []

    def forward_compiler(graph: torch.fx.GraphModule, inputs: object) -> object:
        output = next(node for node in graph.graph.nodes if node.op == "output")
        kept.extend(node.meta["val"].numel() for node in output.args[0])
        return make_boxed_func(graph.forward)

    backend = aot_autograd(fw_compiler=forward_compiler)
    torch.compile(layer, backend=backend, fullgraph=True)(torch.randn(16, 128, requires_grad=True))
    assert len(kept) > 2  # the output and what the backward needs
    assert max(kept) < 128 * 128


def test_products_are_kept_only_where_the_rule_learns() -> None:
    layer = PHMLinear(128, 128, n=4, rank=8)

    def kept() -> int:
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t, lambda t: t):
            layer(torch.randn(64, 128, requires_grad=True))
        return sum(sizes)

    with using("bilinear"):
        learning = kept()
        with using(recompute=True):
            recomputing = kept()
        layer.rule.requires_grad_(False)
        assert learning - recomputing == learning - kept() == 8 * 64 * 32  # products of rows and outputs


@pytest.mark.parametrize("needed", ["x", "A", "S", "bias"])
def test_only_needed_gradients_are_computed(needed: str) -> None:
    layer = PHMLinear(16, 16, n=4).requires_grad_(False)
    tensors = {"x": torch.randn(5, 16), "A": layer.rule.A, "S": layer.S, "bias": layer.bias}
    tensors[needed].requires_grad_()
    product(layer.rule, layer.S, tensors["x"], layer.bias).sum().backward()
    assert [name for name, tensor in tensors.items() if tensor.grad is not None] == [needed]


@pytest.mark.parametrize("options", [{"n": 4, "rank": 8}, {"n": 4, "rule": "diagonal"}], ids=str)
def test_a_compiler_keeps_the_products_where_the_rule_learns(options: dict) -> None:
    layer = PHMLinear(128, 128, **options)
    A = layer.rule.U.detach().requires_grad_()
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.shape) or t, lambda t: t):
        bilinear.op(A, None, None, torch.randn(A.shape[1], 32, 32), torch.randn(5, 32 * A.shape[1]), None)
    assert (A.shape[1], 5, 32) in sizes


@pytest.mark.parametrize("options", [{"n": 4}, {"n": (2, 4), "terms": 3}, *FACTORED], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_operators_are_well_formed(options: dict, bias: bool) -> None:
    layer = PHMLinear(8, 12, bias=bias, dtype=torch.float64, **options)
    A, S = (value.detach().requires_grad_() for value in (layer.rule.tensor(), layer.S))
    x = torch.randn(5, 8, dtype=torch.float64, requires_grad=True)
    dy = torch.randn(5, 12, dtype=torch.float64)
    for path in (dense, decode):
        torch.library.opcheck(path.op, (A, S, x, layer.bias))
        assert_backward_is_well_formed(path.name, [dy], [A, S, x, layer.bias])
    factors = layer.rule.factors()
    if factors is not None:
        torch.library.opcheck(lean.op, (*factors, S, x, layer.bias))
        torch.library.opcheck(bilinear.op, (*factors, S, x, layer.bias))
        _, products = bilinear.op(*factors, S, x, layer.bias)
        assert_backward_is_well_formed("lean", [dy], [*factors, S, x, layer.bias])
        assert_backward_is_well_formed("bilinear", [dy, None], [*factors, S, x, layer.bias], [products])


def assert_backward_is_well_formed(name: str, grads: list, inputs: list, kept: list = ()) -> None:
    backward = getattr(torch.ops.onenth, f"{name}_backward").default
    saved = [None if value is None else value.detach() for value in (*inputs, *kept)]
    torch.library.opcheck(backward, (grads, saved, [value is not None for value in inputs]))

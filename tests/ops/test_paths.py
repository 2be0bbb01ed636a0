"""The paths: equal results, what they keep, what they never make, and how they are registered."""

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch.utils._python_dispatch import TorchDispatchMode

from onenth import PHMLinear, Rule
from onenth.ops import product, reference
from onenth.ops.bilinear import bilinear
from onenth.ops.dense import dense
from onenth.ops.dispatch import _prefers_bilinear

FACTORED = [
    {"n": 4, "rank": 8},
    {"n": 4, "rank": 3},
    {"n": 4, "rank": 6, "terms": 2},
    {"n": 4, "rule": "diagonal"},
]
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


@pytest.mark.parametrize("options", FACTORED, ids=str)
def test_paths_agree(options: dict) -> None:
    layer = PHMLinear(12, 20, dtype=torch.float64, **options)
    x = torch.randn(3, 7, 12, dtype=torch.float64, requires_grad=True)
    inputs = [x, *layer.parameters()]
    direction = torch.randn(3, 7, 20, dtype=torch.float64)
    by_products = bilinear(*layer.rule.factors(), layer.S, x, layer.bias)
    by_weight = dense(layer.rule.tensor(), layer.S, x, layer.bias)
    torch.testing.assert_close(by_products, by_weight)
    torch.testing.assert_close(by_products, reference.product(layer.rule.tensor(), layer.S, x) + layer.bias)
    torch.testing.assert_close(
        torch.autograd.grad(by_products, inputs, direction), torch.autograd.grad(by_weight, inputs, direction)
    )


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

    learning = kept()
    layer.rule.requires_grad_(False)
    assert learning - kept() == 8 * 64 * 32  # R products of rows × outputs of a segment


@pytest.mark.parametrize("needed", ["x", "A", "S", "bias"])
def test_only_needed_gradients_are_computed(needed: str) -> None:
    layer = PHMLinear(16, 16, n=4).requires_grad_(False)
    tensors = {"x": torch.randn(5, 16), "A": layer.rule.A, "S": layer.S, "bias": layer.bias}
    tensors[needed].requires_grad_()
    product(layer.rule, layer.S, tensors["x"], layer.bias).sum().backward()
    assert [name for name, tensor in tensors.items() if tensor.grad is not None] == [needed]


def test_the_cheaper_path_is_taken() -> None:
    def prefers(rank: int, rows: int) -> bool:
        rule = Rule.learned(4, rank=rank)
        return _prefers_bilinear(rule, rank, torch.empty(rule.terms, 64, 64), torch.empty(rows, 256))

    assert prefers(rank=8, rows=1024)
    assert prefers(rank=4, rows=1024)
    assert not prefers(rank=16, rows=1024)


@pytest.mark.parametrize(("rank", "preferred"), [(8, True), (4, True), (16, False)])
def test_an_exported_program_takes_one_path_for_any_number_of_rows(monkeypatch, rank: int, preferred: bool):
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: True)
    rule = Rule.learned(4, rank=rank)
    for rows in (1, 10_000):
        S, x = torch.empty(rule.terms, 64, 64), torch.empty(rows, 256)
        assert _prefers_bilinear(rule, rank, S, x) == preferred


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
    torch.library.opcheck(dense.op, (A, S, x, layer.bias))
    dy = torch.randn(5, 12, dtype=torch.float64)
    backward = torch.ops.onenth.dense_backward.default
    saved = [None if value is None else value.detach() for value in (A, S, x, layer.bias)]
    torch.library.opcheck(backward, ([dy], saved, [True, True, True, bias]))
    factors = layer.rule.factors()
    if factors is not None:
        torch.library.opcheck(bilinear.op, (*factors, S, x, layer.bias))
        backward = torch.ops.onenth.bilinear_backward.default
        saved = [None if value is None else value.detach() for value in (*factors, S, x, layer.bias, None)]
        torch.library.opcheck(backward, ([dy, None], saved, [value is not None for value in saved[:-1]]))

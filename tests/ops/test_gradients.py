"""Gradients of every order and mode against numerical ones, in float64."""

import pytest
import torch
from cases import Case, draw
from torch import Tensor
from torch.autograd import forward_ad

from onenth import using
from onenth.ops import cost, dispatch


def _sampled(count: int, quick: int) -> list[object]:
    return [pytest.param(seed, marks=[] if seed < quick else pytest.mark.full) for seed in range(count)]


def _functional(case: Case):
    """The layer as a function of its input and all that it learns."""
    layer = case.layer(torch.float64)
    names, parameters = zip(*layer.named_parameters(), strict=True)
    x = case.input(torch.float64).requires_grad_()

    def function(x: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (x,))

    return function, (x, *parameters)


def _paths(case: Case) -> list[str | None]:
    """All that can compute the layer; any, where it is an ordinary linear layer."""
    layer = case.layer(torch.float64)
    if layer.rule.is_one:
        return [None]
    work = dispatch.work(layer.rule, layer.components(), torch.float64)
    return [path for path in cost.PATHS if not cost.impossible(work, path)]


@pytest.mark.parametrize("seed", _sampled(200, quick=24))
def test_first_and_second_derivatives(seed: int) -> None:
    case = draw(seed, sizes=(1, 8), rows=(0, 3), small=True)
    for path in _paths(case):
        function, inputs = _functional(case)
        with using(path):
            assert torch.autograd.gradcheck(function, inputs, check_forward_ad=True, check_batched_grad=True)
            assert torch.autograd.gradgradcheck(function, inputs)


@pytest.mark.parametrize("seed", _sampled(60, quick=12))
def test_transforms_equal_the_plain_layer(seed: int) -> None:
    case = draw(seed, sizes=(4, 24), rows=(1, 5))
    function, inputs = _functional(case)
    y = function(*inputs)
    direction = torch.randn_like(y)

    wanted = torch.autograd.grad(y, inputs, direction)
    pulled = torch.func.vjp(function, *inputs)[1](direction)
    by_grad = torch.func.grad(lambda *v: (function(*v) * direction).sum(), tuple(range(len(inputs))))(*inputs)
    torch.testing.assert_close(pulled, wanted)
    torch.testing.assert_close(by_grad, wanted)

    stacked = tuple(torch.stack([v, 2 * v, -v]) for v in inputs)
    torch.testing.assert_close(
        torch.vmap(function)(*stacked), torch.stack([function(*(s[b] for s in stacked)) for b in range(3)])
    )
    torch.testing.assert_close(
        torch.vmap(function, in_dims=(0, *[None] * (len(inputs) - 1)))(stacked[0], *inputs[1:]),
        torch.stack([y, function(2 * inputs[0], *inputs[1:]), function(-inputs[0], *inputs[1:])]),
    )


@pytest.mark.parametrize("seed", _sampled(60, quick=12))
def test_forward_mode_equals_finite_differences(seed: int) -> None:
    case = draw(seed, sizes=(4, 24), rows=(1, 5))
    function, inputs = _functional(case)
    inputs = tuple(v.detach() for v in inputs)
    tangents = tuple(torch.randn_like(v) for v in inputs)
    step = 1e-5
    ahead = function(*(v + step * t for v, t in zip(inputs, tangents, strict=True)))
    behind = function(*(v - step * t for v, t in zip(inputs, tangents, strict=True)))
    slope = (ahead - behind) / (2 * step)

    pushed = torch.func.jvp(function, inputs, tangents)[1]
    torch.testing.assert_close(pushed, slope, rtol=1e-6, atol=1e-7)
    with forward_ad.dual_level():
        dual = function(*map(forward_ad.make_dual, inputs, tangents))
        torch.testing.assert_close(forward_ad.unpack_dual(dual).tangent, pushed)


def test_second_derivatives_by_transforms() -> None:
    case = draw(3, sizes=(4, 8), rows=(1, 1))
    layer, x = case.layer(torch.float64), case.input(torch.float64).reshape(-1, case.in_features)[0]
    H = layer.to_linear().weight

    def cubed(x: Tensor) -> Tensor:
        return layer(x).pow(3).sum()

    wanted = H.mT @ torch.diag(6 * layer(x)) @ H
    torch.testing.assert_close(torch.func.hessian(cubed)(x), wanted)
    torch.testing.assert_close(torch.func.jacrev(torch.func.jacrev(cubed))(x), wanted)

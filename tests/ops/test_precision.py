"""Rounding: at most twice the error of the same formula in plain torch operations, in any precision."""

import pytest
import torch
import torch.nn.functional as F
from cases import draw
from torch import Tensor

from onenth import PHMLinear
from onenth.ops import dispatch, reference

PRECISIONS = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "autocast": torch.bfloat16,  # the parameters are float32
}


def plain(layer: PHMLinear, x: Tensor) -> Tensor:
    """The formula of the path that the layer takes, as a user would write it."""
    rule, S = layer.rule, layer.components()
    factors = rule.factors()
    if factors is None or not dispatch._prefers_bilinear(rule, factors.rank, S, x):
        y = reference.product(rule.tensor(), S, x)
    else:
        U, V, W = factors
        segments = x.unflatten(-1, (rule.n_in, -1))
        left = segments if V is None else torch.einsum("rq,...qc->...rc", V, segments)
        right = S if W is None else torch.einsum("ri,ioc->roc", W, S)
        y = torch.einsum("pr,...ro->...po", U, torch.einsum("roc,...rc->...ro", right, left)).flatten(-2)
    return y if layer.bias is None else y + layer.bias


def results(layer: PHMLinear, formula, x: Tensor, direction: Tensor) -> dict[str, Tensor]:
    """The output, and the gradient of everything that went in, in float64."""
    layer.zero_grad()
    x = x.detach().requires_grad_()
    y = formula(x)
    y.backward(direction.to(y.dtype))
    grads = {name: parameter.grad for name, parameter in layer.named_parameters()}
    return {name: value.detach().double() for name, value in {"y": y, "x": x.grad, **grads}.items()}


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[] if seed < 60 else pytest.mark.full) for seed in range(500)]
)
def test_error_against_float64(seed: int) -> None:
    precision = list(PRECISIONS)[seed % len(PRECISIONS)]
    dtype = PRECISIONS[precision]
    case = draw(seed, sizes=(64, 160), rows=(8, 40))
    layer = case.layer(torch.float32 if precision == "autocast" else dtype)
    exact = case.layer(torch.float64)
    exact.load_state_dict({name: value.double() for name, value in layer.state_dict().items()})
    x = case.input(next(layer.parameters()).dtype)
    direction = torch.randn(*x.shape[:-1], case.out_features).to(dtype)

    wanted = results(exact, exact, x.double(), direction.double())
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "autocast"):
        found = results(layer, layer, x, direction)
        usual = results(layer, lambda x: plain(layer, x), x, direction)
        dense = F.linear(x.detach(), exact.weight.to(x.dtype), layer.bias).double()

    error = {name: (found[name] - value).norm() for name, value in wanted.items()}
    for name, value in wanted.items():
        allowed = 2 * (usual[name] - value).norm() + 4 * torch.finfo(dtype).eps * value.norm()
        assert error[name] <= allowed, f"{name} of {case} in {precision}"
    assert error["y"] <= 2 * (dense - wanted["y"]).norm(), f"against nn.Linear: {case} in {precision}"

"""Rounding: at most twice the error of the same formula in plain torch operations, in any precision."""

import pytest
import torch
import torch.nn.functional as F
from cases import draw
from torch import Tensor

from onenth import PHMLinear, using
from onenth.ops import cost, dispatch, reference

PRECISIONS = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "autocast": torch.bfloat16,  # the parameters are float32
}


def plain(layer: PHMLinear, x: Tensor, path: str) -> Tensor:
    """The formula of a path, as a user would write it."""
    rule, S = layer.rule, layer.components()
    segments = x.unflatten(-1, (rule.n_in, -1))
    if path == "dense":
        y = reference.product(rule.tensor(), S, x)
    elif path == "decode":
        z = torch.einsum("ioc,...qc->...iqo", S, segments)
        y = torch.einsum("ipq,...iqo->...po", rule.tensor(), z).flatten(-2)
    else:
        (U, V, W), _ = rule.products()
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
    work = dispatch.work(layer.rule, layer.components(), dtype)
    for path in [path for path in cost.PATHS if not cost.impossible(work, path)]:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "autocast"):
            with using(path):
                found = results(layer, layer, x, direction)
            usual = results(layer, lambda x, path=path: plain(layer, x, path), x, direction)
            dense = F.linear(x.detach(), exact.weight.to(x.dtype), layer.bias).double()

        error = {name: (found[name] - value).norm() for name, value in wanted.items()}
        for name, value in wanted.items():
            allowed = 2 * (usual[name] - value).norm() + 4 * torch.finfo(dtype).eps * value.norm()
            assert error[name] <= allowed, f"{name} of {case} in {precision} by {path}"
        if cost.extra(work, path) <= 2:
            assert error["y"] <= 2 * (dense - wanted["y"]).norm(), f"y of {case} in {precision} by {path}"

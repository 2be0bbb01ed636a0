"""Few rows, in blocks of the matrix."""

import pytest
import torch
import torch.nn.functional as F

from onenth.ops import few


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(24,), (1, 24), (5, 24), (2, 3, 24), (32, 24), (33, 24), (0, 24)])
def test_equals_linear(shape, bias, monkeypatch):
    calls = []
    bmm = torch.bmm
    monkeypatch.setattr(torch, "bmm", lambda *given: calls.append(1) or bmm(*given))
    x, W, b = torch.randn(shape), torch.randn(128, 24), torch.randn(128) if bias else None
    with torch.no_grad():
        torch.testing.assert_close(few.linear_of_few(x, W, b), F.linear(x, W, b))
    assert len(calls) == (0 < x.numel() <= 32 * 24)


@pytest.mark.parametrize("rows", [1, 8])
def test_errs_as_little(rows):
    x, W = torch.randn(rows, 512), torch.randn(1024, 512)
    with torch.no_grad():
        exact = x.double() @ W.double().mT
        own, usual = (y.double().sub(exact).norm() for y in (few.linear_of_few(x, W), F.linear(x, W)))
    assert own <= 2 * usual


def test_leaves_the_rest_to_torch():
    W = torch.randn(128, 24)
    x = torch.randn(2, 24, requires_grad=True)
    few.linear_of_few(x, W).sum().backward()
    torch.testing.assert_close(x.grad, W.sum(0).expand(2, -1))
    with torch.no_grad():
        for x, own in [
            (torch.randn(2, 24), torch.randn(100, 24)),  # no whole blocks
            (torch.randn(2, 24).double(), W.double()),
            (torch.randn(2, 24).bfloat16(), W.bfloat16()),
            (torch.randn(2, 24), torch.randn(24, 128).mT),
        ]:
            assert torch.equal(few.linear_of_few(x, own), F.linear(x, own))
        with torch.autocast("cpu", torch.bfloat16):
            assert few.linear_of_few(x.float(), W).dtype == torch.bfloat16

"""Memory that is kept from call to call: never shared between threads, modes or results."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch._subclasses import FakeTensor, FakeTensorMode

from onenth import PHMLinear
from onenth.ops import reference
from onenth.ops.dense import dense
from onenth.ops.scratch import release, scratch


@pytest.fixture(autouse=True)
def empty():
    release()
    yield
    release()


def test_the_same_memory_again_as_far_as_it_reaches():
    like = torch.empty(0)
    first, second = scratch(like, (2, 3), (4,))
    assert (first.shape, second.shape) == ((2, 3), (4,))
    assert not set(range(first.data_ptr(), first.data_ptr() + 24)) & {second.data_ptr()}
    assert scratch(like, (10,))[0].data_ptr() == first.data_ptr()
    assert scratch(like.double(), (10,))[0].dtype == torch.float64
    assert scratch(like, (1000,))[0].shape == (1000,)


def test_each_thread_has_its_own():
    def address():
        return scratch(torch.empty(0), (1000,))[0].data_ptr()

    with ThreadPoolExecutor(1) as other:
        assert other.submit(address).result() != address()


@pytest.mark.parametrize("options", [{"n": 4}, {"n": 8, "rank": 16}], ids=str)
def test_results_stay_as_they_are_when_others_are_made(options):
    layers = [PHMLinear(640, 768, **options) for _ in range(2)]
    x = torch.randn(70, 640, requires_grad=True)

    def results(layer):
        y = layer(x)
        return [y, *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])]

    first = results(layers[0])
    kept = [value.clone() for value in first]
    results(layers[1])
    assert all(map(torch.equal, first, kept))


def test_made_in_inference_mode_it_serves_in_training():
    layer, x = PHMLinear(640, 768, n=4), torch.randn(70, 640)
    with torch.inference_mode():
        inferred = layer(x)
    y = layer(x)
    y.sum().backward()
    torch.testing.assert_close(y, inferred)
    assert layer.S.grad is not None


def test_fake_tensors_leave_nothing_behind():
    A, S, x = torch.randn(4, 4, 4), torch.randn(4, 192, 160), torch.randn(70, 640)
    with FakeTensorMode() as mode, torch.no_grad():
        y = dense(*map(mode.from_tensor, (A, S, x)), None)
        assert (y.shape, type(y)) == ((70, 768), FakeTensor)
    with torch.no_grad():
        torch.testing.assert_close(dense(A, S, x, None), reference.product(A, S, x), rtol=1e-4, atol=1e-3)

"""LSTMs of every kind and shape, and what compares them."""

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence

ROUNDING = {"rtol": 1e-12, "atol": 1e-12}  # of sums in float64
DOUBLE = {"dtype": torch.float64}
D, H = 8, 12  # input and hidden size

KINDS = {
    "n=1": {"n": 1},
    "n=2": {"n": 2},
    "n=4": {"n": 4},
    "n=(2, 4)": {"n": (2, 4)},
    "3 terms": {"n": 4, "terms": 3},
    "rank 6": {"n": 4, "rank": 6},
    "rank 3": {"n": 4, "rank": 3},
    "diagonal": {"n": 4, "rule": "diagonal"},
    "quaternion": {"rule": "quaternion"},
    "components of rank 2": {"n": 4, "component_rank": 2},
    "fused": {"n": 4, "rules": "fused"},
    "fused quaternion": {"rule": "quaternion", "rules": "fused"},
    "shared": {"n": 4, "rules": "shared"},
    "shared rank 6": {"n": 4, "rank": 6, "rules": "shared"},
}
SHAPES = {
    "plain": {},
    "layers": {"num_layers": 3},
    "bidirectional": {"bidirectional": True},
    "both, batch first": {"num_layers": 2, "bidirectional": True, "batch_first": True},
    "no bias": {"bias": False, "num_layers": 2},
    "projected": {"proj_size": 4, "num_layers": 2, "bidirectional": True},
}
# torch's, where a compiled program is interrupted
INTERRUPTED = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf Tensor")
PROJECTED = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")


def sequence(lstm, steps=5, batch=3, dtype=torch.float64):
    sizes = (batch, steps) if lstm.batch_first else (steps, batch)
    return torch.randn(*sizes, lstm.input_size, dtype=dtype)


def start(lstm, *batch, dtype=torch.float64):
    states = lstm.num_layers * (1 + lstm.bidirectional)
    sizes = lstm.proj_size or lstm.hidden_size, lstm.hidden_size
    return tuple(torch.randn(states, *batch, size, dtype=dtype) for size in sizes)


def flat(result):
    """The tensors of an output and its states."""
    y, (h, c) = result
    return [y.data if isinstance(y, PackedSequence) else y, h, c]


def gradients(tensors, inputs):
    weights = (torch.linspace(-1, 1, t.numel(), dtype=torch.float64).to(t.dtype).view_as(t) for t in tensors)
    return torch.autograd.grad(sum((t * w).sum() for t, w in zip(tensors, weights, strict=True)), inputs)


def assert_close(found, wanted, **close):
    for own, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(own, other, **close or ROUNDING)


def assert_same(found, wanted):
    for own, other in zip(found, wanted, strict=True):
        assert torch.equal(own, other)


def count(module):
    return sum(p.numel() for p in module.parameters())

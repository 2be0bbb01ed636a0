"""Attention against torch's, its masks, and what it refuses."""

import copy
import math

import pytest
import torch
from torch import nn
from twins import copy_into

from onenth import Rule, load, save
from onenth.nn.attention import PHMMultiheadAttention

E, HEADS = 24, 4
KINDS = {
    "real": {"n": 1},
    "n=4": {"n": 4},
    "quaternion": {"rule": "quaternion"},
    "rank 8 of n=4": {"n": 4, "rank": 8},
    "shared": {"n": 4, "rules": "shared"},
    "q_kv": {"n": 2, "projections": "q_kv"},
    "q_k_v": {"n": 2, "projections": "q_k_v"},
    "kdim": {"n": 2, "kdim": 12, "vdim": 18},
    "kdim = vdim": {"n": 2, "kdim": 12, "vdim": 12},
    "without bias": {"n": 4, "bias": False},
    "bias_kv": {"n": 4, "add_bias_kv": True},
    "zero": {"n": 4, "add_zero_attn": True},
    "both": {"n": 1, "add_bias_kv": True, "add_zero_attn": True},
}


def twins(batch_first=True, **options):
    ours = PHMMultiheadAttention(E, HEADS, batch_first=batch_first, dtype=torch.float64, **options)
    for name, bias in ours.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(bias)
    shared = ("bias", "add_bias_kv", "add_zero_attn", "kdim", "vdim")
    own = {name: value for name, value in options.items() if name in shared}
    torchs = nn.MultiheadAttention(E, HEADS, batch_first=batch_first, dtype=torch.float64, **own)
    copy_into(torchs, ours)
    return ours, torchs


def inputs(ours, batch=3, queries=5, keys=7, batch_first=True):
    def one(length, size):
        x = torch.randn(batch, length, size, dtype=torch.float64)
        return x if batch_first else x.transpose(0, 1)

    return one(queries, E), one(keys, ours.kdim), one(keys, ours.vdim)


def masks(queries=5, keys=7, batch=3):
    padding = torch.arange(keys) >= torch.tensor([[7], [4], [1]])
    causal = torch.ones(queries, keys, dtype=torch.bool).triu(1)
    each = torch.rand(batch * HEADS, queries, keys) < 0.3
    each[..., 0] = False
    added = torch.randn(queries, keys, dtype=torch.float64)
    return {
        "none": {},
        "padding": {"key_padding_mask": padding},
        "causal": {"attn_mask": causal},
        "for each head": {"attn_mask": each},
        "numbers": {"attn_mask": added},
        "numbers for each head": {"attn_mask": torch.randn(batch * HEADS, queries, keys).double()},
        "both": {"attn_mask": causal, "key_padding_mask": padding},
        "both as numbers": {
            "attn_mask": added,
            "key_padding_mask": torch.zeros(batch, keys, dtype=torch.float64).masked_fill(padding, -math.inf),
        },
    }


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_torchs_with_the_same_matrices(kind, batch_first):
    ours, torchs = twins(batch_first, **KINDS[kind])
    x = inputs(ours, batch_first=batch_first)
    for mask in masks().values():
        for weights in (True, False):
            y, w = ours(*x, need_weights=weights, **mask)
            z, v = torchs(*x, need_weights=weights, **mask)
            torch.testing.assert_close(y, z)
            assert w is None if not weights else torch.testing.assert_close(w, v) is None
    _, w = ours(*x, average_attn_weights=False)
    torch.testing.assert_close(w, torchs(*x, average_attn_weights=False)[1])


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_equal_those_through_torchs(kind):
    ours, torchs = twins(**KINDS[kind])
    x = [part.requires_grad_() for part in inputs(ours)]
    dy = torch.randn(3, 5, E, dtype=torch.float64)
    found = torch.autograd.grad(ours(*x, need_weights=False)[0], x, dy)
    wanted = torch.autograd.grad(torchs(*x, need_weights=False)[0], x, dy)
    torch.testing.assert_close(found, wanted)


def test_the_parameters_gradients_at_n_1_are_torchs():
    ours, torchs = twins(n=1)
    x, _, _ = inputs(ours)
    for attention in (ours, torchs):
        attention(x, x, x, need_weights=False)[0].square().sum().backward()
    torch.testing.assert_close(ours.in_proj.S.grad[0], torchs.in_proj_weight.grad)
    torch.testing.assert_close(ours.in_proj.bias.grad, torchs.in_proj_bias.grad)
    torch.testing.assert_close(ours.out_proj.S.grad[0], torchs.out_proj.weight.grad)


def test_causal_needs_no_mask():
    ours, _ = twins(n=4)
    x, _, _ = inputs(ours)
    causal = torch.ones(5, 5, dtype=torch.bool).triu(1)
    padding = torch.arange(5) >= torch.tensor([[5], [4], [2]])
    for more in ({}, {"key_padding_mask": padding}, {"attn_mask": torch.randn(5, 5).double()}):
        left_out = more.get("attn_mask", causal)
        left_out = left_out if left_out is causal else left_out.masked_fill(causal, -math.inf)
        y, _ = ours(x, x, x, is_causal=True, need_weights=False, **more)
        z, _ = ours(x, x, x, need_weights=False, **{**more, "attn_mask": left_out})
        torch.testing.assert_close(y, z)


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("numbers", [True, False])
def test_queries_that_may_attend_to_nothing_get_the_bias(weights, numbers):
    ours, _ = twins(n=4)
    x = [part.requires_grad_() for part in inputs(ours)]
    padding = torch.zeros(3, 7, dtype=torch.bool)
    padding[1] = True
    if numbers:
        padding = torch.zeros(3, 7, dtype=torch.float64).masked_fill(padding, -math.inf)
    y, _ = ours(*x, key_padding_mask=padding, need_weights=weights)
    torch.testing.assert_close(y[1], ours.out_proj.bias.expand(5, E))
    y.sum().backward()
    assert all(tensor.grad.isfinite().all() for tensor in (*x, *ours.parameters()))


def test_unbatched():
    ours, torchs = twins(n=4)
    x = torch.randn(5, E, dtype=torch.float64)
    padding = torch.tensor([False] * 4 + [True])
    y, w = ours(x, x, x, key_padding_mask=padding)
    z, v = torchs(x, x, x, key_padding_mask=padding)
    assert y.shape == (5, E)
    torch.testing.assert_close((y, w), (z, v))


def test_dropout_only_in_training():
    attention = PHMMultiheadAttention(E, HEADS, dropout=0.5, batch_first=True, n=4)
    x = torch.randn(2, 5, E)
    assert not torch.equal(attention(x, x, x)[0], attention(x, x, x)[0])
    attention.eval()
    assert torch.equal(attention(x, x, x)[0], attention(x, x, x)[0])


def test_one_input_is_multiplied_once():
    ours, _ = twins(n=4)
    calls = []
    ours.in_proj.register_forward_hook(lambda *call: calls.append(call))
    x, y, _ = inputs(ours, queries=5, keys=5)
    ours(x, x, x)
    assert len(calls) == 1
    ours(x, y, y)
    assert len(calls) == 3


def test_starts_with_the_variance_of_torchs():
    ours, torchs = PHMMultiheadAttention(256, 8, n=8), nn.MultiheadAttention(256, 8)
    assert abs(ours.in_proj.weight.var() / torchs.in_proj_weight.var() - 1) < 0.02
    assert abs(ours.out_proj.weight.var() / torchs.out_proj.weight.var() - 1) < 0.02
    split = PHMMultiheadAttention(256, 8, n=8, projections="q_kv")
    for layer in (split.q_proj, split.kv_proj):
        assert abs(layer.weight.var() / torchs.in_proj_weight.var() - 1) < 0.02
    assert not ours.in_proj.bias.any()


def test_drawn_anew():
    attention = PHMMultiheadAttention(E, HEADS, n=4, rules="shared")
    before = copy.deepcopy(attention.state_dict())
    attention.reset_parameters()
    for name, value in attention.state_dict().items():
        assert name.endswith("bias") or not torch.equal(value, before[name]), name
    rule = Rule.learned(4)
    given = PHMMultiheadAttention(E, HEADS, rule=rule)
    kept = rule.A.clone()
    given.reset_parameters()
    assert torch.equal(rule.A, kept)


def test_state_round_trip(tmp_path):
    for options in KINDS.values():
        one, other = (PHMMultiheadAttention(E, HEADS, batch_first=True, **options) for _ in range(2))
        save(one, tmp_path / "state")
        load(other, tmp_path / "state")
        x = inputs(one)
        x = [part.float() for part in x]
        assert torch.equal(one(*x)[0], other(*x)[0])
        assert torch.equal(one(*x)[0], copy.deepcopy(one)(*x)[0])


def test_compiles_and_exports():
    attention = PHMMultiheadAttention(E, HEADS, batch_first=True, n=4)
    x = torch.randn(2, 5, E)
    padding = torch.zeros(2, 5, dtype=torch.bool)
    torch.compiler.reset()
    compiled = torch.compile(attention, backend="aot_eager", fullgraph=True)
    given = {"key_padding_mask": padding, "need_weights": False, "is_causal": True}
    torch.testing.assert_close(compiled(x, x, x, **given)[0], attention(x, x, x, **given)[0])
    program = torch.export.export(attention, (x, x, x), {"need_weights": False})
    torch.testing.assert_close(
        program.module()(x, x, x, need_weights=False)[0], attention(x, x, x, need_weights=False)[0]
    )


def test_autocast():
    attention = PHMMultiheadAttention(E, HEADS, batch_first=True, n=4)
    x = torch.randn(2, 5, E)
    with torch.autocast("cpu", torch.bfloat16):
        for weights in (True, False):
            y, _ = attention(x, x, x, need_weights=weights)
            assert y.dtype == torch.bfloat16
            torch.testing.assert_close(y.float(), attention(x, x, x)[0].float(), rtol=0.05, atol=0.05)


def call(attention=None, **inputs):
    attention = attention or PHMMultiheadAttention(E, HEADS, batch_first=True, n=4)
    x = {"query": torch.randn(2, 5, E), "key": torch.randn(2, 7, E), "value": torch.randn(2, 7, E)}
    return attention(**{**x, **inputs})


REFUSED = {
    "heads": (lambda: PHMMultiheadAttention(24, 5, n=4), ValueError, ["num_heads=5", "=24", "1, 2, 3"]),
    "no heads": (lambda: PHMMultiheadAttention(24, 0, n=4), ValueError, ["num_heads=0"]),
    "size": (lambda: PHMMultiheadAttention(24.0, 4, n=4), TypeError, ["embed_dim=24.0"]),
    "dropout": (lambda: PHMMultiheadAttention(24, 4, 1.5, n=4), ValueError, ["dropout=1.5"]),
    "rules": (lambda: PHMMultiheadAttention(24, 4, n=4, rules="one"), ValueError, ["rules='one'", "shared"]),
    "projections": (
        lambda: PHMMultiheadAttention(24, 4, n=4, projections="kv"), ValueError,
        ["projections='kv'", '"q_kv"'],
    ),
    "projections of kdim": (
        lambda: PHMMultiheadAttention(24, 4, n=4, kdim=12, projections="qkv"), ValueError, ["kdim=12"],
    ),
    "n of a rule": (
        lambda: PHMMultiheadAttention(24, 4, n=8, rule=Rule.learned(4)), ValueError, ["n=8", "n=4"],
    ),
    "n": (lambda: PHMMultiheadAttention(24, 4, n=5), ValueError, ["by 5"]),
    "list": (lambda: call(query=[1.0]), TypeError, ["query", "list"]),
    "features": (lambda: call(key=torch.ones(2, 7, 12)), ValueError, ["key", "(2, 7, 12)", "24"]),
    "dimensions": (lambda: call(value=torch.ones(7, E)), ValueError, ["value", "(7, 24)"]),
    "batches": (lambda: call(query=torch.ones(3, 5, E)), ValueError, ["'query': 3", "'key': 2"]),
    "lengths": (lambda: call(value=torch.ones(2, 6, E)), ValueError, ["7 positions", "6"]),
    "nothing": (
        lambda: call(key=torch.ones(2, 0, E), value=torch.ones(2, 0, E)), ValueError, ["no positions"],
    ),
    "mask shape": (
        lambda: call(attn_mask=torch.zeros(5, 5, dtype=torch.bool)), ValueError,
        ["attn_mask", "(5, 5)", "(5, 7)", "(8, 5, 7)"],
    ),
    "mask dtype": (lambda: call(attn_mask=torch.zeros(5, 7).int()), TypeError, ["attn_mask", "int32"]),
    "mask type": (lambda: call(attn_mask=[True]), TypeError, ["attn_mask", "list"]),
    "padding shape": (
        lambda: call(key_padding_mask=torch.zeros(2, 5, dtype=torch.bool)), ValueError,
        ["key_padding_mask", "(2, 5)", "(2, 7)"],
    ),
    "cached, length first": (
        lambda: PHMMultiheadAttention(24, 4, n=4).keys_values(torch.ones(2, 5, E)), ValueError,
        ["batch_first"],
    ),
    "cached, with zeros": (
        lambda: PHMMultiheadAttention(24, 4, n=4, batch_first=True, add_zero_attn=True).keys_values(
            torch.ones(2, 5, E)
        ), ValueError, ["add_zero_attn"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name):
    run, kind, words = REFUSED[name]
    with pytest.raises(kind) as raised:
        run()
    for word in words:
        assert word in str(raised.value)

"""Torch's modules and ours with the same weights."""

from collections.abc import Iterator

import torch
from torch import nn

from onenth.nn.attention import PHMMultiheadAttention
from onenth.nn.linear import PHMLinear


def pairs(ours: nn.Module, torchs: nn.Module) -> Iterator[tuple[torch.Tensor, nn.Parameter]]:
    """Each dense matrix or bias of torch's module, or a part of one, with what stands for it in ours."""
    if isinstance(ours, PHMLinear):
        yield ours.weight, torchs.weight
        if ours.bias is not None:
            yield ours.bias, torchs.bias
    elif isinstance(ours, PHMMultiheadAttention):
        yield from of_attention(ours, torchs)
    else:
        if not list(ours.children()):
            yield from zip(ours.parameters(), torchs.parameters(), strict=True)
        for (name, own), (other, twin) in zip(ours.named_children(), children(ours, torchs), strict=True):
            assert name == other
            yield from pairs(own, twin)


def children(ours, torchs):
    """Those of torch's module in our order; it has a dropout for each block, and we have one."""
    return [(name, torchs.get_submodule(name)) for name, _ in ours.named_children()]


def of_attention(ours, torchs):
    E = ours.embed_dim
    if torchs.in_proj_weight is None:
        matrices = [torchs.q_proj_weight, torchs.k_proj_weight, torchs.v_proj_weight]
    else:
        matrices = torchs.in_proj_weight.split(E)
    names = {"qkv": {"in_proj": "qkv"}, "q_kv": {"q_proj": "q", "kv_proj": "kv"}}
    split = names.get(ours.projections, {"q_proj": "q", "k_proj": "k", "v_proj": "v"})
    for name, letters in split.items():
        layer = getattr(ours, name)
        parts = ["qkv".index(letter) for letter in letters]
        for weight, part in zip(layer.weight.split(E), parts, strict=True):
            yield weight, matrices[part]
        if layer.bias is not None:
            for bias, part in zip(layer.bias.split(E), parts, strict=True):
                yield bias, torchs.in_proj_bias.split(E)[part]
    yield from pairs(ours.out_proj, torchs.out_proj)
    for name in ("bias_k", "bias_v"):
        if getattr(ours, name) is not None:
            yield getattr(ours, name), getattr(torchs, name)


def copy_into(torchs: nn.Module, ours: nn.Module) -> None:
    """Torch's module computes what ours does."""
    with torch.no_grad():
        for own, twin in pairs(ours, torchs):
            twin.copy_(own)

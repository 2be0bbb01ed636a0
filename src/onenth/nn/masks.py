"""Which positions attend to which: the masks of `torch.nn`, checked and merged into one."""

import torch
from torch import Tensor


def merged(
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    is_causal: bool,
    shape: tuple[int, int, int, int],
    like: Tensor,
) -> Tensor | None:
    """One mask that broadcasts to the shape (batch, heads, queries, keys), or None where nothing is masked.

    Boolean, True where a query attends to a key; or, where a mask given holds numbers, what is added to the
    scores. Masks given follow `torch.nn`: True, or -inf, is what is left out.
    """
    batch, heads, queries, keys = shape
    found: list[Tensor] = []
    if attn_mask is not None:
        _check("attn_mask", attn_mask, [(queries, keys), (batch * heads, queries, keys)], like)
        found.append(attn_mask if attn_mask.dim() == 2 else attn_mask.view(shape))
    if key_padding_mask is not None:
        _check("key_padding_mask", key_padding_mask, [(batch, keys)], like)
        found.append(key_padding_mask.view(batch, 1, 1, keys))
    if is_causal:
        found.append(torch.ones(queries, keys, dtype=torch.bool, device=like.device).triu(1))
    if not found:
        return None
    left_out = [mask for mask in found if mask.dtype == torch.bool]
    added = [mask.to(like.dtype) for mask in found if mask.dtype != torch.bool]
    if not added:
        return ~_any(left_out)
    total = sum(added[1:], added[0])
    return total.masked_fill(_any(left_out), -torch.inf) if left_out else total


def _any(masks: list[Tensor]) -> Tensor:
    total = masks[0]
    for mask in masks[1:]:
        total = total | mask
    return total


def _check(name: str, mask: Tensor, shapes: list[tuple[int, ...]], like: Tensor) -> None:
    if not isinstance(mask, Tensor):
        raise TypeError(f"{name} is a {type(mask).__name__}: give a torch.Tensor")
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise TypeError(
            f"{name} is {mask.dtype}: give booleans, True for what is left out, or numbers to add"
        )
    if tuple(mask.shape) not in shapes:
        fits = " or ".join(str(shape) for shape in shapes)
        raise ValueError(f"{name} has the shape {tuple(mask.shape)} instead of {fits}")
    if mask.device != like.device:
        raise ValueError(f"{name} is on {mask.device}, the input on {like.device}: move one with .to()")

"""The bilinear path, for a rule with factors: R products of segments instead of n².

    x̃_r = Σ_q V[r,q] x_q     S̃_r = Σ_i W[r,i] S_i     ỹ_r = S̃_r x̃_r     y_p = Σ_r U[p,r] ỹ_r

Forward and backward save x, S and the factors, and ỹ where U learns: its gradient is Σ dy_p ỹ_r.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from onenth.ops.run import Path
from onenth.precision import autocast_off


def formula(
    U: Tensor, V: Tensor | None, W: Tensor | None, S: Tensor, x: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    left = _mix(V, _segments(x, S.shape[2]))  # x̃ (r, t, c)
    products = left @ _mix(W, S).to(x.dtype).mT  # ỹ (r, t, o)
    if bias is not None:  # within the sum, so that it rounds once
        bias = bias.view(-1, 1, S.shape[1])
    return _joined(_mix(U, products, bias), x), products


def gradient(grads: Sequence[Any], saved: Sequence[Any], needs: Sequence[bool]) -> Sequence[Tensor | None]:
    dy, dproducts = grads  # the products have a gradient of their own only where a backward is differentiated
    U, V, W, S, x, _, products = saved
    dU = dV = dW = dS = dx = dbias = None
    segments = _segments(x, S.shape[2])  # (q, t, c)
    left, right = _mix(V, segments), _mix(W, S).to(x.dtype)  # x̃ (r, t, c), S̃ (r, o, c)

    if dy is not None:
        dsegments = _segments(dy, S.shape[1])  # (p, t, o)
        through = _mix(U.mT, dsegments)
        dproducts = through if dproducts is None else dproducts + through  # (r, t, o)
        if needs[0]:
            dU = _pair(dsegments, left @ right.mT if products is None else products).to(U.dtype)
        if needs[5]:
            dbias = dy.reshape(-1, dy.shape[-1]).sum(0)
    if needs[2] or needs[3]:
        dright = (dproducts.mT @ left).to(S.dtype)  # (r, o, c)
        dW = _pair(dright, S) if needs[2] else None
        dS = _mix(None if W is None else W.mT, dright) if needs[3] else None
    if needs[1] or needs[4]:
        dleft = dproducts @ right  # (r, t, c)
        dV = _pair(dleft, segments).to(U.dtype) if needs[1] else None
        dx = _joined(_mix(None if V is None else V.mT, dleft), x) if needs[4] else None
    return dU, dV, dW, dS, dx, dbias


def _segments(rows: Tensor, length: int) -> Tensor:
    """(…, q·c) -> (q, t, c)."""
    rows = rows.reshape(-1, rows.shape[-1])
    return rows.view(rows.shape[0], rows.shape[1] // length, length).transpose(0, 1)


def _joined(segments: Tensor, like: Tensor) -> Tensor:
    """(q, t, c) -> (…, q·c) with the leading dimensions of `like`."""
    q, _, c = segments.shape
    return segments.transpose(0, 1).reshape(*like.shape[:-1], q * c)


def _mix(M: Tensor | None, parts: Tensor, offset: Tensor | None = None) -> Tensor:
    """Σ_b M[a,b] parts[b] + offset[a], in the wider precision of the two, rounded once to that of the parts.

    M = None is the identity.
    """
    if M is None:
        return parts
    shape = (M.shape[0], *parts.shape[1:])
    wide = torch.promote_types(M.dtype, parts.dtype)
    flat = parts.to(wide).reshape(parts.shape[0], -1)
    with autocast_off(parts):
        if offset is None:
            mixed = M.to(wide) @ flat
        else:
            mixed = torch.addmm(offset.to(wide).expand(shape).reshape(M.shape[0], -1), M.to(wide), flat)
    return mixed.to(parts.dtype).view(shape)


def _pair(one: Tensor, other: Tensor) -> Tensor:
    """⟨one_a, other_b⟩ for all a, b."""
    with autocast_off(one):
        return one.reshape(one.shape[0], -1) @ other.reshape(other.shape[0], -1).mT


bilinear = Path(
    "bilinear",
    "(Tensor U, Tensor? V, Tensor? W, Tensor S, Tensor x, Tensor? bias) -> (Tensor, Tensor)",
    formula,
    gradient,
    keep=lambda needs: needs[0],
)

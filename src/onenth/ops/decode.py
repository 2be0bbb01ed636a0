"""The decode path, for few rows: S is read once, and H is never formed.

    z_qi = S_i x_q        y_p = Σ_{q,i} A[i,p,q] z_qi

All z are one product of S, as it lies in memory, with the segments of all rows side by side.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from onenth.ops.cost import LARGE
from onenth.ops.run import Kernel, Path
from onenth.precision import autocast_off

FEW = 8  # columns, t·q, of a product that reads S fastest in blocks
BLOCK = 64  # rows of S


def formula(A: Tensor, S: Tensor, x: Tensor, bias: Tensor | None) -> Tensor:
    terms, p, q = A.shape
    _, o, c = S.shape
    z = x.reshape(-1, c) @ S.reshape(terms * o, c).to(x.dtype).mT  # (t·q, i·o)
    z = z.view(-1, q * terms, o)
    A = A.permute(1, 2, 0).reshape(p, q * terms).to(z.dtype).expand(z.shape[0], -1, -1)  # (t, p, q·i)
    with autocast_off(S):
        y = A @ z if bias is None else torch.baddbmm(bias.view(1, p, o), A, z)
    return y.view(*x.shape[:-1], p * o)


def _formula_in_blocks(A: Tensor, S: Tensor, x: Tensor, bias: Tensor | None) -> Tensor:
    """The same; S · xᵀ where S is large, and in blocks for few columns, which MKL reads as fast as one."""
    terms, o, c = S.shape
    if c * S.numel() < LARGE:
        return formula(A, S, x, bias)
    segments = x.reshape(-1, c)  # (t·q, c)
    if len(segments) > FEW:
        return _mixed(A, S, _parts(S, x), x, bias)
    q, size = x.shape[-1] // c, BLOCK if o % BLOCK == 0 else o
    blocks = S.reshape(-1, size, c).to(x.dtype)
    z = torch.bmm(segments.expand(len(blocks), *segments.shape), blocks.mT)  # (i·o/size, t·q, size)
    z = z.view(terms, o // size, -1, q, size).permute(0, 3, 2, 1, 4).reshape(terms * q, -1)
    return _mixed(A, S, z, x, bias)


def _mixed(A: Tensor, S: Tensor, z: Tensor, x: Tensor, bias: Tensor | None) -> Tensor:
    """y of z (i·q, t·o)."""
    p, o = A.shape[1], S.shape[1]
    with autocast_off(S):
        y = _flat(A).to(z.dtype) @ z  # (p, t·o)
    if bias is not None:
        y = y.view(p, -1, o) + bias.view(p, 1, o)
    return y.view(p, -1, o).transpose(0, 1).reshape(*x.shape[:-1], p * o)


def gradient(grads: Sequence[Any], saved: Sequence[Any], needs: Sequence[bool]) -> Sequence[Tensor | None]:
    (dy,), (A, S, x, _) = grads, saved
    terms, p, q = A.shape
    _, o, c = S.shape
    dA = dS = dx = dbias = None
    rows = dy.reshape(-1, p * o)
    segments = rows.view(-1, p, o).transpose(0, 1).reshape(p, -1)  # (p, t·o)
    if needs[0]:
        dA = (segments @ _parts(S, x).mT).view(p, terms, q).transpose(0, 1).to(A.dtype)
    if needs[1] or needs[2]:
        with autocast_off(S):
            dz = _flat(A).mT.to(dy.dtype) @ segments  # (i·q, t·o)
        dz = dz.view(terms, q, -1, o).permute(0, 3, 2, 1).reshape(terms * o, -1)  # (i·o, t·q)
        if needs[1]:
            dS = (dz @ x.reshape(-1, c)).view(terms, o, c).to(S.dtype)
        if needs[2]:
            dx = (dz.mT @ S.reshape(terms * o, c).to(dz.dtype)).view(x.shape)
    if needs[3]:
        dbias = rows.sum(0)
    return dA, dS, dx, dbias


def _flat(A: Tensor) -> Tensor:
    """A as the matrix (p, i·q) that mixes z."""
    return A.transpose(0, 1).reshape(A.shape[1], -1)


def _parts(S: Tensor, x: Tensor) -> Tensor:
    """z (i·q, t·o), in the precision of x."""
    terms, o, c = S.shape
    z = S.reshape(terms * o, c).to(x.dtype) @ x.reshape(-1, c).mT  # (i·o, t·q)
    q = x.shape[-1] // c
    return z.view(terms, o, -1, q).permute(0, 3, 2, 1).reshape(terms * q, -1)


decode = Path(
    "decode",
    "(Tensor A, Tensor S, Tensor x, Tensor? bias) -> Tensor",
    formula,
    gradient,
    kernels={"cpu": Kernel(_formula_in_blocks, gradient)},
)

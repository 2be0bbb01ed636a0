"""The dense path: H, then one GEMM as for any linear layer.

Forward and backward save A, S and x. H lives for the length of a call; nothing of n·k·d elements ever does.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from onenth.ops.run import Kernel, Path
from onenth.ops.scratch import scratch
from onenth.precision import autocast_off

PIECE = 2**23  # elements of H at a time: 32 MiB in float32
SHORT = 2**18  # elements of H up to which it is made in one piece, with fewer calls


def build(A: Tensor, S: Tensor) -> Tensor:
    """H = Σ_i A_i ⊗ S_i (k, d), summed in the precision of the parameters."""
    terms, p, q = A.shape
    _, o, c = S.shape
    with autocast_off(S):
        blocks = A.reshape(terms, p * q).mT @ S.reshape(terms, o * c)  # (p·q, o·c)
    return blocks.view(p, q, o, c).transpose(1, 2).reshape(p * o, q * c)


def contract(dH: Tensor, A: Tensor, S: Tensor, needs: Sequence[bool]) -> tuple[Tensor | None, Tensor | None]:
    """dA[i,p,q] = ⟨S_i, dH_pq⟩ and dS_i = Σ_pq A[i,p,q] dH_pq, where dH_pq is block (p, q) of dH."""
    terms, p, q = A.shape
    _, o, c = S.shape
    blocks = dH.view(p, o, q, c).transpose(1, 2).reshape(p * q, o * c)
    with autocast_off(S):
        dA = (S.reshape(terms, o * c) @ blocks.mT).view(terms, p, q) if needs[0] else None
        dS = (A.reshape(terms, p * q) @ blocks).view(terms, o, c) if needs[1] else None
    return dA, dS


def build_in_place(A: Tensor, S: Tensor, H: Tensor) -> None:
    """`build` into H (p·o, q·c), each row written once: for each p, a product (q, i)·(i, c) for every o."""
    terms, p, q = A.shape
    _, o, c = S.shape
    with autocast_off(S):
        for block_row, A_p in zip(H.view(p, o, q, c), A.permute(1, 2, 0).contiguous(), strict=True):
            torch.bmm(A_p.expand(o, q, terms), S.transpose(0, 1), out=block_row)


def contract_in_place(dH: Tensor, A: Tensor, S: Tensor, dA: Tensor | None, dS: Tensor | None) -> None:
    """`contract`, read off dH where it lies and added to dA (i, p, q) and dS (o, i, c)."""
    terms, p, q = A.shape
    _, o, c = S.shape
    with autocast_off(S):
        for index, block_row in enumerate(dH.view(p, o, q, c)):
            if dA is not None:
                dA[:, index] += torch.bmm(S.transpose(0, 1), block_row.mT).sum(0)
            if dS is not None:
                torch.baddbmm(dS, A[:, index].expand(o, terms, q), block_row, out=dS)


def formula(A: Tensor, S: Tensor, x: Tensor, bias: Tensor | None) -> Tensor:
    return F.linear(x, build(A, S).to(x.dtype), bias)


def gradient(grads: Sequence[Any], saved: Sequence[Any], needs: Sequence[bool]) -> Sequence[Tensor | None]:
    (dy,), (A, S, x, _) = grads, saved
    dA = dS = dx = dbias = None
    rows = dy.reshape(-1, dy.shape[-1])
    if needs[2]:
        dx = dy @ build(A, S).to(dy.dtype)
    if needs[0] or needs[1]:
        dH = rows.mT @ x.reshape(-1, x.shape[-1])
        dA, dS = contract(dH.to(S.dtype), A, S, needs[:2])
    if needs[3]:
        dbias = rows.sum(0)
    return dA, dS, dx, dbias


def _formula_in_place(A: Tensor, S: Tensor, x: Tensor, bias: Tensor | None) -> Tensor:
    (_, n_out, n_in), (_, o, c) = A.shape, S.shape
    if n_out * o * n_in * c <= SHORT:
        return formula(A, S, x, bias)
    rows = x.reshape(-1, n_in * c)
    y = x.new_empty(len(rows), n_out * o)
    for ps, os, outputs in _pieces(A, S):
        [H] = scratch(S, (outputs.stop - outputs.start, n_in * c))
        build_in_place(A[:, ps], S[:, os], H)
        own = H.to(x.dtype).mT
        if bias is None:
            torch.mm(rows, own, out=y[:, outputs])
        else:
            torch.addmm(bias[outputs], rows, own, out=y[:, outputs])
    return y.view(*x.shape[:-1], n_out * o)


def _gradient_in_place(
    grads: Sequence[Any], saved: Sequence[Any], needs: Sequence[bool]
) -> Sequence[Tensor | None]:
    (dy,), (A, S, x, _) = grads, saved
    (terms, n_out, n_in), (_, o, c) = A.shape, S.shape
    if n_out * o * n_in * c <= SHORT:
        return gradient(grads, saved, needs)
    dy_rows, x_rows = dy.reshape(-1, n_out * o), x.reshape(-1, n_in * c)
    dA = torch.zeros_like(A) if needs[0] else None
    dS = S.new_zeros(o, terms, c) if needs[1] else None
    dx = x_rows.new_empty(x_rows.shape) if needs[2] else None
    pieces = list(_pieces(A, S))
    if len(pieces) > 1 and dy.dtype.itemsize < 4:  # the sum over pieces would round for each of them
        pieces = [(slice(0, n_out), slice(0, o), slice(0, n_out * o))]
    for ps, os, outputs in pieces:
        [H] = scratch(S, (outputs.stop - outputs.start, n_in * c))
        if dx is not None:
            build_in_place(A[:, ps], S[:, os], H)
            first = outputs.start == 0
            torch.addmm(dx, dy_rows[:, outputs], H.to(dy.dtype), beta=0 if first else 1, out=dx)
        if needs[0] or needs[1]:
            if dy.dtype == S.dtype:
                torch.mm(dy_rows[:, outputs].mT, x_rows, out=H)
            else:
                H.copy_(dy_rows[:, outputs].mT @ x_rows)
            contract_in_place(
                H, A[:, ps], S[:, os], None if dA is None else dA[:, ps], None if dS is None else dS[os]
            )
    return (
        dA,
        None if dS is None else dS.transpose(0, 1).contiguous(),
        None if dx is None else dx.view(x.shape),
        dy_rows.sum(0) if needs[3] else None,
    )


def _pieces(A: Tensor, S: Tensor) -> Iterator[tuple[slice, slice, slice]]:
    """The rows of H as (p, o, p·o): some whole block rows at a time, or a part of one."""
    (_, n_out, n_in), (_, o, c) = A.shape, S.shape
    most = max(1, PIECE // (n_in * c))  # rows at a time
    for ps in _even(n_out, max(1, most // o)):
        for os in _even(o, most):
            yield ps, os, slice(ps.start * o + os.start, (ps.stop - 1) * o + os.stop)


def _even(length: int, most: int) -> Iterator[slice]:
    """The fewest slices of at most so many, of about the same size."""
    count = -(-length // most)
    return (slice(length * i // count, length * (i + 1) // count) for i in range(count))


dense = Path(
    "dense",
    "(Tensor A, Tensor S, Tensor x, Tensor? bias) -> Tensor",
    formula,
    gradient,
    kernels={"cpu": Kernel(_formula_in_place, _gradient_in_place)},
)

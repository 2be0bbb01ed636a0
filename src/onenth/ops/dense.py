"""The dense path: H, then one GEMM as for any linear layer.

Forward and backward save A, S and x. H lives for the length of a call; nothing of n·k·d elements ever does.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from onenth.ops.run import Kernel, Path
from onenth.precision import autocast_off

SHORT_BUILD, SHORT_CONTRACT = 2**15, 2**18  # elements of a block row from which working in place pays


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


def build_in_place(A: Tensor, S: Tensor) -> Tensor:
    """`build`, each block row of H written once, where it belongs: a product (q, i)·(i, c) for every o."""
    terms, p, q = A.shape
    _, o, c = S.shape
    if o * q * c < SHORT_BUILD:
        return build(A, S)
    H = S.new_empty(p, o, q, c)
    with autocast_off(S):
        for block_row, A_p in zip(H, A.permute(1, 2, 0).contiguous(), strict=True):
            torch.bmm(A_p.expand(o, q, terms), S.transpose(0, 1), out=block_row)
    return H.view(p * o, q * c)


def contract_in_place(
    dH: Tensor, A: Tensor, S: Tensor, needs: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    """`contract`, reading dH where it lies."""
    terms, p, q = A.shape
    _, o, c = S.shape
    if o * q * c < SHORT_CONTRACT:
        return contract(dH, A, S, needs)
    dA, dS = torch.empty_like(A), S.new_zeros(o, terms, c)
    with autocast_off(S):
        for index, (block_row, A_p) in enumerate(
            zip(dH.view(p, o, q, c), A.transpose(0, 1).contiguous(), strict=True)
        ):
            if needs[0]:
                torch.sum(torch.bmm(S.transpose(0, 1), block_row.mT), 0, out=dA[:, index])
            if needs[1]:
                torch.baddbmm(dS, A_p.expand(o, terms, q), block_row, out=dS)
    return dA if needs[0] else None, dS.transpose(0, 1).contiguous() if needs[1] else None


def _kernel(build: Any, contract: Any) -> Kernel:
    def formula(A: Tensor, S: Tensor, x: Tensor, bias: Tensor | None) -> Tensor:
        return F.linear(x, build(A, S).to(x.dtype), bias)

    def gradient(
        grads: Sequence[Any], saved: Sequence[Any], needs: Sequence[bool]
    ) -> Sequence[Tensor | None]:
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

    return Kernel(formula, gradient)


dense = Path(
    "dense",
    "(Tensor A, Tensor S, Tensor x, Tensor? bias) -> Tensor",
    *_kernel(build, contract),
    kernels={"cpu": _kernel(build_in_place, contract_in_place)},
)

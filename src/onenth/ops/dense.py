"""The dense path: H in one GEMM over the terms, then one GEMM as for any linear layer.

Forward and backward save A, S and x. H lives for the length of a call; nothing of n·k·d elements ever does.
"""

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from onenth.ops.run import Path
from onenth.precision import autocast_off


def build(A: Tensor, S: Tensor) -> Tensor:
    """H = Σ_i A_i ⊗ S_i (k, d), summed in the precision of the parameters."""
    terms, p, q = A.shape
    _, o, c = S.shape
    with autocast_off(S):
        blocks = A.reshape(terms, p * q).mT @ S.reshape(terms, o * c)  # (p·q, o·c)
    return blocks.view(p, q, o, c).transpose(1, 2).reshape(p * o, q * c)


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


def contract(dH: Tensor, A: Tensor, S: Tensor, needs: Sequence[bool]) -> tuple[Tensor | None, Tensor | None]:
    """dA[i,p,q] = ⟨S_i, dH_pq⟩ and dS_i = Σ_pq A[i,p,q] dH_pq, where dH_pq is block (p, q) of dH."""
    terms, p, q = A.shape
    _, o, c = S.shape
    blocks = dH.view(p, o, q, c).transpose(1, 2).reshape(p * q, o * c)
    with autocast_off(S):
        dA = (S.reshape(terms, o * c) @ blocks.mT).view(terms, p, q) if needs[0] else None
        dS = (A.reshape(terms, p * q) @ blocks).view(terms, o, c) if needs[1] else None
    return dA, dS


dense = Path("dense", "(Tensor A, Tensor S, Tensor x, Tensor? bias) -> Tensor", formula, gradient)

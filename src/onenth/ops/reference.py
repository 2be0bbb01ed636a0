"""The definition, and the paper's two constructions of H. Every path is tested against this file."""

import torch
from torch import Tensor


def product(A: Tensor, S: Tensor, x: Tensor) -> Tensor:
    """y[p,o] = Σ_{i,q,c} A[i,p,q] S[i,o,c] x[q,c] over the last dimension of x."""
    segments = x.unflatten(-1, (A.shape[2], S.shape[2]))  # (..., q, c)
    return torch.einsum("ipq,ioc,...qc->...po", A, S, segments).flatten(-2)


def kronecker(A: Tensor, S: Tensor) -> Tensor:
    """H = Σ_i A_i ⊗ S_i, the construction of the paper's section 3 (k, d)."""
    return torch.stack([torch.kron(A_i, S_i) for A_i, S_i in zip(A, S, strict=True)]).sum(0)


def diffusion(B: Tensor, T: Tensor) -> Tensor:
    """H = [s(B_1); …; s(B_n)] with s(B_q) = [ψ(B_q T_1); …; ψ(B_q T_{d/n})], the paper's appendix A.

    `;` concatenates columns and ψ stacks the rows of a matrix into one column. B is (n_in, n_out, terms),
    T is (d/n_in, terms, k/n_out).
    """
    columns = [(B_q @ T_c).reshape(-1) for B_q in B for T_c in T]  # ψ: (p, o) -> (k,)
    return torch.stack(columns, dim=1)


def to_diffusion(A: Tensor, S: Tensor) -> tuple[Tensor, Tensor]:
    """The same parameters laid out for appendix A: B_q[p,l] = A_l[p,q], T_c[l,o] = S_l[o,c]."""
    return A.permute(2, 1, 0), S.permute(2, 0, 1)


def from_diffusion(B: Tensor, T: Tensor) -> tuple[Tensor, Tensor]:
    """The inverse of `to_diffusion`."""
    return B.permute(2, 1, 0), T.permute(1, 2, 0)

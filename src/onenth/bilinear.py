"""The factors of a rule.

A rule A is a bilinear map, and where

    A[i,p,q] = Σ_r W[r,i] U[p,r] V[r,q]

the layer needs R products of segments instead of n²: mix the input with V, the components with W,
multiply R times, mix the products with U.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from onenth.precision import autocast_off


class Factors(NamedTuple):
    """A rule as R products; `None` for V or W stands for the identity."""

    U: Tensor  # (n_out, R)  products -> output segments
    V: Tensor | None  # (R, n_in)   input segments -> left factors
    W: Tensor | None  # (R, terms)  components -> right factors

    @property
    def rank(self) -> int:
        return self.U.shape[1]

    def tensor(self) -> Tensor:
        """The rule itself, A (terms, n_out, n_in)."""
        U, V, W = self.U, self.V, self.W
        eye = torch.eye(self.rank, dtype=U.dtype, device=U.device)
        V = eye if V is None else V
        W = eye if W is None else W
        with autocast_off(U):
            return torch.einsum("ri,pr,rq->ipq", W, U, V)

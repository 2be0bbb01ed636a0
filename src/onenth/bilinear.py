"""The factors of a rule, and what they cost in accuracy.

A rule A is a bilinear map, and where

    A[i,p,q] = Σ_r W[r,i] U[p,r] V[r,q]

the layer needs R products of segments instead of n²: mix the input with V, the components with W,
multiply R times, mix the products with U.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from onenth.precision import autocast_off

_ETA = (
    0.42  # mean relative error of one rounding of normally distributed numbers, in units of 2^-bits; measured
)
_BLOCK = 128  # terms that a matrix product sums in one run before it sums the runs: the fewest seen, MKL's on
# one of two processors; where runs are longer the dense path errs more, and other paths less beside it
_LONG = 128  # columns of a segment from which the prediction for fp32 no longer grows


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


@dataclass(frozen=True)
class Certificate:
    """What computing a rule by its factors costs and loses.

    growth² = Σ_r ‖U_r‖² ‖V_r‖² ‖W_r‖² / ‖A‖²

    A rounding of x̃_r, S̃_r or ỹ_r, relative to its size, reaches y scaled by ‖U_r‖ ‖V_r‖ ‖W_r‖ / ‖A‖ for
    random S and x: roundings of all products together are growth times one rounding of y. It does not change
    with the scale of rows and columns. Where products cancel it is large.
    """

    rank: int
    share: float  # R / n², of the dense layer's arithmetic
    residual: float  # ‖A − Σ_r W U V‖ / ‖A‖
    growth: float
    largest: float  # entry of U, V and W
    fp32: float  # predicted error over that of the dense path, at least 1; segments of 128 columns or more
    short: float  # the same for segments of a single column, where the dense path errs least
    bf16: float  # the same with parameters and input in bf16

    def error(self, dtype: torch.dtype, columns: int) -> float:
        """Predicted error over that of the dense path, for segments of so many columns."""
        if dtype.itemsize < 4:
            return self.bf16
        return self.fp32 if columns >= 4 else self.short

    def __str__(self) -> str:
        return (
            f"rank {self.rank}: {self.share:.0%} of the dense arithmetic, residual {self.residual:.1e}, "
            f"growth {self.growth:.2f}, entries up to {self.largest:.3g}; "
            f"error over dense {self.fp32:.2g}x in fp32, {self.bf16:.2g}x in bf16"
        )


class Algorithm(NamedTuple):
    """Factors with their certificate."""

    factors: Factors
    certificate: Certificate


def certify(A: Tensor, factors: Factors) -> Certificate:
    """The certificate of these factors for the rule A (terms, n_out, n_in)."""
    A, factors = _in_double(A, factors)
    return Certificate(
        rank=factors.rank,
        share=factors.rank / (A.shape[1] * A.shape[2]),
        residual=_distance(A, factors.tensor()),
        growth=_energies(A, factors).sum().sqrt().item(),
        largest=max(M.abs().max().item() for M in factors if M is not None),
        fp32=extra_error(A, factors, torch.float32),
        short=extra_error(A, factors, torch.float32, columns=1),
        bf16=extra_error(A, factors, torch.bfloat16),
    )


def extra_error(A: Tensor, factors: Factors, dtype: torch.dtype, columns: int = _LONG) -> float:
    """Predicted error of the bilinear path over that of the dense path, at least 1, for random S and x.

    In units of the square of one rounding's relative error, η, with g_r = ‖U_r‖² ‖V_r‖² ‖W_r‖² / ‖A‖²:

        bilinear²  Σ_r g_r (v_r + w_r + m(c)) + u + ρ²/η²         dense²  h + m(n_in · c) + ρ_A²/η²

    v, w, u and h count the roundings of x̃, S̃, y and H; m(c) those of a product of segments of c columns;
    ρ and ρ_A are the relative errors of the rule where the factors, and where A, are held in `dtype`. Below
    fp32 sums are made in fp32 and round once: m = u = 1, and v, w, h are 1, or 0 where a single entry ±2^k
    makes the mix exact. In fp32 and above every partial sum rounds and counts by its energy.
    """
    A, factors = _in_double(A, factors)
    bits = {torch.bfloat16: 8, torch.float16: 11, torch.float32: 24, torch.float64: 53}.get(dtype)
    if bits is None:
        raise TypeError(
            f"dtype={dtype} is none that a layer computes in: float64, float32, float16, bfloat16"
        )
    in_steps = bits >= 24
    one = A.new_ones(factors.rank)
    v, w = (one * 0 if M is None else _mixing(M, in_steps).sum(1) for M in factors[1:])
    energies = _energies(A, factors)
    u = _last_mix(A, factors, in_steps)
    h = _mixing(A.permute(1, 2, 0).reshape(-1, len(A)), in_steps, relative=False).sum() / A.square().sum()
    m, dense_m = (_product(length, in_steps) for length in (columns, A.shape[2] * columns))
    eta = _ETA * 2.0**-bits
    held = Factors(*(None if M is None else M.to(dtype).double() for M in factors))  # type: ignore[arg-type]
    drift = (_distance(A, held.tensor()) / eta) ** 2
    dense_drift = (_distance(A, A.to(dtype).double()) / eta) ** 2
    bilinear = (energies * (v + w + m)).sum() + u + drift
    return max(1.0, (bilinear / (h + dense_m + dense_drift)).sqrt().item())


def _energies(A: Tensor, factors: Factors) -> Tensor:
    """g_r = ‖U_r‖² ‖V_r‖² ‖W_r‖² / ‖A‖²."""
    U, V, W = factors
    energies = U.square().sum(0) / A.square().sum()
    for M in (V, W):
        energies = energies if M is None else energies * M.square().sum(1)
    return energies


def _mixing(M: Tensor, in_steps: bool, relative: bool = True) -> Tensor:
    """Energy of the numbers rounded while Σ_b M[a,b] z_b is summed for random z, (a, 1 or b)."""
    used, energy = M != 0, M.square()
    single = used.sum(1, keepdim=True) == 1
    exact_product = (M.abs().frexp().mantissa == 0.5) & used  # ±2^k times a number does not round
    total = energy.sum(1, keepdim=True)
    if in_steps:
        first = used & (used.cumsum(1) == 1)
        rounded = energy.cumsum(1) * (used & ~(first & exact_product))
    else:
        rounded = total * ~(single & exact_product.any(1, keepdim=True))
    return rounded / total.clamp(min=torch.finfo(M.dtype).tiny) if relative else rounded


def _last_mix(A: Tensor, factors: Factors, in_steps: bool) -> Tensor:
    """Energy of the numbers rounded while y_p = Σ_r U[p,r] ỹ_r is summed, relative to that of y."""
    if not in_steps:
        return A.new_ones(())
    U, V, W = factors
    eye = torch.eye(factors.rank, dtype=A.dtype)
    V, W = (eye if M is None else M for M in (V, W))
    partial, rounded = torch.zeros_like(A), A.new_zeros(())
    for r in range(factors.rank):
        partial += W[r][:, None, None] * U[:, r][:, None] * V[r]
        rounded += partial.square().sum((0, 2))[U[:, r] != 0].sum()
    return rounded / A.square().sum()


def _product(length: int, in_steps: bool) -> float:
    """Roundings of a sum of so many products of random numbers: partial sum k has k/length of its energy."""
    return (min(length, _BLOCK) + 1) / 2 if in_steps else 1.0


def _distance(A: Tensor, B: Tensor) -> float:
    return ((A - B).norm() / A.norm()).item()


def _in_double(A: Tensor, factors: Factors) -> tuple[Tensor, Factors]:
    A = A.detach().to("cpu", torch.float64)
    factors = Factors(*(None if M is None else M.detach().to("cpu", torch.float64) for M in factors))  # type: ignore[arg-type]
    if (shape := factors.tensor().shape) != A.shape:
        raise ValueError(f"these factors make a rule {tuple(shape)}, and A is {tuple(A.shape)}")
    if not A.isfinite().all() or not A.any():
        raise ValueError("A must hold finite numbers, and not zeros only")
    return A, factors

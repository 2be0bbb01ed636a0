"""The nearest PHM operator to a dense matrix, in the Frobenius norm.

Rearranged so that block (p, q) of W is row (p, q) of M (Van Loan and Pitsianis), H = Σ_i A_i ⊗ S_i becomes
M ≈ Aᵀ S, an approximation of rank `terms`: the eigenvectors of the small Gram matrix M Mᵀ solve it exactly.
They are also coordinates in which M is a small matrix X (n_out·n_in, m) with m ≤ n_out·n_in, and S a matrix
Z (terms, m): there a rule in any form is fitted by alternating least squares, whatever the size of W.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from onenth.fitted import FittedRule, start
from onenth.rule import Rule

_SWEEPS = 500
_STALLED = 1e-9  # a sweep that lowers the error by less than this share of the weight ends the descent


@dataclass(frozen=True)
class Nearest:
    """What `nearest` found.

    Attributes:
        values: the parameters of the `PHMLinear` by name, in float64; of its rule only where it was fitted.
        errors: ‖W − H‖/‖W‖ at the start and after each sweep, a single figure for a closed form. Never rises.
        bound: the error of the best learned rule with as many terms, which nothing of this shape can beat.
    """

    values: dict[str, Tensor]
    errors: tuple[float, ...]
    bound: float

    @property
    def error(self) -> float:
        return self.errors[-1]

    @property
    def gap(self) -> float:
        """How far the error is above its bound."""
        return self.error - self.bound


def nearest(
    weight: Tensor,
    *,
    n: int | tuple[int, int] | None = None,
    rule: Any = "learned",
    rank: int | None = None,
    terms: int | None = None,
    component_rank: int | None = None,
) -> Nearest:
    """The PHM operator nearest to `weight` (k, d), of the kind `PHMLinear` would build from these options.

    Optimal for learned, diagonal and fixed rules and for a `Rule` handed in, which stays as it is. With
    `rank` or `component_rank` a descent from that optimum, every step of it a least-squares solution.
    """
    made = Rule.of(rule, n, terms=terms, rank=rank, dtype=torch.float64)
    return nearest_with(made, weight, component_rank, keep=made is rule)


@torch.no_grad()
def nearest_with(rule: Rule, weight: Tensor, component_rank: int | None, *, keep: bool) -> Nearest:
    """`nearest` for a rule that is there already: one of its form, or itself where it is kept."""
    M, o, c = _rearrange(weight, rule)
    scale = M.norm().item() or 1.0
    vectors = torch.linalg.eigh(M @ M.mT).eigenvectors.flip(-1)  # leading first
    leading = vectors[:, : rule.terms]
    bound = (M - leading @ (leading.mT @ M)).norm().item() / scale

    rows = vectors.mT @ M
    lengths = rows.norm(dim=1)
    kept = lengths > 1e-15 * scale
    kept[0] = True
    X = vectors[:, kept] * lengths[kept]  # M = X basis, and the rows of the basis are orthonormal
    basis = rows[kept] / lengths[kept, None].clamp_min(torch.finfo(M.dtype).tiny)

    fitted = start(rule, X, keep=keep)
    fitted, Z, errors = _descend(fitted, X)
    S = (Z @ basis).view(rule.terms, o, c)
    if component_rank is None:
        values = {"S": S}
    else:
        fitted, values, errors = _descend_low_rank(fitted, M, S, component_rank)
    values, fitted = _rescale(values, fitted)
    values |= {f"rule.{name}": value for name, value in fitted.values().items()}
    return Nearest(values, tuple(error / scale for error in errors), bound)


def _descend(fitted: FittedRule, X: Tensor) -> tuple[FittedRule, Tensor, list[float]]:
    """Rule and components in turn, until a sweep gains nothing."""
    Z = fitted.components(X)
    errors = [fitted.error(X, Z)]
    while not fitted.is_optimal and len(errors) <= _SWEEPS:
        improved = fitted.improve(X, Z)
        Z_improved = improved.components(X)
        error = improved.error(X, Z_improved)
        if error > errors[-1] - _STALLED * X.norm():
            break
        fitted, Z = improved, Z_improved
        errors.append(error)
    return fitted, Z, errors


def _descend_low_rank(
    fitted: FittedRule, M: Tensor, S: Tensor, rank: int
) -> tuple[FittedRule, dict[str, Tensor], list[float]]:
    """One component at a time as the best of its rank, then the rule, until a sweep gains nothing."""
    o, c = S.shape[1:]
    if not 1 <= rank <= min(o, c):
        raise ValueError(f"component_rank={rank} is out of range for components of {o}×{c}")
    s, t = _truncate(S, rank)
    errors = [fitted.error(M, (s @ t).flatten(1))]
    while len(errors) <= _SWEEPS:
        new_s, new_t = _sweep_components(fitted.A, M, s, t)
        flat = (new_s @ new_t).flatten(1)
        Q, L = torch.linalg.qr(flat.mT)  # S = Lᵀ Qᵀ, so the rule sees only M Q
        improved = fitted.improve(M @ Q, L.mT)
        error = improved.error(M, flat)
        if error > errors[-1] - _STALLED * M.norm():
            break
        fitted, s, t = improved, new_s, new_t
        errors.append(error)
    return fitted, {"s": s, "t": t}, errors


def _sweep_components(A: Tensor, M: Tensor, s: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    s, t = s.clone(), t.clone()
    residual = M - A.mT @ (s @ t).flatten(1)
    for i, A_i in enumerate(A):
        square = A_i.square().sum()
        if square == 0:
            continue
        old = s[i] @ t[i]
        s[i], t[i] = _truncate(old + (A_i @ residual).view_as(old) / square, s.shape[-1])
        residual -= torch.outer(A_i, (s[i] @ t[i] - old).flatten())
    return s, t


def _truncate(S: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    left, values, right = torch.linalg.svd(S, full_matrices=False)
    root = values[..., :rank].sqrt()
    return left[..., :rank] * root[..., None, :], root[..., :, None] * right[..., :rank, :]


def _rescale(values: dict[str, Tensor], fitted: FittedRule) -> tuple[dict[str, Tensor], FittedRule]:
    """The rule in its normal size, as `onenth.rule` draws it; the components carry the scale of W."""
    size = fitted.A.square().sum(0).mean().sqrt()
    if not fitted.values() or size == 0:
        return values, fitted
    share = size ** (1 / len(values))  # S takes it all, s and t half of it each
    return {name: value * share for name, value in values.items()}, fitted.scaled(1 / size)


def _rearrange(weight: Tensor, rule: Rule) -> tuple[Tensor, int, int]:
    """M (n_out·n_in, o·c) in float64 on the CPU; row (p, q) is block (p, q) of the weight."""
    if weight.dim() != 2 or not weight.is_floating_point():
        raise TypeError(f"a dense weight is a real matrix (k, d), got {weight.dtype} {tuple(weight.shape)}")
    k, d = weight.shape
    if k % rule.n_out or d % rule.n_in:
        raise ValueError(f"a weight of {k}×{d} cannot be cut into {rule.n_out}×{rule.n_in} blocks")
    if weight.is_meta:
        raise ValueError("the weight is on the meta device and holds no numbers: load it first")
    if not weight.isfinite().all():
        raise ValueError("the weight has entries that are NaN or infinite")
    o, c = k // rule.n_out, d // rule.n_in
    blocks = weight.detach().cpu().view(rule.n_out, o, rule.n_in, c).transpose(1, 2)
    return blocks.to(torch.float64).reshape(rule.n_out * rule.n_in, o * c), o, c

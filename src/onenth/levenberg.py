"""Least squares for the factors of a rule: Levenberg–Marquardt with a norm penalty that vanishes.

    minimise  ‖A − T(U, V, W)‖² + μ (‖U‖² + ‖V‖² + ‖W‖²)        T[i,p,q] = Σ_r W[r,i] U[p,r] V[r,q]

With J the derivative of T, E = A − T, damping λ, κ = λ + μ and s = μ/κ, the step is

    δ = Jᵀz − s θ        (J Jᵀ + κ) z = E + 3 s T        (J θ = 3 T, as T is a product of three)

J is never formed: J Jᵀ (n³ × n³) has three parts, each a Gram matrix (n² × n²) of the products of two of the
factors, spread over the diagonal of the third index. Here U is held as (R, n_out), like V and W.
"""

import time

import torch
from torch import Tensor

Triple = tuple[Tensor, Tensor, Tensor]  # U (R, n_out), V (R, n_in), W (R, terms)

_PENALTIES = tuple(10 ** (-step / 4) for step in range(8, 26))  # 1e-2 … 6e-7, for ‖A‖ = 1
_STEPS = 4  # at each
_POLISHING = 60


def search(A: Tensor, rank: int, generator: torch.Generator, deadline: float) -> Triple:
    """Factors near A (‖A‖ = 1) from one random start: small ones first, then exact where that can be.

    The penalty falls from where it decides to where it does not matter, so that of the many exact factors
    those with small entries are met first; then it is dropped.
    """
    terms, n_out, n_in = A.shape
    X = _scaled(
        [
            torch.randn(rank, m, dtype=A.dtype, generator=generator) * rank ** (-1 / 6) / m**0.5
            for m in (n_out, n_in, terms)
        ]
    )
    damping = 1e-2
    for penalty in _PENALTIES:
        for _ in range(_STEPS):
            X, damping, _ = _step(A, X, damping, penalty)
            X = _scaled(list(X))
            if time.monotonic() > deadline:
                return X
    return _polish(A, X, deadline)


def _polish(A: Tensor, X: Triple, deadline: float) -> Triple:
    damping, best, since = 1e-4, (A - _tensor(X)).norm().item(), 0
    for _ in range(_POLISHING):
        X, damping, moved = _step(A, X, damping, 0.0)
        error = (A - _tensor(X)).norm().item()
        since = 0 if error < 0.9 * best else since + 1
        best = min(best, error)
        if not moved or best < 1e-15 or since == 5 or time.monotonic() > deadline:
            break
    return _scaled(list(X))


def _step(A: Tensor, X: Triple, damping: float, penalty: float) -> tuple[Triple, float, bool]:
    """The factors after one step that lowers the objective, the next damping, whether there was one."""
    T = _tensor(X)
    gram, before = _gram(X), _objective(A, X, penalty)
    diagonal = gram.diagonal().clone()
    for _ in range(12):
        kappa = damping + penalty
        s = penalty / kappa
        gram.diagonal().copy_(diagonal + kappa)
        root, failed = torch.linalg.cholesky_ex(gram)
        if not failed:
            z = torch.cholesky_solve((A - T + 3 * s * T).reshape(-1, 1), root).view(A.shape)
            dU, dV, dW = _transposed(z, X)
            new = ((1 - s) * X[0] + dU, (1 - s) * X[1] + dV, (1 - s) * X[2] + dW)
            if _objective(A, new, penalty) < before:
                return new, max(damping * 0.3, 1e-12), True
        damping *= 4
    return X, min(damping, 1e3), False


def _tensor(X: Triple) -> Tensor:
    U, V, W = X
    return torch.einsum("ri,rp,rq->ipq", W, U, V)


def _objective(A: Tensor, X: Triple, penalty: float) -> float:
    return ((A - _tensor(X)).square().sum() + penalty * torch.cat(X, 1).square().sum()).item()


def _transposed(z: Tensor, X: Triple) -> Triple:
    """Jᵀz."""
    U, V, W = X
    return (
        torch.einsum("ipq,ri,rq->rp", z, W, V),
        torch.einsum("ipq,ri,rp->rq", z, W, U),
        torch.einsum("ipq,rp,rq->ri", z, U, V),
    )


def _gram(X: Triple) -> Tensor:
    """J Jᵀ."""
    U, V, W = X
    sizes = i, p, q = W.shape[1], U.shape[1], V.shape[1]
    full = U.new_zeros(*sizes, *sizes)
    full.diagonal(dim1=0, dim2=3).add_(_pairs(U, V).view(p, q, p, q, 1))
    full.diagonal(dim1=1, dim2=4).add_(_pairs(W, V).view(i, q, i, q, 1))
    full.diagonal(dim1=2, dim2=5).add_(_pairs(W, U).view(i, p, i, p, 1))
    return full.view(i * p * q, i * p * q)


def _pairs(X: Tensor, Y: Tensor) -> Tensor:
    """Gram matrix of all products of a column of X with one of Y."""
    products = (X[:, :, None] * Y[:, None, :]).flatten(1)
    return products.mT @ products


def _scaled(X: list[Tensor]) -> Triple:
    """The same tensor, with rows r of the three of one length: the least penalty, and the safest range."""
    lengths = [x.norm(dim=1, keepdim=True).clamp(min=1e-30) for x in X]
    common = (lengths[0] * lengths[1] * lengths[2]) ** (1 / 3)
    U, V, W = (x * (common / length) for x, length in zip(X, lengths, strict=True))
    return U, V, W

"""Rules while they are fitted to X ≈ Aᵀ Z: each form knows its least-squares steps.

X is (n_out·n_in, m) and Z (terms, m), in float64; see `onenth.fit` for where they come from.
"""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from onenth.bilinear import Factors
from onenth.rule import DiagonalRule, FactoredRule, LearnedRule, Rule


@dataclass(frozen=True)
class FittedRule:
    """The values of a rule that stays as it is, and what all forms share."""

    A: Tensor  # (terms, n_out·n_in)

    @property
    def is_optimal(self) -> bool:
        """Whether the start is already the best rule of this form, where components are free."""
        return True

    def values(self) -> dict[str, Tensor]:
        """The rule's parameters by name, where they were fitted."""
        return {}

    def scaled(self, by: Tensor) -> Self:
        return self

    def improve(self, X: Tensor, Z: Tensor) -> Self:
        """The best rule for these components, or one factor of it after the other."""
        return self

    def components(self, X: Tensor) -> Tensor:
        """The best Z for this rule."""
        return torch.linalg.pinv(self.A.mT) @ X

    def error(self, X: Tensor, Z: Tensor) -> float:
        return (X - self.A.mT @ Z).norm().item()


@dataclass(frozen=True)
class FittedTensor(FittedRule):
    """A learned as it is."""

    shape: torch.Size

    def values(self) -> dict[str, Tensor]:
        return {"A": self.A.view(self.shape)}

    def scaled(self, by: Tensor) -> Self:
        return replace(self, A=self.A * by)

    def improve(self, X: Tensor, Z: Tensor) -> Self:
        return replace(self, A=(X @ torch.linalg.pinv(Z)).mT)


@dataclass(frozen=True)
class FittedFactors(FittedRule):
    """A as factors; V and W that are None are the identity and stay it."""

    factors: Factors

    @property
    def is_optimal(self) -> bool:
        return self.factors.V is None  # the diagonal rule: its start is a closed form

    @classmethod
    def of(cls, factors: Factors) -> Self:
        return cls(factors.tensor().flatten(1), factors)

    def values(self) -> dict[str, Tensor]:
        return {name: value for name, value in self.factors._asdict().items() if value is not None}

    def scaled(self, by: Tensor) -> Self:
        """Rows of V and W of length one, as drawn rules have them; U carries the size."""
        U, V, W = self.factors
        U = U * by
        for mixing in (V, W):
            U = U if mixing is None else U * mixing.norm(dim=1)
        return self.of(Factors(U, *(None if m is None else m / m.norm(dim=1, keepdim=True) for m in (V, W))))

    def improve(self, X: Tensor, Z: Tensor) -> Self:
        U, V, W = self.factors
        X = X.unflatten(0, (U.shape[0], -1))  # (p, q, m)
        left = torch.eye(U.shape[1], dtype=X.dtype, device=X.device) if V is None else V  # (r, q)
        right = Z if W is None else W @ Z  # (r, m)
        U = _solve(torch.einsum("rq,rm->rqm", left, right), X)
        if V is not None:
            left = V = _solve(torch.einsum("pr,rm->rpm", U, right), X.transpose(0, 1)).mT
        if W is not None:
            products = torch.einsum("pr,rq->pqr", U, left).flatten(0, 1)
            W = torch.linalg.pinv(products) @ X.flatten(0, 1) @ torch.linalg.pinv(Z)
        return self.of(Factors(U, V, W))


def start(rule: Rule, X: Tensor, *, keep: bool) -> FittedRule:
    """Where a fit of this rule begins: at its optimum, or for factors at the parts of the best free rule."""
    drawn = rule.tensor().to(X)
    sizes = drawn.shape[1:]
    leading = drawn.flatten(1).clone()  # X has few columns where the weight has a low rank
    columns = X[:, : rule.terms]
    leading[: columns.shape[1]] = (columns / columns.norm(dim=0).clamp_min(torch.finfo(X.dtype).tiny)).mT
    if isinstance(rule, LearnedRule) and not keep:
        return FittedTensor(leading, drawn.shape)
    if isinstance(rule, DiagonalRule) and not keep:
        blocks = X.unflatten(0, sizes).transpose(0, 1)  # (q, p, m)
        directions = torch.linalg.svd(blocks, full_matrices=False).U[..., 0]  # (q, p)
        return FittedFactors.of(Factors(directions.mT, None, None))
    if isinstance(rule, FactoredRule) and not keep:
        return FittedFactors.of(_parts(leading.unflatten(1, sizes), columns.norm(dim=0), rule))
    return FittedRule(drawn.flatten(1))


def _parts(leading: Tensor, weights: Tensor, rule: FactoredRule) -> Factors:
    """The R heaviest rank-one parts of the matrices A_i, and which component each of them belongs to."""
    lengths = leading.new_zeros(len(leading))
    lengths[: len(weights)] = weights
    lefts, values, rights = torch.linalg.svd(leading, full_matrices=False)  # (i, p, s) (i, s) (i, s, q)
    heaviest = (values * lengths[:, None]).flatten().argsort(descending=True, stable=True)[: rule.rank]
    U, V = rule.U.to(leading, copy=True), rule.V.to(leading, copy=True)
    W = None if rule.W is None else rule.W.to(leading, copy=True)
    i, part = heaviest // values.shape[1], heaviest % values.shape[1]
    count = len(heaviest)
    U[:, :count], V[:count] = lefts[i, :, part].mT, rights[i, part]
    if W is not None:
        W[:count] = values[i, part, None] * torch.nn.functional.one_hot(i, rule.terms)
    return Factors(U, V, W)


def _solve(design: Tensor, target: Tensor) -> Tensor:
    """The x that brings x · design nearest to the target, over all but the first dimension of either."""
    solution: Tensor = torch.linalg.lstsq(design.flatten(1).mT, target.flatten(1).mT, driver="gelsd").solution
    return solution.mT

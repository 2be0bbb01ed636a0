"""What a rule is: its laws, and which known algebra it is nearest to.

The components S_i absorb any mixing of the terms A_i, so a rule is known only as the space span{A_i}. All
that is said here depends on that space alone.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from onenth import algebra
from onenth.algebra import Algebra

_CONDITION = 10.0  # of P and of Q, at most
_STARTS, _ROUGH, _FINE = 8, 30, 600  # iterations from each start, then from the best place reached
_FOUND = 1e-6  # radians
_F64: Any = {"device": "cpu", "dtype": torch.float64}  # whatever the default device and dtype are


class HasTensor(Protocol):
    """Anything with a rule's tensor (terms, n_out, n_in), such as `onenth.Rule`."""

    def tensor(self) -> Tensor: ...


@dataclass(frozen=True)
class Neighbour:
    """Largest principal angle, in radians, from the rule's span to that of a known algebra.

    `angle` compares the spans as they are, `changed` after the best change of basis found.
    """

    name: str
    angle: float
    changed: float | None = None


@dataclass(frozen=True)
class Description:
    """What `describe` found.

    `commutator` and `associator` are those of `onenth.algebra` for the product that `describe` defines.
    """

    shape: tuple[int, int, int]  # (terms, n_out, n_in)
    rank: int  # number of independent terms
    unit: float | None  # angle in radians between the identity and the span: 0 where there is a unit
    commutator: float | None
    associator: float | None
    reason: str  # why there are no laws, or empty
    neighbours: tuple[Neighbour, ...]  # nearest first

    def __str__(self) -> str:
        terms, n_out, n_in = self.shape
        lines = [f"rule of {terms} terms, {n_out} × {n_in}; {self.rank} independent"]
        if self.reason:
            lines.append(f"no laws: {self.reason}")
        else:
            lines.append(f"unit        {self.unit:8.3g}   rad between the identity and the span")
            lines.append(f"commutator  {self.commutator:8.3g}   0 commutative, 1 anticommutative")
            lines.append(f"associator  {self.associator:8.3g}   0 associative")
        if not self.neighbours:
            return "\n".join([*lines, "no known algebra has this shape"])
        width = max(len("largest angle to"), *(len(known.name) for known in self.neighbours))
        lines += ["", f"{'largest angle to':{width}}  as it is, rad   after change of basis"]
        for known in self.neighbours:
            changed = "–" if known.changed is None else f"{known.changed:.3g}"
            lines.append(f"{known.name:{width}}  {known.angle:13.3g}   {changed:>21}")
        return "\n".join(lines)


@torch.inference_mode(False)
@torch.no_grad()
def describe(rule: Algebra | Tensor | HasTensor, *, change_of_basis: bool = True) -> Description:
    """Laws of a rule and its distance from the known algebras of its dimension.

    Laws need a product, and a span alone is none. Where n_out = n_in = rank = n, take an invertible M_0 of
    the span and a vector u, and define (an isotope, after Albert)

        a ∘ b = M_a b      with M_a in span{A_i M_0⁻¹} and M_a u = a

    which has the unit u. M_0⁻¹ takes away whatever basis the input is in, and that of the output only changes
    the basis of the algebra: a quaternion behind P and Q, P A_i Q, is associative still. M_0 and u are the
    best conditioned among the identity's part in the span, basis vectors and some random ones.

    `changed` is the largest principal angle between span{P A_i Q} and a known algebra's span where the search
    over P and Q found the least Σ sin² of all angles; a better pair may exist. The condition numbers of P and
    Q are at most 10, and only that makes the angle mean something: a change of basis free to degenerate
    brings any span near any other.

    Args:
        rule: an Algebra, a tensor (terms, n_out, n_in), or anything with a method `tensor()`.
        change_of_basis: search over P and Q too; seconds for n = 4 and n = 8, longer beyond.

    Example:
        >>> describe(algebra.get("quaternion")).neighbours[0].name
        'quaternion'
    """
    A = _tensor(rule)
    terms, n_out, n_in = A.shape
    K = _basis(A)
    unit, commutator, associator, reason = None, None, None, ""
    if n_out != n_in:
        reason = f"output and input differ in size, {n_out} and {n_in}, so results cannot be multiplied again"
    elif len(K) != n_out:
        reason = f"a product on R^{n_out} needs {n_out} independent terms, not {len(K)}"
    elif (product := _product(K.reshape(-1, n_out, n_in))) is None:
        reason = "no invertible matrix, or no vector u with M ↦ M u invertible, was found in the span"
    else:
        unit = float(principal_angles(torch.eye(n_out, **_F64)[None], A))
        commutator, associator = algebra.commutator(product), algebra.associator(product)
    neighbours = []
    for other in known(n_out) if n_out == n_in else []:
        B = _basis(other.A)
        angle = changed = float(_angles(K, B).max())
        if change_of_basis and angle > _FOUND:
            changed = min(angle, _changed(K, B, n_out))
        neighbours.append(Neighbour(other.name, angle, changed if change_of_basis else None))
    neighbours.sort(key=lambda known: (known.angle if known.changed is None else known.changed, known.angle))
    return Description((terms, n_out, n_in), len(K), unit, commutator, associator, reason, tuple(neighbours))


def principal_angles(A: Tensor, B: Tensor) -> Tensor:
    """Principal angles, radians ascending, between span{A_i} and span{B_i} as spaces of matrices.

    A and B are (terms, n_out, n_in); there are as many angles as the smaller span has dimensions. Angles
    below 45° come from their sines, larger ones from their cosines, so that either are accurate.
    """
    if A.ndim != 3 or B.ndim != 3 or A.shape[1:] != B.shape[1:]:
        raise ValueError(f"A is {tuple(A.shape)} and B is {tuple(B.shape)}; "
                         "both must be (terms, n_out, n_in) with the same n_out and n_in")  # fmt: skip
    return _angles(_basis(_tensor(A)), _basis(_tensor(B)))


def known(n: int) -> list[Algebra]:
    """Named algebras, Clifford algebras, cyclic(n) and powers, of dimension n, each tensor once."""
    if n > algebra.MAX_N:
        return []
    depth = n.bit_length() - 1
    names = [name for name in algebra.names() if algebra.get(name).n == n]
    if n == 2**depth:
        names += [f"cayley-dickson({depth})", *(f"clifford({p},{depth - p})" for p in range(depth + 1))]
    names.append(f"cyclic({n})")
    for name in ("real", "complex", "quaternion", "octonion"):
        power, rest = divmod(n, algebra.get(name).n)
        names += [f"{name}^{power}"] if power > 1 and not rest else []
    return list(dict.fromkeys(algebra.get(name) for name in names))


def _tensor(rule: Algebra | Tensor | HasTensor) -> Tensor:
    """The rule's tensor on the CPU, float32 or float64 as it came: that decides its numerical rank."""
    if isinstance(rule, Algebra):
        return rule.A
    if not isinstance(rule, Tensor) and not callable(getattr(rule, "tensor", None)):
        raise TypeError(f"cannot describe {type(rule).__name__}; give an Algebra (algebra.get makes one "
                        "from a name), a tensor (terms, n_out, n_in) or a Rule")  # fmt: skip
    A = rule if isinstance(rule, Tensor) else rule.tensor()
    if A.ndim != 3 or not A.numel():
        raise ValueError(f"the rule has shape {tuple(A.shape)}; it must be (terms, n_out, n_in), none 0")
    if A.is_complex() or A.is_meta:
        raise ValueError(f"the rule is {A.dtype} on {A.device}; it must hold real numbers")
    single = A.is_floating_point() and A.dtype != torch.float64
    A = A.detach().to("cpu", torch.float32 if single else torch.float64)
    if not A.isfinite().all():
        raise ValueError("the rule holds NaN or infinity: it diverged or was never initialised")
    if not A.any():
        raise ValueError("the rule is zero everywhere: it spans nothing")
    return A


def _basis(A: Tensor) -> Tensor:
    """Orthonormal rows (rank, n_out·n_in) of the span, in float64."""
    _, s, V = torch.linalg.svd(A.flatten(1).double(), full_matrices=False)
    return V[s > max(A.flatten(1).shape) * torch.finfo(A.dtype).eps * s[0]]


def _angles(K: Tensor, B: Tensor) -> Tensor:
    """Principal angles between the spaces of two orthonormal bases (Björck & Golub 1973)."""
    if len(K) < len(B):
        K, B = B, K
    cosines = B @ K.T
    sin = torch.linalg.svdvals(B - cosines @ K).flip(0).clamp(max=1)
    cos = torch.linalg.svdvals(cosines).clamp(max=1)
    return torch.where(cos.square() > 0.5, sin.arcsin(), cos.arccos())


def _product(K: Tensor) -> Tensor | None:
    """Structure tensor of a ∘ b = M_a b with M_a in span{K_i M_0⁻¹} and M_a u = a, for the best M_0 and u."""
    n = len(K)
    drawn = torch.randn(32, n, generator=_generator(), **_F64)
    vectors = torch.cat([torch.eye(n, **_F64), torch.ones(1, n, **_F64), drawn])
    unit = torch.einsum("jpp->j", K)  # the identity's part in the span
    M_0 = _best(torch.einsum("jpq,vj->vpq", K, torch.cat([unit[None], vectors])))
    if M_0 is None:
        return None
    K = K @ torch.linalg.inv(M_0)
    onto = _best(torch.einsum("jpq,uq->upj", K, vectors))
    return None if onto is None else torch.einsum("ji,jpq->ipq", torch.linalg.inv(onto), K)


def _best(matrices: Tensor) -> Tensor | None:
    """The best conditioned matrix, the first among equals; None where all are singular."""
    conditions = torch.linalg.cond(matrices)
    best = int((conditions <= 1.01 * conditions.min()).nonzero()[0])
    return matrices[best] if conditions[best] < 1e8 else None


def _changed(K: Tensor, B: Tensor, n: int) -> float:
    """Smallest largest angle found between the spans of P K_i Q and of B, with P = U diag(e^{b tanh s}) V.

    U and V, orthogonal, are exponentials of skew matrices times a start; Q likewise. The determinants of P
    and Q take all four pairs of signs, since no path leads from one to another.
    """
    generator = _generator()
    matrices, (row, column) = K.reshape(-1, n, n), torch.triu_indices(n, n, 1, device="cpu")
    size = 4 * len(row) + 2 * n  # four skew matrices, two diagonals

    def transformed(z: Tensor, start: Tensor) -> Tensor:
        skew = torch.zeros(4, n, n, **_F64)
        skew[:, row, column] = z[: -2 * n].reshape(4, -1)
        U, V, X, Y = torch.linalg.matrix_exp(skew - skew.mT) @ start
        d, e = torch.exp(math.log(_CONDITION) / 2 * z[-2 * n :].tanh()).reshape(2, n)
        T = ((U * d) @ V @ matrices @ (X * e) @ Y).flatten(1)
        return torch.linalg.solve_triangular(torch.linalg.cholesky(T @ T.T), T, upper=False)

    def search(z: Tensor, start: Tensor, iterations: int) -> tuple[float, Tensor, Tensor]:
        z = z.clone().requires_grad_()
        optimiser = torch.optim.LBFGS([z], max_iter=iterations, tolerance_grad=1e-12, tolerance_change=1e-14,
                                      history_size=100, line_search_fn="strong_wolfe")  # fmt: skip

        def sines() -> Tensor:
            optimiser.zero_grad()
            T = transformed(z, start)
            loss = (T - T @ B.T @ B).square().sum()  # Σ sin²
            loss.backward()
            return loss

        with torch.enable_grad():
            optimiser.step(sines)
        return float(_angles(transformed(z.detach(), start), B).max()), z.detach(), start

    found: list[tuple[float, Tensor, Tensor]] = []
    for turn in range(_STARTS):
        start = torch.linalg.qr(torch.randn(4, n, n, generator=generator, **_F64)).Q
        if turn == 0:
            start = torch.eye(n, **_F64).repeat(4, 1, 1)
        for k, flip in ((0, turn % 2), (2, turn // 2 % 2)):
            start[k, :, 0] *= (-1) ** flip * torch.linalg.det(start[k] @ start[k + 1]).sign()
        z = 0.1 * torch.randn(size, generator=generator, **_F64)  # at 0 the gradient may vanish
        found.append(search(z, start, _ROUGH))
        if found[-1][0] < _FOUND:
            return found[-1][0]
    rough, z, start = min(found, key=lambda trial: trial[0])
    return min(rough, search(z, start, _FINE)[0])


def _generator() -> torch.Generator:
    return torch.Generator(device="cpu").manual_seed(0)

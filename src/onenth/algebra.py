"""Algebras as structure tensors, their numbers and their laws.

An algebra of dimension n is a bilinear product on R^n, written in a basis e_0 … e_{n-1}:

    e_i · e_q = Σ_p A[i,p,q] e_p          (a·b)_p = Σ_{i,q} a_i A[i,p,q] b_q

so A[i] is the matrix of left multiplication by e_i, and A is the rule of a PHM layer H = Σ_i A_i ⊗ S_i.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

MAX_N = 256  # A holds n³ doubles: 128 MiB at 256
_F64: Any = {"device": "cpu", "dtype": torch.float64}  # whatever the default device and dtype are


@dataclass(frozen=True, eq=False)
class Algebra:
    """A bilinear product on R^n: e_i · e_q = Σ_p A[i,p,q] e_p.

    Two algebras are equal when their tensors are, whatever their names.

    Args:
        name: what `get` understands, or a free label.
        A: (n, n, n), float64, on the CPU.
        conjugation: (n, n) matrix C with conj(a) = C a, or None where the algebra has none.

    Example:
        >>> H = get("quaternion")
        >>> H.number([0, 1, 0, 0]) * H.number([0, 0, 1, 0])
        quaternion(0, 0, 0, 1)
    """

    name: str
    A: Tensor = field(repr=False)
    conjugation: Tensor | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _check_tensor(self.A, f"A of {self.name!r}", 3)
        _check_size(self.n, self.name)
        if self.conjugation is not None:
            _check_tensor(self.conjugation, f"conjugation of {self.name!r}", 2)
            if len(self.conjugation) != self.n:
                raise ValueError(f"conjugation of {self.name!r} is {tuple(self.conjugation.shape)}; "
                                 f"A needs ({self.n}, {self.n})")  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Algebra) and torch.equal(self.A, other.A))

    def __hash__(self) -> int:
        return hash((Algebra, self.n))

    @property
    def n(self) -> int:
        """Dimension of the algebra."""
        return self.A.shape[0]

    @property
    def norm_form(self) -> Tensor:
        """G (n, n), symmetric, with N(a) = aᵀ G a = Re(a · conj(a)).

        Re(a) = trace(L_a) / n, where L_a is left multiplication by a. It is the coefficient of e_0 for
        Cayley–Dickson, Clifford, split and dual numbers, that of the neutral element for a group, and for
        a direct product the mean of its factors' real parts weighted by their dimensions: so Re(unit) = 1.
        """
        real = torch.einsum("pmm->p", self.A) / self.n
        G = torch.einsum("ips,p->is", self.A, real) @ self._conjugation()
        return (G + G.T) / 2

    def _conjugation(self) -> Tensor:
        if self.conjugation is None:
            raise ValueError(f"algebra {self.name!r} has no conjugation, so no conj and no norm; "
                             "give it one: Algebra(name, A, conjugation)")  # fmt: skip
        return self.conjugation

    def number(self, components: Tensor | Sequence[float]) -> "Number":
        """Number with the given components (..., n); floats keep their dtype, integers take the default's."""
        c = torch.as_tensor(components)
        if c.is_complex() or c.dtype == torch.bool:
            raise TypeError(f"components must be real numbers, not {c.dtype}")
        if c.ndim == 0 or c.shape[-1] != self.n:
            raise ValueError(f"components have shape {tuple(c.shape)}; a {self.name} number needs {self.n} "
                             "in the last dimension")  # fmt: skip
        return Number(self, c if c.is_floating_point() else c.to(torch.get_default_dtype()))


@dataclass(frozen=True, eq=False)
class Number:
    """Numbers of an algebra, made by `Algebra.number`; arithmetic broadcasts and is differentiable.

    (a·b)_p = Σ_{i,q} a_i A[i,p,q] b_q
    """

    algebra: Algebra
    components: Tensor  # (..., n)

    def __repr__(self) -> str:
        c, name = self.components, self.algebra.name
        if c.ndim == 1 and len(c) <= 16 and not c.is_meta:
            return f"{name}({', '.join(f'{x:g}' for x in c.tolist())})"
        return f"{name}(shape={tuple(c.shape[:-1])}, n={self.algebra.n}, {c.dtype}, {c.device})"

    def __add__(self, other: "Number") -> "Number":
        return Number(self.algebra, self.components + self._same(other, "add"))

    def __sub__(self, other: "Number") -> "Number":
        return Number(self.algebra, self.components - self._same(other, "subtract"))

    def __neg__(self) -> "Number":
        return Number(self.algebra, -self.components)

    def __mul__(self, other: "Number | Tensor | float") -> "Number":
        """Product with a number, a real, or a tensor of reals that broadcasts with the leading shape."""
        if isinstance(other, Tensor):
            return Number(self.algebra, self.components * other.unsqueeze(-1))
        if isinstance(other, int | float):
            return Number(self.algebra, self.components * other)
        a, b = self.components, self._same(other, "multiply")
        dtype = torch.promote_types(a.dtype, b.dtype)
        A = self.algebra.A.to(a.device, dtype)
        return Number(self.algebra, torch.einsum("...i,ipq,...q->...p", a.to(dtype), A, b.to(dtype)))

    __rmul__ = __mul__  # reached with reals only: they commute

    def conj(self) -> "Number":
        """Conjugate: C a."""
        return Number(self.algebra, self.components @ self.algebra._conjugation().to(self.components).T)

    def norm_squared(self) -> Tensor:
        """N(a) = Re(a · conj(a)), shape (...); negative for some split and Clifford numbers.

        N(unit) = 1. In a direct product N is the mean of the factors' N, weighted by their dimensions.
        """
        G = self.algebra.norm_form.to(self.components)
        return torch.einsum("...i,ij,...j->...", self.components, G, self.components)

    def norm(self) -> Tensor:
        """√|N(a)|, shape (...)."""
        return self.norm_squared().abs().sqrt()

    def _same(self, other: object, verb: str) -> Tensor:
        name = self.algebra.name
        if not isinstance(other, Number):
            raise TypeError(f"cannot {verb} a {name} number and {type(other).__name__}; make it a number "
                            "first: algebra.number(components)")  # fmt: skip
        if other.algebra != self.algebra:
            raise TypeError(f"cannot {verb} a {name} number and a {other.algebra.name} number")
        return other.components


def cayley_dickson(depth: int) -> Algebra:
    """Real, complex, quaternion, octonion, sedenion, … (n = 2^depth) by doubling.

    (a, b)(c, d) = (ac − d*b, da + bc*)        conj(a, b) = (a*, −b)
    """
    _check_integer(depth, "depth", 0, 8)
    A, C = torch.ones(1, 1, 1, **_F64), torch.ones(1, 1, **_F64)
    for m in (2**level for level in range(depth)):
        D = torch.zeros(2 * m, 2 * m, 2 * m, **_F64)
        D[:m, :m, :m] = A  # ac
        D[:m, m:, m:] = A.permute(2, 1, 0)  # da
        D[m:, m:, :m] = A @ C  # bc*
        D[m:, :m, m:] = -torch.einsum("spi,sq->ipq", A, C)  # −d*b
        A, C = D + 0.0, torch.block_diag(C, -torch.eye(m, **_F64)) + 0.0  # + 0.0 makes −0 a 0
    return Algebra(_DOUBLING[depth] if depth < len(_DOUBLING) else f"cayley-dickson({depth})", A, C)


def clifford(p: int, q: int) -> Algebra:
    """Cl(p, q), n = 2^(p+q): the first p generators square to +1, the other q to −1, all anticommute.

    e_i is the product, in ascending order, of the generators g whose bit 2^g is set in i. Conjugation is
    Clifford's: a product of g generators takes the sign (−1)^{g(g+1)/2}.
    """
    _check_integer(p, "p", 0, 8)
    _check_integer(q, f"q of clifford({p},q)", 0, 8 - p)

    def product(i: int, j: int) -> tuple[int, int]:
        swaps = sum(((i >> shift) & j).bit_count() for shift in range(1, p + q))
        return i ^ j, (-1) ** (swaps + ((i & j) >> p).bit_count())

    n = 2 ** (p + q)
    signs = [(-1.0) ** (g * (g + 1) // 2) for g in map(int.bit_count, range(n))]
    return Algebra(f"clifford({p},{q})", _from_products(n, product), torch.tensor(signs, **_F64).diag())


def group(table: Sequence[Sequence[int]] | Tensor, name: str) -> Algebra:
    """Real group algebra of a group with the multiplication table e_i · e_q = e_{table[i][q]}.

    Conjugation is the inverse: conj(e_g) = e_{g⁻¹}.
    """
    T = torch.as_tensor(table, device="cpu")
    if T.ndim != 2 or T.shape[0] != T.shape[1]:
        raise ValueError(f"table of {name!r} has shape {tuple(T.shape)}; it must be square, (n, n)")
    if T.is_floating_point() or T.is_complex() or T.dtype == torch.bool:
        raise TypeError(f"table of {name!r} has dtype {T.dtype}; its entries must be integers, 0 to n − 1")
    n, T = len(T), T.long()
    _check_size(n, name)
    order = torch.arange(n, device="cpu").expand(n, n)
    if not (torch.equal(T.sort(0).values, order.T) and torch.equal(T.sort(1).values, order)):
        raise ValueError(f"{name!r} is no group: each row and column must hold each of 0 … {n - 1} once")
    neutral = [e for e in range(n) if torch.equal(T[e], order[0]) and torch.equal(T[:, e], order[0])]
    if not neutral:
        raise ValueError(f"{name!r} is no group: the table has no neutral element e·g = g·e = g")
    for i, j, k in (T[T] != T[:, T]).nonzero()[:1].tolist():
        raise ValueError(f"{name!r} is no group: (e{i}·e{j})·e{k} differs from e{i}·(e{j}·e{k})")
    inverse = T.eq(neutral[0]).T.to(torch.float64)  # [h, g] = 1 where g·h is neutral
    rows = T.tolist()
    return Algebra(name, _from_products(n, lambda i, j: (rows[i][j], 1)), inverse)


def cyclic(n: int) -> Algebra:
    """Group algebra of Z/n: e_i · e_q = e_{(i+q) mod n}, polynomials modulo x^n − 1."""
    _check_integer(n, "n of cyclic(n)", 1, MAX_N)
    return group([[(i + q) % n for q in range(n)] for i in range(n)], f"cyclic({n})")


def split_complex() -> Algebra:
    """a + b j with j² = 1."""
    return Algebra("split-complex", clifford(1, 0).A, clifford(1, 0).conjugation)


def dual() -> Algebra:
    """a + b ε with ε² = 0."""
    A = _from_products(2, lambda i, j: (i ^ j, 1 - (i & j)))
    return Algebra("dual", A, torch.tensor([1.0, -1.0], **_F64).diag())


def direct_product(a: Algebra, b: Algebra) -> Algebra:
    """Pairs (x, y), x in a and y in b, multiplied and conjugated component by component."""
    return _product([a, b], f"{a.name} x {b.name}")


def from_tensor(A: Tensor, name: str = "given") -> Algebra:
    """Algebra with a copy of the tensor A (n, n, n); integers convert; it has no conjugation."""
    if not isinstance(A, Tensor):
        raise TypeError(f"A is {type(A).__name__}; give a torch.Tensor of shape (n, n, n)")
    if A.is_complex() or A.dtype == torch.bool:
        raise TypeError(f"A has dtype {A.dtype}; a structure tensor holds real numbers")
    if A.is_meta:
        raise ValueError("A is on the meta device and holds no numbers; give a tensor that does")
    return Algebra(name, A.detach().to(**_F64, copy=True))


def names() -> list[str]:
    """Algebras that `get` knows by a plain name."""
    return list(_PLAIN)


def get(name: str) -> Algebra:
    """Algebra by name, in upper or lower case, with - or _.

    Plain names are those of `names()`; families are "cayley-dickson(5)", "clifford(3,0)" and "cyclic(6)".
    A direct product is written with " x ", a power of one with "^": "complex x complex" is "complex^2".
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of an algebra is a string, not {type(name).__name__}")
    factors = [_factor(text) for text in re.split(r"\s+x\s+", name.strip().lower())]
    return factors[0] if len(factors) == 1 else _product(factors, " x ".join(a.name for a in factors))


def unit(rule: Algebra | Tensor) -> tuple[Tensor, float]:
    """The u nearest to u·a = a·u = a for all a, by least squares, and the relative residual in [0, 1]."""
    A = _tensor_of(rule)
    n = len(A)
    left = A.reshape(n, n * n).T  # Σ_i u_i A[i,p,q] = δ_pq
    right = A.transpose(0, 1).reshape(n * n, n)  # Σ_q A[i,p,q] u_q = δ_pi, rows (p, i)
    equations, target = torch.cat([left, right]), torch.eye(n, **_F64).reshape(-1).repeat(2)
    u = torch.linalg.lstsq(equations, target[:, None], driver="gelsd").solution[:, 0]
    return u, float((equations @ u - target).norm() / target.norm())


def commutator(rule: Algebra | Tensor) -> float:
    """‖ab − ba‖ / 2‖ab‖ over basis pairs: 0 for a commutative rule, 1 for an anticommutative one."""
    A = _tensor_of(rule)
    return _difference([(A, A.permute(2, 1, 0))])


def associator(rule: Algebra | Tensor) -> float:
    """‖(ab)c − a(bc)‖ / (‖(ab)c‖ + ‖a(bc)‖) over basis triples, in [0, 1]; 0 for an associative rule."""
    A = _tensor_of(rule)
    return _difference(
        (torch.einsum("mj,mpk->jpk", A_i, A), torch.einsum("jmk,pm->jpk", A, A_i)) for A_i in A
    )


def composition(algebra: Algebra) -> float:
    """How far N(ab) = N(a) N(b) is from holding, in [0, 1]; 0 for a composition algebra.

    ‖F − K‖ / (‖F‖ + ‖K‖) over the coefficients of both sides as polynomials in a and in b:
    N(ab) = Σ F[i,j,q,s] a_i a_j b_q b_s, symmetric in (i, j) and in (q, s), and K = G ⊗ G.
    """
    A, G = algebra.A, algebra.norm_form
    halves = (torch.einsum("pq,pt,jts->jqs", A_i, G / 2, A) for A_i in A)
    F = (half + half.transpose(1, 2) for half in halves)  # G is symmetric: so is F in (i, j) with (q, s)
    return _difference((F_i, torch.einsum("j,qs->jqs", G_i, G)) for F_i, G_i in zip(F, G, strict=True))


_DOUBLING = ("real", "complex", "quaternion", "octonion", "sedenion")
_PLAIN: dict[str, Callable[[], Algebra]] = {
    **{name: partial(cayley_dickson, depth) for depth, name in enumerate(_DOUBLING)},
    "split-complex": split_complex,
    "dual": dual,
}
_FAMILIES: dict[str, tuple[Callable[..., Algebra], str]] = {
    "cayley-dickson": (cayley_dickson, "depth"),
    "clifford": (clifford, "p,q"),
    "cyclic": (cyclic, "n"),
}


def _factor(text: str) -> Algebra:
    base, _, exponent = (part.strip() for part in text.partition("^"))
    key, bracket, arguments = base.replace("_", "-").partition("(")
    key = key.strip()
    if key in _PLAIN and not bracket:
        algebra = _PLAIN[key]()
    elif key in _FAMILIES:
        make, parameters = _FAMILIES[key]
        pattern = r"\s*,\s*".join(r"(-?\d+)" for _ in parameters.split(","))
        match = re.fullmatch(rf"\s*{pattern}\s*\)", arguments)
        if match is None:
            raise ValueError(f"{base!r} is incomplete: write {key}({parameters}) with integers")
        algebra = make(*map(int, match.groups()))
    else:
        known = [*_PLAIN, *(f"{family}({parameters})" for family, (_, parameters) in _FAMILIES.items())]
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"no algebra is called {base!r}; {hint}there are {', '.join(known)}, "
                         "products 'a x b' and powers 'a^2'")  # fmt: skip
    if "^" not in text:
        return algebra
    if not re.fullmatch(r"[1-9]\d{0,2}", exponent):
        raise ValueError(f"{text!r}: the power must be an integer from 1 to {MAX_N}")
    return _product([algebra] * int(exponent), f"{algebra.name}^{exponent}")


def _product(factors: Sequence[Algebra], name: str) -> Algebra:
    n = sum(a.n for a in factors)
    _check_size(n, name)
    A, start = torch.zeros(n, n, n, **_F64), 0
    for a in factors:
        block = slice(start, start := start + a.n)
        A[block, block, block] = a.A
    conjugations = [a.conjugation for a in factors if a.conjugation is not None]
    return Algebra(name, A, torch.block_diag(*conjugations) if len(conjugations) == len(factors) else None)


def _from_products(n: int, product: Callable[[int, int], tuple[int, int]]) -> Tensor:
    """A (n, n, n) from e_i · e_q = s e_p with (p, s) = product(i, q)."""
    A = torch.zeros(n, n, n, **_F64)
    for i in range(n):
        p, sign = zip(*(product(i, q) for q in range(n)), strict=True)
        A[i, list(p), list(range(n))] = torch.tensor(sign, **_F64)
    return A


def _tensor_of(rule: Algebra | Tensor) -> Tensor:
    return rule.A if isinstance(rule, Algebra) else from_tensor(rule).A


def _difference(pairs: Iterable[tuple[Tensor, Tensor]]) -> float:
    """‖l − r‖ / (‖l‖ + ‖r‖) over all pairs (l, r) together, which come n³ numbers at a time."""
    squares = torch.zeros(3, **_F64)
    for l, r in pairs:
        squares += torch.stack([(l - r).square().sum(), l.square().sum(), r.square().sum()])
    difference, left, right = squares.sqrt().tolist()
    return difference / (left + right) if difference else 0.0


def _check_tensor(T: Tensor, what: str, dims: int) -> None:
    if not isinstance(T, Tensor) or T.dtype != torch.float64 or T.device.type != "cpu":
        raise TypeError(f"{what} must be a float64 tensor on the CPU; from_tensor converts")
    if T.ndim != dims or not len(T) or len(set(T.shape)) != 1:
        raise ValueError(f"{what} has shape {tuple(T.shape)}; it must be ({', '.join('n' * dims)})")
    if not T.isfinite().all():
        raise ValueError(f"{what} holds NaN or infinity; give finite numbers")


def _check_integer(value: int, what: str, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{what} must be an integer, not {value!r}")
    if not least <= value <= most:
        raise ValueError(f"{what} must be from {least} to {most}, not {value}; n may be at most {MAX_N}")


def _check_size(n: int, name: str) -> None:
    if n > MAX_N:
        raise ValueError(f"{name!r} would have n = {n}; the largest supported is {MAX_N}")

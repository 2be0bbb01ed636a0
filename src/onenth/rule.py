"""Rules of multiplication: the tensor A[i,p,q] that says how input segment q and component i make output
segment p. A rule may be learned, learned as R products, diagonal, or fixed, and may serve several layers.

Every drawn rule is normalised: Σ_i A[i,p,q]² sums to n_in over q for each p, and to n_out over p for each q.
Then H has the variance of its components, for every output and every input segment alike.
"""

from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor, nn

from onenth import algebra
from onenth.algebra import Algebra
from onenth.algorithms import known
from onenth.bilinear import Algorithm, Certificate, Factors

Start = Literal["orthogonal", "identity"]


class Rule(nn.Module):
    """What all rules share: their sizes, their tensor, and their factors where they have some.

    Make one with `Rule.learned`, `Rule.diagonal` or `Rule.fixed`, and hand it to one layer or to many.
    """

    def __init__(self, terms: int, n_out: int, n_in: int, rank: int | None = None) -> None:
        super().__init__()
        self.terms, self.n_out, self.n_in, self.rank = terms, n_out, n_in, rank

    @staticmethod
    def learned(
        n: int | tuple[int, int],
        *,
        terms: int | None = None,
        rank: int | None = None,
        start: Start = "orthogonal",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> "Rule":
        """A rule learned from data: the whole tensor, or with `rank` its factors U, V and W.

        Args:
            n: segments of input and output, or a pair (n_out, n_in).
            terms: number of components; n, or the smaller of a pair, where it is left out.
            rank: R, the number of products; from 1 to n_out·n_in. Up to `terms` the mixing of components W
                would add nothing, so there are then R components and no W.
            start: how the factors begin: "orthogonal", or "identity" (each product multiplies one input
                segment by one component, only U mixes; needs rank ≥ n_in).
        """
        n_out, n_in = _sizes(n)
        check_dtype(dtype)
        if start not in ("orthogonal", "identity"):
            raise ValueError(f'start={start!r} is unknown: write "orthogonal" or "identity"')
        if terms is not None:
            _at_least_one("terms", terms)
            if terms > n_out * n_in:
                raise ValueError(f"terms={terms} is more than the {n_out * n_in} that n={n} can tell apart")
        if rank is None:
            if (n_out, n_in) == (1, 1):
                return Rule.fixed("real", device=device, dtype=dtype)
            return LearnedRule(terms or min(n_out, n_in), n_out, n_in, device, dtype)
        _at_least_one("rank", rank)
        if rank > n_out * n_in:
            raise ValueError(f"rank={rank} is out of range: n={n} allows 1 to {n_out * n_in}")
        if terms is not None and terms > rank:
            raise ValueError(f"terms={terms} is more than rank={rank} can use: {rank} products need at most "
                             f"{rank} components; leave terms out")  # fmt: skip
        if start == "identity" and rank < n_in:
            raise ValueError(f'start="identity" needs rank ≥ {n_in}, one product for each input segment, '
                             f"got rank={rank}")  # fmt: skip
        if (n_out, n_in) == (1, 1):
            return Rule.fixed("real", device=device, dtype=dtype)
        return FactoredRule(terms or min(n_out, n_in, rank), n_out, n_in, rank, start, device, dtype)

    @staticmethod
    def diagonal(n: int | tuple[int, int], *, device: Any = None, dtype: torch.dtype | None = None) -> "Rule":
        """A[i,p,q] = U[p,i] δ_iq: component i meets only input segment i, and only U is learned."""
        n_out, n_in = _sizes(n)
        check_dtype(dtype)
        if (n_out, n_in) == (1, 1):
            return Rule.fixed("real", device=device, dtype=dtype)
        return DiagonalRule(n_out, n_in, device, dtype)

    @staticmethod
    def fixed(
        rule: str | Algebra | Tensor, *, device: Any = None, dtype: torch.dtype | None = None
    ) -> "Rule":
        """A rule that does not learn: an algebra, its name, or any tensor (terms, n_out, n_in)."""
        check_dtype(dtype)
        if isinstance(rule, str):
            rule = algebra.get(rule)
        if isinstance(rule, Algebra):
            return FixedRule(rule.A, rule.name, device, dtype, _algorithms(rule))
        return FixedRule(_checked(rule), "given", device, dtype)

    @staticmethod
    def of(
        rule: "str | Rule | Algebra | Tensor",
        n: int | tuple[int, int] | None = None,
        *,
        terms: int | None = None,
        rank: int | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> "Rule":
        """What a layer's arguments mean: a kind to learn, a name, an algebra, a tensor, or a rule itself."""
        if n is not None:
            _sizes(n)
        if isinstance(rule, Rule):
            _agree(rule, n=n, terms=terms, rank=rank)
            return rule
        if isinstance(rule, str) and rule in ("learned", "diagonal"):
            if n is None:
                raise ValueError(f'rule="{rule}" needs n, the number of segments: write n=4, for example')
            if rule == "learned":
                return Rule.learned(n, terms=terms, rank=rank, device=device, dtype=dtype)
            made = Rule.diagonal(n, device=device, dtype=dtype)
        else:
            made = Rule.fixed(rule, device=device, dtype=dtype)
        if rank is not None:
            raise ValueError(f'rank={rank} goes with rule="learned" only, not with {made}')
        _agree(made, n=n, terms=terms)
        return made

    @property
    def n(self) -> int | tuple[int, int]:
        """The number of segments, or (n_out, n_in) where output and input differ."""
        return self.n_out if self.n_out == self.n_in else (self.n_out, self.n_in)

    @property
    def is_one(self) -> bool:
        """Whether this is the constant 1: the layer is then an ordinary linear layer."""
        return False

    def tensor(self) -> Tensor:
        """A (terms, n_out, n_in), differentiable in what is learned."""
        raise NotImplementedError

    def factors(self) -> Factors | None:
        """(U, V, W) where the rule is learned as them."""
        return None

    def products(self) -> tuple[Factors, Certificate | None] | None:
        """Factors to compute with: the rule's own, or those of an algorithm with its certificate."""
        own = self.factors()
        return None if own is None else (own, None)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draws the rule anew."""

    def extra_repr(self) -> str:
        rank = "" if self.rank is None else f", rank={self.rank}"
        return f"n={self.n}, terms={self.terms}{rank}"


class LearnedRule(Rule):
    """A learned as it is."""

    def __init__(self, terms: int, n_out: int, n_in: int, device: Any, dtype: torch.dtype | None) -> None:
        super().__init__(terms, n_out, n_in)
        self.A = nn.Parameter(torch.empty(terms, n_out, n_in, device=device, dtype=dtype))
        self.reset_parameters()

    def tensor(self) -> Tensor:
        return self.A

    @torch.no_grad()
    def reset_parameters(self) -> None:
        if self.A.is_meta:
            return
        A = torch.randn(self.A.shape, dtype=torch.float64, device="cpu")
        rows, columns = _balance(A.square().sum(0))
        self.A.copy_(A * rows[:, None] * columns)


class FactoredRule(Rule):
    """A[i,p,q] = Σ_r W[r,i] U[p,r] V[r,q], learned as U, V and W; without W where terms = R."""

    def __init__(
        self,
        terms: int,
        n_out: int,
        n_in: int,
        rank: int,
        start: Start,
        device: Any,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__(terms, n_out, n_in, rank)
        self.rank: int = rank
        self.start = start

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype))

        self.U = empty(n_out, rank)
        self.V = empty(rank, n_in)
        self.W = empty(rank, terms) if terms < rank else None
        self.reset_parameters()

    def factors(self) -> Factors:
        return Factors(self.U, self.V, self.W)

    def tensor(self) -> Tensor:
        return self.factors().tensor()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        if self.U.is_meta:
            return
        U = _orthogonal(self.n_out, self.rank)
        if self.start == "orthogonal":
            V, W = _orthogonal(self.rank, self.n_in), _orthogonal(self.rank, self.terms)
        else:  # product r multiplies segment r mod n_in by a component; the two meet anew on every round
            r = torch.arange(self.rank, device="cpu")
            V = nn.functional.one_hot(r % self.n_in, self.n_in).double()
            W = nn.functional.one_hot((r + r // self.n_in) % self.terms, self.terms).double()
        factors = Factors(U, V, None if self.W is None else W)
        for own, drawn in zip(self.factors(), _balance_factors(factors), strict=True):
            if own is not None and drawn is not None:
                own.copy_(drawn)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, start={self.start!r}"


class DiagonalRule(Rule):
    """A[i,p,q] = U[p,i] δ_iq: one product for each input segment, V and W are the identity."""

    def __init__(self, n_out: int, n_in: int, device: Any, dtype: torch.dtype | None) -> None:
        super().__init__(n_in, n_out, n_in, rank=n_in)
        self.U = nn.Parameter(torch.empty(n_out, n_in, device=device, dtype=dtype))
        self.reset_parameters()

    def factors(self) -> Factors:
        return Factors(self.U, None, None)

    def tensor(self) -> Tensor:
        return self.factors().tensor()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        if not self.U.is_meta:
            U = _orthogonal(self.n_out, self.n_in)
            rows, columns = _balance(U.square())
            self.U.copy_(U * rows[:, None] * columns)

    def extra_repr(self) -> str:
        return f"n={self.n}, diagonal"


class FixedRule(Rule):
    """A given once, kept in the state and never trained; with algorithms where some are known.

    It computes by the one with the fewest products that errs at most twice as much as the dense path in fp32.
    """

    A: Tensor

    def __init__(
        self,
        A: Tensor,
        name: str,
        device: Any,
        dtype: torch.dtype | None,
        algorithms: tuple[Algorithm, ...] = (),
    ) -> None:
        super().__init__(*A.shape)
        self.name, self.algorithms = name, algorithms
        self._exact = A
        self._algorithm = next((own for own in algorithms if own.certificate.fp32 <= 2), None)
        self._is_one = A.numel() == 1 and A.item() == 1
        dtype = dtype or torch.get_default_dtype()
        self.register_buffer("A", torch.empty(A.shape, device=device, dtype=dtype))
        for letter, M in self._exact_factors().items():
            self.register_buffer(letter, torch.empty(M.shape, device=device, dtype=dtype), persistent=False)
        self.reset_parameters()

    @property
    def is_one(self) -> bool:
        return self._is_one

    def tensor(self) -> Tensor:
        return self.A

    def products(self) -> tuple[Factors, Certificate | None] | None:
        if self._algorithm is None:
            return None
        return Factors(*(getattr(self, letter) for letter in "UVW")), self._algorithm.certificate

    @torch.no_grad()
    def reset_parameters(self) -> None:
        if not self.A.is_meta:
            self.A.copy_(self._exact)
        self._restore()

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        super()._apply(*args, **kwargs)
        self._restore()  # a precision that they went through leaves no trace in them
        return self

    @torch.no_grad()
    def _restore(self) -> None:
        for letter, M in self._exact_factors().items():
            own = getattr(self, letter)
            if not own.is_meta:
                own.copy_(M)

    def _exact_factors(self) -> dict[str, Tensor]:
        if self._algorithm is None:
            return {}
        return dict(zip("UVW", self._algorithm.factors, strict=True))  # type: ignore[arg-type]

    def agrees_with(self, A: Tensor) -> bool:
        """Whether A is this rule, as far as 16-bit precisions can tell, which it may have gone through."""
        return torch.allclose(A.detach().cpu().double(), self._exact, rtol=2**-7, atol=2**-24)

    def extra_repr(self) -> str:
        return f"{self.name}, {super().extra_repr()}"


def check_dtype(dtype: object) -> None:
    """Refuses what no parameter can be learned in."""
    if dtype is None:
        return
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point or dtype.itemsize < 2:
        raise TypeError(f"dtype={dtype!r} cannot be learned: choose torch.float32 or another real "
                        "floating-point type of 16 bits or more")  # fmt: skip


@lru_cache(maxsize=64)
def _algorithms(rule: Algebra) -> tuple[Algorithm, ...]:
    return tuple(known(rule))


def _balance(squares: Tensor) -> tuple[Tensor, Tensor]:
    """Factors for rows and columns that bring a rule with Σ_i A² = squares (n_out, n_in) to normal form."""
    n_out, n_in = squares.shape
    rows, columns = squares.new_ones(n_out), squares.new_ones(n_in)
    for _ in range(1000):  # Sinkhorn
        rows = n_in / (squares @ columns)
        columns = n_out / (rows @ squares)
        if (rows * (squares @ columns) - n_in).abs().max() < 1e-12 * n_in:
            break
    return rows.sqrt(), columns.sqrt()


def _balance_factors(factors: Factors) -> Factors:
    """The normal form, with rows of V and W of length one: mixing keeps the scale, and U carries the rest."""
    U, V, W = factors
    rows, columns = _balance(factors.tensor().square().sum(0))
    U, V = U * rows[:, None], None if V is None else V * columns
    for mixing in (V, W):
        U = U if mixing is None else U * mixing.norm(dim=1)
    V, W = (None if mixing is None else mixing / mixing.norm(dim=1, keepdim=True) for mixing in (V, W))
    return Factors(U, V, W)


def _orthogonal(rows: int, columns: int) -> Tensor:
    return nn.init.orthogonal_(torch.empty(rows, columns, dtype=torch.float64, device="cpu"))


def _sizes(n: int | tuple[int, int]) -> tuple[int, int]:
    sizes = n if isinstance(n, tuple) else (n, n)
    if len(sizes) != 2:
        raise ValueError(f"n={n} must be one number or a pair (n_out, n_in)")
    for size in sizes:
        _at_least_one("n", size)
    return sizes


def _agree(rule: Rule, **asked: object) -> None:
    for name, value in asked.items():
        own = getattr(rule, name)
        if value is not None and value not in (own, (own, own)):
            raise ValueError(f"{name}={value} contradicts the rule, which has {name}={own}: leave {name} out")


def _at_least_one(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be a whole number, not {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{name}={value} must be at least 1")


def _checked(A: object) -> Tensor:
    if not isinstance(A, Tensor):
        raise TypeError(f"a rule is a name, an Algebra, a tensor or a Rule, not {type(A).__name__}")
    if A.dim() != 3 or 0 in A.shape:
        raise ValueError(f"a rule has the shape (terms, n_out, n_in), got {tuple(A.shape)}")
    if A.is_meta or A.layout != torch.strided:
        raise ValueError(
            f"the given rule is {A.layout} on {A.device}: give a dense tensor that holds numbers"
        )
    if A.is_complex():
        raise TypeError("a rule is real: write a complex number as two real ones, rule='complex'")
    A = A.detach().to("cpu", torch.float64)
    if not A.isfinite().all():
        raise ValueError(f"the given rule has {(~A.isfinite()).sum()} entries that are NaN or infinite")
    if not A.any():
        raise ValueError("the given rule is zero: every product would be zero")
    return A.clone()

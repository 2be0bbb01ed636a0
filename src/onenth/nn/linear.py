"""The layer: y = H x + b with H = Σ_i A_i ⊗ S_i."""

import math
from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from onenth import fit, ops
from onenth.algebra import Algebra
from onenth.nn import init
from onenth.nn.checks import check_arguments, check_component_rank, check_input, placed, segment_sizes
from onenth.nn.frozen import Frozen
from onenth.nn.state import check_state
from onenth.nn.weight import DerivedWeight
from onenth.precision import autocast_off
from onenth.rule import Rule


class PHMLinear(nn.Module):
    """A linear layer with one n-th of the parameters: its weight is a sum of Kronecker products.

        y = H x + b        H = Σ_i A_i ⊗ S_i
        y[p,o] = Σ_{i,q,c} A[i,p,q] S[i,o,c] x[q,c] + b[p,o]

    with k = out_features, d = in_features, segments p, q of k/n outputs o and d/n inputs c, and A, S, H, b as
    in the paper (equation 4). kd/n + n³ parameters. With n=1 it is `nn.Linear`.

    H starts with the variance of `nn.Linear`'s weight: S is drawn uniformly, made orthogonal over its terms,
    and scaled so that the realised H has the mean square 1/(3d) exactly. See `onenth.nn.init` for others.

    Args:
        in_features, out_features, bias, device, dtype: as for `nn.Linear`.
        n: number of segments, or (n_out, n_in). May be left out where the rule says it.
        rule: "learned", "diagonal", an algebra by name ("quaternion", "complex", "clifford(2,0)", …), an
            `Algebra`, a tensor (terms, n_out, n_in), or a `Rule`, which several layers may share.
        rank: learn the rule as this many products (1 to n²): R/n² of the arithmetic.
        terms: number of components, n where it is left out.
        component_rank: ρ, for components S_i = s_i t_iᵀ of rank ρ, s (terms, k/n, ρ) and t (terms, ρ, d/n).

    Example:
        >>> layer = PHMLinear(512, 2048, n=4)
        >>> layer(torch.randn(8, 512)).shape
        torch.Size([8, 2048])
        >>> sum(p.numel() for p in layer.parameters())
        264256
    """

    rule: Rule
    S: nn.Parameter
    s: nn.Parameter
    t: nn.Parameter
    bias: nn.Parameter | None
    _frozen: Frozen | None = None
    weight_alone = False  # whether H is all that is asked of it, by what computes with it otherwise

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        n: int | tuple[int, int] | None = None,
        rule: str | Rule | Algebra | Tensor = "learned",
        rank: int | None = None,
        terms: int | None = None,
        component_rank: int | None = None,
    ) -> None:
        super().__init__()
        check_arguments(in_features, out_features, bias)
        self._owns_rule = not isinstance(rule, Rule)
        self.rule = Rule.of(rule, n, terms=terms, rank=rank, device=device, dtype=dtype)
        if not self._owns_rule:
            device, dtype = placed(self.rule, device, dtype)
        self.in_features, self.out_features, self.component_rank = in_features, out_features, component_rank
        o, c = segment_sizes(self)
        shapes = {"S": (self.rule.terms, o, c)}
        if component_rank is not None:
            check_component_rank(component_rank, o, c)
            shapes = {"s": (self.rule.terms, o, component_rank), "t": (self.rule.terms, component_rank, c)}
        for name, shape in shapes.items():
            setattr(self, name, nn.Parameter(torch.empty(shape, device=device, dtype=dtype)))
        self.bias = nn.Parameter(torch.empty(out_features, device=device, dtype=dtype)) if bias else None
        self._draw()

    def forward(self, x: Tensor) -> Tensor:
        """y (…, out_features) of x (…, in_features)."""
        check_input(self, x)
        held = None if self._frozen is None else self._frozen.current(self, x)
        S = self.components() if held is None else held.S
        return ops.product(self.rule, S, x, self.bias, held)

    def components(self) -> Tensor:
        """S (terms, k/n, d/n)."""
        if self.component_rank is None:
            return self.S
        with autocast_off(self.s):
            return self.s @ self.t

    @property
    def n(self) -> int | tuple[int, int]:
        return self.rule.n

    @property
    def rank(self) -> int | None:
        return self.rule.rank

    @property
    def weight(self) -> Tensor:
        """H (out_features, in_features), computed now; differentiable, read-only."""
        H = ops.weight(self.rule, self.components())
        return H if _traced() else H.as_subclass(DerivedWeight)

    @weight.deleter
    def weight(self) -> None:
        raise TypeError(".weight is computed from the rule and the components and cannot be removed")

    def train(self, mode: bool = True) -> Self:
        """As in any module; training undoes `onenth.freeze`."""
        if mode:
            self.thaw()
        return super().train(mode)

    def thaw(self) -> None:
        """Forgets what `onenth.freeze` keeps; what learned before learns again."""
        if self._frozen is not None:
            for name in self._frozen.learned:
                self.get_parameter(name).requires_grad_(True)
            self._frozen = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self._frozen is not None:  # a copy, with parameters of its own
            self._frozen.mark(self)

    def reset_parameters(self) -> None:
        """Draws everything anew, a rule only where this layer made it: a rule handed in is its owner's."""
        if self._owns_rule:
            self.rule.reset_parameters()
        self._draw()

    def _draw(self) -> None:
        init.kaiming_uniform_(self, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features)
            nn.init.uniform_(self.bias, -bound, bound)

    @classmethod
    def from_linear(cls, linear: nn.Linear, **options: Any) -> Self:
        """The nearest layer to a dense one, in the Frobenius norm; takes the options of the constructor.

        Learned, diagonal and fixed rules are closed forms and optimal; with rank or component_rank it
        descends from there, and `onenth.nearest` reports how far from the bound it ends. A `Rule` is taken
        as it is. The bias is copied.
        """
        if not isinstance(linear, nn.Linear):
            raise TypeError(f"from_linear takes an nn.Linear, not {type(linear).__name__}")
        if taken := options.keys() & {"bias", "device", "dtype"}:
            raise TypeError(
                f"from_linear takes {', '.join(sorted(taken))} from the dense layer: leave it out"
            )
        weight, bias = linear.weight, linear.bias
        layer = cls(
            linear.in_features,
            linear.out_features,
            bias=bias is not None,
            device=weight.device,
            dtype=weight.dtype,
            **options,
        )
        found = fit.nearest_with(layer.rule, weight, layer.component_rank, keep=not layer._owns_rule)
        with torch.no_grad():
            for name, value in found.values.items():
                layer.get_parameter(name).copy_(value)
            if layer.bias is not None:
                layer.bias.copy_(bias)
        return layer

    def to_linear(self) -> nn.Linear:
        """The dense layer with the weight H, exactly."""
        H = self.weight.detach()
        linear = nn.Linear(self.in_features, self.out_features, self.bias is not None, H.device, H.dtype)
        with torch.no_grad():
            linear.weight.copy_(H)
            if self.bias is not None:
                linear.bias.copy_(self.bias)
        return linear

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "weight":
            raise TypeError(
                ".weight is computed from the rule and the components and cannot be assigned: "
                "use PHMLinear.from_linear to convert a dense weight, or change .S and .rule"
            )
        super().__setattr__(name, value)

    def extra_repr(self) -> str:
        sizes = f"in_features={self.in_features}, out_features={self.out_features}"
        low = "" if self.component_rank is None else f", component_rank={self.component_rank}"
        return f"{sizes}, bias={self.bias is not None}{low}"

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """As in any module, but all or nothing: a state that does not fit changes nothing."""
        check_state(self, state_dict, strict=strict)
        return super().load_state_dict(state_dict, strict, assign)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        check_state(self, state_dict, prefix, strict=False)  # what is missing, torch reports to the model
        super()._load_from_state_dict(state_dict, prefix, *rest)


class QuaternionLinear(PHMLinear):
    """`PHMLinear` with the Hamilton product: a quarter of the parameters, nothing about the rule is learned.

    Example:
        >>> QuaternionLinear(512, 2048)(torch.randn(8, 512)).shape
        torch.Size([8, 2048])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype, rule="quaternion", **options)


class ComplexLinear(PHMLinear):
    """`PHMLinear` with complex multiplication; features are all real parts, then all imaginary parts.

    Example:
        >>> ComplexLinear(512, 2048)(torch.randn(8, 512)).shape
        torch.Size([8, 2048])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype, rule="complex", **options)


def _traced() -> bool:
    """Whether a compiler or transform reads along: it gets H as an ordinary tensor."""
    return torch.compiler.is_compiling() or ops.transformed()

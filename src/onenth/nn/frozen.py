"""What a frozen layer keeps of its weights, and how it notices that they have changed since."""

import warnings
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from onenth.bilinear import Algorithm
from onenth.ops.bilinear import components
from onenth.ops.dense import build
from onenth.ops.dispatch import Held
from onenth.precision import autocast_dtype

if TYPE_CHECKING:
    from onenth.nn.linear import PHMLinear


class Kept(NamedTuple):
    """What to keep beside the rule's tensor: H, and S̃ with the factors it belongs to."""

    H: bool
    algorithm: Algorithm | None  # for a rule that is not learned as factors
    products: bool


class Frozen:
    """The weights of a layer, computed once.

    In use it compares the layer's parameters with what they were: their memory, their version, which torch
    counts up with every write it sees, and whether they learn. A write through `.data` is one it does not
    see; `differs` computes everything again and finds it.
    """

    def __init__(self, layer: "PHMLinear", kept: Kept, learned: tuple[str, ...]) -> None:
        self.kept, self.learned = kept, learned  # names of the parameters that learned before
        self.held = _hold(layer, kept)
        self._lowered: dict[torch.dtype, Held] = {}
        self.mark(layer)

    def mark(self, layer: "PHMLinear") -> None:
        """Takes the layer's parameters as they are now for those that everything was computed from."""
        self._seen = _seen(layer)

    def current(self, layer: "PHMLinear", x: Tensor) -> Held | None:
        """What is kept, in the precision at hand; nothing where it is out of date, with a warning."""
        if torch.compiler.is_compiling():  # a program sees no versions
            return self.held
        if _seen(layer) != self._seen:
            layer.thaw()
            warnings.warn(
                f"the weights of a frozen {type(layer).__name__}({layer.in_features}, {layer.out_features}) "
                "have changed: it computes with the new ones, unfrozen, until onenth.freeze is called again",
                stacklevel=4,
            )
            return None
        dtype = autocast_dtype(x)
        if dtype is None or dtype == self.held.A.dtype:
            return self.held
        if dtype not in self._lowered:
            self._lowered[dtype] = _lower(self.held, dtype)
        return self._lowered[dtype]

    def differs(self, layer: "PHMLinear") -> bool:
        """Whether the weights give anything else than what is kept."""
        now = _hold(layer, self.kept)
        pairs = zip(now, self.held, strict=True)
        return any(isinstance(one, Tensor) and not torch.equal(one, other) for one, other in pairs)  # type: ignore[arg-type]

    @property
    def nbytes(self) -> int:
        """Memory that is kept beside the parameters."""
        own = [tensor for held in (self.held, *self._lowered.values()) for tensor in (held.H, held.right)]
        return sum(tensor.nbytes for tensor in own if tensor is not None)


@torch.no_grad()
def _hold(layer: "PHMLinear", kept: Kept) -> Held:
    rule, S = layer.rule, layer.components().detach()
    A = rule.tensor().detach().to(S.dtype).permute(1, 2, 0).contiguous().permute(2, 0, 1)  # as decoding mixes
    H = build(A, S) if kept.H else None
    if not kept.products:
        return Held(A, S, H)
    if kept.algorithm is None:
        factors, certificate = rule.factors(), None
        assert factors is not None
    else:
        factors, certificate = kept.algorithm
    U, V, W = (None if M is None else M.detach().to(S) for M in factors)
    assert U is not None
    right = components(W, S)
    return Held(A, S, H, U.clone(), None if V is None else V.clone(), right, certificate)


def _lower(held: Held, dtype: torch.dtype) -> Held:
    return held._replace(**{
        name: value.to(dtype) for name in ("S", "H", "right") if (value := getattr(held, name)) is not None
    })  # fmt: skip


def _seen(layer: "PHMLinear") -> list[tuple[int, int, bool]]:
    own = [p for name, p in layer._parameters.items() if name != "bias"]
    parts = [*own, *layer.rule._parameters.values(), *layer.rule._buffers.values()]
    return [(p.data_ptr(), p._version, p.requires_grad) for p in parts if p is not None]

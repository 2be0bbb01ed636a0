"""The weight of a layer that has none: H, computed anew each time it is read, and therefore read-only."""

from typing import Any, NoReturn

import torch
from torch import Tensor


class DerivedWeight(Tensor):
    """H as a tensor that can be read and differentiated, and refuses to be written.

    Writing into it would change a temporary and leave the layer as it was; `torch.nn.init` and optimisers
    must not fail that way. What shares its memory refuses as well; any other result is a plain tensor.
    """

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        source = args[0] if args else kwargs.get("input", kwargs.get("tensor"))
        written = [*_each(kwargs.get("out")), *(_each(source) if _writes(func, kwargs) else ())]
        if any(isinstance(tensor, cls) for tensor in written):
            _refuse()
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **kwargs)
        if not isinstance(source, cls):
            return result
        if type(result) in (tuple, list):  # chunks, rows
            return type(result)(_guarded(part, source) for part in result)
        return _guarded(result, source)

    def _in_place(self, other: Any) -> NoReturn:
        """Torch would take the refusal as a hint to compute `weight = weight + other` instead."""
        _refuse()

    __iadd__ = __isub__ = __imul__ = __itruediv__ = __ifloordiv__ = __imod__ = __ipow__ = _in_place  # type: ignore[assignment]
    __iand__ = __ior__ = __ixor__ = __ilshift__ = __irshift__ = _in_place

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return self.detach().clone()


def _refuse() -> NoReturn:
    raise TypeError(
        ".weight is computed from the rule and the components, so writing to it changes nothing: "
        "use onenth.nn.init to initialise, PHMLinear.from_linear to convert, or change .S and .rule"
    )


def _writes(func: Any, kwargs: dict[str, Any]) -> bool:
    name = getattr(func, "__name__", "")
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or name in ("__setitem__", "__set__") or bool(kwargs.get("inplace"))


def _each(value: Any) -> Any:
    """The tensors of an argument that is one or holds several."""
    return value if isinstance(value, tuple | list) else (value,)


def _guarded(result: Any, source: DerivedWeight) -> Any:
    """The result, read-only where it shares its memory with the weight."""
    if not isinstance(result, Tensor) or result.layout != torch.strided:
        return result
    shared = result.untyped_storage().data_ptr() == source.untyped_storage().data_ptr()
    return result.as_subclass(DerivedWeight) if shared else result

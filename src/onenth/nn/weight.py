"""The weight of a layer that has none: H, computed anew each time it is read, and therefore read-only."""

from typing import Any

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
        written = [kwargs.get("out"), *(args[:1] or [kwargs.get("tensor")] if _writes(func) else ())]
        if any(isinstance(tensor, cls) for tensor in written):
            raise TypeError(
                ".weight is computed from the rule and the components, so writing to it changes nothing: "
                "use onenth.nn.init to initialise, PHMLinear.from_linear to convert, or change .S and .rule"
            )
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **kwargs)
        source = args[0] if args else None
        if isinstance(source, cls) and isinstance(result, Tensor) and _shares_memory(result, source):
            return result.as_subclass(cls)
        return result

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return self.detach().clone()


def _writes(func: Any) -> bool:
    name = getattr(func, "__name__", "")
    return (name.endswith("_") and not name.endswith("__")) or name in ("__setitem__", "__set__")


def _shares_memory(result: Tensor, source: Tensor) -> bool:
    if result.layout != torch.strided:
        return False
    return result.untyped_storage().data_ptr() == source.untyped_storage().data_ptr()

"""Three ways to run a path, one result.

eager        an autograd.Function, so that only the inputs are saved and never H; its backward is made of
             differentiable operations where it may be differentiated again
compiled     a custom op: a compiler cannot look inside and keep H alive between forward and backward
transformed  the plain formula, where functorch, forward mode or export must see every operation
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C._functorch import is_legacy_batchedtensor  # gradients batched by torch.autograd.grad
from torch.autograd import forward_ad

Formula = Callable[..., Any]  # (*inputs) -> the output, or (output, *extras the backward can use)
Gradient = Callable[..., Sequence[Tensor | None]]  # (grads, saved, needs) -> a gradient for each input


class Kernel(NamedTuple):
    """A formula and its gradient, computed in place: fast, and not to be differentiated themselves."""

    formula: Formula
    gradient: Gradient


class Path:
    """A formula with a hand-written gradient.

    `formula(*inputs)` takes tensors or None and returns the output, or a tuple of it and further results
    to save. `gradient(grads, saved, needs)` gets the gradients of these results, the inputs followed by the
    further results, and which inputs need a gradient. Both are plain operations that torch can
    differentiate; `kernels` holds for a type of device what does the same faster.
    """

    def __init__(
        self,
        name: str,
        signature: str,
        formula: Formula,
        gradient: Gradient,
        kernels: dict[str, Kernel] | None = None,
    ) -> None:
        self.name, self._plain, self._kernels = name, Kernel(formula, gradient), kernels or {}
        self.op = _custom_op(self, signature)

    def __call__(self, *inputs: Tensor | None) -> Tensor:
        """The output for these inputs, run the way the surroundings ask for."""
        if transformed() or torch.compiler.is_exporting():
            return _tuple(self._plain.formula(*inputs))[0]
        if torch.compiler.is_compiling():
            return _tuple(self.op(*inputs))[0]
        if torch.is_grad_enabled():
            return _tuple(_Eager.apply(self, *inputs))[0]
        return _tuple(self.on(inputs).formula(*inputs))[0]

    def on(self, tensors: Sequence[Any]) -> Kernel:
        """What computes this where the tensors are; only plain operations where each is to be seen."""
        found = [tensor for tensor in tensors if tensor is not None]
        if torch.is_grad_enabled() or transformed() or any(map(is_legacy_batchedtensor, found)):
            return self._plain
        return self._kernels.get(found[0].device.type, self._plain)


def transformed() -> bool:
    """Whether functorch or forward mode is at work: both need the derivative of every operation."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


class _Eager(torch.autograd.Function):
    @staticmethod
    def forward(path: Path, *inputs: Tensor | None) -> Any:
        return path.on(inputs).formula(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.path, *tensors = inputs
        _save(ctx, tensors, output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        needs = ctx.needs_input_grad[1:]
        if all(grad is None for grad in grads):
            return (None, *[None] * len(needs))
        saved = ctx.saved_tensors
        return None, *ctx.path.on((*grads, *saved)).gradient(grads, saved, needs)


def _custom_op(path: Path, signature: str) -> Callable[..., Any]:
    def run(*inputs: Tensor | None) -> Any:
        with torch.no_grad():
            return path.on(inputs).formula(*inputs)

    forward = torch.library.custom_op(f"onenth::{path.name}", run, mutates_args=(), schema=signature)
    forward.register_fake(path._plain.formula)

    def needed(gradient: Gradient, grads: Any, saved: Any, needs: Any) -> list[Tensor]:
        return [grad for grad in gradient(grads, saved, needs) if grad is not None]

    def run_gradient(grads: Any, saved: Any, needs: Any) -> list[Tensor]:
        with torch.no_grad():
            return needed(path.on(saved).gradient, grads, saved, needs)

    backward = torch.library.custom_op(
        f"onenth::{path.name}_backward",
        run_gradient,
        mutates_args=(),
        schema="(Tensor?[] grads, Tensor?[] saved, bool[] needs) -> Tensor[]",
    )
    backward.register_fake(lambda *given: needed(path._plain.gradient, *given))

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _save(ctx, inputs, output)

    def run_backward(ctx: Any, *grads: Tensor | None) -> Any:
        needs = list(ctx.needs_input_grad)
        found = iter(backward(list(grads), list(ctx.saved_tensors), needs))
        return tuple(next(found) if need else None for need in needs)

    forward.register_autograd(run_backward, setup_context=setup_context)
    return forward


def _save(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs, *_tuple(output)[1:])


def _tuple(output: Any) -> tuple[Tensor, ...]:
    return output if isinstance(output, tuple) else (output,)

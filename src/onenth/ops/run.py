"""Three ways to run a path, one result.

eager        an autograd.Function, so that only the inputs are saved and never H; its backward is made of
             differentiable operations, so it can be differentiated again
compiled     a custom op: a compiler cannot look inside and keep H alive between forward and backward
transformed  the plain formula, where functorch, forward mode or export must see every operation
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

Formula = Callable[..., Any]  # (*inputs) -> the output, or (output, *extras the backward can use)
Gradient = Callable[..., Sequence[Tensor | None]]  # (grads, saved, needs) -> a gradient for each input


class Path:
    """A formula with a hand-written gradient.

    `formula(*inputs)` takes tensors or None and returns the output, or a tuple of it and further results
    worth saving. `gradient(grads, saved, needs)` gets the gradients of these results, the inputs followed
    by the further results (None where they were not kept), and which inputs need a gradient.
    `keep(needs)` says whether the further results are worth keeping.
    """

    def __init__(
        self,
        name: str,
        signature: str,
        formula: Formula,
        gradient: Gradient,
        keep: Callable[[Sequence[bool]], bool] = lambda needs: False,
    ) -> None:
        self.name, self.formula, self.gradient, self.keep = name, formula, gradient, keep
        self.op = _custom_op(self, signature)

    def __call__(self, *inputs: Tensor | None) -> Tensor:
        """The output for these inputs, run the way the surroundings ask for."""
        if transformed() or torch.compiler.is_exporting():
            return _tuple(self.formula(*inputs))[0]
        if torch.compiler.is_compiling():
            return _tuple(self.op(*inputs))[0]
        return _tuple(_Eager.apply(self, *inputs))[0]


def transformed() -> bool:
    """Whether functorch or forward mode is at work: both need the derivative of every operation."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


class _Eager(torch.autograd.Function):
    @staticmethod
    def forward(path: Path, *inputs: Tensor | None) -> Any:
        return path.formula(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.path, *tensors = inputs
        _save(ctx, ctx.path, tensors, output, ctx.needs_input_grad[1:])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        needs = ctx.needs_input_grad[1:]
        if all(grad is None for grad in grads):
            return (None, *[None] * len(needs))
        return None, *ctx.path.gradient(grads, ctx.saved_tensors, needs)


def _custom_op(path: Path, signature: str) -> Callable[..., Any]:
    forward = torch.library.custom_op(f"onenth::{path.name}", path.formula, mutates_args=(), schema=signature)
    forward.register_fake(path.formula)

    def needed(grads: Any, saved: Any, needs: Any) -> list[Tensor]:
        return [grad for grad in path.gradient(grads, saved, needs) if grad is not None]

    backward = torch.library.custom_op(
        f"onenth::{path.name}_backward",
        needed,
        mutates_args=(),
        schema="(Tensor?[] grads, Tensor?[] saved, bool[] needs) -> Tensor[]",
    )
    backward.register_fake(needed)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _save(ctx, path, inputs, output, ctx.needs_input_grad)

    def run_backward(ctx: Any, *grads: Tensor | None) -> Any:
        needs = list(ctx.needs_input_grad)
        found = iter(backward(list(grads), list(ctx.saved_tensors), needs))
        return tuple(next(found) if need else None for need in needs)

    forward.register_autograd(run_backward, setup_context=setup_context)
    return forward


def _save(ctx: Any, path: Path, inputs: Sequence[Any], output: Any, needs: Sequence[bool]) -> None:
    keep = path.keep(needs)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs, *(extra if keep else None for extra in _tuple(output)[1:]))


def _tuple(output: Any) -> tuple[Tensor, ...]:
    return output if isinstance(output, tuple) else (output,)

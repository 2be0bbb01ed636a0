"""The weights of recurrent layers: a PHM layer for each gate, all of them built together."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from onenth.nn import init
from onenth.nn.linear import PHMLinear
from onenth.precision import autocast_off

SHORT = 2**20  # elements of a weight up to which it is made together with others of its shape, in fewer calls

Make = Callable[[int, int], PHMLinear]  # (in_features, out_features) -> a layer without bias
Stack = list[PHMLinear]  # layers of one shape whose outputs, one after the other, are a weight's rows


class Weights(NamedTuple):
    """The dense weights of one direction of one layer, their rows in the order of the gates."""

    input: Tensor  # (gates·h, d)
    hidden: Tensor  # (gates·h, h), or (gates·h, p) with a projection
    bias: Tensor | None  # (gates·h)
    projection: Tensor | None = None  # (p, h)

    def matrices(self) -> list[Tensor]:
        return [self.input, self.hidden, *([] if self.projection is None else [self.projection])]

    def flat(self) -> list[Tensor]:
        """In torch's order, with the second bias that torch's kernels ask for."""
        biases = [] if self.bias is None else [self.bias, torch.zeros_like(self.bias)]
        return [self.input, self.hidden, *biases, *([] if self.projection is None else [self.projection])]


class Gates(nn.Module):
    """What one direction of one layer learns: PHM layers of the input and of the hidden state, one bias.

    With a layer for each gate they are `input.i`, `hidden.i` and so on; fused, `input` and `hidden` are one
    layer each, to all gates at once. `projection` makes the hidden state smaller, where it is asked for.
    """

    bias: nn.Parameter | None
    projection: PHMLinear | None

    def __init__(
        self, letters: str, sizes: tuple[int, int, int], bias: bool, make: Make, *, fused: bool
    ) -> None:
        super().__init__()
        input_size, hidden_size, proj_size = sizes
        self.hidden_size = hidden_size

        def to_gates(size: int) -> nn.Module:
            if fused:
                return make(size, len(letters) * hidden_size)
            return nn.ModuleDict({letter: make(size, hidden_size) for letter in letters})

        self.input, self.hidden = to_gates(input_size), to_gates(proj_size or hidden_size)
        self.projection = make(hidden_size, proj_size) if proj_size else None
        own = next(self.stacks()[0][0].parameters())
        self.bias = nn.Parameter(own.new_empty(len(letters) * hidden_size)) if bias else None

    def stacks(self) -> list[Stack]:
        """The layers of each weight: of the input, of the hidden state, and of a projection."""
        pair = [
            [part] if isinstance(part, PHMLinear) else list(part.children())
            for part in (self.input, self.hidden)
        ]
        return [*pair, *([] if self.projection is None else [[self.projection]])]  # type: ignore[list-item]

    def draw(self) -> None:
        """Weights with the variance of U(-1/√h, 1/√h), a bias from it; the rules stay as they are."""
        bound = 1 / math.sqrt(self.hidden_size)
        for stack in self.stacks():
            for layer in stack:
                init.uniform_(layer, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)


def weights(all_gates: Iterable[Gates], matrices: Callable[[Sequence[Stack]], list[Tensor]]) -> list[Weights]:
    """The weights of each, whose matrices are made in one go."""
    each = [(gates, gates.stacks()) for gates in all_gates]
    built = iter(matrices([stack for _, stacks in each for stack in stacks]))
    return [
        Weights(next(built), next(built), gates.bias, None if gates.projection is None else next(built))
        for gates, _ in each
    ]


def build(stacks: Sequence[Stack]) -> list[Tensor]:
    """The weight of each stack, H_1 … H_m one below the other; small ones of one shape in one product."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for index, stack in enumerate(stacks):
        first = stack[0]
        size = len(stack) * first.in_features * first.out_features
        alone = size > SHORT or first.rule.is_one  # which aligns memory, and so rounds, as nn.LSTM does
        own = (index,) if alone else (first.in_features, first.out_features)
        alike.setdefault((len(stack), *own), []).append(index)
    found: list[Tensor] = [torch.empty(0)] * len(stacks)
    for indices in alike.values():
        layers = [layer for index in indices for layer in stacks[index]]
        H = _build(layers).view(len(indices), -1, layers[0].in_features)
        for index, weight in zip(indices, H.unbind(), strict=True):
            found[index] = weight
    return found


def _build(layers: Stack) -> Tensor:
    """H of layers with the same sizes and kinds of rules, one below the other (g·k, d)."""
    S = _stack([layer.components() for layer in layers])  # (g, i, o, c)
    if layers[0].rule.is_one:
        return S.flatten(0, 2)
    rules = {layer.rule: layer.rule.tensor() for layer in layers}
    A = _stack(list(rules.values())).to(S.dtype)  # (g, i, p, q), or (1, i, p, q) where all share it
    if 1 < len(rules) < len(layers):
        A = _stack([rules[layer.rule] for layer in layers]).to(S.dtype)
    (g, _, o, c), (p, q) = S.shape, A.shape[2:]
    with autocast_off(S):
        blocks = A.flatten(2).mT @ S.flatten(2)  # (g, p·q, o·c)
    return blocks.view(g, p, q, o, c).transpose(2, 3).reshape(g * p * o, q * c)


def _stack(tensors: list[Tensor]) -> Tensor:
    return tensors[0][None] if len(tensors) == 1 else torch.stack(tensors)

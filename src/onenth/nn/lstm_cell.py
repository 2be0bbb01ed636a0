"""One step of an LSTM: four gates of input and hidden state, each a PHM layer."""

from collections.abc import Iterator
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from onenth.algebra import Algebra
from onenth.nn.gates import Gates, Weights
from onenth.nn.recurrent import Recurrent
from onenth.nn.recurrent_checks import (
    check_input,
    check_options,
    check_standard,
    check_state_pair,
    check_taken,
)
from onenth.rule import Rule

GATES = "ifgo"  # in torch's order; the paper's f, i, o, x' are f, i, o, g
Cell = Literal["standard", "paper"]
Rules = Literal["per_gate", "fused", "shared"]
State = tuple[Tensor, Tensor]


def paper_step(y: Tensor, c: Tensor) -> State:
    """h and c by the paper's equations, from the gates y = (i, f, g, o) before any activation."""
    i, f, g, o = y.chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o * c, c


class PHMLSTMCell(Recurrent):
    """`nn.LSTMCell` with one n-th of the parameters: one step of `PHMLSTM`.

        y = H x + H′ h + b        i, f, g, o = the four parts of y, each of the hidden size
        c ← σ(f) ⊙ c + σ(i) ⊙ tanh(g)        h ← σ(o) ⊙ tanh(c)        (cell="paper": h ← o ⊙ c)

    It builds its weights in every call; `PHMLSTM` does so once for a sequence. Arguments, options and start
    are those of `PHMLSTM`; input (batch, input_size) or (input_size), states alike.

    Example:
        >>> cell = PHMLSTMCell(300, 300, n=5)
        >>> h, c = cell(torch.randn(8, 300))
        >>> h, c = cell(torch.randn(8, 300), (h, c))
        >>> h.shape
        torch.Size([8, 300])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        n: int | tuple[int, int] | None = None,
        rule: str | Rule | Algebra | Tensor = "learned",
        rank: int | None = None,
        terms: int | None = None,
        component_rank: int | None = None,
        rules: Rules = "per_gate",
        cell: Cell = "standard",
    ) -> None:
        super().__init__()
        sizes = {"input_size": input_size, "hidden_size": hidden_size}
        check_options({**sizes}, {"bias": bias}, cell, rules)
        self.input_size, self.hidden_size, self.bias, self.cell = input_size, hidden_size, bias, cell
        options = {"n": n, "rule": rule, "rank": rank, "terms": terms, "component_rank": component_rank}
        make = self._prepare(sizes, rules, {**options, "device": device, "dtype": dtype})
        self.gates = Gates(GATES, (input_size, hidden_size, 0), bias, make, fused=rules == "fused")
        self._draw()

    def all_gates(self) -> Iterator[Gates]:
        yield self.gates

    def forward(self, input: Tensor, hx: State | None = None) -> State:
        """(h, c) after the input (batch, input_size) and the states (h, c) before it, zeros if left out."""
        check_input(self, input, (1, 2))
        shape = (*input.shape[:-1], self.hidden_size)
        if hx is None:
            zeros = input.new_zeros(shape)
            hx = zeros, zeros
        else:
            check_state_pair(self, hx, {"h": shape, "c": shape})
        [own] = self.weights(input)
        if self.cell == "paper":
            y = nn.functional.linear(input, own.input, own.bias) + nn.functional.linear(hx[0], own.hidden)
            return paper_step(y, hx[1])
        if input.dim() == 2:
            return torch.lstm_cell(input, tuple(hx), *own.flat())
        h, c = torch.lstm_cell(input[None], (hx[0][None], hx[1][None]), *own.flat())
        return h[0], c[0]

    @classmethod
    def from_lstm_cell(cls, dense: nn.LSTMCell, **options: Any) -> Self:
        """The nearest cell to a dense one; see `PHMLSTM.from_lstm`."""
        if not isinstance(dense, nn.LSTMCell):
            raise TypeError(f"from_lstm_cell takes an nn.LSTMCell, not {type(dense).__name__}")
        check_taken(options, {"bias", "device", "dtype"})
        own = dense.weight_ih
        cell = cls(
            dense.input_size, dense.hidden_size, dense.bias, device=own.device, dtype=own.dtype, **options
        )
        bias = dense.bias_ih + dense.bias_hh if dense.bias else None
        cell._fit([Weights(dense.weight_ih, dense.weight_hh, bias)])
        return cell

    @torch.no_grad()
    def to_lstm_cell(self) -> nn.LSTMCell:
        """The dense cell with these weights, exactly, and a second bias of zeros."""
        check_standard(self.cell)
        [own] = self.weights()
        place = {"device": own.input.device, "dtype": own.input.dtype}
        dense = nn.LSTMCell(self.input_size, self.hidden_size, self.bias, **place)
        for parameter, value in zip(dense.parameters(), own.flat(), strict=True):
            parameter.copy_(value)
        return dense

    def extra_repr(self) -> str:
        sizes = f"{self.input_size}, {self.hidden_size}"
        return f"{sizes}, bias={self.bias}, rules={self.rules!r}, cell={self.cell!r}"

"""The LSTM: gates of input and hidden state that are PHM layers, built once for a sequence."""

from collections.abc import Iterator
from typing import Any, Self, overload

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from onenth.algebra import Algebra
from onenth.nn.gates import Gates, Weights
from onenth.nn.lstm_cell import GATES, Cell, Rules, State
from onenth.nn.lstm_run import kernel, loop
from onenth.nn.recurrent import Recurrent
from onenth.nn.recurrent_checks import (
    check_dropout,
    check_options,
    check_sequence,
    check_standard,
    check_taken,
)
from onenth.rule import Rule


class PHMLSTM(Recurrent):
    """`nn.LSTM` with one n-th of the parameters: the linear maps of its gates are PHM layers.

        y_t = H x_t + H′ h_{t-1} + b        i, f, g, o = the four parts of y_t, each of the hidden size
        c_t = σ(f) ⊙ c_{t-1} + σ(i) ⊙ tanh(g)
        h_t = σ(o) ⊙ tanh(c_t)              cell="standard", that of nn.LSTM
        h_t = o ⊙ c_t                       cell="paper", as the paper prints it; its x′ is g

    The paper's PHM-LSTM, with one bias of 4h for each layer and direction where `nn.LSTM` has two. H and H′
    are built once for a sequence, by one product, and the standard cell then runs on the kernel of `nn.LSTM`:
    with n=1 it is `nn.LSTM` with b_hh = 0, to the bit. A low rank saves parameters here, not arithmetic.

    H, H′ and b start with the variance of `nn.LSTM`'s weights, that of U(-1/√h, 1/√h).

    Args:
        input_size, …, dtype: as for `nn.LSTM`; so are inputs, states and outputs. n divides all sizes.
        n, rule, rank, terms, component_rank: as for `PHMLinear`. A `Rule` is shared by all.
        rules: "per_gate" makes eight PHM layers for each layer and direction, four gates of input and hidden
            state, each with its own rule; "fused" one to all gates of the input and one of the hidden state;
            "shared" eight, with one rule for all of the module.
        cell: "standard" or "paper".

    Example:
        >>> lstm = PHMLSTM(300, 300, batch_first=True, n=5)
        >>> output, (h, c) = lstm(torch.randn(8, 20, 300))
        >>> output.shape
        torch.Size([8, 20, 300])
        >>> sum(p.numel() for p in lstm.parameters())
        146200
    """

    _uncompiled: Any = None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
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
        sizes = {"input_size": input_size, "hidden_size": hidden_size, "proj_size": proj_size}
        switches = {"bias": bias, "batch_first": batch_first, "bidirectional": bidirectional}
        check_options({**sizes, "num_layers": num_layers}, {**switches}, cell, rules)
        check_dropout(dropout, num_layers)
        if proj_size >= hidden_size:
            raise ValueError(f"proj_size={proj_size} must be smaller than hidden_size={hidden_size}")
        self.input_size, self.hidden_size = input_size, hidden_size
        self.num_layers, self.bias = num_layers, bias
        self.batch_first, self.dropout, self.bidirectional = batch_first, float(dropout), bidirectional
        self.proj_size, self.cell = proj_size, cell
        options = {"n": n, "rule": rule, "rank": rank, "terms": terms, "component_rank": component_rank}
        sizes = {name: size for name, size in sizes.items() if size}
        make = self._prepare(sizes, rules, {**options, "device": device, "dtype": dtype})
        directions = 1 + bidirectional
        inputs = [input_size] + [directions * (proj_size or hidden_size)] * (num_layers - 1)

        def layers() -> nn.ModuleList:
            return nn.ModuleList(
                Gates(GATES, (size, hidden_size, proj_size), bias, make, fused=rules == "fused")
                for size in inputs
            )

        self.layers = layers()
        self.reverse = layers() if bidirectional else None
        self._draw()

    def all_gates(self) -> Iterator[Gates]:
        for index, own in enumerate(self.layers):
            yield own  # type: ignore[misc]
            if self.reverse is not None:
                yield self.reverse[index]  # type: ignore[misc]

    @overload
    def forward(self, input: Tensor, hx: State | None = None) -> tuple[Tensor, State]: ...
    @overload
    def forward(self, input: PackedSequence, hx: State | None = None) -> tuple[PackedSequence, State]: ...
    def forward(self, input: Any, hx: State | None = None) -> Any:
        """The output and the last states (h, c) of an input (step, batch, input_size), as of `nn.LSTM`."""
        traced = torch.compiler.is_compiling() and not torch.compiler.is_exporting()
        if traced and (self.cell == "standard" or isinstance(input, PackedSequence)):
            _make_uncompiled()
            return self._uncompiled(input, hx)
        return self._forward(input, hx)

    def _forward(self, input: Any, hx: State | None) -> Any:
        check_sequence(self, input, hx)
        if isinstance(input, PackedSequence):
            return self._packed(input, hx)
        if input.dim() == 3:
            return self._run(input, None, hx)
        x = input.unsqueeze(0 if self.batch_first else 1)
        output, states = self._run(x, None, None if hx is None else (hx[0][:, None], hx[1][:, None]))
        return output.squeeze(0 if self.batch_first else 1), (states[0][:, 0], states[1][:, 0])

    def _packed(self, input: PackedSequence, hx: State | None) -> tuple[PackedSequence, State]:
        x, batch_sizes, order, back = input
        if hx is not None and order is not None:
            hx = hx[0].index_select(1, order), hx[1].index_select(1, order)
        output, states = self._run(x, batch_sizes, hx)
        if back is not None:
            states = states[0].index_select(1, back), states[1].index_select(1, back)
        return PackedSequence(output, batch_sizes, order, back), states

    def _run(self, x: Tensor, batch_sizes: Tensor | None, hx: State | None) -> tuple[Tensor, State]:
        if hx is None:
            batch = x.shape[int(not self.batch_first)] if batch_sizes is None else int(batch_sizes[0])
            states = self.num_layers * (1 + self.bidirectional)
            hx = (
                x.new_zeros(states, batch, self.proj_size or self.hidden_size),
                x.new_zeros(states, batch, self.hidden_size),
            )
        run = kernel if self.cell == "standard" else loop
        how = self.num_layers, self.dropout, self.training, self.batch_first
        output, h, c = run(x, batch_sizes, (hx[0], hx[1]), self.weights(x), *how)
        return output, (h, c)

    def flatten_parameters(self) -> None:
        """Nothing: the weights are built in one piece of memory, where cuDNN looks for them."""

    @classmethod
    def from_lstm(cls, lstm: nn.LSTM, **options: Any) -> Self:
        """The nearest LSTM to a dense one, gate by gate in the Frobenius norm; takes n, rule, rank and so on.

        See `PHMLinear.from_linear` for what is optimal; a rule shared by all gates is the best for all. The
        two biases are added.
        """
        if not isinstance(lstm, nn.LSTM):
            raise TypeError(f"from_lstm takes an nn.LSTM, not {type(lstm).__name__}")
        check_taken(options, {*_TAKEN, "device", "dtype"})
        own = next(lstm.parameters())
        made = cls(
            **{name: getattr(lstm, name) for name in _TAKEN}, device=own.device, dtype=own.dtype, **options
        )
        made._fit([_dense(lstm, suffix) for suffix in made._suffixes()])
        return made.train(lstm.training)

    @torch.no_grad()
    def to_lstm(self) -> nn.LSTM:
        """The dense LSTM with these weights, exactly, and second biases of zeros."""
        check_standard(self.cell)
        dense = self.weights()
        place = {"device": dense[0].input.device, "dtype": dense[0].input.dtype}
        lstm = nn.LSTM(**{name: getattr(self, name) for name in _TAKEN}, **place)
        values = [value for own in dense for value in own.flat()]
        for parameter, value in zip(lstm.parameters(), values, strict=True):
            parameter.copy_(value)
        return lstm.train(self.training)

    def _suffixes(self) -> list[str]:
        """Of the names of `nn.LSTM`'s parameters, for each layer and direction."""
        ends = ("", "_reverse") if self.bidirectional else ("",)
        return [f"l{layer}{end}" for layer in range(self.num_layers) for end in ends]

    def extra_repr(self) -> str:
        named = ", ".join(f"{name}={getattr(self, name)}" for name in _TAKEN[2:])
        return f"{self.input_size}, {self.hidden_size}, {named}, rules={self.rules!r}, cell={self.cell!r}"


def _make_uncompiled() -> None:
    """Has a compiled program call `_forward` instead of tracing it, as it calls nn.LSTM.

    It would otherwise be as long as the sequence, and another one for each length. Done when a program is
    made, because `torch.compiler.disable` imports the compiler.
    """
    if PHMLSTM._uncompiled is None:
        PHMLSTM._uncompiled = torch.compiler.disable(PHMLSTM._forward)


_make_uncompiled._dynamo_marked_constant = True  # type: ignore[attr-defined]


_TAKEN = (
    "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional", "proj_size",
)  # fmt: skip


def _dense(lstm: nn.LSTM, suffix: str) -> Weights:
    bias = None
    if lstm.bias:
        bias = getattr(lstm, f"bias_ih_{suffix}") + getattr(lstm, f"bias_hh_{suffix}")
    projection = getattr(lstm, f"weight_hr_{suffix}") if lstm.proj_size else None
    return Weights(
        getattr(lstm, f"weight_ih_{suffix}"), getattr(lstm, f"weight_hh_{suffix}"), bias, projection
    )

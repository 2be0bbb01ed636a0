"""A sequence through an LSTM whose weights are there: torch's kernel, or a loop over the paper's equations.

Sequences are (step, batch, feature), or packed: (row, feature) with the number of rows of each step, which
never grows. States are (layer·direction, batch, feature). Both return the sequence and the last states.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from onenth.nn.gates import Weights
from onenth.nn.lstm_cell import State, paper_step


def kernel(
    x: Tensor,
    batch_sizes: Tensor | None,
    hx: State,
    weights: Sequence[Weights],
    layers: int,
    dropout: float,
    training: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The cell of nn.LSTM, by what computes nn.LSTM."""
    flat = [tensor for own in weights for tensor in own.flat()]
    if x.is_cuda:
        flat = one_chunk(flat)
    bias, bidirectional = weights[0].bias is not None, len(weights) == 2 * layers
    if batch_sizes is None:
        return torch.lstm(x, hx, flat, bias, layers, dropout, training, bidirectional, batch_first)
    return torch.lstm(x, batch_sizes, hx, flat, bias, layers, dropout, training, bidirectional)


def loop(
    x: Tensor,
    batch_sizes: Tensor | None,
    hx: State,
    weights: Sequence[Weights],
    layers: int,
    dropout: float,
    training: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The paper's cell, step by step."""
    directions = len(weights) // layers
    if batch_sizes is None:
        x = x.transpose(0, 1) if batch_first else x
        rows, sizes = x.flatten(0, 1), [x.shape[1]] * x.shape[0]
    else:
        rows, sizes = x, batch_sizes.tolist()
    last: list[State] = []
    for layer in range(layers):
        found = []
        for direction in range(directions):
            index = layer * directions + direction
            y, state = _direction(rows, sizes, (hx[0][index], hx[1][index]), weights[index], direction == 1)
            found.append(y)
            last.append(state)
        rows = torch.cat(found, dim=-1)
        if layer < layers - 1:
            rows = F.dropout(rows, dropout, training)
    h, c = (torch.stack(states) for states in zip(*last, strict=True))
    if batch_sizes is not None:
        return rows, h, c
    y = rows.unflatten(0, (len(sizes), sizes[0]))
    return y.transpose(0, 1) if batch_first else y, h, c


def _direction(
    rows: Tensor, sizes: list[int], state: State, own: Weights, reverse: bool
) -> tuple[Tensor, State]:
    """Every row's h, and the last states; a row that a step does not have keeps the state it has."""
    h, c = state
    inputs = F.linear(rows, own.input, own.bias).split(sizes)
    found = []
    for y in reversed(inputs) if reverse else inputs:
        size = y.shape[0]
        new_h, new_c = paper_step(y + F.linear(h[:size], own.hidden), c[:size])
        if own.projection is not None:
            new_h = F.linear(new_h, own.projection)
        found.append(new_h)
        h, c = (_over(old, new) for old, new in ((h, new_h), (c, new_c)))
    return torch.cat(found[::-1] if reverse else found), (h, c)


def _over(old: Tensor, new: Tensor) -> Tensor:
    size = new.shape[0]
    return new if size == old.shape[0] else torch.cat([new, old[size:]])


def one_chunk(flat: Sequence[Tensor]) -> list[Tensor]:
    """The same in one piece of memory, all matrices and then all biases: where cuDNN looks for them.

    Anywhere else it would put them there itself, and warn.
    """
    order = sorted(range(len(flat)), key=lambda index: -flat[index].dim())
    chunk = torch.cat([flat[index].reshape(-1) for index in order])
    parts = chunk.split([flat[index].numel() for index in order])
    placed = {index: part.view_as(flat[index]) for index, part in zip(order, parts, strict=True)}
    return [placed[index] for index in range(len(flat))]

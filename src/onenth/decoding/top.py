"""The k largest of many logits, and drawing from many probabilities, each in two stages.

Columns are dealt into GROUP rows of a table, so that each of its columns is a block of GROUP entries. The k
largest entries lie in the k blocks with the largest maxima: one vectorised pass over all logits, and a
selection among V/GROUP maxima and k·GROUP entries.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

GROUP = 32
LARGE = 4096  # columns from which two stages are faster than one


def top(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """`torch.topk(logits, k)`, largest first; NaN counts as largest.

    Example:
        >>> values, columns = top(torch.arange(10_000.0)[None], 2)
        >>> columns
        tensor([[9999, 9998]])
    """
    rows, columns = logits.shape
    if logits.device.type != "cpu" or columns < max(LARGE, 4 * GROUP * k):
        return logits.topk(k)
    width = columns // GROUP
    blocks = logits[:, : GROUP * width].view(rows, GROUP, width).amax(1).topk(k).indices  # (rows, k)
    places = (blocks[:, None] + torch.arange(0, GROUP * width, width)[:, None]).flatten(1)
    if rest := columns - GROUP * width:
        places = torch.cat((places, torch.arange(columns - rest, columns).expand(rows, rest)), 1)
    values, chosen = logits.gather(1, places).topk(k)
    return values, places.gather(1, chosen)


def draw(probabilities: Tensor, generator: torch.Generator | None) -> Tensor:
    """One column (rows, 1) of each row, as often as its share says; never one with probability 0.

    Example:
        >>> draw(torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 5.0]]), None).tolist()
        [[1], [2]]
    """
    rows, columns = probabilities.shape
    if columns < LARGE:
        return _inverted(probabilities, generator)
    if columns % GROUP:
        probabilities = pad(probabilities, (0, -columns % GROUP))
    table = probabilities.view(rows, GROUP, -1)
    block = _inverted(table.sum(1, dtype=torch.float64), generator)
    within = table.gather(2, block[:, None].expand(rows, GROUP, 1)).squeeze(2)
    return _inverted(within, generator) * table.shape[2] + block


def _inverted(weights: Tensor, generator: torch.Generator | None) -> Tensor:
    """The first column up to which the weights exceed a uniform share of their sum."""
    sums = weights.cumsum(1, dtype=torch.float64)
    whole = sums[:, -1:]
    share = torch.rand(whole.shape, generator=generator, dtype=torch.float64, device=whole.device)
    point = torch.minimum(share * whole, torch.nextafter(whole, torch.zeros_like(whole)))
    return torch.searchsorted(sums, point, right=True)

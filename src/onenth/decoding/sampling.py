"""Sampling: tokens drawn as often as the model says, or nearly."""

import torch
from torch import Tensor

from onenth.decoding.checks import check_count, check_steps, check_temperature, check_top_p
from onenth.decoding.plan import Plan
from onenth.decoding.rows import follow
from onenth.decoding.steps import Decoded, Steps
from onenth.decoding.top import draw, top

FEW = 64  # tokens among which the nucleus is looked for first


@torch.no_grad()
def sample(
    steps: Steps,
    rows: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    bos: int | Tensor = 1,
    eos: int | None = 2,
    pad: int = 0,
    max_length: int | Tensor = 256,
    min_length: int = 0,
    stop_every: int | None = 1,
    device: torch.device | str | None = None,
) -> Decoded:
    """A text drawn for each row.

        token ~ softmax(logits / temperature), restricted to the top_k, then to the nucleus of top_p

    The nucleus is the smallest set of the likeliest tokens with a share of at least top_p of what top_k left.
    The score is log p under the model itself, at temperature 1 and without a restriction.

    Args:
        temperature: above 0.
        top_k: 1 to vocabulary; None: all.
        top_p: above 0, to 1; None or 1: all.
        generator: of random numbers, on the device; the same seed draws the same.

    The others are those of `greedy`.

    Example:
        >>> class Coin:
        ...     vocabulary = 4
        ...     def logits(self, tokens):
        ...         return torch.tensor([0, 0, 0.5, 0.5]).log().expand(len(tokens), 4)
        >>> found = sample(Coin(), 1000, eos=3, max_length=1, generator=torch.Generator().manual_seed(0))
        >>> found.tokens.unique(), found.scores[0, 0].exp()
        (tensor([2, 3]), tensor(0.5000))
    """
    check_steps(steps)
    check_temperature(temperature)
    if top_k is not None:
        check_count("top_k", top_k, 1, steps.vocabulary, "steps.vocabulary")
    if top_p is not None:
        check_top_p(top_p)
    plan = Plan.make(
        steps, ("rows", rows), 1, bos=bos, eos=eos, pad=pad, max_length=max_length,
        min_length=min_length, stop_every=stop_every, device=device,
    )  # fmt: skip

    def choose(logits: Tensor) -> Tensor:
        columns = None
        if top_k is not None:
            logits, columns = top(logits, top_k)
        shares = ((logits - logits.amax(1, keepdim=True)) / temperature).softmax(1)
        shares = shares.nan_to_num(1.0)  # of logits that are all −inf, or NaN: seen to by `follow`
        if top_p is not None and top_p < 1:
            shares, order = nucleus(shares, top_p)
            columns = order if columns is None else columns.gather(1, order)
        drawn = draw(shares, generator)
        return drawn if columns is None else columns.gather(1, drawn)

    return follow(steps, plan, choose)


def nucleus(shares: Tensor, top_p: float) -> tuple[Tensor, Tensor]:
    """The largest shares (rows, some) and their columns; 0 from where those before make up top_p."""
    columns = shares.shape[1]
    few = FEW if columns > FEW and shares.device.type == "cpu" else columns
    while True:
        largest, order = top(shares, few) if few < columns else shares.sort(1, descending=True)
        before = largest.cumsum(1, dtype=torch.float64) - largest
        if few == columns or bool((before[:, -1] >= top_p).all()):
            return largest.masked_fill(before >= top_p, 0), order
        few = columns // 8 if few < columns // 8 else columns

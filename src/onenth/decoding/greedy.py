"""Greedy decoding: the likeliest token at every step."""

import torch
from torch import Tensor

from onenth.decoding.plan import Plan
from onenth.decoding.rows import follow
from onenth.decoding.steps import Decoded, Steps
from onenth.decoding.top import top


@torch.no_grad()
def greedy(
    steps: Steps,
    rows: int,
    *,
    bos: int | Tensor = 1,
    eos: int | None = 2,
    pad: int = 0,
    max_length: int | Tensor = 256,
    min_length: int = 0,
    stop_every: int | None = 1,
    device: torch.device | str | None = None,
) -> Decoded:
    """The likeliest token at every step, for each row.

        score = log p, the sum over its tokens, eos included

    The arguments are those of `beam_search`, with one hypothesis for each row. The result is that of
    `beam_search` for beam=1 and alpha=0; with a larger alpha, a beam of one looks past its first end.

    Example:
        >>> class Chain:
        ...     vocabulary = 4
        ...     table = torch.tensor([[0, .6, .4, 0], [.2, .3, .1, .4], [0, 0, .1, .9], [0, 0, 0, 1]]).log()
        ...     def logits(self, tokens):
        ...         return self.table[tokens]
        >>> greedy(Chain(), 1, bos=0, eos=3)
        Decoded(tokens=tensor([[[1, 3]]]), scores=tensor([[-1.4271]]), lengths=tensor([[2]]))
    """
    plan = Plan.make(
        steps, ("rows", rows), 1, bos=bos, eos=eos, pad=pad, max_length=max_length,
        min_length=min_length, stop_every=stop_every, device=device,
    )  # fmt: skip
    return follow(steps, plan, lambda logits: top(logits, 1)[1])

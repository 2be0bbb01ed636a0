"""Decoding where each row is a text of its own: every step chooses one token for each."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from onenth.decoding.checks import checked, refuse
from onenth.decoding.plan import Plan
from onenth.decoding.steps import Decoded, Steps


def follow(steps: Steps, plan: Plan, choose: Callable[[Tensor], Tensor]) -> Decoded:
    """The tokens (rows, 1) that `choose` takes of the logits (rows, vocabulary), until all rows ended.

    A row that ended is given pad. A row without a possible token is one that does not exist.
    """
    rows, longest, device = plan.rows, plan.longest, plan.device
    tokens = torch.full((rows, longest), plan.pad, device=device)
    lengths = torch.zeros(rows, dtype=torch.int64, device=device)
    alive = torch.ones(rows, dtype=torch.bool, device=device)
    scores: Tensor | float = 0.0
    token, peaks = plan.bos, []
    for step in range(longest):
        logits = checked(steps.logits(token), rows, plan.vocabulary, device)
        peaks.append(logits.amax(1).masked_fill(~alive, 0))
        possible = logits if step + 1 >= plan.min_length else without(plan.eos, logits)
        chosen = choose(possible)  # (rows, 1)
        never = possible.gather(1, chosen) == -math.inf  # where all logits are, log_softmax is NaN
        logp = logits.log_softmax(1).gather(1, chosen).masked_fill(never, -math.inf).squeeze(1)
        scores = scores + logp.masked_fill(~alive, 0)
        token = chosen.squeeze(1).masked_fill(~alive, plan.pad)
        tokens[:, step] = token
        lengths += alive
        alive = alive & (token != plan.eos) & (step + 1 < plan.limits) & ~never.squeeze(1)
        if plan.tests(step):
            tested = torch.stack(peaks)
            going, broken = torch.stack((alive.any(), ~(tested < math.inf).all())).tolist()
            if broken:
                refuse(tested)
            if not going:
                break
    assert isinstance(scores, Tensor)
    lost = scores == -math.inf
    tokens, lengths = tokens.masked_fill_(lost[:, None], plan.pad), lengths.masked_fill_(lost, 0)
    return Decoded(tokens[:, None, : int(lengths.max())], scores[:, None], lengths[:, None])


def without(eos: int, logits: Tensor) -> Tensor:
    """Logits that do not end the text."""
    return logits if eos < 0 else logits.index_fill(1, torch.tensor(eos, device=logits.device), -math.inf)

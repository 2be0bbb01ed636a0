"""Beam search: the best of several hypotheses at once."""

import torch
from torch import Tensor

from onenth.decoding.beams import Beams
from onenth.decoding.checks import check_alpha, check_count, check_steps, checked, refuse
from onenth.decoding.plan import Plan
from onenth.decoding.steps import Decoded, Steps


@torch.no_grad()
def beam_search(
    steps: Steps,
    sentences: int,
    *,
    beam: int = 4,
    alpha: float = 0.6,
    n_best: int = 1,
    bos: int | Tensor = 1,
    eos: int | None = 2,
    pad: int = 0,
    max_length: int | Tensor = 256,
    min_length: int = 0,
    stop_every: int | None = 1,
    device: torch.device | str | None = None,
) -> Decoded:
    """The n best of what a beam search ends on, under the length penalty of GNMT.

        score = log p / ((5 + length) / 6)^α        length: tokens, without bos, with eos

    At each step, each of the `beam` hypotheses of a sentence goes on with every token. Of all these, those
    with eos have ended if they are among the `beam` likeliest, and the `beam` likeliest of the others go on.
    So an end never takes a place in the beam; the `beam` best ends of each sentence are kept beside it. After
    `max_length` tokens the `beam` likeliest end as they are, with an eos or without.

    A hypothesis on the way will score log p / ((5 + max_length) / 6)^α at most, since log p only falls: when
    n_best ends of a sentence score more than that, it is done. So stopping never changes the result, and a
    `max_length` close to what can be expected saves steps, most of all where alpha is large.

    Log-probabilities are computed in float32, or in float64 where the logits are. Tokens with logits of −inf
    are forbidden; a sentence with fewer than n_best possible texts has some that do not exist, see `Decoded`.

    Args:
        steps: a model of sentences·beam rows, those of a sentence beside each other.
        beam: hypotheses for each sentence.
        alpha: α ≥ 0; 0 ranks by log p alone.
        n_best: how many to return, at most beam.
        bos: the first token that the model is given, one for all or one for each sentence.
        eos, pad: the token that ends, or None; the token that fills up.
        max_length: the most tokens, eos included, for all or for each sentence.
        min_length: the fewest tokens, eos included.
        stop_every: steps between two tests for the end, at which the host waits for the device; None: no
            early stop. NaN logits are noticed there, too.
        device: where the model takes its tokens.

    Example: from 0 greedy decoding takes 1, then has to choose among ends of 0.3 each; 2 is better.
        >>> class Chain:
        ...     vocabulary = 4
        ...     table = torch.tensor([[0, .6, .4, 0], [.3, .3, .1, .3], [0, 0, .1, .9], [0, 0, 0, 1]]).log()
        ...     def logits(self, tokens):
        ...         return self.table[tokens]
        ...     def select(self, rows):
        ...         pass
        >>> found = beam_search(Chain(), 1, beam=2, alpha=0, n_best=2, bos=0, eos=3, max_length=2)
        >>> found.tokens.tolist(), [f"{p:.2f}" for p in found.scores.exp()[0]]
        ([[[2, 3], [1, 3]]], ['0.36', '0.18'])
    """
    check_steps(steps)
    check_count("beam", beam, 1, steps.vocabulary, "steps.vocabulary")
    check_count("n_best", n_best, 1, beam, "beam")
    plan = Plan.make(
        steps, ("sentences", sentences), beam, bos=bos, eos=eos, pad=pad, max_length=max_length,
        min_length=min_length, stop_every=stop_every, device=device,
    )  # fmt: skip
    check_alpha(alpha, plan.longest)
    tokens = plan.bos.repeat_interleave(beam)
    logits = checked(steps.logits(tokens), plan.rows, plan.vocabulary, plan.device)
    beams = Beams(plan, alpha, n_best, logits.dtype)
    for step in range(plan.longest):
        if step:
            logits = checked(steps.logits(tokens), plan.rows, plan.vocabulary, plan.device)
        beams.advance(logits)
        if plan.tests(step):
            done, broken = beams.stops(step)
            if broken:
                refuse(beams.peaks)
            if done:
                break
        rows, tokens = beams.following(step)
        if beam > 1 and not (rows.device.type == "cpu" and torch.equal(rows, beams.rows)):
            steps.select(rows)
    return beams.best()

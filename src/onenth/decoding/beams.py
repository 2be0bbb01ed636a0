"""The state of a beam search: what one step does to it, and what is read from it."""

import math

import torch
from torch import Tensor

from onenth.decoding.plan import Plan
from onenth.decoding.steps import Decoded
from onenth.decoding.top import top


class Beams:
    """All hypotheses of all sentences, in buffers that are made once.

    Nothing is copied when a hypothesis goes on: a step leaves one number for each row behind,

        code = row·V + token        "row `row` of the step before, and then `token`"

    and the tokens are read off backwards at the end, from the last code of each hypothesis that ended.
    """

    def __init__(self, plan: Plan, alpha: float, n_best: int, dtype: torch.dtype) -> None:
        sentences, beam, longest, device = plan.sentences, plan.beam, plan.longest, plan.device
        self.plan, self.n_best = plan, n_best
        self.rows = torch.arange(plan.rows, device=device)
        self.first_rows = self.rows[::beam, None]  # (sentences, 1)
        penalties = [((5 + length) / 6) ** alpha for length in range(longest + 1)]
        self.penalties = torch.tensor(penalties, dtype=dtype, device=device)
        self.largest_penalty = self.penalties[plan.limits]

        self.step = torch.zeros(1, dtype=torch.int64, device=device)
        self.codes = torch.zeros(longest, plan.rows, dtype=torch.int64, device=device)
        self.peaks = torch.zeros(longest, plan.rows, dtype=dtype, device=device)
        self.logp = torch.full((sentences, beam), -math.inf, dtype=dtype, device=device)  # −inf: dead
        self.logp[:, 0] = 0
        self.scores = torch.full_like(self.logp, -math.inf)  # of those that ended, best first
        self.last_codes = torch.zeros_like(self.scores, dtype=torch.int64)
        self.lengths = torch.zeros_like(self.scores, dtype=torch.int64)

    def advance(self, logits: Tensor) -> None:
        """One step, all shapes fixed, nothing asked of the host: it can be compiled or captured."""
        beam, vocabulary = self.plan.beam, self.plan.vocabulary
        logp, tokens = self._continuations(logits)  # (rows, k)
        k = tokens.shape[1]
        logp, chosen = logp.view(-1, beam * k).topk(min(2 * beam, beam * k))  # (sentences, 2·beam)
        tokens = tokens.view(-1, beam * k).gather(1, chosen)
        codes = (self.first_rows + chosen // k) * vocabulary + tokens

        length = self.step + 1
        ended = (tokens == self.plan.eos) | (length >= self.plan.limits)[:, None]
        scores = logp[:, :beam].masked_fill(~ended[:, :beam], -math.inf) / self.penalties[length]
        scores, best = torch.cat((self.scores, scores), 1).topk(beam)
        self.scores.copy_(scores)
        self.last_codes.copy_(torch.cat((self.last_codes, codes[:, :beam]), 1).gather(1, best))
        self.lengths.copy_(torch.cat((self.lengths, length.expand_as(self.lengths)), 1).gather(1, best))

        logp, alive = logp.masked_fill(ended, -math.inf).topk(beam)
        if self.plan.stop_every is not None:
            beaten = self.scores[:, self.n_best - 1] > logp[:, 0] / self.largest_penalty
            logp = logp.masked_fill(beaten[:, None], -math.inf)
        self.logp.copy_(logp)
        self.codes.index_copy_(0, self.step, codes.gather(1, alive).view(1, -1))
        self.step += 1

    def _continuations(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """The k best tokens of each row, chosen before they are normalised: log p (rows, k), and they."""
        plan, before = self.plan, self.logp.view(-1, 1)
        # with one more than beam, some that do not end are left over for every place of the beam
        values, tokens = top(logits, min(plan.beam + 1, plan.vocabulary))
        dead = before == -math.inf  # whatever the model makes of it
        self.peaks.index_copy_(0, self.step, values[:, :1].masked_fill(dead, 0).view(1, -1))
        impossible = dead | (values == -math.inf)  # where all logits are, log_softmax is NaN
        if plan.min_length > 1:
            impossible = impossible | ((tokens == plan.eos) & (self.step + 1 < plan.min_length))
        logp = before + logits.log_softmax(1).gather(1, tokens)
        return logp.masked_fill(impossible, -math.inf), tokens

    def following(self, step: int) -> tuple[Tensor, Tensor]:
        """The rows that go on after this step, and their tokens."""
        codes = self.codes[step]
        return codes // self.plan.vocabulary, codes % self.plan.vocabulary

    def stops(self, step: int) -> tuple[bool, bool]:
        """Whether nothing is left to search, and whether logits were NaN or +inf until this step."""
        done, broken = (self.logp == -math.inf).all(), ~(self.peaks[: step + 1] < math.inf).all()
        return tuple(torch.stack((done, broken)).tolist())

    def best(self) -> Decoded:
        """The n best that ended."""
        kept = slice(self.n_best)
        scores, last_codes = self.scores[:, kept].clone(), self.last_codes[:, kept]
        lengths = self.lengths[:, kept].masked_fill(scores == -math.inf, 0)
        vocabulary, longest = self.plan.vocabulary, int(lengths.max())
        tokens = torch.full((*lengths.shape, longest), self.plan.pad, device=lengths.device)
        codes = last_codes
        for position in reversed(range(longest)):
            earlier = self.codes[position].take(codes // vocabulary)
            codes = torch.where(position < lengths - 1, earlier, last_codes)
            tokens[..., position] = torch.where(position < lengths, codes % vocabulary, self.plan.pad)
        return Decoded(tokens, scores, lengths)

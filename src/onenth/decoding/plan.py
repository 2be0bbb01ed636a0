"""What every way of decoding needs to know, checked once."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from onenth.decoding.checks import check_count, check_id, check_steps, per_row
from onenth.decoding.steps import Steps


@dataclass(frozen=True)
class Plan:
    """For `sentences` of `beam` rows each."""

    sentences: int
    beam: int
    vocabulary: int
    bos: Tensor  # (sentences,)
    eos: int  # −1: there is none
    pad: int
    limits: Tensor  # (sentences,), max_length
    longest: int
    min_length: int
    stop_every: int | None

    @classmethod
    def make(
        cls,
        steps: Steps,
        sentences: tuple[str, int],
        beam: int,
        *,
        bos: int | Tensor,
        eos: int | None,
        pad: int,
        max_length: int | Tensor,
        min_length: int,
        stop_every: int | None,
        device: torch.device | str | None,
    ) -> Self:
        """Checks what the caller gave; `sentences` with the name it has there."""
        check_steps(steps, "logits", *(["select"] if beam > 1 else []))
        check_count(*sentences)
        vocabulary, count = steps.vocabulary, sentences[1]
        device = torch.empty(0, device=device).device
        check_id("pad", pad, vocabulary)
        if eos is not None:
            check_id("eos", eos, vocabulary)
        if not isinstance(bos, Tensor):
            check_id("bos", bos, vocabulary)
        first = per_row("bos", bos, count, device)
        for extreme in (first.min(), first.max()):
            check_id("bos", int(extreme), vocabulary)
        if not isinstance(max_length, Tensor):
            check_count("max_length", max_length)
        limits = per_row("max_length", max_length, count, device)
        check_count("max_length", int(limits.min()))
        check_count("min_length", min_length, 0)
        if min_length > limits.min():
            raise ValueError(f"min_length={min_length} must be at most max_length={int(limits.min())}")
        if stop_every is not None:
            check_count("stop_every", stop_every)
        return cls(
            count, beam, vocabulary, first, -1 if eos is None else eos, pad, limits, int(limits.max()),
            min_length, stop_every,
        )  # fmt: skip

    @property
    def rows(self) -> int:
        return self.sentences * self.beam

    @property
    def device(self) -> torch.device:
        return self.bos.device

    def tests(self, step: int) -> bool:
        """Whether to look, after this step, if all is done: the one time the host waits for the device."""
        last = step + 1 == self.longest
        return last or (self.stop_every is not None and (step + 1) % self.stop_every == 0)

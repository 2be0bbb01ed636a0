"""BLEU by sacrebleu, with its signature, and the statistics of each sentence that a bootstrap resamples.

A BLEU without its signature says little: it depends on who cuts the text into tokens. "13a" cuts plain text
as the WMT evaluations do; "none" takes text that has been cut already, as it stands. Values of both kinds do
not compare. Case always counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from onenth.lab.errors import Problem

TOKENIZERS = ("13a", "char", "intl", "none", "zh")  # those of sacrebleu that download nothing
STATISTICS = (
    10  # matches of 1, …, 4 tokens, all of 1, …, 4 tokens, tokens of the hypothesis, of the reference
)


@dataclass(frozen=True)
class Score:
    """BLEU, from 0 to 100, and sacrebleu's words for how it came about."""

    value: float
    signature: str


def bleu(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a") -> Score:
    """BLEU of a corpus against one reference for each sentence.

    Args:
        hypotheses, references: one text for each sentence.
        tokenize: who cuts the text: "13a"; "none" if it is cut already; "char", "intl", "zh".

    Example:
        >>> round(bleu(["the cat sat on a mat ."], ["the cat sat on the mat ."], tokenize="none").value, 2)
        48.89
    """
    _check(hypotheses, references, tokenize)
    # else sacrebleu says of text cut already that it looks so: the corpora of the lab are what they are
    metric = BLEU(tokenize=tokenize, force=True)
    value = metric.corpus_score(list(hypotheses), [list(references)]).score
    return Score(value, str(metric.get_signature()))


def statistics(
    hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a"
) -> NDArray[np.int64]:
    """What BLEU is computed from, for each sentence; summed over sentences, `of` makes BLEU of it.

    Returns:
        (sentences, 10): the 1- to 4-grams that match, all 1- to 4-grams of the hypothesis, its tokens, and
        the tokens of the reference.
    """
    _check(hypotheses, references, tokenize)
    metric = BLEU(tokenize=tokenize, force=True, effective_order=True)  # the order changes scores, not counts
    scores = [
        metric.sentence_score(*pair) for pair in zip(hypotheses, ([r] for r in references), strict=True)
    ]
    return np.array([[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in scores], dtype=np.int64)


def of(sums: NDArray[Any]) -> NDArray[np.float64]:
    """BLEU of summed statistics: (…, 10) → (…).

        BLEU = 100 · min(1, e^(1 − reference/length)) · (p₁ p₂ p₃ p₄)^¼,    p_k = matches of k tokens / all

    Where there is no match of k tokens, it counts as ½, as ¼ the second time, and so on (sacrebleu's "exp").
    Where there is no match at all, or no hypothesis has 4 tokens, BLEU is 0.

    Example:
        >>> round(of(statistics(["a b c d e"], ["a b c d f"]).sum(0)).item(), 2)
        66.87
    """
    if sums.shape[-1] != STATISTICS:
        raise ValueError(f"BLEU is made of {STATISTICS} statistics, and the shape is {sums.shape}")
    matches, all_, length, reference = sums[..., :4], sums[..., 4:8], sums[..., 8], sums[..., 9]
    none = matches == 0
    precision = np.where(none, 0.5 ** none.cumsum(-1), matches) / np.maximum(all_, 1)
    penalty = np.exp(np.minimum(0, 1 - reference / np.maximum(length, 1)))
    defined = matches.any(-1) & all_.all(-1)
    return np.where(defined, 100 * penalty * np.exp(np.log(precision).mean(-1)), 0.0)


def _check(hypotheses: Sequence[str], references: Sequence[str], tokenize: str) -> None:
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise Problem("BLEU is of a list of sentences, and one text was given: put it into a list")
    if len(hypotheses) != len(references):
        raise Problem(
            f"there are {len(hypotheses)} hypotheses and {len(references)} references: give one reference "
            "for each hypothesis"
        )
    if not len(hypotheses):
        raise Problem("there is no BLEU of no sentences: give at least one")
    if tokenize not in TOKENIZERS:
        raise Problem(f"nothing here cuts text by {tokenize!r}: choose one of {', '.join(TOKENIZERS)}")

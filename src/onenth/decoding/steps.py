"""What decoding asks of a model, and what it gives back."""

from typing import NamedTuple, Protocol

from torch import Tensor


class Steps(Protocol):
    """A model that decodes one token at a time for a fixed number of rows.

    A row is one hypothesis. Whatever was encoded is the model's own, repeated for `beam` rows in a row where
    a beam is searched: row s·beam + b is hypothesis b of sentence s.

    Example: a chain whose next token depends on the last one alone, so that there is nothing to reorder.
        >>> import torch
        >>> from onenth.decoding import greedy
        >>> class Chain:
        ...     vocabulary = 4
        ...
        ...     def __init__(self, table):
        ...         self.table = table
        ...
        ...     def logits(self, tokens):
        ...         return self.table[tokens]
        ...
        ...     def select(self, rows):
        ...         pass
        >>> counts_up = Chain(9.0 * torch.eye(4).roll(1, 1))  # 1 → 2 → 3
        >>> greedy(counts_up, 2, bos=0, eos=3).tokens[0, 0]
        tensor([1, 2, 3])
    """

    @property
    def vocabulary(self) -> int:
        """How many tokens there are: ids are 0 to vocabulary − 1."""

    def logits(self, tokens: Tensor) -> Tensor:
        """(rows, vocabulary), after one more token (rows,) of each row; advances one position."""

    def select(self, rows: Tensor) -> None:
        """Row j continues what row rows[j] was: reorders caches. Only `beam_search` asks for it."""


class Decoded(NamedTuple):
    """Hypotheses, best first. One that does not exist has score −inf, length 0 and nothing but pad."""

    tokens: Tensor  # (sentences, n_best, length): without bos, with the eos that ended it, then pad
    scores: Tensor  # (sentences, n_best)
    lengths: Tensor  # (sentences, n_best): tokens, eos included

"""From texts to token ids: what words and pieces have in common, and the file that says which it is.

id       0     1     2     3     4 …
token    PAD   BOS   EOS   UNK   words or pieces
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from onenth.lab.data.pieces import Pieces
from onenth.lab.data.special import BOS, EOS, PAD, UNK
from onenth.lab.data.words import Words
from onenth.lab.errors import Problem

__all__ = ["BOS", "EOS", "PAD", "UNK", "Pieces", "Vocabulary", "Words", "load"]


class Vocabulary(Protocol):
    """Token ids for texts. bos and eos are the caller's to add; `decode` passes over the first three ids."""

    def __len__(self) -> int: ...

    def encode(self, text: str) -> list[int]: ...

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]: ...

    def decode(self, ids: Iterable[int]) -> str: ...

    def save(self, path: Path) -> None: ...


def load(path: Path) -> Words | Pieces:
    """What `save` wrote: words in a file `.txt`, pieces in a file `.model`."""
    if path.suffix == ".txt":
        return Words.load(path)
    if path.suffix == ".model":
        return Pieces.load(path)
    raise Problem.at(path, None, "this is no vocabulary", "words are in a file .txt, pieces in a file .model")

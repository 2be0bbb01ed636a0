"""Whole words as tokens, for texts whose words are told apart by spaces."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from onenth.lab.data.aside import write
from onenth.lab.data.files import lines
from onenth.lab.data.special import SPECIAL, UNK, checked
from onenth.lab.errors import Problem


class Words:
    """The words of a vocabulary by id. Words are what stands between white space.

    Example:
        >>> words = Words.build(["the key", "the keys of the door"], most=2)
        >>> words.encode("the key"), words.decode([1, 4, 5, 3, 2]), len(words)
        ([4, 3], 'the door <unk>', 6)
    """

    def __init__(self, words: Iterable[str]) -> None:
        self._words = [*SPECIAL, *words]
        self._ids = {word: index for index, word in enumerate(self._words) if index > UNK}

    @classmethod
    def build(cls, texts: Iterable[str], most: int) -> "Words":
        """The `most` frequent words of the texts, in alphabetical order where equally frequent."""
        if most < 1:
            raise Problem(f"a vocabulary of most={most} words: give at least 1")
        counts = Counter(word for text in texts for word in text.split())
        for word in SPECIAL:
            del counts[word]
        if not counts:
            raise Problem("the texts have no words: give texts to build a vocabulary from")
        chosen = sorted(counts, key=lambda word: (-counts[word], word))[:most]
        for word in chosen:
            if "\0" in word:
                raise Problem(f"the texts have the word {word!r}: remove the NUL, which no text has")
        return cls(chosen)

    def __len__(self) -> int:
        return len(self._words)

    def encode(self, text: str) -> list[int]:
        """An id for each word; unk for one that is not known, and for one that looks like a special token."""
        return [self._ids.get(word, UNK) for word in text.split()]

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """`encode` for many."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        """The words with a space between them, without pad, bos and eos."""
        return " ".join(self._words[index] for index in checked(ids, len(self)) if index >= UNK)

    def save(self, path: Path) -> None:
        """A word a line, whose id is the number of lines before it."""
        write(path, "".join(f"{word}\n" for word in self._words).encode())

    @classmethod
    def load(cls, path: Path) -> "Words":
        """What `save` wrote."""
        first: dict[str, int] = {}
        for number, word in enumerate(lines(path), 1):
            if word.split() != [word]:
                raise Problem.at(path, number, f"{word!r} is not one word", "write one word on each line")
            if word in first:
                what = f"the word {word!r} is on line {first[word]}, too"
                raise Problem.at(path, number, what, "remove one of the two")
            if number <= len(SPECIAL) and word != SPECIAL[number - 1]:
                what = f"the word is {word!r} instead of {SPECIAL[number - 1]!r}"
                raise Problem.at(path, number, what, f"a vocabulary begins with {', '.join(SPECIAL)}")
            first[word] = number
        if len(first) <= len(SPECIAL):
            raise Problem.at(path, None, f"this has {len(first)} lines, and no words", "save it again")
        return cls(list(first)[len(SPECIAL) :])

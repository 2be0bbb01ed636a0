"""The tokens that are no text, the same in every vocabulary."""

from collections.abc import Iterable, Iterator

PAD, BOS, EOS, UNK = range(4)
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")  # what they are called, by id


def checked(ids: Iterable[int], size: int) -> Iterator[int]:
    """The ids, if a vocabulary of that size has them."""
    for index in ids:
        if not 0 <= index < size:
            raise ValueError(f"{index} is not an id of a vocabulary of {size} tokens")
        yield index

"""A corpus of our own: modern English sentences, and the same in an archaic style.

Drawn from a grammar (`onenth.lab.tasks.style.grammar`), in which a modern sentence has one archaic one. Words
are not all that changes: who is addressed, which may be said last, decides between thou and ye, which decides
the verb's ending; helping verbs come and go; what is stressed comes first.
"""

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterable

from onenth.lab.data.splits import Splits
from onenth.lab.tasks.style.draw import Draw
from onenth.lab.tasks.style.reader import Pair

_SIZES = {"train": 12000, "dev": 500, "test": 500}
_SHORTEST, _LONGEST = 5, 13  # words, with marks


def corpus(seed: int = 0) -> Splits[Pair]:
    """12,000 sentences to train on, 500 to choose by and 500 to report, none of them twice."""
    draw = Draw(random.Random(seed))
    found: dict[str, str] = {}
    while len(found) < sum(_SIZES.values()):
        sentence = draw.sentence()
        if _SHORTEST <= len(sentence.modern().split()) <= _LONGEST:
            found[sentence.modern()] = sentence.archaic()
    rows = [Pair(*row) for row in found.items()]
    text = "".join(f"{row.source}\t{row.target}\n" for row in rows)
    end = _SIZES["train"]
    return Splits(
        name=f"embedded style corpus, seed {seed}",
        train=rows[:end],
        dev=rows[end : end + _SIZES["dev"]],
        test=rows[end + _SIZES["dev"] :],
        hashes={"embedded": hashlib.sha256(text.encode()).hexdigest()},
    )


def substitution(train: Iterable[Pair]) -> Callable[[str], str]:
    """Word for word, in the order of the source: what can be had without learning how sentences are built.

    A word s becomes the target word t with which it is found together most, relative to how often each is
    found: the largest 2·c(s, t)/(c(s) + c(t)), c counting sentences. An unknown word stays.
    """
    sources: Counter[str] = Counter()
    targets: Counter[str] = Counter()
    both: Counter[tuple[str, str]] = Counter()
    for row in train:
        source, target = set(row.source.split()), set(row.target.split())
        sources.update(source)
        targets.update(target)
        both.update((s, t) for s in source for t in target)
    best: dict[str, tuple[float, str]] = {}
    for (s, t), count in both.items():
        best[s] = max(best.get(s, (0.0, "")), (2 * count / (sources[s] + targets[t]), t))
    words = {s: t for s, (_, t) in best.items()}
    return lambda text: " ".join(words.get(word, word) for word in text.split())

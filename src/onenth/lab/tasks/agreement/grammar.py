"""Sentences of our own in which the number of a verb is a question of grammar: the embedded corpus.

    (lead ,) determiner (adjective) SUBJECT (modifier) (adverb)      … and here the verb would follow

    lead        near the old doors ,  |  when the kings sleep ,
    modifier    behind the cabinet near the doors  |  with both the key and the locks
                that admires the kings  |  that the king near the doors admires
                , the friend of the kings ,

The subject is the first noun, or the first after the lead, which alone begins without a determiner. A
relative clause belongs to the noun before it, `both` keeps a coordination below its preposition, and verbs
agree with subjects of their own. Most of the other nouns are of the number that the subject is not, so that
neither the nearest noun nor the first nor the most of them tell it.
"""

import hashlib
from collections.abc import Sequence
from random import Random

from onenth.lab.data.splits import Splits
from onenth.lab.tasks.agreement.lexicon import (
    ACTS,
    ADJECTIVES,
    ADVERBS,
    DETERMINERS,
    IS_PLURAL,
    NOUNS,
    REPOSES,
    STATES,
)
from onenth.lab.tasks.agreement.rows import Sentence

_TRAIN, _DEV, _TEST = 20_000, 1_000, 2_000
_MOST = 4  # attractors
_LONGEST = 20  # words
_OTHER = 0.7  # the share of nouns beside the subject that are of the other number
_KINDS = ("person", "thing", "place")
_WHEN = ("because", "if", "when", "while")
_WHERE = ("above", "behind", "beside", "near", "opposite")
_LINKS = {  # what links a noun of this kind to one of that kind
    "person": (
        ("from", "place"),
        ("in", "place"),
        ("with", "thing"),
        ("beside", "person"),
        ("behind", "thing"),
    ),
    "thing": (("of", "person"), ("from", "place"), ("in", "place"), *((word, "thing") for word in _WHERE)),
    "place": (("of", "person"), *((word, "place") for word in _WHERE)),
}


class _Draft:
    """A sentence while it is written, around a subject of a given number."""

    def __init__(self, draw: Random, plural: bool) -> None:
        self.draw = draw
        self.plural = plural
        self.words: list[str] = []
        self.attractors = 0
        if self.chance(0.45):
            self.lead()
        self.attractors = 0  # what precedes the subject is none
        kind = draw.choice(_KINDS)
        self.noun(kind, plural)
        self.modifier(kind, plural)
        if self.chance(0.15):
            self.words.append(draw.choice(ADVERBS))

    def chance(self, share: float) -> bool:
        return self.draw.random() < share

    def noun(self, kind: str, plural: bool) -> None:
        draw = self.draw
        self.words.append("the" if self.chance(0.7) else draw.choice(DETERMINERS))
        if self.chance(0.25):
            self.words.append(draw.choice(ADJECTIVES))
        self.words.append(draw.choice(NOUNS[kind])[plural])
        self.attractors += plural != self.plural

    def other(self, kind: str) -> bool:
        """A noun beside the subject, and its number."""
        plural = self.plural != self.chance(_OTHER)
        self.noun(kind, plural)
        return plural

    def lead(self) -> None:
        if self.chance(0.6):
            self.words.append(self.draw.choice(_WHERE))
            self.other("place")
        else:
            self.words.append(self.draw.choice(_WHEN))
            plural = self.other("person")
            self.words.append(self.draw.choice(REPOSES)[plural])
        self.words.append(",")

    def phrase(self, kind: str) -> tuple[str, bool]:
        """A preposition and a noun that fit this kind of noun; the kind of the new one, and its number."""
        word, kind = self.draw.choice(_LINKS[kind])
        self.words.append(word)
        return kind, self.other(kind)

    def phrases(self, kind: str, share: float) -> None:
        """Phrases one below the other, each with a chance of `share`."""
        while self.chance(share):
            kind, _ = self.phrase(kind)

    def modifier(self, kind: str, plural: bool) -> None:
        """What follows the subject; a relative clause may follow the last noun of it."""
        choice = self.draw.random()
        if choice < 0.12:
            return
        if choice < 0.45:
            kind, plural = self.phrase(kind)
            if self.chance(0.3):
                self.relative(kind, plural)
            else:
                self.phrases(kind, 0.5)
        elif choice < 0.58:
            word, kind = self.draw.choice(_LINKS[kind])
            self.words += word, "both"
            self.other(kind)
            self.words.append("and")
            self.other(kind)
        elif choice < 0.88:
            self.relative(kind, plural)
        else:
            self.words.append(",")
            self.noun(kind, plural)
            kind, _ = self.phrase(kind)
            self.phrases(kind, 0.3)
            self.words.append(",")

    def relative(self, kind: str, plural: bool) -> None:
        draw = self.draw
        self.words.append("that")
        if self.chance(0.5):
            self.words.append(draw.choice(ACTS if kind == "person" else STATES)[plural])
            kind = draw.choice(_KINDS) if kind == "person" else draw.choice(("thing", "place"))
            self.other(kind)
            self.phrases(kind, 0.4)
        else:
            own = self.other("person")
            self.phrases("person", 0.4)
            self.words.append(draw.choice(ACTS)[own])


def corpus(seed: int = 0) -> Splits[Sentence]:
    """20,000 sentences to train on, 1,000 to choose by and 2,000 to report, half of each with a plural verb.

    No two are the same. Equal seeds give equal sentences.

    Example:
        >>> [row.attractors for row in corpus().test].count(4)
        21
    """
    draw = Random(seed)
    rows: dict[str, Sentence] = {}
    while len(rows) < _TRAIN + _DEV + _TEST:
        plural = len(rows) % 2 == 1
        draft = _Draft(draw, plural)
        words = " ".join(draft.words)
        if draft.attractors <= _MOST and len(draft.words) <= _LONGEST:
            rows[words] = Sentence(words, plural, draft.attractors)
    every = list(rows.values())
    text = "".join(f"{row.words}\t{row.plural}\t{row.attractors}\n" for row in every)
    dev, test = _TRAIN, _TRAIN + _DEV
    hashes = {"embedded": hashlib.sha256(text.encode()).hexdigest()}
    return Splits(
        f"embedded agreement corpus, seed {seed}", every[:dev], every[dev:test], every[test:], hashes
    )


def baselines(rows: Sequence[Sentence]) -> dict[str, float]:
    """What rules of thumb reach on sentences of this corpus, in percent.

    majority label     the more frequent number of all
    nearest noun       the number of the noun before the verb
    first noun         that of the first
    majority of nouns  plural if more nouns are plural than singular
    """
    numbers = [[IS_PLURAL[word] for word in row.words.split(" ") if word in IS_PLURAL] for row in rows]
    common = 2 * sum(row.plural for row in rows) > len(rows)
    guesses = {
        "majority label": [common] * len(rows),
        "nearest noun": [found[-1] for found in numbers],
        "first noun": [found[0] for found in numbers],
        "majority of nouns": [2 * sum(found) > len(found) for found in numbers],
    }
    return {
        name: 100 * sum(guess == row.plural for guess, row in zip(given, rows, strict=True)) / len(rows)
        for name, given in guesses.items()
    }

"""Noun phrases in both styles: `your old enemies`, and `thine aged foes`."""

from dataclasses import dataclass

from onenth.lab.tasks.style import words

_OBJECTS = {"I": "me", "he": "him", "she": "her", "we": "us", "they": "them", "you": "you", "it": "it"}
_NOUNS = words.PERSONS | words.THINGS
_VOWELS = tuple("aeiou")


def joined(*parts: str) -> str:
    """What there is of these, with spaces between."""
    return " ".join(part for part in parts if part)


@dataclass(frozen=True)
class Phrase:
    """A pronoun as it is as a subject, `you`; a name; or a noun in the singular, with what goes before it.

    Example:
        >>> foes = Phrase("enemy", "your", "old", plural=True)
        >>> foes.modern(), foes.archaic(many=False), foes.archaic(many=True)
        ('your old enemies', 'thine aged foes', 'your aged foes')
    """

    head: str
    determiner: str = ""
    adjective: str = ""
    plural: bool = False

    @property
    def pronoun(self) -> bool:
        return self.head in _OBJECTS

    @property
    def thing(self) -> bool:
        return self.head in words.THINGS

    @property
    def person(self) -> str:
        """I, you or he, or we for all others."""
        if self.head in ("I", "you"):
            return self.head
        return "we" if self.plural or self.head in ("we", "they") else "he"

    def modern(self, subject: bool = False) -> str:
        """As a subject or an object."""
        if self.head not in _NOUNS:
            return self.head if subject else _OBJECTS.get(self.head, self.head)
        noun = _NOUNS[self.head][self.plural]
        an = self.determiner == "a" and (self.adjective or noun).startswith(_VOWELS)
        return joined("an" if an else self.determiner, self.adjective, noun)

    def archaic(self, many: bool, subject: bool = False) -> str:
        """The same; many: whether it is said to more than one."""
        if self.head == "you":
            one = "thou" if subject else "thee"
            return one if not many else "ye" if subject else "you"
        if self.head not in _NOUNS:
            return self.modern(subject)
        noun = _NOUNS[self.head][2 + self.plural]
        adjective = self.adjective and (words.OF_THINGS if self.thing else words.OF_PERSONS)[self.adjective]
        determiner = "thy" if self.determiner == "your" and not many else self.determiner
        if (adjective or noun).startswith(_VOWELS):
            determiner = {"a": "an", "my": "mine", "thy": "thine"}.get(determiner, determiner)
        return joined(determiner, adjective, noun)

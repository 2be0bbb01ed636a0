"""How verbs change with person and tense: in modern English, and in the archaic style.

archaic, present     I love     thou lovest     he loveth     we love
archaic, past        I loved    thou lovedst    he loved      we loved
"""

from dataclasses import dataclass

from onenth.lab.tasks.style import words

_VOWELS = "aeiou"


@dataclass(frozen=True)
class Forms:
    """What cannot be told from the others: love, loved, loved."""

    base: str
    past: str
    participle: str

    @classmethod
    def read(cls, text: str) -> "Forms":
        """Of `base/past/participle`, or of the base of a regular verb."""
        base, *irregular = text.split("/")
        past, participle = irregular or [_stem(base, "e") + "ed"] * 2
        return cls(base, past, participle)

    def third(self) -> str:
        """He loves."""
        hissing = self.base.endswith(("s", "sh", "ch", "x", "o"))
        return _stem(self.base) + ("es" if hissing or _stem(self.base) != self.base else "s")

    def going_on(self) -> str:
        """Loving."""
        if self.base.endswith("ie"):
            return self.base[:-2] + "ying"
        return (self.base if self.base.endswith("ee") else self.base.removesuffix("e")) + "ing"

    def thou(self) -> str:
        """Thou lovest."""
        return _stem(self.base, "e") + "est"

    def thou_past(self) -> str:
        """Thou lovedst, heardst, gavest, tookest."""
        return self.past + ("st" if self.past[-1] in "de" else "est")

    def eth(self) -> str:
        """He loveth."""
        return _stem(self.base, "e") + "eth"


def _stem(base: str, mute: str = "") -> str:
    """What an ending is put to: tarri- of tarry, and without the mute letter where there is one."""
    if base[-1] == "y" and base[-2] not in _VOWELS:
        return base[:-1] + "i"
    return base.removesuffix(mute) if mute else base


@dataclass(frozen=True)
class Verb:
    """One verb in both styles. `moves`: whether its perfect is with be there, as in `he is come`."""

    modern: Forms
    archaic: Forms
    moves: bool = False


def verbs(text: str, moves: bool = False) -> tuple[Verb, ...]:
    """Those of a table of `words`."""
    entries = (entry.partition("=")[::2] for entry in text.split())
    return tuple(Verb(Forms.read(new), Forms.read(old or new), moves) for new, old in entries)


BE = Verb(Forms("be", "was", "been"), Forms("be", "was", "been"))

_BE = {"I": ("am", "was"), "thou": ("art", "wast"), "he": ("is", "was"), "we": ("are", "were")}
_HAVE = {"I": "have", "thou": "hast", "he": "hath", "we": "have"}


def modern(verb: Verb, person: str, tense: str, bare: bool) -> tuple[str, str, str]:
    """Auxiliary, its negative, and what follows it; no auxiliary where it is `bare` and can be left out.

    person: I, he, or we for all others. tense: past, present, lasting, perfect, or a modal verb.
    """
    forms, be = verb.modern, _BE[person][0]
    if tense in words.MODALS:
        return tense, words.MODALS[tense][0], forms.base
    if verb is BE:
        be = _BE[person][tense == "past"]
    if tense == "lasting" or verb is BE:
        return be, "am not" if be == "am" else be + "n't", "" if verb is BE else forms.going_on()
    if tense == "perfect":
        return (
            ("has", "hasn't", forms.participle) if person == "he" else ("have", "haven't", forms.participle)
        )
    if bare:
        return "", "", forms.past if tense == "past" else forms.third() if person == "he" else forms.base
    auxiliary = "did" if tense == "past" else "does" if person == "he" else "do"
    return auxiliary, auxiliary + "n't", forms.base


def archaic(verb: Verb, person: str, tense: str) -> tuple[str, str]:
    """The verb that stands second, and what may follow. person: also thou."""
    forms = verb.archaic
    if tense in words.MODALS:
        return words.MODALS[tense][2 if person == "thou" else 1], forms.base
    if verb is BE:
        return _BE[person][tense == "past"], ""
    if tense == "perfect":
        return (_BE[person][0] if verb.moves else _HAVE[person]), forms.participle
    if tense == "past":
        return (forms.thou_past() if person == "thou" else forms.past), ""
    return {"thou": forms.thou(), "he": forms.eth()}.get(person, forms.base), ""

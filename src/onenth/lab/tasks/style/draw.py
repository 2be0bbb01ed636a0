"""Sentences of the grammar, at random."""

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from onenth.lab.tasks.style import words
from onenth.lab.tasks.style.grammar import Clause, Sentence
from onenth.lab.tasks.style.phrases import Phrase
from onenth.lab.tasks.style.verbs import BE, Verb, verbs

_WITH_PERSON, _WITH_THING = verbs(words.WITH_PERSON), verbs(words.WITH_THING)
_GIVING, _DOING, _GOING = verbs(words.GIVING), verbs(words.DOING), verbs(words.GOING, moves=True)

_PRONOUNS = ("I", "you", "you", "you", "he", "she", "we", "they")
_DETERMINERS = ("the", "the", "a", "my", "your", "your", "his", "her", "our", "their")
_RECIPIENTS = ("I", "you", "he", "she", "we", "they")
_TENSES = ("present", "present", "present", "past", "past", "perfect", "perfect", "modal", "modal")
_WHEN = {  # what suits a tense
    "present": ("now", "today", "again"),
    "lasting": ("now", "tonight", "again"),
    "past": ("yesterday", "long ago", "again"),
    "perfect": ("today", "again"),
    "modal": ("tomorrow", "tonight", "later", "soon", "again"),
}

Choice = TypeVar("Choice")


class Draw:
    """Draws with a generator, which decides all."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator

    def sentence(self) -> Sentence:
        """One of three: a statement, a question or an order."""
        kind = self._of(("statement", "statement", "statement", "question", "question", "order"))
        name = self._name() if self._chance(0.5) else ""
        inner = self._clause(inside=True, alone=False) if kind != "question" and self._chance(0.25) else None
        alone = inner is None
        main = self._order(alone) if kind == "order" else self._clause(kind == "question", alone=alone)
        return Sentence(
            main,
            question=kind == "question",
            asking=self._one(words.ASKING) if kind == "question" and self._chance(0.35) else "",
            call=self._one(words.CALLS) if self._chance(0.1) else "",
            name=name,
            named_first=self._chance(0.4),
            please=kind == "order" and not main.negative and self._chance(0.3),
            conjunction=self._one(words.CONJUNCTIONS) if inner else "",
            inner=inner,
            inner_first=self._chance(0.5),
        )

    def _chance(self, share: float) -> bool:
        return self._generator.random() < share

    def _of(self, choices: Iterable[Choice]) -> Choice:
        return self._generator.choice(tuple(choices))

    def _one(self, table: dict[str, str]) -> str:
        return self._of(word for word in table if word)

    def _name(self) -> str:
        if self._chance(0.5):
            return self._one(words.TO_MANY)
        return self._of(words.NAMES) if self._chance(0.4) else self._one(words.TO_ONE)

    def _order(self, alone: bool) -> Clause:
        verb, thing, recipient = self._action()
        return Clause(
            None,
            verb,
            object=thing,
            recipient=recipient,
            negative=self._chance(0.35),
            where=self._one(words.WHERE) if alone and self._chance(0.2) else "",
            when=self._of(_WHEN["modal"]) if alone and self._chance(0.2) else "",
        )

    def _clause(self, asking: bool = False, inside: bool = False, alone: bool = True) -> Clause:
        """asking: of a question. inside: of a subordinate clause. alone: without one."""
        tense = self._of(_TENSES[:4] if inside else _TENSES)
        negative = not inside and self._chance(0.25)
        stated = not (asking or inside or negative)
        if self._chance(0.25):
            clause = self._being("past" if tense == "past" else "present", negative, stated)
        else:
            clause = self._doing(tense, negative, inside)
        often = self._one(words.HOW_OFTEN) if stated and tense != "modal" and self._chance(0.12) else ""
        where = self._one(words.WHERE) if alone and not clause.objects and self._chance(0.3) else ""
        when = self._of(_WHEN.get(clause.tense, _WHEN["modal"])) if alone and self._chance(0.3) else ""
        return replace(clause, often=often, where=where, when=when, early=not asking and self._chance(0.4))

    def _being(self, tense: str, negative: bool, stated: bool) -> Clause:
        kind = self._generator.random()
        if kind < 0.2:
            return Clause(Phrase("it"), BE, tense, adjective=self._one(words.OF_WEATHER), negative=negative)
        subject, table = (
            (self._noun(words.THINGS, _DETERMINERS), words.OF_THINGS) if kind < 0.45 else
            (self._subject(), words.OF_PERSONS)
        )  # fmt: skip
        very = stated and self._chance(0.4)
        return Clause(subject, BE, tense, adjective=self._one(table), very=very, negative=negative)

    def _doing(self, tense: str, negative: bool, inside: bool) -> Clause:
        verb, thing, recipient = self._action()
        if verb in _DOING and tense == "present" and not inside and self._chance(0.5):
            tense = "lasting"
        if tense == "modal":
            tense = self._of(words.MODALS)
        subject = self._subject()
        me_of_us = subject.head == "we" and Phrase("I") in (thing, recipient)
        if subject in (thing, recipient) or me_of_us:
            subject = Phrase(self._of(words.NAMES))
        return Clause(subject, verb, tense, thing, recipient, negative=negative)

    def _action(self) -> tuple[Verb, Phrase | None, Phrase | None]:
        """What is done, to whom or what, and who receives it."""
        kind = self._generator.random()
        if kind < 0.35:
            return self._of(_WITH_PERSON), self._person(), None
        if kind < 0.65:
            return self._of(_WITH_THING), self._thing(), None
        if kind < 0.78:
            return self._of(_GIVING), self._thing(), Phrase(self._of(_RECIPIENTS))
        return self._of(_DOING if kind < 0.93 else _GOING), None, None

    def _subject(self) -> Phrase:
        if self._chance(0.6):
            return Phrase(self._of(_PRONOUNS))
        return self._person(pronouns=0)

    def _person(self, pronouns: float = 0.4) -> Phrase:
        if self._chance(pronouns):
            return Phrase(self._of(_RECIPIENTS))
        if self._chance(0.15):
            return Phrase(self._of(words.NAMES))
        return self._noun(words.PERSONS, _DETERMINERS)

    def _thing(self) -> Phrase:
        return self._noun(words.THINGS, (*_DETERMINERS, "this", "this", "that", "that"))

    def _noun(self, nouns: dict[str, tuple[str, str, str, str]], determiners: tuple[str, ...]) -> Phrase:
        determiner = self._of(determiners)
        plural = determiner not in ("a", "this", "that") and self._chance(0.2)
        adjectives = words.OF_THINGS if nouns is words.THINGS else words.OF_PERSONS
        adjective = self._one(adjectives) if self._chance(0.3) else ""
        return Phrase(self._of(nouns), determiner, adjective, plural)

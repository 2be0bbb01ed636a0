"""Sentences that can be said in two styles, such that the modern one decides the archaic one.

                modern                                      archaic
to one          do you know him , sir ?                     knowest thou him , good sir ?
to many         do you know him , ladies ?                  know ye him , fair ladies ?
not             the girl doesn't love him .                 the maid loveth him not .
going on        he is sleeping .                            he slumbereth .
a time          you will see your uncle tomorrow .          on the morrow wilt thou see thine uncle .
this, that      I have stolen that ring .                   that ring have I filched .
very            your sister is very proud .                 full haughty is thy sister .
it is           it isn't late .                             'tis not late .
a clause        when you see her , praise her .             when thou her seest , praise her .
if              if he comes , help me .                     an he come , aid me .
"""

from dataclasses import dataclass

from onenth.lab.tasks.style import words
from onenth.lab.tasks.style.phrases import Phrase, joined
from onenth.lab.tasks.style.verbs import Verb, archaic, modern


@dataclass(frozen=True)
class Clause:
    """Who does what to whom, and when.

    Args:
        subject: none in an order.
        verb, tense: as for `verbs.modern`.
        object: of the verb.
        recipient: a pronoun, to whom the object is given.
        adjective: what the subject is, with the verb `BE`; after very, where that is set.
        negative: with not.
        often, where, when: adverbs of the tables of `words`.
        early: whether `when` comes first in the modern sentence.
    """

    subject: Phrase | None
    verb: Verb
    tense: str = "present"
    object: Phrase | None = None
    recipient: Phrase | None = None
    adjective: str = ""
    very: bool = False
    negative: bool = False
    often: str = ""
    where: str = ""
    when: str = ""
    early: bool = False

    @property
    def objects(self) -> list[Phrase]:
        return [phrase for phrase in (self.recipient, self.object) if phrase]

    def modern(self, asking: bool = False) -> str:
        """As a question, or as a statement or an order."""
        objects = [phrase.modern() for phrase in self.objects]
        if self.subject is None:
            no, verb = "don't" if self.negative else "", self.verb.modern.base
            return joined(no, verb, *objects, self.where, self.when)
        person = "we" if self.subject.person == "you" else self.subject.person
        auxiliary, negative, verb = modern(self.verb, person, self.tense, bare=not (asking or self.negative))
        if self.negative:
            auxiliary = negative
        first = [self.subject.modern(subject=True), auxiliary]
        if asking:
            auxiliary, _, no = auxiliary.partition(" ")  # may not
            first = [auxiliary, first[0], no]
        early, late = (self.when, "") if self.early else ("", self.when)
        very = "very" if self.very else ""
        return joined(early, *first, self.often, verb, *objects, very, self.adjective, self.where, late)

    def archaic(self, many: bool, asking: bool = False, conjunction: str = "") -> str:
        """many: as for `Phrase`. conjunction: the modern one of a subordinate clause."""
        near = [phrase.archaic(many) for phrase in self.objects if phrase.pronoun]
        far = [phrase.archaic(many) for phrase in self.objects if not phrase.pronoun]
        no, adjective = "not" if self.negative else "", self._adjective()
        often, where, when = words.HOW_OFTEN[self.often], words.WHERE[self.where], words.WHEN[self.when]
        if self.subject is None:
            return joined(when, self.verb.archaic.base, *near, no, *far, where)

        subject, person = self.subject.archaic(many, subject=True), self.subject.person
        if person == "you":
            person = "we" if many else "thou"
        verb, rest = archaic(self.verb, person, self.tense)
        if conjunction:
            if conjunction == "if" and self.tense == "present":
                verb = self.verb.archaic.base
            return joined(when, subject, often, *near, no, *far, adjective, where, rest, verb)

        front, between, tail = "", [no, rest, *near] if rest else [*near, no], [*far, adjective, where]
        if asking:
            tail.append(when)
        elif when or often:
            front, often = (when, often) if when else (often, "")
        elif self.object and self.object.determiner in ("this", "that") and not self.negative:
            front = tail.pop(len(far) - 1)
        elif self.very:
            front = tail.pop(len(far))
        start = [verb, subject] if asking or front else [subject, verb]
        if start[0] == "it" and verb in ("is", "was"):
            start = ["'t" + verb]
        return joined(front, *start, often, *between, *tail)

    def _adjective(self) -> str:
        if not self.adjective or self.subject is None:
            return ""
        table = words.OF_THINGS if self.subject.thing else words.OF_PERSONS
        if self.subject.head == "it":
            table = words.OF_WEATHER
        return joined("full" if self.very else "", table[self.adjective])


@dataclass(frozen=True)
class Sentence:
    """A clause, what comes with it, and to whom it is said.

    Args:
        main: a statement, a question or an order.
        question: whether it is one; `asking`, a word like why.
        call: a word before all, like yes.
        name: to whom: of `words.TO_ONE`, `words.TO_MANY` or `words.NAMES`; the last, unless `named_first`.
        please: before an order.
        conjunction, inner: a subordinate clause after the main one, unless `inner_first`.

    Example:
        >>> from onenth.lab.tasks.style.verbs import verbs
        >>> know = verbs("know/knew/known")[0]
        >>> said = Sentence(Clause(Phrase("you"), know, object=Phrase("he")), question=True, name="sir")
        >>> print(said.modern(), said.archaic(), sep="\\n")
        do you know him , sir ?
        knowest thou him , good sir ?
    """

    main: Clause
    question: bool = False
    asking: str = ""
    call: str = ""
    name: str = ""
    named_first: bool = False
    please: bool = False
    conjunction: str = ""
    inner: Clause | None = None
    inner_first: bool = False

    def modern(self) -> str:
        inner = joined(self.conjunction, self.inner.modern()) if self.inner else ""
        main = joined("please" if self.please else "", self.asking, self.main.modern(self.question))
        return self._whole(self.call, self.name, main, inner)

    def archaic(self) -> str:
        many = self.name != "" and self.name in words.TO_MANY
        inner = ""
        if self.inner:
            clause = self.inner.archaic(many, conjunction=self.conjunction)
            inner = joined(words.CONJUNCTIONS[self.conjunction], clause)
        please = ("I pray ye" if many else "prithee") if self.please else ""
        asking = words.ASKING[self.asking]
        main = joined(please, asking, self.main.archaic(many, self.question))
        name = (words.TO_ONE | words.TO_MANY).get(self.name, self.name)
        return self._whole(words.CALLS[self.call], name, main, inner)

    def _whole(self, call: str, name: str, main: str, inner: str) -> str:
        body = [joined(inner, ",", main)] if inner and self.inner_first else [joined(main, inner)]
        body = [name, *body] if self.named_first else [*body, name]
        return " , ".join(part for part in [call, *body] if part) + (" ?" if self.question else " .")

"""The embedded corpus of styles: what is said, that it is decided, and that it has to be learned."""

import hashlib
import random
from collections import Counter

import pytest
import sacrebleu

from onenth.lab.tasks.style.corpus import corpus, substitution
from onenth.lab.tasks.style.draw import Draw
from onenth.lab.tasks.style.grammar import Clause, Sentence
from onenth.lab.tasks.style.phrases import Phrase
from onenth.lab.tasks.style.verbs import BE, Forms, verbs


@pytest.fixture(scope="module")
def splits():
    return corpus()


I, YOU, HE, SHE, IT, WE = map(Phrase, ("I", "you", "he", "she", "it", "we"))
FOES = Phrase("enemy", "your", "old", plural=True)
KNOW, SEE, LOVE, WEEP, GIVE, STEAL, BREAK, TARRY = verbs(
    "know/knew/known see/saw/seen love weep/wept/wept give/gave/given steal/stole/stolen=filch "
    "break/broke/broken=break/brake/broken wait=tarry/tarried/tarried"
)
(COME,) = verbs("come/came/come", moves=True)
RING = Phrase("ring", "that")
QUEEN = Phrase("queen", "the")


def said(clause, **more):
    sentence = Sentence(clause, **more)
    return sentence.modern(), sentence.archaic()


@pytest.mark.parametrize(
    ("sentence", "modern", "archaic"),
    [
        (said(Clause(YOU, KNOW, object=HE), question=True), "do you know him ?", "knowest thou him ?"),
        (said(Clause(YOU, SEE, object=FOES), name="madam"),
         "you see your old enemies , madam .", "thou seest thine aged foes , fair lady ."),
        (said(Clause(YOU, SEE, object=FOES), name="ladies", named_first=True),
         "ladies , you see your old enemies .", "fair ladies , ye see your aged foes ."),
        (said(Clause(HE, KNOW, object=YOU)), "he knows you .", "he knoweth thee ."),
        (said(Clause(HE, KNOW, object=YOU), name="everyone"),
         "he knows you , everyone .", "he knoweth you , good people ."),
        (said(Clause(I, KNOW, object=QUEEN, negative=True)),
         "I don't know the queen .", "I know not the queen ."),
        (said(Clause(SHE, LOVE, object=HE, negative=True)), "she doesn't love him .", "she loveth him not ."),
        (said(Clause(YOU, SEE, "past", QUEEN, negative=True), question=True),
         "didn't you see the queen ?", "sawest thou not the queen ?"),
        (said(Clause(YOU, BREAK, "past", RING)), "you broke that ring .", "that ring brakest thou ."),
        (said(Clause(I, STEAL, "perfect", RING)), "I have stolen that ring .", "that ring have I filched ."),
        (said(Clause(YOU, STEAL, "perfect", RING, negative=True)),
         "you haven't stolen that ring .", "thou hast not filched that ring ."),
        (said(Clause(YOU, GIVE, "past", RING, I)), "you gave me that ring .", "that ring gavest thou me ."),
        (said(Clause(HE, COME, "perfect")), "he has come .", "he is come ."),
        (said(Clause(YOU, COME, "perfect"), question=True), "have you come ?", "art thou come ?"),
        (said(Clause(HE, WEEP, "lasting"), question=True, asking="why"),
         "why is he weeping ?", "wherefore weepeth he ?"),
        (said(Clause(YOU, SEE, "will", Phrase("uncle", "your"), when="tomorrow")),
         "you will see your uncle tomorrow .", "on the morrow wilt thou see thine uncle ."),
        (said(Clause(WE, LOVE, "past", YOU, when="long ago", early=True)),
         "long ago we loved you .", "in days of yore loved we thee ."),
        (said(Clause(YOU, LOVE, object=SHE, often="never")),
         "you never love her .", "ne'er lovest thou her ."),
        (said(Clause(YOU, SEE, "may", SHE, negative=True), question=True),
         "may you not see her ?", "mayst thou not see her ?"),
        (said(Clause(YOU, SEE, "can", SHE, negative=True)),
         "you can't see her .", "thou canst not see her ."),
        (said(Clause(Phrase("sister", "your"), BE, adjective="proud", very=True)),
         "your sister is very proud .", "full haughty is thy sister ."),
        (said(Clause(YOU, BE, "past", adjective="old", negative=True)),
         "you weren't old .", "thou wast not aged ."),
        (said(Clause(Phrase("sword", "a"), BE, adjective="old")), "a sword is old .", "a blade is ancient ."),
        (said(Clause(I, BE, adjective="tired", negative=True), question=True),
         "am I not tired ?", "am I not weary ?"),
        (said(Clause(IT, BE, adjective="late", negative=True)), "it isn't late .", "'tis not late ."),
        (said(Clause(IT, BE, "past", adjective="dark")), "it was dark .", "'twas murky ."),
        (said(Clause(IT, BE, "past", adjective="dark"), question=True), "was it dark ?", "was it murky ?"),
        (said(Clause(None, KNOW, object=HE, negative=True)), "don't know him .", "know him not ."),
        (said(Clause(None, GIVE, object=Phrase("apple", "my"), recipient=SHE), please=True, call="yes"),
         "yes , please give her my apple .", "aye , prithee give her mine apple ."),
        (said(Clause(None, GIVE, object=RING, recipient=I), please=True, name="gentlemen"),
         "please give me that ring , gentlemen .", "I pray ye give me that ring , good sirs ."),
        (said(Clause(None, TARRY), conjunction="when", inner=Clause(YOU, SEE, object=SHE), inner_first=True),
         "when you see her , wait .", "when thou her seest , tarry ."),
        (said(Clause(YOU, WEEP), conjunction="if", inner=Clause(HE, LOVE, object=QUEEN)),
         "you weep if he loves the queen .", "thou weepest an he the queen love ."),
        (said(Clause(YOU, TARRY), conjunction="before", inner=Clause(Phrase("thief", "this"), COME)),
         "you wait before this thief comes .", "thou tarriest ere this cutpurse cometh ."),
    ],
)  # fmt: skip
def test_how_it_is_said(sentence, modern, archaic):
    assert sentence == (modern, archaic)


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("love", "loves loving loved lovest lovedst loveth"),
        ("carry/carried/carried", "carries carrying carried carriest carriedst carrieth"),
        ("obey", "obeys obeying obeyed obeyest obeyedst obeyeth"),
        ("flee/fled/fled", "flees fleeing fled fleest fledst fleeth"),
        ("punish", "punishes punishing punished punishest punishedst punisheth"),
        ("go/went/gone", "goes going went goest wentest goeth"),
        ("hear/heard/heard", "hears hearing heard hearest heardst heareth"),
        ("give/gave/given", "gives giving gave givest gavest giveth"),
    ],
)
def test_how_verbs_change(verb, forms):
    own = Forms.read(verb)
    found = (own.third(), own.going_on(), own.past, own.thou(), own.thou_past(), own.eth())
    assert " ".join(found) == forms


def test_a_modern_sentence_has_one_archaic_one():
    draw, found = Draw(random.Random(5)), {}
    for _ in range(20_000):
        sentence = draw.sentence()
        assert found.setdefault(sentence.modern(), sentence.archaic()) == sentence.archaic()


def test_sizes_and_that_no_source_is_there_twice(splits):
    rows = [*splits.train, *splits.dev, *splits.test]
    assert (len(splits.train), len(splits.dev), len(splits.test)) == (12_000, 500, 500)
    assert len({row.source for row in rows}) == len(rows)
    assert {len(row.source.split()) for row in rows} == set(range(5, 14))


def test_the_seed_decides_all_and_the_hash_tells(splits):
    state = random.getstate()
    again, other = corpus(0), corpus(1)
    assert random.getstate() == state
    assert again == splits
    assert other.hashes != splits.hashes
    assert {row.source for row in other.test} != {row.source for row in splits.test}
    rows = [*splits.train, *splits.dev, *splits.test]
    text = "".join(f"{source}\t{target}\n" for source, target in rows)
    assert splits.hashes == {"embedded": hashlib.sha256(text.encode()).hexdigest()}


def test_every_word_of_the_test_is_in_training_often_enough(splits):
    for side in ("source", "target"):
        counts = Counter(word for row in splits.train for word in getattr(row, side).split())
        words = [word for row in splits.test for word in getattr(row, side).split()]
        assert sum(counts[word] >= 5 for word in words) / len(words) > 0.99


def test_nothing_modern_is_left_in_the_archaic_style(splits):
    words = {word for row in splits.train for word in row.target.split()}
    left = "do does did don't doesn't didn't hasn't isn't can't won't often never yes please tomorrow very"
    assert not words & set(left.split())
    to_one = [row for row in splits.train if " thou " in f" {row.target} "]
    assert len(to_one) > 1500
    assert not any(" ye " in f" {row.target} " or " your " in f" {row.target} " for row in to_one)


def test_what_can_be_had_without_learning(splits):
    substitute, wanted = substitution(splits.train), [[row.target for row in splits.test]]

    def bleu(texts):
        return sacrebleu.corpus_bleu(texts, wanted, tokenize="none", force=True).score

    assert bleu([row.source for row in splits.test]) < 25
    assert 40 < bleu([substitute(row.source) for row in splits.test]) < 60


def test_substitution_is_word_for_word(splits):
    substitute = substitution(splits.train)
    assert substitute("the soldier helped unheard queens .") == "the warrior aided unheard queens ."

"""The embedded sentences: every number follows from their grammar, and from no rule of thumb."""

from collections import Counter

import pytest

from onenth.lab.tasks.agreement.grammar import baselines, corpus
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

VERBS = {form: not index for pair in ACTS + STATES + REPOSES for index, form in enumerate(reversed(pair))}


@pytest.fixture(scope="module")
def splits():
    return corpus()


@pytest.fixture(scope="module")
def rows(splits):
    return [*splits.train, *splits.dev, *splits.test]


def parsed(words):
    """The number of the subject and of each noun after it, found from the words alone."""
    tokens = words.split(" ")
    if tokens[0] not in DETERMINERS:
        tokens = tokens[tokens.index(",") + 1 :]
    numbers = [IS_PLURAL[token] for token in tokens if token in IS_PLURAL]
    return numbers[0], numbers[1:]


def test_number_and_attractors_follow_from_the_words(rows):
    for row in rows:
        subject, after = parsed(row.words)
        assert row.plural == subject, row
        assert row.attractors == sum(plural != subject for plural in after), row


def test_verbs_agree_with_their_own_subjects(rows):
    met = Counter()
    for row in rows:
        tokens, own, last = row.words.split(" "), None, None
        for before, token in zip([None, *tokens], tokens, strict=False):
            if token in VERBS:
                assert VERBS[token] == (last if before == "that" else own), (token, row)
                met[before == "that", VERBS[token] == row.plural] += 1
            elif token in ("that", "because", "if", "when", "while"):
                own = None
            elif token in IS_PLURAL:
                last = IS_PLURAL[token]
                own = last if own is None else own
    assert min(met.values()) > 500
    assert len(met) == 4


def test_sizes_balance_and_attractors_are_as_promised(splits):
    for part, size in ((splits.train, 20_000), (splits.dev, 1_000), (splits.test, 2_000)):
        assert len(part) == size
        assert sum(row.plural for row in part) == size / 2
    found = Counter(row.attractors for row in splits.test)
    assert set(found) == {0, 1, 2, 3, 4}
    assert found[2] > 200


def test_no_sentence_is_there_twice(rows):
    assert len({row.words for row in rows}) == len(rows)


def test_the_test_set_has_no_word_that_training_lacks(splits):
    known = {word for row in splits.train for word in row.words.split(" ")}
    assert {word for row in splits.test for word in row.words.split(" ")} <= known
    assert 600 < len(known) < 1000


def test_rules_of_thumb_are_wrong(splits):
    found = baselines(splits.test)
    assert found["majority label"] == 50
    assert found["nearest noun"] <= 40
    assert found["first noun"] <= 75
    assert found["majority of nouns"] <= 65


def test_rules_of_thumb_on_sentences_counted_by_hand():
    rows = [
        Sentence("the keys to the old door", True, 1),
        Sentence("the key", False, 0),
        Sentence("near the doors , the key of the men", False, 1),
        Sentence("near the door , the keys of the men", True, 0),
        Sentence("the men that the boy with the key sees", True, 2),
    ]
    assert baselines(rows) == {
        "majority label": 60,
        "nearest noun": 40,
        "first noun": 60,
        "majority of nouns": 40,
    }


def test_seeds_are_the_whole_difference(splits):
    again, other = corpus(0), corpus(1)
    assert again == splits
    assert other.hashes != splits.hashes
    assert len({row.words for row in other.test} & {row.words for row in splits.test}) < 100


def test_each_form_is_one_word_of_one_kind():
    forms = [form for pair in [*ACTS, *STATES, *REPOSES] for form in pair]
    forms += [form for nouns in NOUNS.values() for pair in nouns for form in pair]
    forms += [*ADJECTIVES, *ADVERBS, *DETERMINERS, "that", "both", "and"]
    assert [form for form, count in Counter(forms).items() if count > 1] == []
    assert len(IS_PLURAL) > 500


@pytest.mark.parametrize(
    ("singular", "plural"),
    [("man", "men"), ("child", "children"), ("witch", "witches"), ("city", "cities"), ("alley", "alleys")],
)
def test_plurals_are_those_of_english(singular, plural):
    assert (IS_PLURAL[singular], IS_PLURAL[plural]) == (False, True)

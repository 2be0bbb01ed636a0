"""Settings by path: what they may be, what they may not, and that a recipe that cannot be is told at once."""

import dataclasses
import re

import pytest

from onenth.lab.check import check
from onenth.lab.errors import Problem
from onenth.lab.settings import change, differences, settings
from onenth.lab.tasks import recipe

AGREEMENT, STYLE = recipe("agreement/small/n4"), recipe("style/small/n4")


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("training.steps=7", 7),
        ("training.learning_rate=1e-4", 1e-4),
        ("training.learning_rate=1", 1.0),
        ("training.patience=none", None),
        ("training.decay=linear", "linear"),
        ("training.warmup=30", 30),
        ("training.clip=0.5", 0.5),
        ("training.deterministic=yes", True),
        ("training.deterministic=false", False),
        ("training.optimizer=adamw", "adamw"),
        ("model.n=8", 8),
        ("model.n=none", None),
        ("model.rule=quaternion", "quaternion"),
        ("model.rules=shared", "shared"),
        ("search.beam=2", 2),
    ],
)
def test_a_setting_is_changed_and_told(assignment, value):
    own = change(STYLE, [assignment])
    path = assignment.partition("=")[0]
    assert {each.path: each.value for each in settings(own)}[path] == value
    assert type({each.path: each.value for each in settings(own)}[path]) is type(value)
    others = {each.path: each.value for each in settings(STYLE)}
    assert {p: v for p, v in others.items() if p != path}.items() <= {
        e.path: e.value for e in settings(own)
    }.items()
    assert own.name == STYLE.name + (
        "" if others[path] == value else f"+{path}={'none' if value is None else str(value).lower()}"
    )


def test_the_order_of_assignments_does_not_matter():
    one, other = ["training.steps=7", "model.dropout=0.3"], ["model.dropout=0.3", "training.steps=7"]
    assert change(STYLE, one) == change(STYLE, other)
    assert change(STYLE, []) == STYLE


NOT_READ = [
    ("training.steps", "write path=value"),
    ("=5", "is no setting"),
    ("steps=5", "did you mean training.steps?"),
    ("training.step=5", "did you mean training.steps"),
    ("training.lerning_rate=1", "did you mean training.learning_rate?"),
    ("trainin.steps=5", "did you mean training.steps?"),
    ("model.dropuot=0.1", "did you mean model.dropout?"),
    ("modle.hidden=8", "did you mean model.hidden?"),
    ("training=5", "is no setting"),
    ("model.n.n=5", "is no setting"),
    ("name=x", "is no setting"),
    ("task=style", "is no setting"),
    ("model.pad=1", "is no setting"),
    ("model.bos=5", "is no setting"),
    ("model.eos=5", "is no setting"),
    ("zzz.qqq=1", "onenth list RECIPE names all of them"),
    ("training.steps=", "'' is not a whole number"),
    ("training.steps=many", "'many' is not a whole number"),
    ("training.steps=1.5", "'1.5' is not a whole number"),
    ("training.steps=1e3", "'1e3' is not a whole number"),
    ("training.steps=none", "'none' is not a whole number"),
    ("training.learning_rate=fast", "'fast' is not a number"),
    ("training.learning_rate=", "'' is not a number"),
    ("training.learning_rate=0,1", "'0,1' is not a number"),
    ("training.deterministic=maybe", "'maybe' is not yes or no"),
    ("training.deterministic=1", "'1' is not yes or no"),
    ("training.optimizer=lion", "'lion' is not adam, adamw"),
    ("training.optimizer=Adam", "'Adam' is not adam, adamw"),
    ("training.precision=fp16", "'fp16' is not float32, bfloat16, float64"),
    ("training.speed=fast", "'fast' is not eager, compile, capture"),
    ("training.parallel=dp", "'dp' is not ddp, fsdp"),
    ("training.rates=odd", "'odd' is not same, even"),
    ("training.warmup=soon", "'soon' is not a whole number"),
    ("training.patience=none at all", "is not a whole number or none"),
    ("training.decay=cosine", "'cosine' is not inverse-sqrt, linear, constant"),
    ("training.clip=big", "'big' is not a number or none"),
    ("model.n=four", "'four' is not a whole number or none"),
    ("model.rules=per_head", "'per_head' is not per_layer, per_attention"),
    ("search.beam=wide", "'wide' is not a whole number"),
]
CANNOT_BE = [
    ("training.steps=0", "training.steps=0 must be at least 1"),
    ("training.steps=-3", "at least 1"),
    ("training.batch_tokens=0", "at least 1"),
    ("training.learning_rate=0", "must be above 0"),
    ("training.learning_rate=-1", "must be above 0"),
    ("training.learning_rate=nan", "must be finite"),
    ("training.learning_rate=inf", "must be finite"),
    ("training.warmup=-1", "at least 0"),
    ("training.beta1=1", "must be below 1"),
    ("training.beta1=-0.1", "at least 0"),
    ("training.beta2=1.5", "must be below 1"),
    ("training.epsilon=0", "must be above 0"),
    ("training.weight_decay=-1", "at least 0"),
    ("training.weight_decay=nan", "must be finite"),
    ("training.clip=0", "must be above 0"),
    ("training.clip=-1", "must be above 0"),
    ("training.label_smoothing=1", "must be below 1"),
    ("training.label_smoothing=-0.1", "at least 0"),
    ("training.accumulate=0", "at least 1"),
    ("training.longest=0", "at least 1"),
    ("training.average=0", "at least 1"),
    ("training.save_every=0", "at least 1"),
    ("training.evaluate_every=0", "at least 1"),
    ("training.report_every=0", "at least 1"),
    ("training.patience=0", "at least 1"),
    ("training.most_bad=0", "at least 1"),
    ("training.workers=-1", "at least 0"),
    ("model.vocabulary=4", "at least 5"),
    ("model.hidden=0", "at least 1"),
    ("model.hidden=-8", "at least 1"),
    ("model.hidden=130", "130"),
    ("model.hidden=6", "6"),
    ("model.filter=0", "at least 1"),
    ("model.filter=513", "513"),
    ("model.heads=0", "at least 1"),
    ("model.heads=3", "3"),
    ("model.layers=0", "at least 1"),
    ("model.dropout=1", "must be below 1"),
    ("model.dropout=-0.1", "at least 0"),
    ("model.dropout=nan", "must be finite"),
    ("model.positions=0", "at least 1"),
    ("model.n=0", "n=0"),
    ("model.n=-2", "n=-2"),
    ("model.n=3", "3"),
    ("model.n=7", "7"),
    ("model.rank=0", "rank"),
    ("model.rank=-1", "rank"),
    ("model.rule=quaternon", "quaternon"),
    ("model.rule=octonion", "n=4 contradicts the rule, which has n=8"),
    ("search.beam=0", "at least 1"),
    ("search.beam=1601", "search.beam=1601 must be at most model.vocabulary"),
    ("search.alpha=-1", "at least 0"),
    ("search.alpha=nan", "must be finite"),
    ("search.more=-1", "at least 0"),
    ("search.tokens=0", "at least 1"),
]


def test_there_are_eighty():
    assert len({*NOT_READ, *CANNOT_BE}) == len(NOT_READ) + len(CANNOT_BE) >= 80


@pytest.mark.parametrize(("assignment", "message"), NOT_READ)
def test_what_is_no_setting_or_value_is_refused(assignment, message):
    with pytest.raises(Problem, match=f"^--set {re.escape(assignment)}: .*{re.escape(message)}"):
        change(STYLE, [assignment])


@pytest.mark.parametrize(("assignment", "message"), CANNOT_BE)
def test_what_cannot_be_is_refused(assignment, message):
    own = change(STYLE, [assignment])
    with pytest.raises(Problem, match=f"^the recipe {re.escape(own.name)} cannot be: .*{re.escape(message)}"):
        check(own)


def test_all_that_is_wrong_is_said_at_once():
    own = change(STYLE, ["training.steps=0", "model.dropout=2", "search.beam=0"])
    with pytest.raises(
        Problem, match=r"training\.steps.*search\.beam|model\.dropout.*search\.beam"
    ) as refused:
        check(own)
    assert all(path in str(refused.value) for path in ("training.steps", "model.dropout", "search.beam"))


def test_an_inverse_root_needs_a_warm_up():
    with pytest.raises(
        Problem, match=r"training\.warmup=0 leaves training\.decay=inverse-sqrt without a start"
    ):
        check(change(STYLE, ["training.decay=inverse-sqrt", "training.warmup=0"]))
    check(change(STYLE, ["training.decay=constant", "training.warmup=0"]))


def test_a_linear_decay_needs_steps_after_the_warm_up():
    own = change(STYLE, ["training.decay=linear", "training.steps=50", "training.warmup=51"])
    with pytest.raises(Problem, match=r"training\.warmup=51 leaves no step for training\.decay=linear"):
        check(own)
    check(change(STYLE, ["training.decay=linear", "training.steps=50", "training.warmup=50"]))


def test_a_setting_cannot_be_given_twice():
    with pytest.raises(Problem, match=r"training\.steps is set twice"):
        change(STYLE, ["training.steps=5", "training.steps=6"])


def test_a_task_without_search_has_no_settings_of_it():
    with pytest.raises(Problem, match=r"'search\.beam' is no setting of agreement/small/n4"):
        change(AGREEMENT, ["search.beam=4"])


def test_every_setting_says_what_it_is():
    for own in (*settings(STYLE), *settings(AGREEMENT)):
        assert own.about, own.path
        assert own.kind


def test_differences_are_named():
    one = dataclasses.asdict(STYLE)
    other = dataclasses.asdict(change(STYLE, ["training.steps=7", "model.n=none"]))
    assert list(differences(one, one)) == []
    assert list(differences(one["training"], other["training"])) == [
        f"steps: {STYLE.training.steps} here, 7 there"
    ]
    assert "model.n: 4 here, none there" in list(differences(one, other))

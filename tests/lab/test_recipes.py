"""Every row of the paper's tables has a recipe, and every recipe can be built and trained."""

import dataclasses
import re
import tempfile
from pathlib import Path

import pytest
import torch

from onenth.lab.check import check
from onenth.lab.engine.ranks import Ranks
from onenth.lab.engine.report import Silence
from onenth.lab.engine.run import Run
from onenth.lab.errors import Problem
from onenth.lab.listing import sizes
from onenth.lab.tables import TABLES
from onenth.lab.tasks import TASKS, recipe, recipes
from onenth.lab.tasks.variants import VARIANTS, name_of, options_of

# the last column of the paper's tables, as it sets them
SOURCE = {
    "style": {"dense": 11.65, "n2": 12.20, "n4": 12.42, "n8": 11.66, "n16": 10.76},
    "agreement": {"dense": 94.80, "quaternion": 94.70, "n2": 95.14, "n4": 95.05, "n8": 95.62},
}
SLOW = re.compile(r"style/paper/")


def variant(row):
    phm = row.phm
    return name_of(None if phm.get("n", 1) == 1 else phm["n"], None, phm.get("rule", "learned"))


@pytest.mark.parametrize("task", TASKS)
def test_every_row_has_a_recipe(task):
    [table] = [own for own in TABLES if own.name == task]
    names = [variant(row) for row in table.rows]
    assert TASKS[task].paper == SOURCE[task]
    assert list(SOURCE[task]) == names
    for name in names:
        assert recipe(f"{task}/paper/{name}").task == task
        assert recipe(f"{task}/small/{name}").task == task


def test_the_counts_of_agreement_are_those_printed():
    counts = [sizes(recipe(f"agreement/paper/{name}"))["layers"] for name in SOURCE["agreement"]]
    assert counts == [395_520, 100_608, 198_976, 101_120, 55_552]


def test_recipes_differ_by_the_layers_alone():
    for name, own in recipes().items():
        if "dagger" in name:
            continue
        dense = recipe(f"{name.rpartition('/')[0]}/dense")
        layers = dataclasses.replace(own.model, n=None, rule="learned", rank=None)
        assert dataclasses.replace(own, name=dense.name, model=layers) == dense


def test_the_papers_settings():
    for name, own in recipes().items():
        if "/paper/" in name:
            training = own.training
            assert (training.steps, training.batch_tokens, training.average) == (10_000, 2048, 8)
            assert (training.warmup, training.label_smoothing, training.clip) == (16_000, 0.1, None)
            assert (training.beta1, training.beta2, training.epsilon) == (0.9, 0.997, 1e-9)
            assert training.learning_rate == pytest.approx(2 / (own.model.hidden * 16_000) ** 0.5)
    style, agreement = recipe("style/paper/n4"), recipe("agreement/paper/n4")
    assert (style.model.layers, style.model.heads, style.model.hidden, style.model.filter) == (
        4,
        8,
        512,
        2048,
    )
    assert (style.search.beam, style.search.alpha) == (5, 0.6)
    assert (agreement.model.layers, agreement.model.heads, agreement.model.hidden) == (2, 4, 128)


def test_daggers_have_twice_and_four_times_the_parameters():
    for n in (2, 4, 8):
        plain = sizes(recipe(f"style/paper/n{n}"))["layers"]
        params = sizes(recipe(f"style/paper/n{n}-dagger-params"))["layers"]
        hidden = sizes(recipe(f"style/paper/n{n}-dagger-hidden"))["layers"]
        assert params / plain == pytest.approx(2, rel=0.02)
        assert hidden / plain == pytest.approx(4, rel=0.02)


def test_arithmetic_is_the_share_of_products():
    shares = {name: sizes(recipe(f"agreement/small/{name}"))["arithmetic"] for name in VARIANTS}
    assert shares == {
        "dense": 1, "quaternion": 8 / 16, "n2": 1, "n4": 1, "n8": 1, "n16": 1, "n4-rank8": 8 / 16,
        "n8-rank16": 16 / 64, "n16-rank32": 32 / 256, "n4-rank4": 4 / 16, "n8-rank8": 8 / 64,
        "n4-diagonal": 4 / 16, "n8-diagonal": 8 / 64,
    }  # fmt: skip


@pytest.mark.parametrize("name", [*recipes()])
def test_every_recipe_can_be(name):
    check(recipe(name))
    assert options_of(name.rpartition("/")[2].partition("-dagger")[0]) is not None


@pytest.fixture(scope="module")
def corpora():
    """The first rows of the embedded corpora, with vocabularies."""
    made = {}
    with tempfile.TemporaryDirectory() as cache:
        for name, task in TASKS.items():
            splits = task.corpus()
            vocabulary = task.vocabulary(splits.train[:400], 400, Path(cache))
            made[name] = vocabulary, task.examples(splits.train[:40], vocabulary)
    return made


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.full] if SLOW.match(name) else []) for name in recipes()],
)
def test_every_recipe_takes_two_steps(name, corpora, tmp_path):
    own = recipe(name)
    task, (vocabulary, examples) = TASKS[own.task], corpora[own.task]
    model = task.model(dataclasses.replace(own.model, vocabulary=len(vocabulary)))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    training = dataclasses.replace(own.training, steps=2, batch_tokens=64, save_every=2, evaluate_every=2)
    ranks = Ranks(0, 1, torch.device("cpu"))
    ended = Run(training, 0, model, task.logits, examples, examples, tmp_path, ranks, Silence())()
    assert (ended.progress.step, ended.progress.bad) == (2, 0)
    assert not all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("agreement/small/n", "agreement/small/n"),
        ("agrement/paper/n4", "agreement/paper/n4"),
        ("style/small/n4-rnk8", "style/small/n4-rank8"),
        ("", "onenth list names all of them"),
    ],
)
def test_an_unknown_recipe_is_refused_with_the_near_spelling(name, near):
    with pytest.raises(Problem, match=re.escape(near)):
        recipe(name)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_name_of_a_variant_says_what_it_is(name):
    options = options_of(name)
    assert name_of(options.get("n"), options.get("rank"), options.get("rule", "learned")) == name


def test_other_variants_have_names_too():
    assert options_of("n6-rank3") == {"n": 6, "rank": 3}
    assert options_of("octonion") == {"rule": "octonion"}
    with pytest.raises(Problem, match="is no variant"):
        options_of("4n")

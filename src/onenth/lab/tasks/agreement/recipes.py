"""Recipes of subject-verb agreement: the paper's, and small ones for the embedded corpus on two cores."""

from collections.abc import Iterator
from dataclasses import replace

from onenth.lab.recipe import Recipe, Training
from onenth.lab.tasks.rate import highest
from onenth.lab.tasks.variants import VARIANTS, options_of
from onenth.models import SequenceConfig


def paper(variant: str = "dense") -> Recipe:
    """2 layers, 4 heads, hidden size 128, and 10K steps; the rest is that of the authors' other models."""
    return Recipe(
        name=f"agreement/paper/{variant}",
        task="agreement",
        model=SequenceConfig(vocabulary=20_000, **options_of(variant)),
        training=Training(
            steps=10_000,
            batch_tokens=2048,
            learning_rate=highest(128, 16_000),
            warmup=16_000,
            label_smoothing=0.1,
            average=8,
            save_every=500,
        ),
    )


def small(variant: str = "dense") -> Recipe:
    """The same model for the embedded corpus, trained for less than half a minute."""
    own = paper(variant)
    training = Training(
        steps=600,
        batch_tokens=1024,
        learning_rate=2e-3,
        warmup=50,
        decay="linear",
        beta2=0.999,
        rates="even",
        clip=1.0,
        save_every=300,
        evaluate_every=100,
        report_every=20,
    )
    return replace(own, name=f"agreement/small/{variant}", training=training)


def all_() -> Iterator[Recipe]:
    """Every variant that fits the model's 128 features."""
    for setup in (paper, small):
        for variant in VARIANTS:
            yield setup(variant)

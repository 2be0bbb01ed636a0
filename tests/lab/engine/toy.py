"""A run that takes a fraction of a second: a tiny model, made-up sentences."""

import dataclasses

import numpy as np
import torch

from onenth.lab.engine.ranks import Ranks
from onenth.lab.engine.report import Silence
from onenth.lab.engine.run import Run
from onenth.lab.recipe import Training
from onenth.lab.tasks.agreement import AGREEMENT
from onenth.lab.tasks.agreement.task import Prefixes
from onenth.models import SequenceClassifier, SequenceConfig

VOCABULARY = 20
ALONE = Ranks(0, 1, torch.device("cpu"))
TRAINING = Training(
    steps=31,
    batch_tokens=64,
    learning_rate=1e-2,
    warmup=10,
    save_every=1000,
    evaluate_every=1000,
    report_every=1000,
)


class Ids:
    """A vocabulary of numbers."""

    def encode(self, text):
        return [int(word) for word in text.split()]


def sentences(count=60, seed=0):
    """Sentences of 1 to 12 numbers; whether more than half are even is the question."""
    from onenth.lab.tasks.agreement.rows import Sentence

    draw = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        ids = draw.integers(4, VOCABULARY, draw.integers(1, 13))
        found.append(Sentence(" ".join(map(str, ids)), bool((ids % 2 == 0).mean() > 0.5), None))
    return found


def examples(count=60, seed=0):
    return Prefixes(sentences(count, seed), Ids())


def model(dropout=0.1, dtype=torch.float32, **phm):
    torch.manual_seed(7)
    config = SequenceConfig(
        vocabulary=VOCABULARY, hidden=8, filter=16, heads=2, layers=1, positions=16, dropout=dropout,
        **{"n": 2, **phm},
    )  # fmt: skip
    return SequenceClassifier(config).to(dtype)


def run(folder, *, ranks=ALONE, tell=None, train=None, own=None, dev=None, seed=0, **training):
    """A run of the toy, with other settings than `TRAINING` where given."""
    return Run(
        dataclasses.replace(TRAINING, **training),
        seed,
        own or model(),
        AGREEMENT.logits,
        train or examples(),
        dev or examples(20, 1),
        folder,
        ranks,
        tell or Silence(),
    )

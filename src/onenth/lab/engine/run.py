"""The run: steps, looks at the development set, checkpoints, and the model in the end."""

import copy
import math
import os
import signal
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor, nn

from onenth.lab.data.batches import Batch, Batches, Examples
from onenth.lab.data.loader import stream
from onenth.lab.engine.checkpoint import Store
from onenth.lab.engine.meter import Meter, Progress
from onenth.lab.engine.optimizers import optimizer, schedule, set_rate
from onenth.lab.engine.ranks import Ranks
from onenth.lab.engine.report import Reporter, Silence
from onenth.lab.engine.signals import Asked, Stopped, listening
from onenth.lab.engine.state import gathered, parameters, restore, set_parameters, set_random
from onenth.lab.engine.step import Logits, Outcome, Step
from onenth.lab.engine.validate import validate
from onenth.lab.errors import Problem
from onenth.lab.recipe import Training


@dataclass(frozen=True)
class Trained:
    """What became of a run; on the first rank with the model that it ends in."""

    progress: Progress
    model: nn.Module
    averaged: list[int]  # the steps whose mean the model is


class Run:
    """A model, what it learns from, and how.

    Args:
        training: the settings.
        seed: decides the order of the rows and what is dropped; the model is drawn by whoever makes it.
        model: trained in place.
        logits: of a batch's tensors, with the labels they should have.
        train, dev: what is learned from, and what is looked at.
        folder: for checkpoints.
        ranks: the processes that train together.
        tell: is told of everything.
    """

    def __init__(
        self,
        training: Training,
        seed: int,
        model: nn.Module,
        logits: Logits,
        train: Examples,
        dev: Examples,
        folder: Path,
        ranks: Ranks,
        tell: Reporter | Silence,
    ) -> None:
        _check(training, ranks)
        self.training, self.ranks, self.tell = training, ranks, tell
        self.logits, self.dev = logits, dev
        if training.deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # or torch refuses cuBLAS
            torch.use_deterministic_algorithms(True)
        self.model = model.to(ranks.device).train()
        # one rank cannot evaluate what is sharded, so the first one keeps a whole copy for it
        sharded = ranks.count > 1 and training.parallel == "fsdp"
        self.whole = copy.deepcopy(model) if sharded else model
        wrapped = ranks.wrap(model, training.parallel)
        self.optimizer = optimizer(model, training, ranks.device)
        self.step = Step(wrapped, self.optimizer, logits, training, ranks)
        self.batches = Batches(
            train, training.batch_tokens, training.longest, seed, ranks.rank, ranks.count,
            fixed=training.speed != "eager",
        )  # fmt: skip
        self.seed = seed
        self.random: dict[str, Tensor] = {}  # states of the generators to go on with
        self.store, self.progress = self._newest(folder)

    def __call__(self) -> Trained:
        """Trains from the newest good checkpoint on, or from the start."""
        progress = self.progress
        self.tell.begin(progress.step)
        if not progress.ended:
            if progress.step:
                self.tell.say(f"goes on from step {progress.step}")
            elif self.batches.left_out:
                longest = self.training.longest
                self.tell.say(f"{self.batches.left_out} rows of more than {longest} tokens are left out")
            with listening() as asked:
                self._train(asked)
        return self._trained()

    def _newest(self, folder: Path) -> tuple[Store, Progress]:
        """The checkpoints, and how far the newest good one is, which every rank takes up."""
        step = torch.zeros(1, dtype=torch.int64, device=self.ranks.device)
        store = found = None
        if self.ranks.first:
            store = Store(folder, self.training.average + 1, self.tell.say)
            found = store.newest()
            step.fill_(found.step if found else 0)
        self.ranks.sum(step)
        if not self.ranks.first:
            store = Store(folder, self.training.average + 1, self.tell.say)
            found = store.load(int(step)) if step else None
        assert store is not None
        if found is None:
            return store, Progress()
        restore(self.model, self.optimizer, found.tensors)
        self.random = found.tensors["random"]
        return store, Progress(**found.facts)

    def _train(self, asked: Asked) -> None:
        training, progress, ranks = self.training, self.progress, self.ranks
        torch.manual_seed((self.seed << 16) + ranks.rank)
        set_random(ranks, self.random)
        ahead = stream(self.batches, progress.step * training.accumulate, training.workers)
        # a CPU loses nothing by reading what a step came to at once, another device would wait
        every = 1 if ranks.device.type == "cpu" else training.report_every
        pending: list[tuple[int, Outcome, list[Batch]]] = []
        meter, bad = Meter(progress), progress.bad
        while not progress.ended:
            number = progress.step + 1
            set_rate(self.optimizer, schedule(training, number))
            parts = list(islice(ahead, training.accumulate))
            pending.append((number, self.step(parts, stop=asked.number is not None), parts))
            progress.step, progress.ended = number, number == training.steps
            progress.tokens += sum(part.tokens for part in parts)
            self.tell.step(number)
            looks = progress.ended or number % training.evaluate_every == 0
            saves = progress.ended or number % training.save_every == 0
            reports = progress.ended or number % training.report_every == 0
            if not (looks or saves or reports or number % every == 0):
                continue
            stop = self._settle(pending, meter)
            if reports:
                rate = schedule(training, number) * training.learning_rate
                self.tell.line(number, {**meter.read(), "rate": rate, "bad": progress.bad})
            gives_up = progress.bad - bad >= training.most_bad
            with meter.paused():
                if looks and not gives_up:
                    self._look()
                if saves or progress.ended or stop or gives_up:
                    self._save()
            if gives_up:
                raise Problem(
                    f"{progress.bad - bad} batches had no finite loss or gradient, the last at step "
                    f"{number}; none changed the model, which is saved. Look at their rows in the log, "
                    "lower training.learning_rate, or raise training.most_bad"
                )
            if stop and not progress.ended:
                raise Stopped(number, asked.number or signal.SIGTERM)  # by another rank, if not by this one

    def _settle(self, pending: list[tuple[int, Outcome, list[Batch]]], meter: Meter) -> bool:
        """Reads what the last steps came to; whether a rank wants to stop."""
        read = torch.stack(
            [torch.stack([own.double() for own in outcome]) for _, outcome, _ in pending]
        ).tolist()
        stops = False
        for (number, _, parts), (loss, norm, bad, stop) in zip(pending, read, strict=True):
            stops = stops or stop > 0
            if bad:
                self.progress.bad += 1
                rows = [int(row) for part in parts for row in part.rows]
                self.tell.bad(number, loss, norm, rows)
            else:
                meter.add(loss)
        pending.clear()
        return stops

    def _look(self) -> None:
        """At the development set; every rank learns whether the run ends early."""
        training, progress = self.training, self.progress
        told = torch.zeros(1, dtype=torch.float64, device=self.ranks.device)
        model = self._plain()
        if self.ranks.first:
            low = training.precision == "bfloat16"
            found = validate(model, self.dev, self.logits, training.batch_tokens, self.ranks.device, low)
            self.tell.line(progress.step, {"dev_loss": found.loss, "dev_accuracy": found.accuracy})
            told.fill_(found.loss)
        loss = self.ranks.sum(told).item()
        better = math.isfinite(loss) and (progress.best is None or loss < progress.best)
        progress.best, progress.since = (loss, 0) if better else (progress.best, progress.since + 1)
        if training.patience is not None and progress.since >= training.patience and not progress.ended:
            self.tell.say(f"step {progress.step}: {progress.since} looks without a lower loss, so it ends")
            progress.ended = True

    def _save(self) -> None:
        groups = gathered(self.model, self.optimizer, self.ranks)
        if self.ranks.first:
            self.store.save(self.progress.step, groups, vars(self.progress))
            for step in self.store.steps()[:-1]:
                if step % self.training.save_every:  # of a session that was asked to stop
                    self.store.remove(step)
        self.ranks.barrier()

    def _plain(self) -> nn.Module:
        """The model with whole parameters, as it is now; every rank has to ask."""
        if self.whole is not self.model:
            set_parameters(self.whole, parameters(self.model))
        return self.whole

    def _trained(self) -> Trained:
        averaged = self.store.steps()[-self.training.average :]
        if self.ranks.first:
            set_parameters(self.whole, self.store.averaged("model", averaged))
        return Trained(self.progress, self.whole.eval(), averaged)


def _check(training: Training, ranks: Ranks) -> None:
    """What these processes on this device can do."""
    speed, kind = training.speed, ranks.device.type
    if speed == "capture" and (kind != "cuda" or ranks.count > 1):
        raise Problem("training.speed=capture takes one process with a CUDA device: write compile or eager")
    if speed == "compile" and ranks.count > 1 and training.parallel == "fsdp":
        raise Problem("training.speed=compile does not go with training.parallel=fsdp: write eager, or ddp")

"""Training loops side by side with the bare forward, backward and step: ours, Trainer and Lightning.

All train the agreement model on the embedded corpus: the same weights, batches, optimiser, rates and dropped
features. What the model gives in the first steps has to be what it gives in the bare loop, or nothing is
timed. A contestant is timed from the end of one step of its optimiser to that of another, so that neither
its start nor its end counts. The rounds are interleaved; ratios are medians over them, with the quartiles.

Ours prepares its batches within that time; the others find them ready. Nothing is saved or evaluated there.
Trainer takes the norm of the gradient and scales by it, as it does by default, here with a bound so high
that no number changes. It logs into memory, Lightning into a CSV file, both every 50 steps; ours into its
log and TensorBoard, as often as the recipe says.

    python benchmarks/engine.py --out results/engine-cpu.json
"""

import argparse
import copy
import dataclasses
import gc
import itertools
import logging
import operator
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import record
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from onenth.lab.data.batches import Batches, Examples
from onenth.lab.data.loader import stream
from onenth.lab.engine.optimizers import optimizer
from onenth.lab.engine.ranks import Ranks
from onenth.lab.engine.report import Reporter
from onenth.lab.engine.run import Run
from onenth.lab.measure.timing import cell
from onenth.lab.recipe import Training
from onenth.lab.tasks import recipe
from onenth.lab.tasks.agreement import AGREEMENT

os.environ["HF_HUB_OFFLINE"] = os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

import lightning
import transformers
from lightning.pytorch.loggers import CSVLogger
from transformers import PrinterCallback, Trainer, TrainingArguments

CPU = torch.device("cpu")
SEED = 0
CHECKED = 10  # steps
EVERY = 50  # steps between two lines of the peers' logs


@dataclass(frozen=True)
class Work:
    """What every contestant is given."""

    training: Training
    model: nn.Module
    train: Examples
    dev: Examples
    batches: list[dict[str, Tensor]]


class Watch:
    """What a model gives, and when each step of its optimiser ends; draws what is dropped from one seed."""

    def __init__(self, model: nn.Module, adam: torch.optim.Optimizer) -> None:
        self.logits: list[Tensor] = []
        self.ends: list[float] = []
        model.register_forward_pre_hook(self._before)
        model.register_forward_hook(self._after)
        adam.register_step_post_hook(self._end)

    def _before(self, *_: Any) -> None:
        if not self.logits:
            torch.manual_seed(SEED)

    def _after(self, model: nn.Module, inputs: Any, logits: Tensor) -> None:
        self.logits.append(logits.detach())

    def _end(self, *_: Any) -> None:
        self.ends.append(time.perf_counter())


Contestant = Callable[[Work, nn.Module, Path], Watch]


def loss_of(model: nn.Module, tensors: dict[str, Tensor]) -> Tensor:
    logits, labels = AGREEMENT.logits(model, tensors)
    return nn.functional.cross_entropy(logits, labels)


def bare(work: Work, model: nn.Module, folder: Path) -> Watch:
    adam = optimizer(model, work.training, CPU)
    watch = Watch(model, adam)
    for tensors in work.batches:
        adam.zero_grad()
        loss_of(model, tensors).backward()
        adam.step()
    return watch


def ours(work: Work, model: nn.Module, folder: Path, bar: bool = False) -> Watch:
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(file=nowhere, force_terminal=bar, width=120)
        with Reporter(folder, "agreement", work.training.steps, console) as tell:
            return _run(work, model, folder, tell)


def ours_with_bar(work: Work, model: nn.Module, folder: Path) -> Watch:
    return ours(work, model, folder, bar=True)


def _run(work: Work, model: nn.Module, folder: Path, tell: Reporter) -> Watch:
    run = Run(
        work.training, SEED, model, AGREEMENT.logits, work.train, work.dev, folder / "checkpoints",
        Ranks(0, 1, CPU), tell,
    )  # fmt: skip
    watch = Watch(model, run.optimizer)
    run()
    return watch


class _Trainer(Trainer):
    def compute_loss(self, model: nn.Module, inputs: dict[str, Tensor], *_: Any, **__: Any) -> Tensor:
        return loss_of(model, inputs)


def with_trainer(work: Work, model: nn.Module, folder: Path) -> Watch:
    adam = optimizer(model, work.training, CPU)
    watch = Watch(model, adam)
    arguments = TrainingArguments(
        output_dir=str(folder), max_steps=len(work.batches), per_device_train_batch_size=1, use_cpu=True,
        train_sampling_strategy="sequential", lr_scheduler_type="constant", max_grad_norm=1e9,
        logging_steps=EVERY, save_strategy="no", report_to="none", disable_tqdm=True,
        remove_unused_columns=False, dataloader_pin_memory=False,
    )  # fmt: skip
    own = _Trainer(
        nn.Sequential(model),  # Trainer writes into a model's config, and this one's is frozen
        arguments, train_dataset=work.batches, data_collator=operator.itemgetter(0), optimizers=(adam, None),
    )  # fmt: skip
    own.remove_callback(PrinterCallback)
    own.train()
    return watch


class _Module(lightning.LightningModule):
    def __init__(self, model: nn.Module, adam: torch.optim.Optimizer) -> None:
        super().__init__()
        self.model, self.adam = model, adam

    def training_step(self, tensors: dict[str, Tensor], number: int) -> Tensor:
        loss = loss_of(self.model, tensors)
        self.log("loss", loss, batch_size=len(tensors["ids"]))
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self.adam


def with_lightning(work: Work, model: nn.Module, folder: Path) -> Watch:
    adam = optimizer(model, work.training, CPU)
    watch = Watch(model, adam)
    own = lightning.Trainer(
        accelerator="cpu", devices=1, max_steps=len(work.batches), log_every_n_steps=EVERY,
        logger=CSVLogger(folder), enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    own.fit(_Module(model, adam), torch.utils.data.DataLoader(work.batches, batch_size=None))
    return watch


CONTESTANTS: dict[str, Contestant] = {
    "the bare loop": bare,
    "onenth": ours,
    "onenth, with its bar": ours_with_bar,
    f"transformers.Trainer {transformers.__version__}": with_trainer,
    f"lightning.Trainer {lightning.__version__}": with_lightning,
}


def work_of(variant: str, steps: int) -> Work:
    """The small recipe at a constant rate, for so many steps, looking at little in the end."""
    own = recipe(f"agreement/small/{variant}")
    splits = AGREEMENT.corpus()
    vocabulary = AGREEMENT.vocabulary(splits.train, own.model.vocabulary, Path())
    train, dev = (AGREEMENT.examples(rows, vocabulary) for rows in (splits.train, splits.dev[:8]))
    training = dataclasses.replace(
        own.training, steps=steps, warmup=1, decay="constant", clip=None,
        learning_rate=own.training.learning_rate / 10, save_every=steps, evaluate_every=steps,
        longest=min(own.training.longest, own.model.positions),
    )  # fmt: skip
    torch.manual_seed(SEED)
    model = AGREEMENT.model(dataclasses.replace(own.model, vocabulary=len(vocabulary))).train()
    batches = Batches(train, training.batch_tokens, training.longest, SEED)
    ready = [batch.tensors for batch in itertools.islice(stream(batches, 0, 0), steps)]
    return Work(training, model, train, dev, ready)


def check(name: str, watch: Watch, base: Watch, work: Work) -> None:
    """Raises where a contestant does not learn what the bare loop learns, so that it is not timed."""
    if len(watch.ends) != work.training.steps:
        raise SystemExit(f"{name} made {len(watch.ends)} steps of {work.training.steps}: not timed")
    for step, (tensors, given, wanted) in enumerate(
        zip(work.batches[:CHECKED], watch.logits, base.logits, strict=False), 1
    ):
        if len(given) != len(wanted):
            raise SystemExit(f"{name}: step {step} has {len(given)} rows, not {len(wanted)}: not timed")
        loss, other = (nn.functional.cross_entropy(own, tensors["labels"]).item() for own in (given, wanted))
        if not abs(loss - other) < 1e-5:
            raise SystemExit(f"{name}: the loss of step {step} is {loss:.7f}, not {other:.7f}: not timed")


def table(work: Work, warm: int, rounds: int) -> list[dict[str, Any]]:
    """Milliseconds of a step after the first `warm`, and ratios to the bare loop."""
    seconds: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    for turn in range(rounds + 1):
        watches: list[Watch] = []
        for name, contestant in CONTESTANTS.items():
            gc.collect()
            with tempfile.TemporaryDirectory() as folder:
                watches.append(contestant(work, copy.deepcopy(work.model), Path(folder)))
            check(name, watches[-1], watches[0], work)
            if turn:  # the first checks and warms up
                seconds[name].append(watches[-1].ends[-1] - watches[-1].ends[warm - 1])
    found = []
    base = next(iter(seconds.values()))
    for name, own in seconds.items():
        ratios = sorted(a / b for a, b in zip(own, base, strict=True))
        quarter = len(ratios) // 4
        found.append({
            "name": name, "ms": round(1e3 * statistics.median(own) / (work.training.steps - warm), 4),
            "ratio": round(statistics.median(ratios), 4),
            "quartiles": [round(ratios[quarter], 4), round(ratios[-1 - quarter], 4)],
        })  # fmt: skip
    return found


def quiet() -> None:
    """Lightning advises on what is meant to be so here: no workers, few steps."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variants", nargs="+", default=["dense", "n4"], metavar="VARIANT")
    parser.add_argument("--steps", type=int, default=60, help="that are timed at once (default 60)")
    parser.add_argument("--warm", type=int, default=20, help="steps before them (default 20)")
    parser.add_argument("--rounds", type=int, default=10, help="times each is timed (default 10)")
    parser.add_argument("--threads", type=int, default=2, help="threads torch may use (default 2)")
    parser.add_argument("--out", type=Path, help="file for the result (JSON)")
    options = parser.parse_args()
    if min(options.steps, options.warm, options.rounds) < 1:
        parser.error("--steps, --warm and --rounds are 1 or more")
    torch.set_num_threads(options.threads)
    quiet()
    tables = {}
    for variant in options.variants:
        title = f"agreement/small/{variant}, a training step"
        work = work_of(variant, options.warm + options.steps)
        tables[title] = table(work, options.warm, options.rounds)
        shown = Table("loop", "ratio", "ms", title=title)
        for row in tables[title]:
            shown.add_row(row["name"], cell(row), f"{row['ms']:.2f}")
        Console(width=110).print(shown)
    if options.out:
        about = {"transformers": transformers.__version__, "lightning": lightning.__version__}
        steps = {"steps": options.steps, "warm": options.warm, "rounds": options.rounds}
        record.write(options.out, {"dtype": "float32", **about, **steps, **tables})


if __name__ == "__main__":
    main()

"""What a run tells while it trains: a bar on the terminal, log.jsonl, and TensorBoard."""

import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from onenth.lab.errors import Problem

LOG = "log.jsonl"
_EVERY = 0.5  # seconds between two drawings of the bar: the cores are for training
_SHOWN = "loss", "tokens_per_second", "dev_loss", "dev_accuracy"


class Reporter:
    """For the first rank; the others have a `Silence`.

    Args:
        folder: of the run.
        name: of the run, on the terminal.
        steps: in all.
        console: for people.
    """

    def __init__(self, folder: Path, name: str, steps: int, console: Console) -> None:
        self._folder, self._console = folder, console
        self._newest: dict[str, str] = {}  # figures, to be shown beside the bar
        self._drawn = 0.0
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn(), TextColumn("{task.fields[now]}"),
            console=console, transient=True, disable=not console.is_terminal, auto_refresh=False,
        )  # fmt: skip
        self._task = self._bar.add_task(name, total=steps, now="")
        self._log: IO[str] | None = None
        self._board: Any = None

    def begin(self, done: int) -> None:
        """Goes on after so many steps; lines of later ones are dropped, for they come again."""
        from torch.utils.tensorboard import SummaryWriter

        _drop_after(self._folder / LOG, done)
        self._log = (self._folder / LOG).open("a", encoding="utf-8")
        self._board = SummaryWriter(str(self._folder / "tensorboard"), purge_step=done + 1 if done else None)
        self._bar.update(self._task, completed=done)
        self._bar.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()
        if self._log is not None:
            self._log.close()
            self._board.close()

    def say(self, sentence: str) -> None:
        """A sentence for the person who waits."""
        self._console.print(sentence, markup=False, highlight=False)

    def step(self, step: int) -> None:
        now = time.monotonic()
        if now - self._drawn >= _EVERY:
            self._drawn = now
            self._bar.update(self._task, completed=step, refresh=True)

    def bad(self, step: int, loss: float, norm: float, rows: list[int]) -> None:
        """A batch that could not be learned from, with the rows of the training set in it."""
        shown = ", ".join(str(row + 1) for row in rows[:5]) + (", …" if len(rows) > 5 else "")
        self.say(
            f"step {step}: loss {loss:g}, gradient {norm:g}: left out, nothing has changed; rows {shown}"
        )
        self.line(step, {"bad_loss": loss, "bad_norm": norm, "rows": rows})

    def line(self, step: int, values: Mapping[str, Any]) -> None:
        """A line of the log, and the newest figures beside the bar. What is not finite is null."""
        assert self._log is not None
        told = {key: value if _finite(value) else None for key, value in values.items()}
        self._log.write(json.dumps({"step": step, **told}, allow_nan=False) + "\n")
        self._log.flush()
        for key, value in told.items():
            if isinstance(value, int | float):
                self._board.add_scalar(key, value, step)
        self._newest |= {key: f"{told[key]:,.4g}" for key in _SHOWN if told.get(key) is not None}
        now = "  ".join(f"{key} {own}" for key, own in self._newest.items())
        self._bar.update(self._task, completed=step, now=now)


class Silence:
    """Tells nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def begin(self, done: int) -> None: ...

    def say(self, sentence: str) -> None: ...

    def step(self, step: int) -> None: ...

    def bad(self, step: int, loss: float, norm: float, rows: list[int]) -> None: ...

    def line(self, step: int, values: Mapping[str, Any]) -> None: ...


def lines(folder: Path) -> list[dict[str, Any]]:
    """The log of a run."""
    path = folder / LOG
    if not path.exists():
        return []
    found = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            found.append(json.loads(text))
        except json.JSONDecodeError as error:
            raise Problem.at(path, number, f"is no JSON ({error})", "remove the line") from error
    return found


def _drop_after(path: Path, step: int) -> None:
    """Leaves the lines up to a step; a last line that a crash cut short goes as well."""
    if not path.exists():
        return
    kept = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            if json.loads(text)["step"] <= step:
                kept.append(text + "\n")
        except (json.JSONDecodeError, KeyError, TypeError):
            continue
    path.write_text("".join(kept), encoding="utf-8")


def _finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)

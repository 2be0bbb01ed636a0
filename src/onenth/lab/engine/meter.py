"""How long a run has trained, how fast, and with what losses since the last line of its log."""

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class Progress:
    """How far a run is; saved with every checkpoint."""

    step: int = 0
    seconds: float = 0.0  # of training alone
    tokens: int = 0  # trained on, without padding
    bad: int = 0  # batches that could not be learned from
    best: float | None = None  # the lowest loss on the development set
    since: int = 0  # looks at it since then
    ended: bool = False  # by the last step, or early


class Meter:
    """Counts into a progress."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._losses: list[float] = []
        self._mark = time.perf_counter()
        self._before = progress.seconds, progress.tokens

    def add(self, loss: float) -> None:
        self._losses.append(loss)

    def charge(self) -> None:
        """The time since the last charge was one of training."""
        now = time.perf_counter()
        self._progress.seconds += now - self._mark
        self._mark = now

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Time that is not one of training."""
        self.charge()
        yield
        self._mark = time.perf_counter()

    def read(self) -> dict[str, float]:
        """The mean loss and the tokens per second since it was last read."""
        self.charge()
        seconds, tokens = self._before
        rate = (self._progress.tokens - tokens) / max(1e-9, self._progress.seconds - seconds)
        loss = sum(self._losses) / len(self._losses) if self._losses else math.nan
        self._losses, self._before = [], (self._progress.seconds, self._progress.tokens)
        return {"loss": loss, "tokens_per_second": rate}

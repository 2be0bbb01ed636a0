"""What a run does when it is asked to stop: it finishes its step, saves, and leaves."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Stopped(Exception):
    """A run that was asked to stop, and saved."""

    def __init__(self, step: int, number: int) -> None:
        super().__init__(f"stopped at step {step} by {signal.Signals(number).name}, and saved; "
                         "the same command goes on from there")  # fmt: skip
        self.step, self.code = step, 128 + number


class Asked:
    """Whether a signal has asked this process to stop, and which."""

    number: int | None = None


@contextlib.contextmanager
def listening() -> Iterator[Asked]:
    """SIGTERM and Ctrl-C ask; a second Ctrl-C does not wait."""
    asked = Asked()
    if threading.current_thread() is not threading.main_thread():  # Python tells signals to that one alone
        yield asked
        return

    def note(number: int, frame: FrameType | None) -> None:
        if asked.number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.number = number

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

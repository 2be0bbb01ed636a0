"""Contestants timed side by side, and the memory they take."""

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from torch.profiler import ProfilerActivity, profile

Action = Callable[[], object]


def contest(actions: dict[str, Action], rounds: int, calls: int = 1) -> list[dict[str, Any]]:
    """Milliseconds and the ratio to the first action, interleaved; of calls in a row the last counts."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for turn in range(rounds + 1):
        for name, action in actions.items():
            for _ in range(calls - 1):
                action()
            began = time.perf_counter()
            action()
            if turn:  # the first warms up
                times[name].append(time.perf_counter() - began)
    base = times[next(iter(actions))]
    found = []
    for name, own in times.items():
        ratios = sorted(a / b for a, b in zip(own, base, strict=True))
        quarter = len(ratios) // 4
        found.append({
            "name": name, "ms": round(1e3 * statistics.median(own), 4),
            "ratio": round(statistics.median(ratios), 4),
            "quartiles": [round(ratios[quarter], 4), round(ratios[-1 - quarter], 4)],
        })  # fmt: skip
    return found


def peak(action: Action) -> int:
    """The most bytes that are allocated at once, beyond what there was before."""
    action()
    with _quiet(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        action()
    now = most = 0
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The profiler writes to the terminal past Python."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def cell(row: dict[str, Any]) -> str:
    """A ratio with its quartiles."""
    return f"{row['ratio']:.3f} ({row['quartiles'][0]:.3f}–{row['quartiles'][1]:.3f})"

"""LSTMs side by side with `nn.LSTM`: a training step, a forward, and where the time of a step goes.

Every contestant is compared with its dense twin before it is timed. Rounds are interleaved, and ratios are
medians over them, as in linear.py.

    python benchmarks/lstm.py --out results/lstm-cpu.json
"""

import argparse
import itertools
import statistics
import time
from pathlib import Path
from typing import Any

import record
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from onenth import PHMLSTM
from onenth.lab.measure.timing import Action, cell, contest

CONTESTANTS: dict[str, dict[str, Any]] = {
    "n=1": {"n": 1},
    "n=2": {"n": 2},
    "n=5": {"n": 5},
    "n=10": {"n": 10},
    "quaternion": {"rule": "quaternion"},
    "rank 20 of n=10": {"n": 10, "rank": 20},
    "n=5, fused": {"n": 5, "rules": "fused"},
    "n=5, shared": {"n": 5, "rules": "shared"},
}
PARTS = "forward", "backward", "optimizer"


class Step:
    """A whole training step, and the seconds that each part of it took, call by call."""

    def __init__(self, lstm: nn.Module, x: Tensor, dy: Tensor) -> None:
        self.lstm, self.x, self.dy = lstm, x.clone().requires_grad_(), dy
        self.optimizer = torch.optim.AdamW(lstm.parameters(), lr=1e-6, fused=True)
        self.times: list[list[float]] = []

    def __call__(self) -> None:
        self.x.grad = None
        self.optimizer.zero_grad()
        moments = [time.perf_counter()]
        y = self.lstm(self.x)[0]
        moments.append(time.perf_counter())
        y.backward(self.dy)
        moments.append(time.perf_counter())
        self.optimizer.step()
        moments.append(time.perf_counter())
        self.times.append([b - a for a, b in itertools.pairwise(moments)])

    def parts(self) -> dict[str, float]:
        """Milliseconds of each part, medians without the first call."""
        columns = zip(*self.times[1:], strict=True)
        return {
            name: round(1e3 * statistics.median(own), 3) for name, own in zip(PARTS, columns, strict=True)
        }


def forward(lstm: nn.Module, x: Tensor) -> Action:
    def run() -> None:
        with torch.no_grad():
            lstm(x)

    return run


def check(lstm: nn.Module, x: Tensor) -> None:
    """Raises where an LSTM is not what its weights say, so that it cannot be timed."""
    if isinstance(lstm, PHMLSTM):
        with torch.no_grad():
            exact = lstm.to_lstm().double()(x.double())[0]
            error = (lstm(x)[0] - exact).norm() / exact.norm()
        if not error < 1e-5:
            raise SystemExit(f"{lstm} is wrong by {error:.1e}: not timed")


def table(size: int, steps: int, batch: int, rounds: int) -> list[dict[str, Any]]:
    """A training step and a forward of each."""
    x, dy = torch.randn(steps, batch, size), torch.randn(steps, batch, size)
    lstms: dict[str, nn.Module] = {"nn.LSTM": nn.LSTM(size, size)}
    lstms |= {name: PHMLSTM(size, size, **options) for name, options in CONTESTANTS.items()}
    for lstm in lstms.values():
        check(lstm, x)
    training = {name: Step(lstm, x, dy) for name, lstm in lstms.items()}
    found = {row["name"]: {"name": row["name"], "step": row} for row in contest({**training}, rounds)}
    for row in contest({name: forward(lstm, x) for name, lstm in lstms.items()}, rounds):
        found[row["name"]]["forward"] = row
    for name, own in training.items():
        found[name] |= {
            "parts_ms": own.parts(),
            "parameters": sum(p.numel() for p in lstms[name].parameters()),
        }
    return list(found.values())


def show(title: str, found: list[dict[str, Any]]) -> None:
    shown = Table("LSTM", "parameters", "step, ratio", "step, ms", *PARTS, "forward alone", title=title)
    for row in found:
        parts = (f"{row['parts_ms'][name]:.2f}" for name in PARTS)
        shown.add_row(
            row["name"],
            f"{row['parameters']:,}",
            cell(row["step"]),
            f"{row['step']['ms']:.2f}",
            *parts,
            cell(row["forward"]),
        )
    Console(width=130).print(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=300, help="of input and hidden state (default 300)")
    parser.add_argument("--steps", type=int, default=32, help="of a sequence (default 32)")
    parser.add_argument("--batches", type=int, nargs="+", default=[32, 256], metavar="BATCH")
    parser.add_argument("--rounds", type=int, default=25, help="times each is timed (default 25)")
    parser.add_argument("--threads", type=int, default=2, help="threads torch may use (default 2)")
    parser.add_argument("--out", type=Path, help="file for the result (JSON)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    size, steps = options.size, options.steps
    tables = {}
    for batch in options.batches:
        title = f"{size}→{size}, {steps} steps, batch {batch}"
        tables[title] = table(size, steps, batch, options.rounds)
        show(title, tables[title])
    if options.out:
        record.write(options.out, {"dtype": "float32", "rounds": options.rounds, **tables})


if __name__ == "__main__":
    main()

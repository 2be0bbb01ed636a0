"""One layer side by side with `nn.Linear` and with the formula that other implementations use.

Every contestant is compared with its definition in float64 before it is timed. The rounds are interleaved:
each times every contestant once, so that a busy moment touches all of them alike. Ratios are medians over the
rounds of the time divided by that of `nn.Linear` in the same round.

    python benchmarks/linear.py --size 2048 --rows 1024 --threads 2 --rounds 15 --out results/name.json
"""

import argparse
import json
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

import onenth
from onenth import PHMLinear
from onenth.ops import reference

CONTESTANTS: dict[str, dict[str, object]] = {
    "n=2": {"n": 2},
    "n=4": {"n": 4},
    "n=8": {"n": 8},
    "n=16": {"n": 16},
    "quaternion": {"rule": "quaternion"},
    "rank 8 of n=4": {"n": 4, "rank": 8},
    "rank 16 of n=8": {"n": 8, "rank": 16},
    "rank 32 of n=16": {"n": 16, "rank": 32},
    "rank 4 of n=4": {"n": 4, "rank": 4},
    "rank 8 of n=8": {"n": 8, "rank": 8},
}


class Usual(PHMLinear):
    """The formula of other implementations: n Kronecker products side by side, then their sum."""

    def forward(self, x: Tensor) -> Tensor:
        A, S = self.rule.tensor(), self.S
        H = torch.einsum("ipq,ioc->ipoqc", A, S).sum(0).reshape(self.out_features, self.in_features)
        return F.linear(x, H, self.bias)


class Work:
    """What is timed: a whole training step, and a forward without gradients."""

    def __init__(self, layer: nn.Module, x: Tensor, dy: Tensor) -> None:
        self.layer, self.x, self.dy = layer, x, dy
        self.optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-6, fused=True)

    def step(self) -> None:
        self.x.grad = None
        self.optimizer.zero_grad()
        self.layer(self.x).backward(self.dy)
        self.optimizer.step()

    @torch.no_grad()
    def forward(self) -> None:
        self.layer(self.x)


def check(layer: nn.Module, x: Tensor) -> None:
    """Raises where a layer is not what its parameters define, so that it cannot be timed."""
    if not isinstance(layer, PHMLinear):
        return
    exact = reference.product(layer.rule.tensor().double(), layer.components().double(), x.double())
    error = (layer(x) - exact - layer.bias).norm() / exact.norm()
    if not error < 1e-5:
        raise SystemExit(f"{layer} is wrong by {error:.1e}: not timed")


def peak(action: Callable[[], None]) -> int:
    """The most bytes that are allocated at once, beyond what there was before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        action()
    now = most = 0
    for event in record.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most


def measure(size: int, rows: int, rounds: int) -> list[dict[str, object]]:
    torch.manual_seed(0)
    x, dy = torch.randn(rows, size, requires_grad=True), torch.randn(rows, size)
    layers: dict[str, nn.Module] = {"nn.Linear": nn.Linear(size, size)}
    for name, options in CONTESTANTS.items():
        layers[name] = PHMLinear(size, size, **options)
        if "rank" not in options:
            layers[f"{name}, usual formula"] = Usual(size, size, **options)
    works = {}
    for name, layer in layers.items():
        check(layer, x)
        works[name] = Work(layer, x, dy)
    times: dict[tuple[str, str], list[float]] = {}
    for turn in range(rounds + 1):
        for name, work in works.items():
            for kind in ("step", "forward"):
                began = time.perf_counter()
                getattr(work, kind)()
                if turn:  # the first warms up
                    times.setdefault((name, kind), []).append(time.perf_counter() - began)
    rows_found = []
    for name, work in works.items():
        found: dict[str, object] = {
            "name": name,
            "parameters": sum(p.numel() for p in layers[name].parameters()),
        }
        for kind in ("step", "forward"):
            own, base = times[name, kind], times["nn.Linear", kind]
            ratios = sorted(a / b for a, b in zip(own, base, strict=True))
            found[kind] = {
                "ms": 1e3 * statistics.median(own),
                "ratio": statistics.median(ratios),
                "quartiles": [ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]],
            }
        found["peak_bytes"] = peak(work.step)
        rows_found.append(found)
    return rows_found


def show(found: list[dict[str, object]], title: str) -> None:
    table = Table("layer", "parameters", "step, ratio", "forward, ratio", "peak, MiB", title=title)
    for row in found:
        cells = [f"{row[kind]['ratio']:.3f} ({row[kind]['quartiles'][0]:.3f}–{row[kind]['quartiles'][1]:.3f})"
                 for kind in ("step", "forward")]  # fmt: skip
        table.add_row(row["name"], f"{row['parameters']:,}", *cells, f"{row['peak_bytes'] / 2**20:.0f}")
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=2048, help="features in and out (default 2048)")
    parser.add_argument("--rows", type=int, default=1024, help="inputs at once (default 1024)")
    parser.add_argument("--rounds", type=int, default=15, help="times each is timed (default 15)")
    parser.add_argument("--threads", type=int, default=2, help="threads torch may use (default 2)")
    parser.add_argument("--out", type=Path, help="file for the result (JSON)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    found = measure(options.size, options.rows, options.rounds)
    show(found, f"{options.size}×{options.size}, {options.rows} rows, {options.threads} threads, float32")
    if options.out:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
        about = {
            "size": options.size, "rows": options.rows, "rounds": options.rounds, "threads": options.threads,
            "device": platform.processor() or platform.machine(), "torch": torch.__version__,
            "onenth": onenth.__version__, "commit": commit,
        }  # fmt: skip
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps({**about, "layers": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()

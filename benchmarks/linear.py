"""Layers side by side with `nn.Linear` and with the formula that other implementations use.

Every contestant is compared with its definition in float64 before it is timed. The rounds are interleaved:
each times every contestant once, so that a busy moment touches all of them alike. Ratios are medians over the
rounds of the time divided by that of `nn.Linear` in the same round, with the quartiles.

    python benchmarks/linear.py --out results/linear-cpu.json
"""

import argparse
import copy
import itertools
from pathlib import Path
from typing import Any

import record
import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from onenth import PHMLinear, freeze
from onenth.lab.measure import timing
from onenth.lab.measure.timing import Action, contest, peak
from onenth.ops import reference

FULL: dict[str, dict[str, Any]] = {f"n={n}": {"n": n} for n in (2, 4, 8, 16)}
LOW: dict[str, dict[str, Any]] = {
    f"rank {rank} of n={n}": {"n": n, "rank": rank} for n, rank in ((4, 8), (8, 16), (16, 32), (4, 4), (8, 8))
}
FIXED: dict[str, dict[str, Any]] = {"quaternion": {"rule": "quaternion"}}
USUAL = ", usual formula"


class Usual(PHMLinear):
    """The formula of other implementations: n Kronecker products side by side, then their sum."""

    def forward(self, x: Tensor) -> Tensor:
        A, S = self.rule.tensor(), self.S
        H = torch.einsum("ipq,ioc->ipoqc", A, S).sum(0).reshape(self.out_features, self.in_features)
        return F.linear(x, H, self.bias)


def step(layer: nn.Module, x: Tensor, dy: Tensor) -> Action:
    """A whole training step."""
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-6, fused=True)
    x = x.clone().requires_grad_()

    def run() -> None:
        x.grad = None
        optimizer.zero_grad()
        layer(x).backward(dy)
        optimizer.step()

    return run


def forward(layers: nn.Module | list[nn.Module], x: Tensor) -> Action:
    """A call without gradients, of each of the layers in turn."""
    turns = itertools.cycle(layers if isinstance(layers, list) else [layers])

    def run() -> None:
        with torch.no_grad():
            next(turns)(x)

    return run


def check(layer: nn.Module, x: Tensor) -> None:
    """Raises where a layer is not what its parameters define, so that it cannot be timed."""
    if not isinstance(layer, PHMLinear):
        return
    with torch.no_grad():
        exact = reference.product(layer.rule.tensor().double(), layer.components().double(), x.double())
        error = (layer(x) - exact - layer.bias).norm() / exact.norm()
    if not error < 1e-5:
        raise SystemExit(f"{layer} is wrong by {error:.1e}: not timed")


def training(size: int, rows: int, rounds: int) -> list[dict[str, Any]]:
    """A step with AdamW, a forward, and the memory of a step."""
    x, dy = torch.randn(rows, size), torch.randn(rows, size)
    layers: dict[str, nn.Module] = {"nn.Linear": nn.Linear(size, size)}
    for name, options in {**FULL, **FIXED, **LOW}.items():
        layers[name] = PHMLinear(size, size, **options)
        if name not in LOW:
            layers[name + USUAL] = Usual(size, size, **options)
    for layer in layers.values():
        check(layer, x)
    steps = {name: step(layer, x, dy) for name, layer in layers.items()}
    found = {row["name"]: {"name": row["name"], "step": row} for row in contest(steps, rounds)}
    for row in contest({name: forward(layer, x) for name, layer in layers.items()}, rounds):
        found[row["name"]]["forward"] = row
    for name, action in steps.items():
        found[name]["peak_MiB"] = round(peak(action) / 2**20, 1)
        found[name]["parameters"] = sum(p.numel() for p in layers[name].parameters())
    return list(found.values())


def inference(size: int, rows: int, rounds: int, copies: int = 1) -> list[dict[str, Any]]:
    """A call of a frozen layer; with copies, each call takes another one, so that no cache holds it.

    Without, and for one row, a cache holds what fits in it: each layer is called a few times in a row.
    """
    x = torch.randn(rows, size)
    actions = {"nn.Linear": forward([nn.Linear(size, size) for _ in range(copies)], x)}
    notes = {}
    for name, options in {**FULL, **FIXED, **LOW}.items():
        first = PHMLinear(size, size, **options).eval()
        report = freeze(first, rows=rows)
        check(first, x)
        weights = max(first.S.nbytes, report.layers[0].nbytes)
        count = 1 if copies == 1 else copies * max(1, 4 * size * size // weights)
        actions[name] = forward([first, *(copy.deepcopy(first) for _ in range(count - 1))], x)
        notes[name] = report.layers[0]
    found = contest(actions, rounds, calls=4 if rows == copies == 1 else 1)
    for row in found[1:]:
        note = notes[row["name"]]
        row["path"] = note.paths[rows]
        row["products"] = note.certificate.rank if note.certificate else None
    return found


def show(title: str, found: list[dict[str, Any]]) -> None:
    if "step" in found[0]:
        table = Table("layer", "parameters", "step, ratio", "forward, ratio", "peak, MiB", title=title)
        for row in found:
            cells = timing.cell(row["step"]), timing.cell(row["forward"]), f"{row['peak_MiB']:.0f}"
            table.add_row(row["name"], f"{row['parameters']:,}", *cells)
    else:
        table = Table("layer", "ratio", "ms", "by", title=title)
        for row in found:
            products = f", {row['products']} products found" if row.get("products") else ""
            table.add_row(row["name"], timing.cell(row), f"{row['ms']:.3f}", row.get("path", "") + products)
    Console(width=110).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1024, help="inputs at once (default 1024)")
    parser.add_argument("--rounds", type=int, default=15, help="times each is timed (default 15)")
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 1024, 2048, 4096], metavar="SIZE")
    parser.add_argument("--threads", type=int, default=2, help="threads torch may use (default 2)")
    parser.add_argument("--out", type=Path, help="file for the result (JSON)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    rows, rounds = options.rows, options.rounds
    tables = {}
    for size in options.sizes:
        tables[f"training, {size}×{size}, {rows} rows"] = training(size, rows, rounds)
        tables[f"frozen, {size}×{size}, {rows} rows"] = inference(size, rows, rounds)
    largest = max(options.sizes)
    for copies, which in ((1, "the same weights"), (4, "rotating weights")):
        tables[f"frozen, {largest}×{largest}, 1 row, {which}"] = inference(largest, 1, 10 * rounds, copies)
    for title, found in tables.items():
        show(title, found)
    if options.out:
        record.write(options.out, {"dtype": "float32", "rounds": rounds, **tables})


if __name__ == "__main__":
    main()

"""Times every path over a grid of layers and rows, and says how often the cost model picks the fastest.

python benchmarks/paths.py fit  results/paths-fit-MACHINE.json      # the grid that the model was fitted on
python benchmarks/paths.py test results/paths-test-MACHINE.json     # another one
python benchmarks/paths.py score results/paths-*.json               # the model on what was timed
"""

import argparse
import itertools
import json
import statistics
import sys
import time
from pathlib import Path

import record
import torch
from torch import Tensor

from onenth import PHMLinear, using
from onenth.ops import cost, dispatch
from onenth.ops.cost import PATHS

GRIDS = {
    "fit": {
        "sizes": [(512, 512), (1024, 1024), (2048, 2048), (512, 2048), (4096, 1024)],
        "kinds": [{"n": 2}, {"n": 4}, {"n": 8}, {"n": 16}, {"n": 4, "rank": 8}, {"n": 4, "rank": 4},
                  {"n": 8, "rank": 8}, {"n": 8, "rank": 16}, {"n": 8, "rank": 32}, {"n": 16, "rank": 32},
                  {"n": 16, "rank": 16}, {"n": 4, "rank": 12}, {"rule": "quaternion"}],
        "rows": [1, 2, 4, 8, 16, 64, 256, 1024],
    },
    "test": {
        "sizes": [(768, 768), (1536, 1536), (768, 3072), (3072, 768)],
        "kinds": [{"n": 2}, {"n": 4}, {"n": 6}, {"n": 8}, {"n": 12}, {"n": 4, "rank": 6},
                  {"n": 4, "rank": 10}, {"n": 6, "rank": 12}, {"n": 8, "rank": 12}, {"n": 8, "rank": 24},
                  {"n": 12, "rank": 24}, {"n": 3, "rank": 5}, {"rule": "octonion"}],
        "rows": [1, 3, 6, 12, 40, 100, 400, 1500],
    },
}  # fmt: skip


def timed(layer: PHMLinear, x: Tensor, dy: Tensor | None, path: str) -> float:
    """The seconds of one call, with its backward where dy is given."""
    layer.zero_grad()
    x.grad = None
    with using(path):
        began = time.perf_counter()
        if dy is None:
            with torch.no_grad():
                layer(x)
        else:
            layer(x).backward(dy)
        return time.perf_counter() - began


def measure(grid: dict, seconds: float) -> list[dict]:
    """One row for each point of the grid: the work, and the median seconds of every path."""
    found = []
    points = list(itertools.product(grid["sizes"], grid["kinds"], grid["rows"], (False, True)))
    for index, ((d, k), kind, rows, trains) in enumerate(points):
        print(f"\r{index + 1}/{len(points)}", end="", file=sys.stderr)
        layer = PHMLinear(d, k, **kind)
        x = torch.randn(rows, d, requires_grad=trains)
        dy = torch.randn(rows, k) if trains else None
        with torch.set_grad_enabled(trains):
            work = dispatch.work(layer.rule, layer.S, x.dtype)
        paths = [path for path in PATHS if not cost.impossible(work, path)]
        times: dict[str, list[float]] = {path: [] for path in paths}
        for path in paths:
            timed(layer, x, dy, path)
        until = time.perf_counter() + seconds
        while time.perf_counter() < until or len(times["dense"]) < 3:
            for path in paths:
                times[path].append(timed(layer, x, dy, path))
        found.append({
            "in": d, "out": k, **{"n": None, "rule": "learned", "rank": None} | kind,
            "rows": rows, "trains": trains, "work": work._asdict(),
            "seconds": {path: float(f"{statistics.median(taken):.4g}") for path, taken in times.items()},
        })  # fmt: skip
    return found


def score(found: list[dict]) -> tuple[float, list[dict]]:
    """The share of points where the model's choice takes at most a tenth longer than the fastest."""
    missed = []
    for point in found:
        chosen = cost.best(cost.Work(**point["work"]), point["rows"], 2.0)
        slower = point["seconds"][chosen] / min(point["seconds"].values())
        if slower > 1.1:
            missed.append({**point, "chosen": chosen, "slower": slower})
    return 1 - len(missed) / len(found), missed


def report(path: Path) -> None:
    points = json.loads(path.read_text(encoding="utf-8"))["points"]
    share, missed = score(points)
    print(f"{path.name}: {share:.1%} of {len(points)} points within a tenth of the fastest; the others:")
    for point in missed:
        kind = {key: point.get(key) for key in ("in", "out", "n", "rank", "rule", "rows", "trains")}
        print(f"  {point['slower']:.2f} times as long by {point['chosen']}: {kind}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=[*GRIDS, "score"])
    parser.add_argument("files", type=Path, nargs="+", help="the result (JSON), written, or read by score")
    parser.add_argument("--seconds", type=float, default=0.1, help="for each point of the grid (default 0.1)")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if options.what != "score":
        torch.set_num_threads(options.threads)
        torch.manual_seed(0)
        points = measure(GRIDS[options.what], options.seconds)
        record.write(options.files[0], {"grid": options.what, "points": points})
    for path in options.files:
        report(path)


if __name__ == "__main__":
    main()

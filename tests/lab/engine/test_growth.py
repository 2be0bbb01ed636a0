"""A long run takes no more memory in the end than at its beginning.

This file is also the program that trains: `test_growth.py STEPS FOLDER`.
"""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from lab.engine.toy import examples, model, run
from rich.console import Console

from onenth.lab.engine.report import Reporter

SOAK = bool(os.environ.get("SOAK"))
STEPS = 10_000 if SOAK else 1_000


class Weighs(Reporter):
    """Notes the bytes that the process holds after a fifth of the steps, and in the end."""

    def __init__(self, folder, steps):
        super().__init__(folder, "toy", steps, Console(stderr=True))
        self.at, self.bytes = (steps // 5, steps), []

    def step(self, step):
        super().step(step)
        if step in self.at:
            gc.collect()
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self.bytes.append(pages * os.sysconf("SC_PAGE_SIZE"))


def weighed(steps, folder):
    torch.set_num_threads(1)
    with Weighs(folder, steps) as tell:
        run(
            folder / "checkpoints", tell=tell, own=model(), train=examples(300), steps=steps, average=2,
            save_every=steps // 20, evaluate_every=steps // 40, report_every=5,
        )()  # fmt: skip
    print(*tell.bytes)


@pytest.mark.full
def test_memory_grows_by_one_percent_at_most(tmp_path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    program = [sys.executable, __file__, str(STEPS), str(tmp_path)]
    found = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    early, late = map(int, found.stdout.split())
    assert late <= 1.01 * early, f"{early / 2**20:.1f} MiB, then {late / 2**20:.1f} MiB"


if __name__ == "__main__":
    weighed(int(sys.argv[1]), Path(sys.argv[2]))

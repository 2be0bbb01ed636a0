"""Where and with what a measurement was made."""

import json
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import onenth


def about() -> dict[str, Any]:
    """The machine, the versions, and the commit, with a + where the tree was not clean."""
    commit = _output("git", "rev-parse", "HEAD") + ("+" if _output("git", "status", "--porcelain") else "")
    return {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else _processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "onenth": onenth.__version__,
        "commit": commit,
        "date": datetime.now(UTC).date().isoformat(),
    }


def write(path: Path, found: dict[str, Any]) -> None:
    """A JSON file with a line for each row of a table."""
    parts = []
    for name, value in {**about(), **found}.items():
        if isinstance(value, list):
            parts.append(f'"{name}": [\n' + ",\n".join(json.dumps(row) for row in value) + "\n]")
        else:
            parts.append(f'"{name}": {json.dumps(value)}')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

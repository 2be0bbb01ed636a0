"""Where and with what a measurement was made, and what was found, in a file."""

import json
from pathlib import Path
from typing import Any

import torch

from onenth.lab.measure.result import about


def write(path: Path, found: dict[str, Any]) -> None:
    """A JSON file with a line for each row of a table."""
    parts = []
    for name, value in {**about(torch.device("cpu")), **found}.items():
        if isinstance(value, list):
            parts.append(f'"{name}": [\n' + ",\n".join(json.dumps(row) for row in value) + "\n]")
        else:
            parts.append(f'"{name}": {json.dumps(value)}')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")

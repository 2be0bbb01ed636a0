"""`import onenth` stays light."""

import os
import statistics
import subprocess
import sys

import pytest

PYTHON_AND_CORE = sys.stdlib_module_names | {"onenth", "torch", "numpy", "safetensors"}


def output(code, path=""):
    environment = os.environ | {"PYTHONPATH": str(path)}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    ).stdout


def added(module, path=""):
    """What importing the module loads that importing torch alone does not."""
    code = "import torch, sys; before = set(sys.modules); import {}; print(*(set(sys.modules) - before))"
    return set(output(code.format(module), path).split())


def foreign(modules):
    tops = {module.partition(".")[0] for module in modules}
    return tops - PYTHON_AND_CORE


def test_import_adds_only_the_core():
    modules = added("onenth")
    assert "onenth" in modules
    assert foreign(modules) == set()
    assert not [m for m in modules if m.startswith(("onenth.lab", "onenth.cli", "onenth.integrations"))]


@pytest.mark.parametrize("module", ["matplotlib", "rich", "scipy", "typer"])
def test_a_heavy_import_is_noticed(tmp_path, module):
    (tmp_path / "heavy.py").write_text(f"import {module}\n")
    assert module in foreign(added("heavy", tmp_path))


def test_import_takes_at_most_a_tenth_longer_than_torch():
    code = """
from time import process_time
start = process_time()
import torch
middle = process_time()
import onenth
print((process_time() - start) / (middle - start))
"""
    assert statistics.median(float(output(code)) for _ in range(7)) <= 1.1

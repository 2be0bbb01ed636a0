"""A run as a JSON file: what was asked, on what, with what, and what came out.

A table is made from such files alone, so they hold all that it takes to make the run again, and are written
whole or not at all. Beside a result stands a text file with the outputs, a line for each sentence; the result
holds its SHA-256, and differences between systems are computed from those lines.
"""

import hashlib
import json
import math
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import onenth
from onenth.lab.data import aside
from onenth.lab.errors import Problem

SCHEMA = 1

_TYPES: dict[str, tuple[type, ...]] = {
    "schema": (int,), "recipe": (str,), "task": (str,), "seed": (int,), "config": (Mapping,),
    "data": (Mapping,), "data.name": (str,), "data.hashes": (Mapping,),
    "about": (Mapping,), "about.device": (str,), "about.threads": (int,), "about.python": (str,),
    "about.torch": (str,), "about.onenth": (str,), "about.platform": (str,),
    "about.commit": (str, type(None)), "about.date": (str,),
    "model": (Mapping,), "parameters": (Mapping,), "parameters.all": (int,), "parameters.layers": (int,),
    "seconds": (Mapping,), "seconds.training": (int, float), "seconds.evaluation": (int, float),
    "seconds.all": (int, float),
    "metrics": (Mapping,), "outputs": (Mapping,), "outputs.file": (str,), "outputs.sha256": (str,),
}  # fmt: skip
_WORDS = {int: "a whole number", float: "a number", str: "a text", Mapping: "an object", type(None): "null"}


def about(device: torch.device) -> dict[str, Any]:
    """The device, the versions of what is installed, and the commit, with a + where there are changes."""
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else _processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "onenth": onenth.__version__,
        **_versions("numpy", "sacrebleu", "sentencepiece"),
        "platform": platform.platform(),
        "commit": _commit(Path(onenth.__file__)),
        "date": datetime.now(UTC).date().isoformat(),
    }


def write(path: Path, result: Mapping[str, Any]) -> None:
    """Writes a result, aside first and then renamed; refuses what `read` would."""
    _check_values(path, result, "")
    _check_schema(path, result)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside.write(path, (json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())


def read(path: Path) -> dict[str, Any]:
    """The result in a file, with every key and type checked."""
    try:
        result = json.loads(_text(path, _bytes(path)))
    except json.JSONDecodeError as error:
        raise Problem.at(path, error.lineno, f"this is no JSON, {error.msg}", "restore the file") from error
    if not isinstance(result, dict):
        raise Problem.at(path, None, "this is no result, which is an object", "name the file of a run")
    _check_values(path, result, "")
    _check_schema(path, result)
    return result


def write_outputs(path: Path, lines: Sequence[str]) -> dict[str, str]:
    """Writes the outputs of the result that will be at `path`, beside it; returns its entry "outputs"."""
    for number, line in enumerate(lines, 1):
        if "\n" in line:
            raise Problem.at(path, None, f"output {number} is of several lines, {line!r}", "put it on one")
    text = "".join(line + "\n" for line in lines).encode()
    target = path.with_suffix(".outputs.txt")
    path.parent.mkdir(parents=True, exist_ok=True)
    aside.write(target, text)
    return {"file": target.name, "sha256": hashlib.sha256(text).hexdigest()}


def outputs(path: Path) -> list[str]:
    """The outputs that belong to the result at `path`, whose hash must be the one it holds."""
    entry = read(path)["outputs"]
    file = path.with_name(entry["file"])
    found = _bytes(file)
    digest = hashlib.sha256(found).hexdigest()
    if digest != entry["sha256"]:
        raise Problem.at(
            file, None, f"its SHA-256 is {digest}, and {path.name} says {entry['sha256']}",
            "restore the file, or make the run again",
        )  # fmt: skip
    text = _text(file, found)
    return text.removesuffix("\n").split("\n") if text else []  # splitlines would break at other characters


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Problem.at(
            path, None, f"cannot be read, {error.strerror}", "name the result of a run"
        ) from error


def _text(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise Problem.at(path, None, f"this is no UTF-8 text, {error}", "restore the file") from error


def _check_values(path: Path, value: object, where: str) -> None:
    """Refuses what JSON has no word for, and what it would change without a word."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise Problem.at(
                    path, None, f"{where or 'the result'} has the key {key!r}", f"name it '{key}'"
                )
            _check_values(path, item, f"{where}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check_values(path, item, f"{where}[{index}]")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise Problem.at(path, None, f"{where} is {value}", "find out why, or leave it out")
    elif value is not None and not isinstance(value, str | int):
        what = f"{where} is of the type {type(value).__name__}"
        raise Problem.at(path, None, what, "give numbers, texts, lists and dicts of them")


def _check_schema(path: Path, result: Mapping[str, Any]) -> None:
    for name, types in _TYPES.items():
        folder, _, key = name.rpartition(".")
        owner = result[folder] if folder else result
        if key not in owner:
            raise Problem.at(path, None, f"{name} is missing", "make the run again, or restore the file")
        value = owner[key]
        if not isinstance(value, types) or isinstance(value, bool):
            wanted = " or ".join(_WORDS[each] for each in types)
            raise Problem.at(path, None, f"{name} is {value!r}, and should be {wanted}", "restore the file")
        if name == "schema" and value != SCHEMA:
            what = f"it follows schema {value}, and this onenth reads {SCHEMA}"
            raise Problem.at(path, None, what, "read it with the onenth it was made with")
    file = result["outputs"]["file"]
    if Path(file).name != file or file in ("", ".."):
        raise Problem.at(path, None, f"outputs.file is {file!r}", "name a file beside the result")


def _versions(*packages: str) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    """As the system calls it; of a processor that Linux has no name for, the architecture."""
    if platform.system() == "Darwin":
        return _output("sysctl", "-n", "machdep.cpu.brand_string") or platform.machine()
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8").splitlines() if information.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _commit(file: Path) -> str | None:
    """Of the checkout that the file is part of; None where there is no git, or the file is not in it."""
    git = ("git", "--no-optional-locks", "-C", str(file.parent))
    if _output(*git, "ls-files", "--error-unmatch", file.name) is None:
        return None
    commit, changes = _output(*git, "rev-parse", "HEAD"), _output(*git, "status", "--porcelain")
    return None if commit is None or changes is None else commit + ("+" if changes else "")


def _output(*command: str) -> str | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None

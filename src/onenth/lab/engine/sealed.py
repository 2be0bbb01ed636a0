"""A folder of files sealed by a manifest: what is read from it is, to the bit, what was written.

The manifest lists the size and the SHA-256 of every file. It is JSON in the one form that `_canonical` gives
it, and holds the SHA-256 of its own other entries, so that a change of any of its bits is noticed, too.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from onenth.lab.errors import Problem
from onenth.state import sync

MANIFEST = "manifest.json"


class Damaged(Problem):
    """A folder that is not what was sealed, and where it differs."""

    def __init__(self, folder: Path, what: str) -> None:
        super().__init__(f"{folder} is damaged: {what}")


def seal(folder: Path, step: int, files: Iterable[tuple[str, bytes]]) -> None:
    """Makes the folder with these files and their manifest, and returns once all of it is on the disk."""
    folder.mkdir()
    listed = {}
    for name, data in files:
        _write(folder / name, data)
        listed[name] = _entry(data)
    _write(folder / MANIFEST, _manifest(step, listed))
    sync(folder)


def unsealed(folder: Path, step: int) -> Iterator[tuple[str, bytes]]:
    """The files of the folder, one at a time and each read once; the bytes returned are those checked."""
    listed = _listed(folder, step)
    for name, entry in sorted(listed.items()):
        data = _bytes(folder, name)
        if (found := _entry(data)) != entry:
            raise Damaged(folder, f"{name} has {json.dumps(found)} and not {json.dumps(entry)}")
        yield name, data


def to_json(value: Any) -> bytes:
    """The value in JSON.

    Raises:
        ValueError: it has no JSON, or would come back as something else.
    """
    try:
        data = _canonical(value)
    except TypeError as error:
        raise ValueError(str(error)) from error
    if json.loads(data) != value:
        raise ValueError(
            "only what consists of dict with str keys, list, str, int, float, bool and None returns"
        )
    return data


def from_json(folder: Path, name: str, data: bytes) -> Any:
    """The value that `to_json` wrote."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Damaged(folder, f"{name} is no JSON, {error}") from error


def _listed(folder: Path, step: int) -> dict[str, Any]:
    try:
        if folder.is_symlink():
            raise Damaged(folder, "it is a link")
        there = {entry.name: entry.is_file(follow_symlinks=False) for entry in os.scandir(folder)}
    except OSError as error:
        raise Damaged(folder, f"it cannot be read, {error.strerror}") from error
    for name in sorted(there):
        if not there[name]:
            raise Damaged(folder, f"{name} is a link or no file")
    if MANIFEST not in there:
        raise Damaged(folder, f"{MANIFEST} is missing")
    listed = _files_of(folder, step, _bytes(folder, MANIFEST))
    for what, names in (
        ("is missing", listed.keys() - there.keys()),
        ("does not belong to it", there.keys() - listed.keys() - {MANIFEST}),
    ):
        if names:
            raise Damaged(folder, f"{', '.join(sorted(names))} {what}")
    return listed


def _files_of(folder: Path, step: int, data: bytes) -> dict[str, Any]:
    content = from_json(folder, MANIFEST, data)
    if not isinstance(content, dict) or not isinstance(content.get("files"), dict):
        raise Damaged(folder, f"{MANIFEST} lists no files")
    try:
        whole = data == _manifest(content.get("step"), content["files"])
    except (ValueError, RecursionError):  # NaN; too deep to write, just not to read
        whole = False
    if not whole:
        raise Damaged(folder, f"{MANIFEST} does not have the SHA-256 that it states")
    if content["step"] != step:
        raise Damaged(folder, f"{MANIFEST} is of step {content['step']}")
    files: dict[str, Any] = content["files"]
    return files


def _manifest(step: Any, files: dict[str, Any]) -> bytes:
    content = {"files": files, "step": step}
    return _canonical(content | {"sha256": hashlib.sha256(_canonical(content)).hexdigest()})


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def _entry(data: bytes) -> dict[str, Any]:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _bytes(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise Damaged(folder, f"{name} cannot be read, {error.strerror}") from error


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    sync(path)

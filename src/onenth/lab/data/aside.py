"""Files that are written whole or not at all."""

import os
from pathlib import Path

from onenth.lab.errors import Problem
from onenth.state import sync


def write(path: Path, content: bytes) -> None:
    """Writes aside, syncs and renames: what was there stays whole until then.

    Unlike with `onenth.state.replacing`, several processes may write the same file at once.
    """
    aside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        aside.write_bytes(content)
        sync(aside)
        aside.replace(path)
        sync(path.parent)
    except OSError as error:
        remedy = "make room, or name a file in a folder that may be written to"
        raise Problem.at(path, None, f"it cannot be written ({error.strerror or error})", remedy) from error
    finally:
        aside.unlink(missing_ok=True)

"""Lists on a command line."""

import re
from typing import Any

from onenth.lab.errors import Problem


def numbers(option: str, text: str, *, none: bool = False) -> list[Any]:
    """Whole numbers with commas between them, and ranges.

    Example:
        >>> numbers("--seeds", "0-2,7"), numbers("--rank", "none,8", none=True)
        ([0, 1, 2, 7], [None, 8])
    """
    found: list[int | None] = []
    for word in words(option, text):
        if none and word == "none":
            found.append(None)
        elif word.isdecimal():
            found.append(int(word))
        elif (parts := re.fullmatch(r"(\d+)-(\d+)", word)) and int(parts[1]) <= int(parts[2]):
            found += range(int(parts[1]), int(parts[2]) + 1)
        else:
            raise Problem(f"{option} {text}: {word!r} is no whole number, nor a range such as 0-4")
    if len(set(found)) < len(found):
        raise Problem(f"{option} {text}: a value is there twice")
    return found


def words(option: str, text: str) -> list[str]:
    """Words with commas between them."""
    found = [word.strip() for word in text.split(",")]
    if not all(found):
        raise Problem(f"{option} {text}: write values with one comma between two of them")
    return found

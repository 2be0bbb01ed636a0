"""What a person has to put right: the file, the line, what is wrong there, and what to do about it."""

from pathlib import Path
from typing import Self


class Problem(Exception):
    """One message for a person; the command prints it and exits with 2.

    Example:
        >>> print(Problem.at(Path("train.tsv"), 7, "the label is 'VBX'", "write VBZ or VBP"))
        train.tsv:7: the label is 'VBX': write VBZ or VBP
    """

    @classmethod
    def at(cls, path: Path, line: int | None, what: str, remedy: str = "") -> Self:
        """A problem of a file, and of a line of it, counted from 1."""
        where = f"{path}: " if line is None else f"{path}:{line}: "
        return cls(where + what + (f": {remedy}" if remedy else ""))

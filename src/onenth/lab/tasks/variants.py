"""The variants of a model that the tables compare, by name."""

import re
from typing import Any

from onenth.lab.errors import Problem

VARIANTS: dict[str, dict[str, Any]] = {
    "dense": {},
    "quaternion": {"rule": "quaternion"},
    "n2": {"n": 2},
    "n4": {"n": 4},
    "n8": {"n": 8},
    "n16": {"n": 16},
    "n4-rank8": {"n": 4, "rank": 8},
    "n8-rank16": {"n": 8, "rank": 16},
    "n16-rank32": {"n": 16, "rank": 32},
    "n4-rank4": {"n": 4, "rank": 4},
    "n8-rank8": {"n": 8, "rank": 8},
    "n4-diagonal": {"n": 4, "rule": "diagonal"},
    "n8-diagonal": {"n": 8, "rule": "diagonal"},
}


def name_of(n: int | None, rank: int | None, rule: str) -> str:
    """What a variant is called.

    Example:
        >>> name_of(8, 16, "learned"), name_of(4, None, "diagonal"), name_of(None, None, "octonion")
        ('n8-rank16', 'n4-diagonal', 'octonion')
    """
    if n is None or n == 1:
        return "dense" if rule in ("learned", "diagonal") else rule
    parts = [f"n{n}", *([f"rank{rank}"] if rank is not None else []), *([rule] if rule != "learned" else [])]
    return "-".join(parts)


def options_of(name: str) -> dict[str, Any]:
    """What a variant's layers take: the other way round.

    Example:
        >>> options_of("n8-rank16")
        {'n': 8, 'rank': 16}
    """
    if name in VARIANTS:
        return dict(VARIANTS[name])
    found = re.fullmatch(r"n(\d+)(?:-rank(\d+))?(?:-(\w.*))?|(\D.*)", name)
    if not found:
        raise Problem(f"{name!r} is no variant: write one such as {', '.join(VARIANTS)}")
    n, rank, rule, alone = found.groups()
    options = {"n": n and int(n), "rank": rank and int(rank), "rule": rule or alone}
    return {key: value for key, value in options.items() if value}

"""The paper's tasks, a room for each: reader, embedded corpus, model, recipes, and what is measured."""

import difflib
from functools import cache

from onenth.lab.errors import Problem
from onenth.lab.recipe import Recipe
from onenth.lab.tasks.agreement import AGREEMENT
from onenth.lab.tasks.style import STYLE
from onenth.lab.tasks.task import Task

TASKS: dict[str, Task] = {task.name: task for task in (AGREEMENT, STYLE)}


@cache
def recipes() -> dict[str, Recipe]:
    """All recipes, by name."""
    from onenth.lab.tasks.agreement import recipes as agreement
    from onenth.lab.tasks.style import recipes as style

    return {own.name: own for own in (*agreement.all_(), *style.all_())}


def recipe(name: str) -> Recipe:
    """The recipe of a name.

    Example:
        >>> recipe("style/paper/n4").model.n
        4
    """
    known = recipes()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "onenth list names all of them"
        raise Problem(f"there is no recipe {name!r}: {hint}")
    return known[name]

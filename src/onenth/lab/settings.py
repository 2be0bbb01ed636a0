"""Settings of a recipe by path: read from a terminal, changed, and told apart."""

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

from onenth.lab.errors import Problem
from onenth.lab.recipe import Recipe

# they change nothing that is computed, so a run may be taken up with others: no name tells them
FREE = {"training.workers", "training.report_every", "training.most_bad"}

_GIVEN = {"model.classes", "model.pad", "model.bos", "model.eos"}  # by the task and its vocabulary
_MODEL = {
    "n": "the parameters are divided by it; none: dense layers, or what the rule says",
    "rule": "learned, diagonal, or an algebra by name",
    "rank": "products of a learned rule; none: as many as it takes",
    "vocabulary": "the most entries",
    "hidden": "features of a position",
    "filter": "features inside of the feed-forward networks",
    "heads": "of an attention",
    "layers": "of the encoder, and of the decoder if there is one",
    "dropout": "share that is dropped in training",
    "positions": "the most tokens of a row",
    "rules": "which layers share a rule",
}
_WORDS = {"true": True, "yes": True, "false": False, "no": False}


class Setting(NamedTuple):
    """One value of a recipe."""

    path: str
    kind: str
    value: Any
    about: str


def settings(recipe: Recipe) -> Iterator[Setting]:
    """All settings of a recipe, by path."""
    for part in dataclasses.fields(recipe):
        held = getattr(recipe, part.name)
        if not dataclasses.is_dataclass(held):
            continue
        kinds = typing.get_type_hints(type(held))
        for own in dataclasses.fields(held):
            path, about = f"{part.name}.{own.name}", own.metadata.get("about", _MODEL.get(own.name, ""))
            if path in _GIVEN:
                continue
            yield Setting(path, _kind(kinds[own.name]), getattr(held, own.name), about)


def change(recipe: Recipe, assignments: typing.Sequence[str]) -> Recipe:
    """The recipe after assignments such as `training.steps=100`, which its name then tells.

    Example:
        >>> from onenth.lab.tasks import recipes
        >>> own = change(recipes()["agreement/small/n4"], ["training.steps=100", "model.dropout=0"])
        >>> own.training.steps, own.model.dropout, own.name
        (100, 0.0, 'agreement/small/n4+model.dropout=0.0+training.steps=100')
    """
    changed: dict[str, dict[str, Any]] = {}
    before = {own.path: own.value for own in settings(recipe)}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals:
            raise Problem(f"--set {assignment}: write path=value, such as training.steps=100")
        if path not in before:
            raise Problem(f"--set {assignment}: {path!r} is no setting of {recipe.name}{_near(path, before)}")
        part, _, name = path.partition(".")
        if name in changed.get(part, {}):
            raise Problem(f"--set {assignment}: {path} is set twice")
        kind = typing.get_type_hints(type(getattr(recipe, part)))[name]
        changed.setdefault(part, {})[name] = _read(kind, text, assignment)
    parts = {part: dataclasses.replace(getattr(recipe, part), **values) for part, values in changed.items()}
    told = {
        f"{part}.{name}": value
        for part, values in changed.items()
        for name, value in values.items()
        if value != before[f"{part}.{name}"] and f"{part}.{name}" not in FREE
    }
    name = "+".join([recipe.name, *(f"{path}={written(told[path])}" for path in sorted(told))])
    return dataclasses.replace(recipe, name=name, **parts)


def differences(one: dict[str, Any], other: dict[str, Any], path: str = "") -> Iterator[str]:
    """What two configurations differ in, as `path: value here, value there`; but for what is `FREE`."""
    for key in sorted(one.keys() | other.keys()):
        here, there = one.get(key), other.get(key)
        if isinstance(here, dict) and isinstance(there, dict):
            yield from differences(here, there, f"{path}{key}.")
        elif here != there and f"{path}{key}" not in FREE:
            yield f"{path}{key}: {written(here)} here, {written(there)} there"


def _near(path: str, known: dict[str, Any]) -> str:
    """The name closest to a path that is not known."""
    last = {name.partition(".")[2]: name for name in known}
    near = difflib.get_close_matches(path, known, n=1, cutoff=0.75)
    near = near or [last[name] for name in difflib.get_close_matches(path.rpartition(".")[2], last, n=1)]
    return f": did you mean {near[0]}?" if near else "; onenth list RECIPE names all of them"


def _read(kind: Any, text: str, assignment: str) -> Any:
    """A value of a type, from a word."""
    options = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if type(None) in options and text.lower() == "none":
        return None
    for option in options:
        if typing.get_origin(option) is typing.Literal and text in typing.get_args(option):
            return text
        if option is bool and text.lower() in _WORDS:
            return _WORDS[text.lower()]
        if option in (int, float, str):
            try:
                return option(text)
            except ValueError:
                continue
    raise Problem(f"--set {assignment}: {text!r} is not {_kind(kind)}")


def _kind(kind: Any) -> str:
    """A type in words."""
    options = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    words = {int: "a whole number", float: "a number", bool: "yes or no", str: "a name", type(None): "none"}
    return " or ".join(
        ", ".join(typing.get_args(option)) if typing.get_origin(option) is typing.Literal else words[option]
        for option in options
    )


def written(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

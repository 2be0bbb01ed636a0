"""What may be loaded into a module: everything is checked before anything is written."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from onenth.rule import FixedRule


def check_state(
    module: nn.Module, state: Mapping[str, Any], prefix: str = "", *, strict: bool = True, verb: str = "load"
) -> None:
    """Raises a ValueError naming each entry under the prefix that is missing, extra, misshapen, not finite,
    another rule than the one the module fixes, or unequal to another name of the same tensor."""
    given = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
    expected = module.state_dict(keep_vars=True)
    problems = []
    if strict:
        problems += [f"{prefix}{name} is missing" for name in expected if name not in given]
        problems += [f"{prefix}{name} is not known here" for name in given if name not in expected]
    rules = {f"{name}.A".lstrip("."): rule for name, rule in module.named_modules(remove_duplicate=False)}
    first: dict[int, str] = {}
    for name, own in expected.items():
        if name not in given or not isinstance(own, Tensor):  # such as an extra state
            continue
        value, owner = given[name], first.setdefault(id(own), name)
        problem = _problem(value, own, rules.get(name))
        if not problem and owner != name and not _same(value, given[owner]):
            problem = f"differs from {prefix}{owner}, and both are one tensor here"
        if problem:
            problems.append(f"{prefix}{name} {problem}")
    if problems:
        raise ValueError(f"cannot {verb} this state:\n  " + "\n  ".join(problems))


def _problem(value: Any, own: Tensor, rule: nn.Module | None) -> str:
    """What keeps a value from being taken for its own tensor, or nothing."""
    if not isinstance(value, Tensor):
        return f"is a {type(value).__name__} instead of a tensor"
    if value.shape != own.shape:
        return f"has the shape {tuple(value.shape)} instead of {tuple(own.shape)}"
    if value.is_complex() and not own.is_complex():
        return f"is {value.dtype} instead of {own.dtype}"
    if value.is_meta:
        return ""
    finite = value.to(own.dtype).isfinite()
    if not finite.all():
        return f"has {(~finite).sum()} entries that are not finite as {own.dtype}"
    if isinstance(rule, FixedRule) and not rule.agrees_with(value):
        return f"is another rule than {rule.name}, which is fixed here"
    return ""


def _same(value: Any, other: Any) -> bool:
    return value is other or value.is_meta or other.is_meta or bool((value == other).all())

"""What may be loaded into a module: everything is checked before anything is written."""

from collections.abc import Mapping

from torch import Tensor, nn

from onenth.rule import FixedRule


def check_state(
    module: nn.Module, state: Mapping[str, Tensor], prefix: str = "", *, strict: bool = True
) -> None:
    """Raises a ValueError naming each entry under the prefix that is missing, extra, misshapen, not finite,
    or another rule than the one the module fixes."""
    given = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
    expected = module.state_dict()
    problems = []
    if strict:
        problems += [f"{prefix}{name} is missing" for name in expected if name not in given]
        problems += [f"{prefix}{name} is not known here" for name in given if name not in expected]
    rules = {f"{name}.A".lstrip("."): rule for name, rule in module.named_modules(remove_duplicate=False)}
    for name in given.keys() & expected.keys():
        value, own, rule = given[name], expected[name], rules.get(name)
        if value.shape != own.shape:
            problems.append(
                f"{prefix}{name} has the shape {tuple(value.shape)} instead of {tuple(own.shape)}"
            )
        elif value.is_meta:
            continue
        elif value.is_floating_point() and not value.isfinite().all():
            problems.append(f"{prefix}{name} has {(~value.isfinite()).sum()} entries that are not finite")
        elif isinstance(rule, FixedRule) and not rule.agrees_with(value):
            problems.append(f"{prefix}{name} is another rule than {rule.name}, which is fixed here")
    if problems:
        raise ValueError("cannot load this state, nothing was changed:\n  " + "\n  ".join(problems))

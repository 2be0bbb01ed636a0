"""Which layers of a module share a rule, and who draws it."""

from typing import Any, Literal, get_args

from torch import nn

from onenth.nn.linear import PHMLinear
from onenth.rule import Rule

Rules = Literal["per_layer", "per_attention", "per_block", "per_role", "shared"]


def check_rules(rules: object, known: tuple[str, ...] = get_args(Rules)) -> None:
    if rules not in known:
        names = ", ".join(f'"{name}"' for name in known)
        raise ValueError(f"rules={rules!r} is unknown: write one of {names}")


def one_rule(options: dict[str, Any], device: Any, dtype: Any) -> dict[str, Any]:
    """The options of `PHMLinear` with the rule they ask for, made once: layers that take them share it."""
    n, rank, terms = (options.get(name) for name in ("n", "rank", "terms"))
    rule = Rule.of(options.get("rule", "learned"), n, terms=terms, rank=rank, device=device, dtype=dtype)
    return {"rule": rule, **{name: value for name, value in options.items() if name == "component_rank"}}


def layers(module: nn.Module) -> list[PHMLinear]:
    """The PHM layers of a module, each once."""
    return [part for part in module.modules() if isinstance(part, PHMLinear)]


def draw_rules(module: nn.Module) -> None:
    """Draws the rules of a module anew, each once. The layers' components must be drawn after it."""
    for rule in dict.fromkeys(layer.rule for layer in layers(module)):
        rule.reset_parameters()

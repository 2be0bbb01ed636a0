"""Errors for people: what a recurrent layer refuses, and what to write instead."""

import math
import warnings
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from onenth.precision import autocast_dtype
from onenth.rule import Rule

if TYPE_CHECKING:
    from onenth.nn.lstm import PHMLSTM
    from onenth.nn.recurrent import Recurrent

CELLS = ("standard", "paper")
RULES = ("per_gate", "fused", "shared")


def check_options(sizes: dict[str, object], switches: dict[str, object], cell: object, rules: object) -> None:
    """Whole numbers, switches, and the two choices that have names."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool):
            raise TypeError(f"{name}={size!r} must be a whole number, not {type(size).__name__}")
        if size < (name != "proj_size"):
            raise ValueError(f"{name}={size} must be at least {int(name != 'proj_size')}")
    for name, switch in switches.items():
        if not isinstance(switch, bool):
            raise TypeError(f"{name}={switch!r} must be True or False, not {type(switch).__name__}")
    for name, value, known in (("cell", cell, CELLS), ("rules", rules, RULES)):
        if value not in known:
            names = ", ".join(f'"{own}"' for own in known)
            raise ValueError(f"{name}={value!r} is unknown: write one of {names}")


def check_taken(options: dict[str, Any], taken: set[str]) -> None:
    """What a conversion takes from the dense module cannot be asked for as well."""
    if both := options.keys() & taken:
        raise TypeError(f"{', '.join(sorted(both))} comes from the dense module: leave it out")
    check_standard(options.get("cell", "standard"))


def check_standard(cell: object) -> None:
    if cell != "standard":
        raise ValueError(f'cell={cell!r} has no twin in torch, whose LSTM is cell="standard"')


def check_dropout(dropout: object, num_layers: int) -> None:
    """A probability; it acts between layers, so a single one has no use for it."""
    if not isinstance(dropout, int | float) or isinstance(dropout, bool):
        raise TypeError(f"dropout={dropout!r} must be a number, not {type(dropout).__name__}")
    if not 0 <= dropout <= 1:
        raise ValueError(f"dropout={dropout} must be a probability, from 0 to 1")
    if dropout and num_layers == 1:
        warnings.warn(
            f"dropout={dropout} acts between layers, and num_layers=1 has nothing between: it does nothing",
            stacklevel=3,
        )


def check_divides(module: "Recurrent", rule: Rule, sizes: dict[str, int]) -> None:
    """Names the sizes that the rule's segments do not divide, and every n that would."""
    outputs = {name: size for name, size in sizes.items() if name != "input_size"}
    if module.rules == "fused":
        outputs["hidden_size"] *= 4
    wrong: dict[str, None] = {}
    for name, size in sizes.items():
        for n, features in ((rule.n_in, size), (rule.n_out, outputs.get(name, 0))):
            if features % n:
                wrong[f"{name}={size} by {n}"] = None
    if not wrong:
        return
    common = math.gcd(*sizes.values())
    fits = ", ".join(str(n) for n in range(1, common + 1) if common % n == 0)
    given = " and ".join(map(str, sizes.values()))
    raise ValueError(
        f"{type(module).__name__}({', '.join(map(str, sizes.values()))}, n={rule.n}) cannot divide "
        f"{' or '.join(wrong)}; n that divide {given}: {fits}"
    )


def check_tensor(module: "Recurrent", name: str, x: object) -> None:
    """Refuses what is no tensor of numbers where the module is, in the precision it has."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} is a {type(x).__name__}: give a torch.Tensor")
    own = next(iter(module.parameters()))
    if x.device != own.device:
        raise ValueError(f"{name} is on {x.device}, the module on {own.device}: move one with .to()")
    if not x.is_floating_point():
        raise TypeError(f"{name} is {x.dtype}: give floating-point numbers")
    if x.dtype != own.dtype and autocast_dtype(x) is None:
        raise TypeError(
            f"{name} is {x.dtype}, the module {own.dtype}: convert one with .to(), or use torch.autocast"
        )


def check_input(module: "Recurrent", x: Any, dims: tuple[int, int]) -> None:
    """One sample, or one with a batch dimension, of input_size features."""
    check_tensor(module, "the input", x)
    if x.dim() not in dims:
        wanted = " or ".join(map(str, dict.fromkeys(dims)))
        raise ValueError(f"the input must have {wanted} dimensions, got {x.dim()}: {tuple(x.shape)}")
    if x.shape[-1] != module.input_size:
        raise ValueError(
            f"the input's last dimension must be input_size={module.input_size}, got {tuple(x.shape)}"
        )


def check_state_pair(module: "Recurrent", hx: Any, shapes: dict[str, tuple[int, ...]]) -> None:
    """(h_0, c_0) of these shapes."""
    if not isinstance(hx, tuple | list) or len(hx) != 2:
        what = f"{len(hx)} of them" if isinstance(hx, tuple | list) else f"a {type(hx).__name__}"
        raise TypeError(f"hx must be a pair (h_0, c_0), not {what}")
    for (name, shape), state in zip(shapes.items(), hx, strict=True):
        check_tensor(module, name, state)
        if state.shape != shape:
            raise ValueError(f"{name} must have the shape {shape}, got {tuple(state.shape)}")


def check_sequence(lstm: "PHMLSTM", input: Any, hx: Any) -> None:
    """An input of `PHMLSTM`, a tensor or packed, and the states to begin with."""
    packed = isinstance(input, PackedSequence)
    check_input(lstm, input.data if packed else input, (2, 2) if packed else (2, 3))
    if packed:
        length, batch = len(input.batch_sizes), [int(input.batch_sizes[0])]
    elif input.dim() == 2:
        length, batch = input.shape[0], []
    else:
        length, batch = input.shape[int(lstm.batch_first)], [input.shape[int(not lstm.batch_first)]]
    if length == 0:
        raise ValueError(f"the input has no steps, its shape is {tuple(input.shape)}: give at least one")
    if hx is not None:
        states = lstm.num_layers * (1 + lstm.bidirectional)
        shapes = {
            "h_0": (states, *batch, lstm.proj_size or lstm.hidden_size),
            "c_0": (states, *batch, lstm.hidden_size),
        }
        check_state_pair(lstm, hx, shapes)

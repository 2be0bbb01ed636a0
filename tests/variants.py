"""One layer of every kind, by name; each takes `device` and `dtype`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from onenth import ComplexLinear, PHMLinear, QuaternionLinear, Rule


def given(terms: int, n_out: int, n_in: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(terms, n_out, n_in, generator=generator, dtype=torch.float64)


def with_rule(make_rule: Callable[..., Rule], d: int, k: int, **options: Any) -> Callable[..., PHMLinear]:
    """A layer on a rule of its own that is handed in."""
    return lambda **place: PHMLinear(d, k, rule=make_rule(**place), **options)


VARIANTS: dict[str, Callable[..., PHMLinear]] = {
    "n=1": partial(PHMLinear, 6, 10, n=1),
    "n=1 without bias": partial(PHMLinear, 6, 10, False, n=1),
    "n=2": partial(PHMLinear, 6, 10, n=2),
    "n=3": partial(PHMLinear, 9, 6, n=3),
    "n=4": partial(PHMLinear, 12, 20, n=4),
    "n=4 without bias": partial(PHMLinear, 12, 20, False, n=4),
    "n=5": partial(PHMLinear, 10, 15, n=5),
    "n=8": partial(PHMLinear, 24, 16, n=8),
    "n=16": partial(PHMLinear, 64, 64, n=16),
    "n=(2, 4)": partial(PHMLinear, 12, 10, n=(2, 4)),
    "n=(3, 2)": partial(PHMLinear, 10, 9, n=(3, 2)),
    "n=(2, 3) of 5 terms": partial(PHMLinear, 9, 8, n=(2, 3), terms=5),
    "2 terms of n=4": partial(PHMLinear, 12, 20, n=4, terms=2),
    "6 terms of n=3": partial(PHMLinear, 9, 12, n=3, terms=6),
    "rank 1 of n=2": partial(PHMLinear, 6, 10, n=2, rank=1),
    "rank 3 of n=4": partial(PHMLinear, 12, 20, n=4, rank=3),
    "rank 4 of n=4": partial(PHMLinear, 12, 20, n=4, rank=4),
    "rank 8 of n=4": partial(PHMLinear, 32, 48, n=4, rank=8),
    "rank 8 of n=4 without bias": partial(PHMLinear, 32, 48, False, n=4, rank=8),
    "rank 8 of n=4, 3 terms": partial(PHMLinear, 32, 48, n=4, rank=8, terms=3),
    "rank 16 of n=4": partial(PHMLinear, 12, 20, n=4, rank=16),
    "rank 16 of n=8": partial(PHMLinear, 64, 64, n=8, rank=16),
    "rank 5 of n=(2, 3)": partial(PHMLinear, 30, 40, n=(2, 3), rank=5),
    "rank 8 from identity": with_rule(partial(Rule.learned, 4, rank=8, start="identity"), 32, 48),
    "diagonal": partial(PHMLinear, 12, 20, n=4, rule="diagonal"),
    "diagonal (3, 2)": partial(PHMLinear, 10, 9, n=(3, 2), rule="diagonal"),
    "complex": partial(PHMLinear, 6, 10, rule="complex"),
    "quaternion": partial(PHMLinear, 12, 20, rule="quaternion"),
    "octonion": partial(PHMLinear, 24, 16, rule="octonion"),
    "dual": partial(PHMLinear, 6, 10, rule="dual"),
    "clifford(2,0)": partial(PHMLinear, 12, 20, rule="clifford(2,0)"),
    "cyclic(3)": partial(PHMLinear, 9, 6, rule="cyclic(3)"),
    "tensor (3, 4, 4)": partial(PHMLinear, 12, 20, rule=given(3, 4, 4)),
    "tensor (2, 3, 2)": partial(PHMLinear, 10, 9, rule=given(2, 3, 2)),
    "components of rank 2": partial(PHMLinear, 16, 20, n=4, component_rank=2),
    "components of rank 1, n=1": partial(PHMLinear, 6, 10, n=1, component_rank=1),
    "components of rank 1, rank 8": partial(PHMLinear, 32, 48, n=4, rank=8, component_rank=1),
    "components of rank 3, quaternion": partial(PHMLinear, 16, 20, rule="quaternion", component_rank=3),
    "rule handed in": with_rule(partial(Rule.learned, 4), 12, 20),
    "rank 6 handed in": with_rule(partial(Rule.learned, 4, rank=6), 32, 48),
    "diagonal handed in": with_rule(partial(Rule.diagonal, 4), 12, 20),
    "dual handed in": with_rule(partial(Rule.fixed, "dual"), 6, 10),
    "QuaternionLinear": partial(QuaternionLinear, 12, 20),
    "ComplexLinear": partial(ComplexLinear, 6, 10, False),
}

KINDS = ["n=1", "n=4", "n=(3, 2)", "rank 8 of n=4", "diagonal", "quaternion", "components of rank 2"]


def assert_same_state(module: nn.Module, state: dict[str, torch.Tensor]) -> None:
    now = module.state_dict()
    assert now.keys() == state.keys()
    for name, value in now.items():
        assert torch.equal(value, state[name]), name

"""Random layers and inputs, the same for the same seed."""

import math
import random
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from onenth import PHMLinear

DIMENSIONS = (1, 2, 3, 4, 5, 8, 16)
_NAMED = {
    1: ["real"],
    2: ["complex", "dual", "split-complex"],
    3: ["cyclic(3)"],
    4: ["quaternion", "clifford(2,0)"],
    5: ["cyclic(5)"],
    8: ["octonion", "clifford(2,1)"],
    16: ["sedenion"],
}


@dataclass(frozen=True)
class Case:
    """A layer's arguments and an input's shape."""

    seed: int
    in_features: int
    out_features: int
    options: dict[str, Any]
    leading: tuple[int, ...]
    strided: bool

    def layer(self, dtype: torch.dtype) -> PHMLinear:
        torch.manual_seed(self.seed)
        return PHMLinear(self.in_features, self.out_features, dtype=dtype, **self.options)

    def input(self, dtype: torch.dtype) -> Tensor:
        torch.manual_seed(self.seed + 1)
        shape = (*self.leading, self.in_features)
        if self.strided:
            return torch.randn(*shape[:-1], 2 * shape[-1]).to(dtype)[..., ::2]
        return torch.randn(shape).to(dtype)


def draw(seed: int, *, sizes: tuple[int, int], rows: tuple[int, int], small: bool = False) -> Case:
    """A case with features between `sizes` and `rows` inputs in one to five dimensions.

    `small` keeps n³ and the number of features low enough to differentiate numerically.
    """
    rng = random.Random(seed)
    n = rng.choice(DIMENSIONS)
    kind = rng.choice(["learned", "learned", "rank", "rank", "fixed", "tensor", "diagonal", "pair", "low"])
    options: dict[str, Any] = {"n": n, "bias": rng.random() < 0.7}
    n_out = n_in = n
    if kind == "rank":
        options["rank"] = rng.choice([rng.randint(1, n * n), n, min(2 * n, n * n)])
    elif kind == "fixed":
        options["rule"] = rng.choice(_NAMED[n])
    elif kind == "tensor":
        terms = rng.randint(1, n)
        options["rule"] = torch.randn(terms, n, n, generator=torch.Generator().manual_seed(seed))
    elif kind == "diagonal":
        options["rule"] = "diagonal"
    elif kind == "pair":
        n_out, n_in = n, rng.choice([2, 3])
        options |= {"n": (n_out, n_in), "terms": rng.randint(1, n_out * n_in)}
    low, high = (1, max(1, 8 // n)) if small else (math.ceil(sizes[0] / n), math.ceil(sizes[1] / n))
    o, c = rng.randint(low, high), rng.randint(low, high)
    if kind == "pair" and not small:
        c = rng.randint(math.ceil(sizes[0] / n_in), math.ceil(sizes[1] / n_in))
    if kind == "low":
        options["component_rank"] = rng.randint(1, min(o, c))
    leading = _split(rng, rng.randint(*rows), rng.randint(0, 4))
    return Case(seed, n_in * c, n_out * o, options, leading, rng.random() < 0.3)


def _split(rng: random.Random, rows: int, dimensions: int) -> tuple[int, ...]:
    """`rows` over that many dimensions; none of them means a single row."""
    if dimensions == 0:
        return ()
    shape = [1] * dimensions
    shape[rng.randrange(dimensions)] = rows
    if rows > 2 and dimensions > 1:
        shape = [2, *shape[1:-1], rows // 2] if dimensions > 1 else shape
    return tuple(shape)

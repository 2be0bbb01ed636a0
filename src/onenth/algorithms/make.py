"""Computes the stored algorithms again: python -m onenth.algorithms.make [algebra …].

The closed forms are the same on every machine; those that the solver finds (octonion, sedenion) depend in
their last digits on the linear algebra of the machine, and so on which of several it ends in.
"""

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch

from onenth import algebra
from onenth.algorithms import closed
from onenth.algorithms.clifford import clifford
from onenth.bilinear import Algorithm, Factors, certify
from onenth.solver import decompose

DATA = Path(__file__).parent / "data"
Recipe = Callable[[], Factors]


def recipes() -> dict[str, list[Recipe]]:
    made: dict[str, list[Recipe]] = {
        "complex": [closed.gauss],
        "split-complex": [partial(closed.cyclic, 2)],
        "dual": [closed.dual],
        "quaternion": [_twisted("quaternion")],
        "octonion": [_twisted("octonion"), *(_solved("octonion", rank) for rank in (25, 26, 27, 28))],
        "sedenion": [_twisted("sedenion"), *(_solved("sedenion", rank, restarts=1) for rank in SEDENION)],
    }
    made |= {f"cyclic({n})": [partial(closed.cyclic, n)] for n in range(2, 17)}
    for generators in range(1, 5):
        for p in range(generators + 1):
            name = f"clifford({p},{generators - p})"
            made[name] = [partial(clifford, p, generators - p), _twisted(name)]
    return made


SEDENION = (92, 104)  # two to three minutes each


def worthwhile(found: list[Algorithm]) -> list[Algorithm]:
    """Those that none with as few products equals in growth and in bf16."""
    kept: list[Algorithm] = []
    for new in sorted(found, key=lambda a: (a.certificate.rank, a.certificate.bf16)):
        c = new.certificate
        if all(c.growth < 0.999 * k.certificate.growth or c.bf16 < 0.999 * k.certificate.bf16 for k in kept):
            kept.append(new)
    return kept


def write(name: str, found: list[Algorithm]) -> None:
    entries = (
        ",\n".join(
            f'"{letter}": {json.dumps(_numbers(M))}' for letter, M in zip("UVW", a.factors, strict=True)
        )
        for a in found
    )
    (DATA / f"{name}.json").write_text("[{" + "},\n{".join(entries) + "}]\n", encoding="utf-8")


def _numbers(M: torch.Tensor | None) -> list[list[float]]:
    assert M is not None
    return [[int(x) if x == int(x) else x for x in row] for row in M.tolist()]


def _twisted(name: str) -> Recipe:
    return lambda: closed.twisted(algebra.get(name).A)


def _solved(name: str, rank: int, restarts: int = 16) -> Recipe:
    return lambda: decompose(algebra.get(name).A, rank, restarts=restarts).factors


def _made(name: str, ways: list[Recipe]) -> Iterator[Algorithm]:
    for way in ways:
        factors = way()
        certificate = certify(algebra.get(name).A, factors)
        if certificate.residual > 1e-13:
            raise RuntimeError(f"the algorithm made for {name} is wrong: {certificate}")
        yield Algorithm(factors, certificate)


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    DATA.mkdir(exist_ok=True)
    every = recipes()
    for name in names or every:
        found = worthwhile(list(_made(name, every[name])))
        write(name, found)
        for algorithm in found:
            print(f"{name:16} {algorithm.certificate}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

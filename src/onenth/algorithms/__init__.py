"""Algorithms for the named algebras up to n = 16, stored with the package.

`python -m onenth.algorithms.make` computes them again.
"""

import json
from importlib.resources import files

import torch

from onenth import algebra
from onenth.algebra import Algebra
from onenth.bilinear import Algorithm, Factors, certify


def known(rule: str | Algebra) -> list[Algorithm]:
    """Stored algorithms for an algebra, fewest products first; none where nothing is stored.

    Each is worth its products: it has less growth, or less error predicted in bf16, than those with fewer.

    Example:
        >>> [algorithm.certificate.rank for algorithm in known("quaternion")]
        [8]
    """
    rule = algebra.get(rule) if isinstance(rule, str) else rule
    stored = files(__name__).joinpath("data", f"{rule.name}.json")
    if not stored.is_file():
        return []
    with torch.device("cpu"):  # also while a model is being made on the meta device
        found = [
            Factors(*(torch.tensor(entry[letter], dtype=torch.float64) for letter in "UVW"))
            for entry in json.loads(stored.read_text(encoding="utf-8"))
        ]
        if found[0].tensor().shape != rule.A.shape:  # another algebra of that name
            return []
        certified = [Algorithm(factors, certify(rule.A, factors)) for factors in found]
    return [algorithm for algorithm in certified if algorithm.certificate.residual < 1e-12]

"""Clifford algebras as tensor products of those with one and two generators.

Take two generators e_a and e_b. The elements e_a e_b e_c, for each other generator e_c, commute with both and
anticommute with each other: they generate a second Clifford algebra, and the whole is the tensor product of
the two. Their algorithms multiply: 49 products for the 4×4 matrices Cl(2,2) and Cl(3,1), and 56 for the 2×2
matrices of quaternions, where the dense path takes 256.
"""

from itertools import combinations

import torch
from torch import Tensor

from onenth import algebra
from onenth.algorithms.closed import cyclic, gauss, strassen, tensor_product, twisted
from onenth.bilinear import Factors


def clifford(p: int, q: int) -> Factors:
    """The fewest products that splitting off pairs of generators gives; p + q from 1 to 4."""
    whole = algebra.clifford(p, q)
    A, generators = whole.A, range(p + q)
    if len(generators) < 3:
        return _small(A)
    split = (
        _split(A, a, b, [c for c in generators if c not in (a, b)]) for a, b in combinations(generators, 2)
    )
    return min(split, key=lambda factors: factors.rank)


def _split(A: Tensor, a: int, b: int, others: list[int]) -> Factors:
    eye = torch.eye(len(A), dtype=A.dtype)
    e_a, e_b = eye[1 << a], eye[1 << b]
    first = _generated(A, [e_a, e_b])
    second = _generated(A, [_times(A, first[3], eye[1 << c]) for c in others])
    U, V, W = tensor_product(_small(_inner(A, first)), _small(_inner(A, second)))
    basis = torch.stack([_times(A, x, y) for x in first for y in second])  # (n, n), a signed permutation
    return Factors(basis.T @ U, V @ basis, W @ basis)  # type: ignore[operator]


def _small(A: Tensor) -> Factors:
    """One generator: complex or split-complex. Two: 2×2 matrices where a generator squares to +1."""
    if len(A) == 2:
        return gauss() if A[1, 0, 1] < 0 else cyclic(2)
    squares = (int(A[1, 0, 1]), int(A[2, 0, 2]))
    if squares == (-1, -1):
        return twisted(A)
    one, flip, swap = (
        torch.tensor(m, dtype=A.dtype) for m in ([[1, 0], [0, 1]], [[1, 0], [0, -1]], [[0, 1], [1, 0]])
    )
    turn = flip @ swap  # squares to −1
    x, y = {(1, 1): (flip, swap), (1, -1): (flip, turn), (-1, 1): (turn, flip)}[squares]
    return strassen(A, torch.stack([one, x, y, x @ y]))


def _generated(A: Tensor, generators: list[Tensor]) -> list[Tensor]:
    """1, g0, g1, g0 g1, …"""
    elements = [torch.eye(len(A), dtype=A.dtype)[0]]
    for g in generators:
        elements += [_times(A, e, g) for e in elements]
    return elements


def _inner(A: Tensor, elements: list[Tensor]) -> Tensor:
    """Structure tensor of the subalgebra with this orthonormal basis."""
    E = torch.stack(elements)
    return torch.einsum("ai,ipq,bp,cq->abc", E, A, E, E)


def _times(A: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return torch.einsum("i,ipq,q->p", x, A, y)

"""Algorithms in closed form; all but those of cyclic groups have entries 0, ±2^k."""

import math

import torch
from torch import Tensor

from onenth.bilinear import Factors

Pairs = list[tuple[int, int]]  # (i, q)
Squares = list[tuple[int, int, int, int]]  # (i, j, q, r)


def gauss() -> Factors:
    """(a + bi)(c + di) = (ac − bd) + ((a + b)(c + d) − ac − bd) i: three products, by Gauss and Karatsuba."""
    V = _double([[1, 0], [0, 1], [1, 1]])
    return Factors(_double([[1, -1, 0], [-1, -1, 1]]), V, V.clone())


def dual() -> Factors:
    """(a + bε)(c + dε) = ac + (ad + bc) ε: three products as they stand."""
    return Factors(
        U=_double([[1, 0, 0], [0, 1, 1]]),
        V=_double([[1, 0], [0, 1], [1, 0]]),
        W=_double([[1, 0], [1, 0], [0, 1]]),
    )


def cyclic(n: int) -> Factors:
    """Real Fourier transform: a product for each real character, Gauss's three for each complex pair.

    With ẑ_k = Σ_q z_q e^{−2πikq/n}, ŷ_k = Ŝ_k x̂_k and y_p = (1/n) Σ_k ŷ_k e^{2πikp/n}.
    """
    angles = 2 * math.pi / n * torch.arange(n, dtype=torch.float64)
    parts = []
    for k in range(n // 2 + 1):
        real, imaginary = (k * angles).cos(), -(k * angles).sin()
        if k in (0, n / 2):
            row = real.round()[None]
            parts.append(Factors(row.T / n, row, row))
        else:
            M, (U, V, W) = torch.stack([real, imaginary]), gauss()
            M = torch.where(M.abs() < 1e-12, 0.0, M)
            parts.append(Factors(2 / n * M.T @ U, V @ M, W @ M))  # type: ignore[operator]
    left, right, out = (list(factor) for factor in zip(*((V, W, U) for U, V, W in parts), strict=True))
    return Factors(torch.cat(out, 1), torch.cat(left), torch.cat(right))


def twisted(A: Tensor) -> Factors:
    """For e_i e_q = ±e_{i xor q}: quaternions by 8 products, octonions by 30, and all of their kind.

    Were all signs +, Walsh's matrix (Hadamard's) would turn it into n products. Signs of basis elements, s
    for the left factor, t for the right, u for the product, make as many as possible so; each of the others
    takes one product more, which counts −2 times:

        A[i, i xor q, q] = u_{i xor q} s_i t_q (1 − 2 [(i, q) is left])

    Four of the others take two products where they are a product of split-complex numbers.

    This way to multiply quaternions is Howell and Lafon's (1975), octonions Cariow and Cariowa's (2012).
    """
    n = len(A)
    index = torch.arange(n)
    place = index[:, None] ^ index  # (i, q) -> p
    signs = A[index[:, None], place, index]
    if not torch.equal(signs.abs(), torch.ones_like(signs)) or A.count_nonzero() != n * n:
        raise ValueError("this algorithm needs e_i e_q = ±e_{i xor q} for all i and q")
    s, t, u, squares, single = _fewest(signs, place)
    walsh = torch.ones(1, 1, dtype=torch.float64)
    while len(walsh) < n:
        walsh = torch.kron(_double([[1, 1], [1, -1]]), walsh)
    eye = torch.eye(n, dtype=torch.float64)
    U, V, W = [walsh * u[:, None] / n], [walsh * t], [walsh * s]
    for i, q in single:
        U.append(2 * signs[i, q] * eye[:, [i ^ q]])
        V.append(eye[[q]])
        W.append(eye[[i]])
    for i, j, q, r in squares:
        for sign in (1, -1):
            U.append(eye[:, [i ^ q]] + sign * eye[:, [i ^ r]])
            V.append(signs[i, q] * eye[[q]] + sign * signs[i, r] * eye[[r]])
            W.append(eye[[i]] + sign * signs[i, q] * signs[j, q] * eye[[j]])
    return Factors(torch.cat(U, 1), torch.cat(V), torch.cat(W))


def _fewest(
    signs: Tensor, place: Tensor, starts: int = 2000
) -> tuple[Tensor, Tensor, Tensor, Squares, Pairs]:
    """s, t, u in ±1, and the squares and single (i, q) that they leave, with the fewest products found."""
    n = len(signs)
    generator = torch.Generator().manual_seed(0)
    index = torch.arange(n)
    best: tuple[Tensor, Tensor, Tensor, Squares, Pairs] = (signs[0], signs[0], signs[0], [], [])
    fewest = n * n
    for _ in range(starts):
        s, t, u = torch.randint(0, 2, (3, n), generator=generator, dtype=torch.float64) * 2 - 1
        before = -1.0
        while True:
            s = _majority((signs * t * u[place]).sum(1), s)
            t = _majority((signs * s[:, None] * u[place]).sum(0), t)
            products = signs * s[:, None] * t
            u = _majority(products[index, place[index[:, None], index]].sum(1), u)  # (p, i): q = i xor p
            total = (products * u[place]).sum().item()
            if total <= before:
                break
            before = total
        squares, single = _grouped(signs, (products * u[place] < 0).nonzero().tolist())
        if 2 * len(squares) + len(single) < fewest:
            best, fewest = (s, t, u, squares, single), 2 * len(squares) + len(single)
    return best


def _grouped(signs: Tensor, left: list[list[int]]) -> tuple[Squares, Pairs]:
    """Squares {i, j} × {q, r} with i xor j = q xor r whose signs are a product: four, by two products."""
    remaining, squares, sign = {(i, q) for i, q in left}, [], signs.tolist()
    for i, q in sorted(remaining):
        for d in range(1, len(sign)):
            j, r = i ^ d, q ^ d
            if {(i, q), (j, q), (i, r), (j, r)} <= remaining and (
                sign[i][q] * sign[j][q] * sign[i][r] * sign[j][r] > 0
            ):
                squares.append((i, j, q, r))
                remaining -= {(i, q), (j, q), (i, r), (j, r)}
    return squares, sorted(remaining)


def _majority(sums: Tensor, otherwise: Tensor) -> Tensor:
    return torch.where(sums == 0, otherwise, sums.sign())


def strassen(A: Tensor, units: Tensor) -> Factors:
    """2×2 matrices by Strassen's seven products (1969), for an algebra whose basis they are.

    units[i] is the matrix (2, 2) that e_i stands for; A is used to check it.
    """
    left = _double([[1, 0, 0, 1], [0, 0, 1, 1], [1, 0, 0, 0], [0, 0, 0, 1], [1, 1, 0, 0],
                    [-1, 0, 1, 0], [0, 1, 0, -1]])  # fmt: skip
    right = _double([[1, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, -1], [-1, 0, 1, 0], [0, 0, 0, 1],
                     [1, 1, 0, 0], [0, 0, 1, 1]])  # fmt: skip
    out = _double([[1, 0, 0, 1, -1, 0, 1], [0, 0, 1, 0, 1, 0, 0], [0, 1, 0, 1, 0, 0, 0],
                   [1, -1, 1, 0, 0, 1, 0]])  # fmt: skip
    entries = units.reshape(4, 4).T  # components -> entries of the matrix, row by row
    factors = Factors(torch.linalg.inv(entries) @ out, right @ entries, left @ entries)
    if (factors.tensor() - A).abs().max() > 1e-12:
        raise ValueError("these matrices do not multiply as the algebra does")
    return factors


def tensor_product(one: Factors, other: Factors) -> Factors:
    """Of A ⊗ B, with e_{i m + j} = e_i ⊗ e_j: the products of each pair."""
    U, V, W = (torch.kron(a, b) for a, b in zip(one, other, strict=True))  # type: ignore[arg-type]
    return Factors(U, V, W)


def _double(rows: list[list[int]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)

"""Structure tensors against the paper, against other packages and against definitions written out here."""

import itertools
import math

import pytest
import quaternion
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from onenth import algebra
from onenth.algebra import Algebra

NAMES = [
    *algebra.names(),
    "cayley-dickson(5)",
    "clifford(0,0)",
    "clifford(1,1)",
    "clifford(3,0)",
    "clifford(1,3)",
    "cyclic(1)",
    "cyclic(6)",
    "complex x quaternion",
    "real^5",
    "dual x cyclic(3) x clifford(0,2)^2",
]
ASSOCIATIVE = [name for name in NAMES if name not in ("octonion", "sedenion", "cayley-dickson(5)")]
COMMUTATIVE = [
    "real",
    "complex",
    "split-complex",
    "dual",
    "clifford(0,0)",
    "cyclic(1)",
    "cyclic(6)",
    "real^5",
]
COMPOSING = ["real", "complex", "quaternion", "octonion", "split-complex", "dual"]
COMPOSING += ["clifford(0,0)", "clifford(1,1)", "cyclic(1)"]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-12)


def vectors(n: int) -> st.SearchStrategy[list[float]]:
    return st.lists(st.floats(-10, 10, width=32), min_size=n, max_size=n)


# The paper


def test_the_quaternion_is_the_papers_hamilton_product():
    Qr, Qx, Qy, Qz = draw(4, seed=1)
    Pr, Px, Py, Pz = draw(4, seed=2)
    written_out = [
        Qr * Pr - Qx * Px - Qy * Py - Qz * Pz,
        Qx * Pr + Qr * Px - Qz * Py + Qy * Pz,
        Qy * Pr + Qz * Px + Qr * Py - Qx * Pz,
        Qz * Pr - Qy * Px + Qx * Py + Qr * Pz,
    ]
    H = algebra.get("quaternion")
    product = H.number(torch.stack([Qr, Qx, Qy, Qz])) * H.number(torch.stack([Pr, Px, Py, Pz]))
    close(product.components, torch.stack(written_out))


def test_the_quaternion_has_the_papers_four_matrices():
    A1 = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    A2 = [[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 0, -1], [0, 0, 1, 0]]
    A3 = [[0, 0, -1, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, -1, 0, 0]]
    A4 = [[0, 0, 0, -1], [0, 0, -1, 0], [0, 1, 0, 0], [1, 0, 0, 0]]
    assert torch.equal(algebra.get("quaternion").A, torch.tensor([A1, A2, A3, A4], dtype=torch.float64))


# Other packages and other definitions


@settings(deadline=None)
@given(vectors(4), vectors(4))
def test_quaternions_agree_with_numpy_quaternion(a, b):
    H = algebra.get("quaternion")
    x, y = (H.number(torch.tensor(v, dtype=torch.float64)) for v in (a, b))
    p, q = quaternion.quaternion(*a), quaternion.quaternion(*b)
    close((x * y).components, torch.from_numpy(quaternion.as_float_array(p * q)))
    close((x + y.conj()).components, torch.from_numpy(quaternion.as_float_array(p + q.conjugate())))
    assert x.norm().item() == pytest.approx(abs(p), rel=1e-12)  # numpy-quaternion's abs is the Euclidean norm


@settings(deadline=None)
@given(vectors(2), vectors(2))
def test_complex_numbers_agree_with_python(a, b):
    C = algebra.get("complex")
    product = C.number(torch.tensor(a, dtype=torch.float64)) * C.number(torch.tensor(b, dtype=torch.float64))
    expected = complex(*a) * complex(*b)
    close(product.components, torch.tensor([expected.real, expected.imag], dtype=torch.float64))


def conjugate(a):
    return a if isinstance(a, float) else (conjugate(a[0]), negate(a[1]))


def negate(a):
    return -a if isinstance(a, float) else (negate(a[0]), negate(a[1]))


def add(a, b):
    return a + b if isinstance(a, float) else (add(a[0], b[0]), add(a[1], b[1]))


def multiply(x, y):
    """(a, b)(c, d) = (ac − d*b, da + bc*) on nested pairs."""
    if isinstance(x, float):
        return x * y
    (a, b), (c, d) = x, y
    return (
        add(multiply(a, c), negate(multiply(conjugate(d), b))),
        add(multiply(d, a), multiply(b, conjugate(c))),
    )


def nest(values):
    half = len(values) // 2
    return values[0] if len(values) == 1 else (nest(values[:half]), nest(values[half:]))


def flat(pair):
    return [pair] if isinstance(pair, float) else [*flat(pair[0]), *flat(pair[1])]


@pytest.mark.parametrize("depth", range(6))
def test_cayley_dickson_is_the_recursion_on_pairs(depth):
    K = algebra.cayley_dickson(depth)
    a, b = draw(2**depth, seed=1), draw(2**depth, seed=2)
    expected = flat(multiply(nest(a.tolist()), nest(b.tolist())))
    close((K.number(a) * K.number(b)).components, torch.tensor(expected, dtype=torch.float64))
    expected = flat(conjugate(nest(a.tolist())))
    close(K.number(a).conj().components, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize(("p", "q"), [(p, q) for p in range(5) for q in range(5 - p)])
def test_clifford_generators_square_to_their_signs_and_anticommute(p, q):
    cl = algebra.clifford(p, q)
    e = [cl.number(row) for row in torch.eye(cl.n, dtype=torch.float64)]
    generators = [e[2**g] for g in range(p + q)]
    for g, x in enumerate(generators):
        assert torch.equal((x * x).components, e[0].components * (1.0 if g < p else -1.0))
        assert torch.equal(x.conj().components, -x.components)
    for x, y in itertools.combinations(generators, 2):
        assert torch.equal((x * y).components, -(y * x).components)
    for i in range(cl.n):  # a basis element is the ascending product of its generators
        product = e[0]
        for x in (x for g, x in enumerate(generators) if i >> g & 1):
            product = product * x
        assert torch.equal(product.components, e[i].components)


def test_small_clifford_algebras_are_the_known_ones():
    assert algebra.clifford(0, 0) == algebra.get("real")
    assert algebra.clifford(0, 1) == algebra.get("complex")
    assert algebra.clifford(1, 0) == algebra.get("split-complex")
    assert algebra.clifford(0, 2) == algebra.get("quaternion")
    assert algebra.clifford(1, 1) != algebra.get("quaternion")


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_cyclic_multiplies_polynomials_modulo_x_n_minus_1(n):
    a, b = draw(n, seed=1).tolist(), draw(n, seed=2).tolist()
    expected = [0.0] * n
    for i, q in itertools.product(range(n), repeat=2):
        expected[(i + q) % n] += a[i] * b[q]
    Z = algebra.cyclic(n)
    product = Z.number(torch.tensor(a, dtype=torch.float64)) * Z.number(torch.tensor(b, dtype=torch.float64))
    close(product.components, torch.tensor(expected, dtype=torch.float64))


def test_dual_numbers_differentiate():
    D = algebra.dual()
    x = D.number(torch.tensor([3.0, 1.0], dtype=torch.float64))
    assert (x * x * x).components.tolist() == [27.0, 27.0]  # x³ and 3x² at 3


def permutations_of_three() -> list[list[int]]:
    elements = list(itertools.permutations(range(3)))
    elements.append(elements.pop(0))  # the neutral element last: it may stand anywhere
    return [[elements.index(tuple(a[b[k]] for k in range(3))) for b in elements] for a in elements]


def test_a_group_algebra_multiplies_by_its_table_and_conjugates_by_inversion():
    table = permutations_of_three()
    S3 = algebra.group(table, "S3")
    e = [S3.number(row) for row in torch.eye(6, dtype=torch.float64)]
    for i, q in itertools.product(range(6), repeat=2):
        assert torch.equal((e[i] * e[q]).components, e[table[i][q]].components)
    for x in e:
        assert torch.equal((x * x.conj()).components, e[5].components)
    assert algebra.commutator(S3) > 0.1
    assert algebra.associator(S3) == 0
    assert algebra.unit(S3)[1] < 1e-12
    a = draw(7, 6)
    close(S3.number(a).norm(), a.norm(dim=-1))


def test_a_direct_product_multiplies_componentwise():
    C, H = algebra.get("complex"), algebra.get("quaternion")
    CH = algebra.direct_product(C, H)
    a, b = draw(3, 6, seed=1), draw(3, 6, seed=2)
    expected = [(C.number(a[:, :2]) * C.number(b[:, :2])).components,
                (H.number(a[:, 2:]) * H.number(b[:, 2:])).components]  # fmt: skip
    product = CH.number(a) * CH.number(b)
    close(product.components, torch.cat(expected, -1))
    close(CH.number(a).conj().components, a * torch.tensor([1.0, -1, 1, -1, -1, -1], dtype=torch.float64))
    close(CH.number(a).norm_squared(), (2 * a[:, :2].square().sum(-1) + 4 * a[:, 2:].square().sum(-1)) / 6)
    one = torch.tensor([1.0, 0, 1, 0, 0, 0], dtype=torch.float64)
    close(algebra.unit(CH)[0], one)
    assert CH.number(one).norm_squared() == 1


def test_a_product_with_a_factor_without_conjugation_has_none():
    given_one = algebra.from_tensor(algebra.get("complex").A)
    assert algebra.direct_product(given_one, algebra.dual()).conjugation is None


# Names


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_an_algebra_gives_it_back(name):
    first = algebra.get(name)
    again = algebra.get(first.name)
    assert first == again
    assert first.name == again.name
    assert hash(first) == hash(again)


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("  Quaternion ", "quaternion"),
        ("SPLIT_COMPLEX", "split-complex"),
        ("Cayley_Dickson( 3 )", "octonion"),
        ("cayley-dickson(4)", "sedenion"),
        ("Clifford( 3 , 0 )", "clifford(3,0)"),
        ("complex x complex", "complex^2"),
        ("complex  X  real", "complex x real"),
        ("real ^ 3", "real x real x real"),
        ("clifford(0,1)^2", "complex^2"),
    ],
)
def test_spellings(name, same):
    assert algebra.get(name) == algebra.get(same)


def test_different_algebras_differ():
    tensors = [algebra.get(name) for name in algebra.names()]
    assert len(set(tensors)) == len(tensors)
    assert algebra.get("complex") != "complex"


# Laws


@pytest.mark.parametrize("name", NAMES)
def test_laws(name):
    K = algebra.get(name)
    u, residual = algebra.unit(K)
    assert residual < 1e-12
    a, b, c = (K.number(draw(20, K.n, seed=seed)) for seed in range(3))
    close((K.number(u) * a).components, a.components)
    close((a * K.number(u)).components, a.components)
    assert K.number(u).norm_squared().item() == pytest.approx(1)
    assert (algebra.commutator(K) < 1e-12) == (name in COMMUTATIVE)
    assert (algebra.associator(K) < 1e-12) == (name in ASSOCIATIVE)
    assert (algebra.composition(K) < 1e-12) == (name in COMPOSING)
    # each measure says of the whole algebra what random numbers show
    assert torch.allclose((a * b).components, (b * a).components) == (name in COMMUTATIVE)
    assert torch.allclose((a * b * c).components, (a * (b * c)).components) == (name in ASSOCIATIVE)
    composes = torch.allclose((a * b).norm_squared(), a.norm_squared() * b.norm_squared())
    assert composes == (name in COMPOSING)
    close((a * b).conj().components, (b.conj() * a.conj()).components)


def test_measures_against_sums_over_basis_elements():
    A = draw(3, 3, 3)
    K = algebra.from_tensor(A)
    e = [K.number(row) for row in torch.eye(3, dtype=torch.float64)]
    pairs, triples = itertools.product(e, repeat=2), itertools.product(e, repeat=3)
    ab, ba = zip(*(((a * b).components, (b * a).components) for a, b in pairs), strict=True)
    commutator = (torch.stack(ab) - torch.stack(ba)).norm() / (2 * torch.stack(ab).norm())
    left, right = zip(
        *(((a * b * c).components, (a * (b * c)).components) for a, b, c in triples), strict=True
    )
    l, r = torch.stack(left), torch.stack(right)
    assert algebra.commutator(K) == pytest.approx(commutator.item())
    assert algebra.associator(K) == pytest.approx(((l - r).norm() / (l.norm() + r.norm())).item())


def test_an_anticommutative_product_has_commutator_1():
    cross = torch.zeros(3, 3, 3)
    for i, q, p in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        cross[i, p, q], cross[q, p, i] = 1, -1
    assert algebra.commutator(cross) == pytest.approx(1)
    assert algebra.unit(cross)[1] > 0.5  # and no unit
    assert algebra.associator(cross) > 0.1


def test_the_product_that_is_zero_is_commutative_and_associative_without_unit():
    zero = torch.zeros(2, 2, 2)
    assert algebra.commutator(zero) == algebra.associator(zero) == 0
    assert algebra.unit(zero)[1] == 1


def test_a_left_unit_is_not_a_unit():
    A = torch.zeros(2, 2, 2)
    A[0] = torch.eye(2)  # e_0 b = b, e_1 b = 0
    assert algebra.unit(A)[1] > 0.1


def test_octonions_are_alternative_and_sedenions_are_not():
    for name, holds in (("octonion", True), ("sedenion", False)):
        K = algebra.get(name)
        a, b = K.number(draw(K.n, seed=1)), K.number(draw(K.n, seed=2))
        assert torch.allclose((a * a * b).components, (a * (a * b)).components) == holds
        assert torch.allclose((b * a * a).components, (b * (a * a)).components) == holds


def test_sedenions_have_zero_divisors():
    S = algebra.get("sedenion")
    e = torch.eye(16, dtype=torch.float64)
    found = 0
    for i, j, k, l in itertools.product(range(1, 8), range(9, 16), range(1, 8), range(9, 16)):
        A_a = S.A[i] + S.A[j]
        found += bool((A_a @ (e[k] - e[l])).abs().max() == 0 and i != k)
    assert found > 0
    assert algebra.composition(S) > 0.1


def test_the_composition_measure_notices_a_small_fault():
    H = algebra.get("quaternion")
    A = H.A.clone()
    A[1, 2, 3] *= 1 + 1e-6
    assert 1e-8 < algebra.composition(Algebra("bent", A, H.conjugation)) < 1e-5


def test_split_norms_may_be_negative():
    S = algebra.split_complex()
    j = S.number([0.0, 1.0])
    assert j.norm_squared() == -1
    assert j.norm() == 1
    assert S.number([1.0, 1.0]).norm() == 0


# Numbers


def test_operators():
    H = algebra.get("quaternion")
    a, b = H.number([1, 2, 3, 4]), H.number([5.0, 6.0, 7.0, 8.0])
    assert (a + b).components.tolist() == [6, 8, 10, 12]
    assert (a - b).components.tolist() == [-4, -4, -4, -4]
    assert (-a).components.tolist() == [-1, -2, -3, -4]
    assert (a * b).components.tolist() == [-60, 12, 30, 24]
    assert (2 * a).components.tolist() == (a * 2.0).components.tolist() == [2, 4, 6, 8]
    assert a.conj().components.tolist() == [1, -2, -3, -4]
    assert a.norm_squared() == 30
    assert (a * a.conj()).components.tolist() == [30, 0, 0, 0]


def test_numbers_broadcast():
    H = algebra.get("quaternion")
    a, b, t = draw(5, 1, 4, seed=1), draw(3, 4, seed=2), draw(3, seed=3)
    product = (H.number(a) * H.number(b)).components
    assert product.shape == (5, 3, 4)
    for i, j in itertools.product(range(5), range(3)):
        close(product[i, j], (H.number(a[i, 0]) * H.number(b[j])).components)
    close((t * H.number(b)).components, b * t[:, None])
    assert (H.number(torch.zeros(0, 4)) * H.number(torch.zeros(4))).components.shape == (0, 4)
    assert H.number(b).norm().shape == (3,)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_numbers_keep_their_dtype(dtype):
    H = algebra.get("quaternion")
    a = H.number(torch.tensor([1, 2, 3, 4], dtype=dtype))
    for result in ((a * a).components, a.conj().components, a.norm(), (a + a).components):
        assert result.dtype == dtype
    assert (a * a).components.tolist() == [-28, 4, 6, 8]
    assert (a * H.number(torch.ones(4, dtype=torch.float64))).components.dtype == torch.float64


def test_integers_take_the_default_dtype():
    assert algebra.get("complex").number([1, 2]).components.dtype == torch.get_default_dtype()
    assert algebra.get("complex").number(torch.tensor([1, 2])).components.dtype == torch.get_default_dtype()


def test_numbers_of_equal_algebras_mix_whatever_their_names():
    product = algebra.clifford(0, 1).number([0, 1]) * algebra.get("complex").number([0, 1])
    assert product.components.tolist() == [-1, 0]


def test_products_are_differentiable():
    O = algebra.get("octonion")
    a, b = draw(2, 8, seed=1).requires_grad_(), draw(2, 8, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: (O.number(a) * O.number(b).conj()).norm_squared(), (a, b))


def test_repr():
    assert repr(algebra.get("Quaternion").number([1, -2.5, 0, 4])) == "quaternion(1, -2.5, 0, 4)"
    assert (
        repr(algebra.get("complex").number(torch.zeros(3, 2)))
        == "complex(shape=(3,), n=2, torch.float32, cpu)"
    )
    assert repr(algebra.get("complex")) == "Algebra(name='complex')"


# Where tensors are made


@pytest.mark.parametrize("name", NAMES)
def test_algebras_are_real_under_the_meta_device(name):
    expected = algebra.get(name)
    with torch.device("meta"):
        made = algebra.get(name)
        laws = (
            algebra.unit(made)[1],
            algebra.commutator(made),
            algebra.associator(made),
            algebra.composition(made),
        )
    assert made == expected
    assert made.A.dtype == torch.float64
    assert all(map(math.isfinite, laws))


def test_numbers_on_the_meta_device_have_shapes():
    a = algebra.get("quaternion").number(torch.empty(3, 4, device="meta"))
    assert (a * a.conj()).components.shape == (3, 4)
    assert a.norm().device.type == "meta"
    assert "meta" in repr(a)


def test_the_default_dtype_does_not_matter():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert algebra.get("octonion").A.dtype == torch.float64
        assert algebra.composition(algebra.get("octonion")) == 0
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_from_tensor_copies_and_converts(dtype):
    A = algebra.get("complex").A.to(dtype).requires_grad_()
    K = algebra.from_tensor(A, "mine")
    with torch.no_grad():
        A.zero_()
    assert algebra.get("complex") == K
    assert not K.A.requires_grad
    assert algebra.from_tensor(torch.ones(1, 1, 1, dtype=torch.int64)) == algebra.get("real")


@pytest.mark.full
@pytest.mark.parametrize("name", ["cayley-dickson(8)", "clifford(4,4)", "cyclic(256)", "real^256"])
def test_the_largest(name):
    assert algebra.get(name).n == 256
    assert algebra.commutator(algebra.get(name)) < 1

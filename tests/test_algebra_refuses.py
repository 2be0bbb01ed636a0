"""What algebras and numbers refuse, and what they say."""

import math

import pytest
import torch

from onenth import algebra
from onenth.algebra import Algebra

C = algebra.get("complex")
NO_NEUTRAL = [[0, 2, 1], [2, 1, 0], [1, 0, 2]]  # e_i e_q = e_{−i−q}
LOOP = [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]]
BAD = {
    "misspelt": (lambda: algebra.get("quaterion"), ValueError, "did you mean 'quaternion'"),
    "misspelt family": (lambda: algebra.get("cliford(3,0)"), ValueError, r"did you mean 'clifford\(p,q\)'"),
    "unknown lists": (lambda: algebra.get("zzz"), ValueError, r"octonion, sedenion.*cyclic\(n\)"),
    "empty name": (lambda: algebra.get(""), ValueError, "no algebra is called ''"),
    "half a product": (lambda: algebra.get("complex x"), ValueError, "complex x"),
    "unknown factor": (lambda: algebra.get("complex x reel"), ValueError, "'reel'; did you mean 'real'"),
    "name of other type": (lambda: algebra.get(4), TypeError, "string, not int"),
    "too few numbers": (
        lambda: algebra.get("clifford(3)"),
        ValueError,
        r"write clifford\(p,q\) with integers",
    ),
    "no numbers": (lambda: algebra.get("cyclic"), ValueError, r"write cyclic\(n\)"),
    "too many numbers": (lambda: algebra.get("cyclic(1,2)"), ValueError, r"write cyclic\(n\)"),
    "fraction": (lambda: algebra.get("cyclic(2.5)"), ValueError, r"write cyclic\(n\) with integers"),
    "numbers not wanted": (lambda: algebra.get("octonion(3)"), ValueError, r"'octonion\(3\)'"),
    "unclosed": (lambda: algebra.get("cyclic(3"), ValueError, r"write cyclic\(n\)"),
    "trailing": (lambda: algebra.get("cyclic(3)4"), ValueError, r"write cyclic\(n\)"),
    "power 0": (lambda: algebra.get("real^0"), ValueError, "integer from 1 to 256"),
    "power fraction": (lambda: algebra.get("real^1.5"), ValueError, "integer from 1 to 256"),
    "power huge": (lambda: algebra.get("real^99999999999"), ValueError, "integer from 1 to 256"),
    "power too large": (
        lambda: algebra.get("octonion^33"),
        ValueError,
        "n = 264; the largest supported is 256",
    ),
    "negative depth": (lambda: algebra.cayley_dickson(-1), ValueError, "depth must be from 0 to 8, not -1"),
    "deep": (lambda: algebra.get("cayley-dickson(1000000000)"), ValueError, "depth must be from 0 to 8"),
    "float depth": (lambda: algebra.cayley_dickson(2.0), TypeError, "depth must be an integer, not 2.0"),
    "boolean depth": (lambda: algebra.cayley_dickson(True), TypeError, "depth must be an integer, not True"),
    "negative p": (lambda: algebra.clifford(-1, 2), ValueError, "p must be from 0 to 8, not -1"),
    "negative q": (
        lambda: algebra.get("clifford(1,-2)"),
        ValueError,
        r"q of clifford\(1,q\) .* 0 to 7, not -2",
    ),
    "large p+q": (lambda: algebra.clifford(5, 4), ValueError, "from 0 to 3, not 4; n may be at most 256"),
    "cyclic 0": (lambda: algebra.cyclic(0), ValueError, "from 1 to 256, not 0"),
    "cyclic large": (lambda: algebra.cyclic(257), ValueError, "from 1 to 256, not 257"),
    "product too large": (
        lambda: algebra.direct_product(algebra.cyclic(200), algebra.cyclic(57)),
        ValueError,
        r"cyclic\(200\) x cyclic\(57\)' would have n = 257",
    ),
    "table not square": (lambda: algebra.group([[0, 1]], "g"), ValueError, r"\(1, 2\).*square"),
    "table of floats": (lambda: algebra.group([[0.0]], "g"), TypeError, "'g' has dtype torch.float32"),
    "table out of range": (lambda: algebra.group([[0, 1], [1, 2]], "g"), ValueError, "each of 0 … 1 once"),
    "table not latin": (lambda: algebra.group([[0, 1], [1, 1]], "g"), ValueError, "each row and column"),
    "table without neutral": (lambda: algebra.group(NO_NEUTRAL, "g"), ValueError, "no neutral element"),
    "table not associative": (lambda: algebra.group(LOOP, "g"), ValueError, r"\(e\d·e\d\)·e\d differs"),
    "tensor not a tensor": (
        lambda: algebra.from_tensor([[[1.0]]]),
        TypeError,
        "A is list; give a torch.Tensor",
    ),
    "tensor not a cube": (
        lambda: algebra.from_tensor(torch.zeros(2, 2, 3)),
        ValueError,
        r"\(2, 2, 3\).*\(n, n, n\)",
    ),
    "tensor a matrix": (lambda: algebra.from_tensor(torch.eye(2)), ValueError, r"shape \(2, 2\)"),
    "tensor empty": (lambda: algebra.from_tensor(torch.zeros(0, 0, 0)), ValueError, r"shape \(0, 0, 0\)"),
    "tensor NaN": (
        lambda: algebra.from_tensor(torch.full((1, 1, 1), math.nan)),
        ValueError,
        "NaN or infinity",
    ),
    "tensor inf": (
        lambda: algebra.from_tensor(torch.full((1, 1, 1), math.inf)),
        ValueError,
        "NaN or infinity",
    ),
    "tensor complex": (
        lambda: algebra.from_tensor(torch.zeros(1, 1, 1) * 1j),
        TypeError,
        "complex64.*real numbers",
    ),
    "tensor boolean": (lambda: algebra.from_tensor(torch.ones(1, 1, 1).bool()), TypeError, "torch.bool"),
    "tensor meta": (
        lambda: algebra.from_tensor(torch.zeros(1, 1, 1, device="meta")),
        ValueError,
        "meta device",
    ),
    "algebra float32": (
        lambda: Algebra("x", torch.ones(1, 1, 1)),
        TypeError,
        "A of 'x' must be a float64.*from_tensor",
    ),
    "conjugation shape": (
        lambda: Algebra("x", C.A, C.A[0, :1, :1]),
        ValueError,
        r"\(1, 1\); A needs \(2, 2\)",
    ),
    "conjugation NaN": (
        lambda: Algebra("x", C.A, C.A[0] * math.nan),
        ValueError,
        "conjugation of 'x' holds NaN",
    ),
    "components short": (lambda: C.number([1.0]), ValueError, r"shape \(1,\); a complex number needs 2"),
    "components scalar": (lambda: C.number(1.0), ValueError, r"shape \(\); a complex number needs 2"),
    "components complex": (lambda: C.number([1j, 2]), TypeError, "real numbers, not torch.complex64"),
    "no conjugation": (
        lambda: algebra.from_tensor(C.A).number([1, 2]).conj(),
        ValueError,
        "'given' has no conj",
    ),
    "no norm": (
        lambda: algebra.from_tensor(C.A).number([1, 2]).norm(),
        ValueError,
        "'given' has no conj.*norm",
    ),
    "mixed product": (
        lambda: C.number([1, 2]) * algebra.dual().number([1, 2]),
        TypeError,
        "cannot multiply a complex number and a dual number",
    ),
    "mixed sum": (
        lambda: C.number([1, 2]) + algebra.get("quaternion").number([1, 2, 3, 4]),
        TypeError,
        "cannot add a complex number and a quaternion number",
    ),
    "sum with a real": (
        lambda: C.number([1, 2]) + 1,
        TypeError,
        "complex number and int; make it a number",
    ),
    "difference with a tensor": (lambda: C.number([1, 2]) - torch.ones(2), TypeError, "subtract.*Tensor"),
    "product with a list": (lambda: C.number([1, 2]) * [1, 2], TypeError, "multiply.*list"),
    "law of a matrix": (lambda: algebra.commutator(torch.eye(2)), ValueError, r"\(2, 2\)"),
    "law of NaN": (lambda: algebra.associator(torch.full((1, 1, 1), math.nan)), ValueError, "NaN"),
    "composition without conjugation": (
        lambda: algebra.composition(algebra.from_tensor(C.A)),
        ValueError,
        "conj",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    call, error, message = BAD[case]
    with pytest.raises(error, match=message):
        call()

"""The layer against multiplications written by others: the paper, two packages, the recursion on pairs."""

import pytest
import quaternion
import torch
from torch import nn
from variants import VARIANTS, assert_same_state, given

from onenth import ComplexLinear, PHMLinear, QuaternionLinear
from onenth.ops import reference

ROUNDING = {"rtol": 1e-12, "atol": 1e-12}  # of sums in float64


class TestHypercomplex:
    """Fixed rules multiply components, from the left, with segments."""

    def multiplied(self, rule, multiply):
        """A layer of that rule and the same from its multiplication: y_o = Σ_c S[:,o,c] · x[:,c]."""
        layer = PHMLinear(24 * 2, 16 * 2, False, rule=rule, dtype=torch.float64)
        x = torch.randn(3, layer.in_features, dtype=torch.float64)
        segments = x.unflatten(-1, (layer.n, -1))  # (t, q, c)
        products = multiply(layer.S[:, None], segments.movedim(1, 0)[:, :, None])  # (p, t, o, c)
        return layer(x), products.sum(-1).movedim(0, 1).flatten(1)

    def test_quaternion_by_the_equations_of_the_paper(self):
        def hamilton(Q, P):
            Qr, Qx, Qy, Qz = Q
            Pr, Px, Py, Pz = P
            return torch.stack(
                [
                    Qr * Pr - Qx * Px - Qy * Py - Qz * Pz,
                    Qx * Pr + Qr * Px - Qz * Py + Qy * Pz,
                    Qy * Pr + Qz * Px + Qr * Py - Qx * Pz,
                    Qz * Pr - Qy * Px + Qx * Py + Qr * Pz,
                ]
            )

        torch.testing.assert_close(*self.multiplied("quaternion", hamilton), **ROUNDING)

    def test_quaternion_by_numpy_quaternion(self):
        def quaternions(t):
            return quaternion.as_quat_array(t.detach().movedim(0, -1).contiguous().numpy())

        def multiply(Q, P):
            return torch.from_numpy(quaternion.as_float_array(quaternions(Q) * quaternions(P))).movedim(-1, 0)

        torch.testing.assert_close(*self.multiplied("quaternion", multiply), **ROUNDING)

    @pytest.mark.parametrize("rule", ["real", "complex", "quaternion", "octonion", "sedenion"])
    def test_doubling(self, rule):
        def conjugate(a):
            return torch.cat([a[:1], -a[1:]])

        def multiply(a, b):
            if len(a) == 1:
                return a * b
            (a, b), (c, d) = a.chunk(2), b.chunk(2)
            left = multiply(a, c) - multiply(conjugate(d), b)
            return torch.cat([left, multiply(d, a) + multiply(b, conjugate(c))])

        torch.testing.assert_close(*self.multiplied(rule, multiply), **ROUNDING)

    def test_complex_by_torch(self):
        layer = ComplexLinear(6, 10, False, dtype=torch.float64)
        z, x = torch.randn(3, 3, dtype=torch.complex128), layer.S
        y = z @ torch.complex(x[0], x[1]).mT
        torch.testing.assert_close(layer(torch.cat([z.real, z.imag], -1)), torch.cat([y.real, y.imag], -1))

    @pytest.mark.parametrize(("kind", "rule"), [(QuaternionLinear, "quaternion"), (ComplexLinear, "complex")])
    def test_named_layer_is_the_layer_with_that_rule(self, kind, rule):
        torch.manual_seed(6)
        layer = kind(12, 20, component_rank=2)
        torch.manual_seed(6)
        other = PHMLinear(12, 20, rule=rule, component_rank=2)
        assert_same_state(layer, other.state_dict())
        assert list(layer.rule.parameters()) == []
        assert isinstance(kind.from_linear(nn.Linear(12, 20)), kind)


class TestAppendixA:
    @pytest.mark.parametrize("shape", [(2, 2, 2), (4, 4, 4), (3, 4, 2), (5, 2, 3)], ids=str)
    def test_both_constructions_are_one(self, shape):
        A = torch.randn(shape, dtype=torch.float64)
        S = torch.randn(shape[0], 3, 5, dtype=torch.float64)
        B, T = reference.to_diffusion(A, S)
        torch.testing.assert_close(reference.diffusion(B, T), reference.kronecker(A, S), **ROUNDING)

    def test_converts_back_exactly(self):
        A, S = given(3, 4, 2), given(3, 5, 7)
        back = reference.from_diffusion(*reference.to_diffusion(A, S))
        assert torch.equal(back[0], A)
        assert torch.equal(back[1], S)

    def test_layout_is_the_one_of_the_paper(self):
        A, S = given(2, 3, 4), given(2, 5, 6)
        B, T = reference.to_diffusion(A, S)
        assert B.shape == (4, 3, 2)
        assert T.shape == (6, 2, 5)
        assert B[3, 2, 1] == A[1, 2, 3]
        assert T[4, 1, 3] == S[1, 3, 4]


@pytest.mark.full
@pytest.mark.parametrize("implementation", ["factorized", "reconstructed"])
@pytest.mark.parametrize(
    "name", ["n=1", "n=4", "n=(3, 2)", "n=(2, 3) of 5 terms", "rank 8 of n=4", "octonion"]
)
def test_equals_the_block_tensor_train_of_tensorly(name, implementation):
    from tltorch import BlockTT, FactorizedLinear

    layer = VARIANTS[name](dtype=torch.float64)
    A, S = layer.rule.tensor().detach(), layer.components().detach()
    (terms, p, q), (_, o, c) = A.shape, S.shape
    cores = [A.permute(1, 2, 0)[None], S[..., None]]  # (1, p, q, terms), (terms, o, c, 1)
    weight = BlockTT(cores, tensorized_shape=((p, o), (q, c)), rank=(1, terms, 1))
    train = FactorizedLinear((q, c), (p, o), factorization=weight, implementation=implementation)
    with torch.no_grad():
        train.bias = nn.Parameter(layer.bias.clone())
    x = torch.randn(5, layer.in_features, dtype=torch.float64)
    torch.testing.assert_close(layer(x), train(x), **ROUNDING)

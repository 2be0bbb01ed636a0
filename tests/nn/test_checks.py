"""Bad input is refused in words that say what to write instead."""

import copy
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from variants import KINDS, VARIANTS

from onenth import PHMLinear, QuaternionLinear, Rule
from onenth.nn import init


def layer(**options):
    return PHMLinear(8, 12, n=4, **options)


def filled(value):
    rule = torch.eye(4).expand(4, 4, 4).clone()
    rule[1, 2, 3] = value
    return rule


def call(x, **options):
    return layer(**options)(x)


def dense(value):
    linear = nn.Linear(8, 12)
    linear.weight.data[1, 2] = value
    return linear


def reset(value):
    made = layer(rule=Rule.learned(4))
    made.rule.A.data.fill_(value)
    made.reset_parameters()


ones = torch.ones(2, 8)

ARGUMENTS = {
    "sizes": (lambda: PHMLinear(10, 6, n=4), ValueError, ["10 by 4", "6 by 4", "10 and 6: 1, 2"]),
    "input size": (lambda: PHMLinear(10, 12, n=4), ValueError, ["in_features=10 by 4", "10 and 12: 1, 2"]),
    "output size": (lambda: PHMLinear(12, 10, n=4), ValueError, ["out_features=10 by 4", "12 and 10: 1, 2"]),
    "sizes of a pair": (lambda: PHMLinear(9, 8, n=(2, 4)), ValueError, ["in_features=9 by 4"]),
    "sizes of a rule": (lambda: PHMLinear(9, 8, rule="quaternion"), ValueError, ["in_features=9 by 4"]),
    "sizes of a class": (lambda: QuaternionLinear(9, 8), ValueError, ["QuaternionLinear", "in_features=9"]),
    "in_features 0": (lambda: PHMLinear(0, 8, n=4), ValueError, ["in_features=0", "at least 1"]),
    "out_features -4": (lambda: PHMLinear(8, -4, n=4), ValueError, ["out_features=-4", "at least 1"]),
    "in_features float": (lambda: PHMLinear(8.0, 8, n=4), TypeError, ["in_features=8.0", "float"]),
    "in_features bool": (lambda: PHMLinear(True, 8, n=1), TypeError, ["in_features=True", "bool"]),
    "n by position": (lambda: PHMLinear(8, 12, 4), TypeError, ["bias=4", "n=4"]),
    "bias None": (lambda: PHMLinear(8, 12, None, n=4), TypeError, ["bias=None", "True or False"]),
    "no n": (lambda: PHMLinear(8, 12), ValueError, ['rule="learned"', "n=4"]),
    "n 0": (lambda: PHMLinear(8, 12, n=0), ValueError, ["n=0", "at least 1"]),
    "n -4": (lambda: PHMLinear(8, 12, n=-4), ValueError, ["n=-4", "at least 1"]),
    "n float": (lambda: PHMLinear(8, 12, n=4.0), TypeError, ["n=4.0", "float"]),
    "n string": (lambda: PHMLinear(8, 12, n="4"), TypeError, ["n='4'", "str"]),
    "n bool": (lambda: PHMLinear(8, 12, n=True), TypeError, ["n=True", "bool"]),
    "n list": (lambda: PHMLinear(8, 12, n=[4, 4]), TypeError, ["n=[4, 4]", "list"]),
    "n of three": (lambda: PHMLinear(8, 12, n=(2, 2, 2)), ValueError, ["(2, 2, 2)", "pair"]),
    "n of a pair 0": (lambda: PHMLinear(8, 12, n=(4, 0)), ValueError, ["n=0"]),
    "rank 0": (lambda: layer(rank=0), ValueError, ["rank=0", "at least 1"]),
    "rank above n²": (lambda: layer(rank=17), ValueError, ["rank=17", "1 to 16"]),
    "rank float": (lambda: layer(rank=8.0), TypeError, ["rank=8.0", "float"]),
    "rank and fixed": (lambda: layer(rule="quaternion", rank=8), ValueError, ["rank=8", "learned"]),
    "rank and diagonal": (lambda: layer(rule="diagonal", rank=4), ValueError, ["rank=4", "learned"]),
    "rank and rule": (lambda: layer(rule=Rule.learned(4), rank=8), ValueError, ["rank=8", "leave rank out"]),
    "terms 0": (lambda: layer(terms=0), ValueError, ["terms=0", "at least 1"]),
    "terms float": (lambda: layer(terms=4.0), TypeError, ["terms=4.0", "float"]),
    "terms above rank": (lambda: layer(rank=3, terms=4), ValueError, ["terms=4", "rank=3"]),
    "terms above n*n": (lambda: PHMLinear(8, 12, n=2, terms=5), ValueError, ["terms=5", "the 4", "n=2"]),
    "terms and fixed": (lambda: layer(rule="quaternion", terms=3), ValueError, ["terms=3", "terms=4"]),
    "terms and diagonal": (lambda: layer(rule="diagonal", terms=3), ValueError, ["terms=3", "terms=4"]),
    "start": (lambda: Rule.learned(4, rank=8, start="zero"), ValueError, ["'zero'", "orthogonal"]),
    "start without room": (
        lambda: Rule.learned(4, rank=3, start="identity"), ValueError, ["identity", "rank ≥ 4", "rank=3"],
    ),
    "n and rule": (lambda: PHMLinear(8, 12, n=2, rule=Rule.learned(4)), ValueError, ["n=2", "n=4"]),
    "n and algebra": (lambda: PHMLinear(8, 12, n=2, rule="quaternion"), ValueError, ["n=2", "n=4"]),
    "misspelt": (lambda: PHMLinear(8, 12, rule="quaternoin"), ValueError, ["quaternoin", "'quaternion'"]),
    "unknown": (lambda: PHMLinear(8, 12, rule="xyz"), ValueError, ["xyz", "octonion"]),
    "rule None": (lambda: layer(rule=None), TypeError, ["NoneType", "Rule"]),
    "rule array": (lambda: layer(rule=filled(1.0).numpy()), TypeError, ["ndarray", "tensor"]),
    "rule NaN": (lambda: layer(rule=filled(math.nan)), ValueError, ["1 entries", "NaN"]),
    "rule infinite": (lambda: layer(rule=filled(math.inf)), ValueError, ["1 entries", "infinite"]),
    "rule zero": (lambda: layer(rule=torch.zeros(4, 4, 4)), ValueError, ["zero"]),
    "rule complex": (lambda: layer(rule=filled(0.0) + 0j), TypeError, ["real", "complex"]),
    "rule flat": (lambda: layer(rule=torch.eye(4)), ValueError, ["(terms, n_out, n_in)", "(4, 4)"]),
    "rule on meta": (lambda: layer(rule=torch.ones(4, 4, 4, device="meta")), ValueError, ["meta", "numbers"]),
    "rule sparse": (lambda: layer(rule=torch.ones(4, 4, 4).to_sparse()), ValueError, ["sparse", "dense"]),
    "rule dtype": (lambda: Rule.learned(4, dtype=torch.complex64), TypeError, ["complex64", "learned"]),
    "fixed rule dtype": (lambda: Rule.fixed("dual", dtype=torch.int64), TypeError, ["int64", "learned"]),
    "n float beside an algebra": (lambda: Rule.of("quaternion", 4.0), TypeError, ["n=4.0", "float"]),
    "start without a rank": (lambda: Rule.learned(4, start="zero"), ValueError, ["'zero'", "orthogonal"]),
    "rule empty": (lambda: layer(rule=torch.ones(0, 4, 4)), ValueError, ["(0, 4, 4)"]),
    "component_rank 0": (lambda: layer(component_rank=0), ValueError, ["component_rank=0", "3×2", "1 to 2"]),
    "component_rank 3": (lambda: layer(component_rank=3), ValueError, ["component_rank=3", "1 to 2"]),
    "component_rank float": (lambda: layer(component_rank=1.0), TypeError, ["component_rank=1.0", "float"]),
    "dtype integer": (lambda: layer(dtype=torch.int64), TypeError, ["torch.int64", "floating-point"]),
    "dtype complex": (lambda: layer(dtype=torch.complex64), TypeError, ["torch.complex64", "floating-point"]),
    "dtype of 8 bits": (lambda: layer(dtype=torch.float8_e4m3fn), TypeError, ["float8", "16 bits"]),
    "dtype string": (lambda: layer(dtype="float32"), TypeError, ["'float32'", "torch.float32"]),
    "dtype of the rule": (
        lambda: layer(rule=Rule.learned(4), dtype=torch.float64), TypeError, ["float64", "float32", ".to()"],
    ),
    "device of the rule": (
        lambda: layer(rule=Rule.learned(4), device="meta"), ValueError, ["device=meta", "cpu"],
    ),
}  # fmt: skip

INPUTS = {
    "last dimension": (lambda: call(torch.ones(2, 9)), ValueError, ["in_features=8", "(2, 9)"]),
    "no dimension": (lambda: call(torch.tensor(1.0)), ValueError, ["in_features=8", "()"]),
    "transposed": (lambda: call(ones.T), ValueError, ["in_features=8", "(8, 2)"]),
    "integers": (lambda: call(ones.long()), TypeError, ["torch.int64", "floating-point"]),
    "booleans": (lambda: call(ones.bool()), TypeError, ["torch.bool", "floating-point"]),
    "complex numbers": (lambda: call(ones + 0j), TypeError, ["torch.complex64", "floating-point"]),
    "double": (lambda: call(ones.double()), TypeError, ["float64", "float32", ".to()", "autocast"]),
    "half": (lambda: call(ones.half(), dtype=torch.bfloat16), TypeError, ["float16", "bfloat16"]),
    "integers, n=1": (lambda: PHMLinear(8, 12, n=1)(ones.long()), TypeError, ["torch.int64"]),
    "double, low-rank components": (lambda: call(ones.double(), component_rank=1), TypeError, ["float64"]),
    "other device": (lambda: call(ones.to("meta")), ValueError, ["meta", "cpu"]),
    "array": (lambda: call(ones.numpy()), TypeError, ["ndarray", "torch.Tensor"]),
    "None": (lambda: call(None), TypeError, ["NoneType", "torch.Tensor"]),
}

OTHERS = {
    "from_linear of a convolution": (
        lambda: PHMLinear.from_linear(nn.Conv1d(8, 12, 1), n=4), TypeError, ["nn.Linear", "Conv1d"],
    ),
    "from_linear of other n": (
        lambda: PHMLinear.from_linear(nn.Linear(10, 6), n=4), ValueError, ["10", "6", ": 1, 2"],
    ),
    "from_linear of NaN": (lambda: PHMLinear.from_linear(dense(math.nan), n=4), ValueError, ["NaN"]),
    "from_linear of infinity": (lambda: PHMLinear.from_linear(dense(-math.inf), n=4), ValueError, ["NaN"]),
    "from_linear of meta": (
        lambda: PHMLinear.from_linear(nn.Linear(8, 12, device="meta"), n=4), ValueError, ["meta"],
    ),
    "from_linear with a bias": (
        lambda: PHMLinear.from_linear(nn.Linear(8, 12), n=4, bias=False), TypeError, ["bias", "leave it out"],
    ),
    "from_linear to a rank": (
        lambda: PHMLinear.from_linear(nn.Linear(8, 12), n=4, rank=17), ValueError, ["rank=17", "1 to 16"],
    ),
    "mode": (
        lambda: init.kaiming_uniform_(layer(), mode="fan"), ValueError, ["'fan'", "fan_in", "fan_out"],
    ),
    "nonlinearity": (lambda: init.kaiming_normal_(layer(), nonlinearity="x"), ValueError, ["x"]),
    "reset with a rule of NaN": (lambda: reset(math.nan), ValueError, ["rule", "reset_parameters()"]),
    "reset with a rule of zeros": (lambda: reset(0.0), ValueError, ["rule", "reset_parameters()"]),
    "reset with an infinite rule": (lambda: reset(math.inf), ValueError, ["rule", "reset_parameters()"]),
}  # fmt: skip

TABLE = {**ARGUMENTS, **INPUTS, **OTHERS}


def refuses(name):
    """What is wrong with the refusal of this entry of the table, or nothing."""
    act, kind, words = TABLE[name]
    try:
        act()
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        return f"{missing} missing in: {error}" if missing or type(error) is not kind else ""
    return "accepted"


@pytest.mark.parametrize("name", TABLE)
def test_bad_input_is_refused(name):
    assert refuses(name) == ""


def test_bad_input_is_refused_without_assertions():
    code = "import test_checks as t; print({n: t.refuses(n) for n in t.TABLE if t.refuses(n)}, len(t.TABLE))"
    path = [str(Path(__file__).parent), *sys.path]
    done = subprocess.run(
        [sys.executable, "-O", "-c", f"import sys; sys.path[:] = {path!r}; assert False; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{{}} {len(TABLE)}\n"


def test_every_n_that_fits_is_named():
    with pytest.raises(ValueError, match=r": 1, 2, 3, 4, 6, 12$"):
        PHMLinear(12, 24, n=5)


def under_no_grad(write):
    def act(w):
        with torch.no_grad():
            write(w)

    return act


def in_place(w):
    w += 1


WRITES = {
    **{
        f"init.{name}": under_no_grad(getattr(nn.init, name))
        for name in ("normal_", "uniform_", "zeros_", "ones_", "xavier_uniform_", "xavier_normal_")
    },
    **{
        f"init.{name}": under_no_grad(getattr(nn.init, name))
        for name in ("kaiming_uniform_", "kaiming_normal_", "trunc_normal_", "orthogonal_", "eye_")
    },
    "init.constant_": lambda w: nn.init.constant_(w, 0.5),
    "init by keyword": lambda w: nn.init.normal_(tensor=w),
    "data": lambda w: w.data.zero_(),
    "data assigned": lambda w: setattr(w, "data", torch.ones(12, 8)),
    "detached": lambda w: w.detach().zero_(),
    "element": lambda w: w.__setitem__((0, 1), 2.0),
    "mask": lambda w: w.__setitem__(w > 0, 2.0),
    "copy_": lambda w: w.copy_(torch.ones(12, 8)),
    "+=": in_place,
    "row": lambda w: w[0].zero_(),
    "transpose": lambda w: w.T.zero_(),
    "transpose by keyword": lambda w: torch.transpose(input=w, dim0=0, dim1=1).zero_(),
    "view": lambda w: w.view(-1)[3:].fill_(1),
    "each row": under_no_grad(lambda w: [row.zero_() for row in w]),
    "chunk": under_no_grad(lambda w: w.chunk(2)[0].zero_()),
    "split": under_no_grad(lambda w: torch.split(w, 3)[1].fill_(0)),
    "out": under_no_grad(lambda w: torch.mul(torch.ones(12, 8), 2, out=w)),
    "one of several out": under_no_grad(lambda w: torch.frexp(torch.ones(12, 8), out=(w, torch.ones(12, 8)))),
    "foreach": under_no_grad(lambda w: torch._foreach_mul_([w], 0.5)),
    "relu": under_no_grad(lambda w: F.relu(w, inplace=True)),
    "dropout": under_no_grad(lambda w: F.dropout(w, inplace=True)),
    "clip": under_no_grad(lambda w: w.clamp_(-1, 1)),
    "requires_grad_": lambda w: w.requires_grad_(False),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("options", [{"n": 1}, {"n": 4}, {"n": 4, "rank": 8}], ids=str)
def test_writing_to_the_weight_is_refused(options, write):
    made = PHMLinear(8, 12, **options)
    before = copy.deepcopy(made.state_dict())
    with pytest.raises(TypeError, match=r"\.weight is computed from the rule and the components"):
        write(made.weight)
    assert_unchanged(made, before)


@pytest.mark.parametrize("value", [torch.ones(12, 8), nn.Parameter(torch.ones(12, 8)), None], ids=type)
def test_assigning_the_weight_is_refused(value):
    with pytest.raises(TypeError, match="from_linear"):
        layer().weight = value


def test_adding_to_the_weight_of_a_layer_is_refused():
    made = layer()
    with pytest.raises(TypeError, match=r"\.weight is computed"):
        made.weight += 1


def test_deleting_the_weight_is_refused():
    made = layer()
    with pytest.raises(TypeError, match=r"\.weight is computed"):
        del made.weight


def test_reading_the_weight_gives_plain_tensors():
    w = layer().weight
    for own in (w + 1, w @ w.T, w.clone(), w.sum(), F.relu(w), copy.deepcopy(w), w.double()):
        assert type(own) is torch.Tensor
        own.detach().zero_()
    other = torch.zeros(12, 8)
    other.copy_(w.detach())
    assert torch.equal(other, w)


STATES = {
    "missing": (lambda s: s.pop("S"), ["S is missing"]),
    "extra": (lambda s: s.update(weight=torch.ones(12, 8)), ["weight is not known here"]),
    "misshapen": (lambda s: s.update(S=torch.ones(4, 2, 3)), ["S has the shape (4, 2, 3)", "(4, 3, 2)"]),
    "NaN": (lambda s: s["S"].view(-1)[:2].fill_(math.nan), ["S has 2 entries that are not finite"]),
    "infinite bias": (lambda s: s["bias"].fill_(math.inf), ["bias has 12 entries that are not finite"]),
    "overflow": (
        lambda s: s.update(S=torch.full((4, 3, 2), 1e300, dtype=torch.float64)), ["S has 24", "float32"],
    ),
    "complex": (lambda s: s.update(S=s["S"] + 1j), ["S is torch.complex64 instead of torch.float32"]),
    "no tensor": (lambda s: s.update(S=[1.0]), ["S is a list instead of a tensor"]),
    "several": (lambda s: [s.pop("bias"), s.update(S=torch.ones(1))], ["bias is missing", "S has the shape"]),
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_a_state_that_does_not_fit_is_refused(state):
    spoil, words = STATES[state]
    made, spoilt = layer(), layer().state_dict()
    before = copy.deepcopy(made.state_dict())
    spoil(spoilt)
    with pytest.raises(ValueError, match="cannot load") as refusal:
        made.load_state_dict(spoilt)
    assert [word for word in words if word not in str(refusal.value)] == []
    assert_unchanged(made, before)


@pytest.mark.parametrize("name", KINDS)
def test_every_entry_of_a_state_is_needed(name):
    made, other = VARIANTS[name](), VARIANTS[name]()
    before = copy.deepcopy(made.state_dict())
    for entry in before:
        state = other.state_dict()
        del state[entry]
        with pytest.raises(ValueError, match=rf"{entry} is missing"):
            made.load_state_dict(state)
        assert_unchanged(made, before)


@pytest.mark.parametrize(
    ("own", "other"), [("quaternion", "clifford(2,0)"), ("quaternion", 2.0), ("dual", "complex")]
)
def test_another_fixed_rule_is_refused(own, other):
    made = PHMLinear(8, 12, rule=own)
    if isinstance(other, str):
        state = PHMLinear(8, 12, rule=other).state_dict()
    else:
        state = made.state_dict() | {"rule.A": made.rule.A * other}
    before = copy.deepcopy(made.state_dict())
    with pytest.raises(ValueError, match=rf"rule\.A is another rule than {own}, which is fixed here"):
        made.load_state_dict(state)
    assert_unchanged(made, before)


def test_a_state_with_gaps_is_taken_where_asked():
    made, state = layer(), layer().state_dict()
    kept = made.S.detach().clone()
    del state["S"]
    state["more"] = torch.ones(1)
    assert made.load_state_dict(state, strict=False) == (["S"], ["more"])
    assert torch.equal(made.S, kept)
    assert torch.equal(made.bias, state["bias"])


@pytest.mark.parametrize("state", ["missing", "misshapen", "NaN"])
def test_a_parent_refuses_by_name(state):
    spoil, words = STATES[state]
    model = nn.Sequential(layer(), layer())
    spoilt = layer().state_dict()
    spoil(spoilt)
    whole = {f"0.{name}": value for name, value in layer().state_dict().items()}
    with pytest.raises((ValueError, RuntimeError), match=r"1\.S") as refusal:
        model.load_state_dict(whole | {f"1.{name}": value for name, value in spoilt.items()})
    if state != "missing":  # which torch itself reports
        assert f"1.{words[0]}" in str(refusal.value)


def assert_unchanged(module, before):
    now = module.state_dict()
    assert now.keys() == before.keys()
    for name, value in now.items():
        assert torch.equal(value, before[name]), name

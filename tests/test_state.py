"""Models in files: each tensor once, whole or not at all."""

import copy
import json
import math
import os

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, load_model, save_file
from torch import nn
from variants import KINDS, VARIANTS, assert_same_state, given

import onenth.state
from onenth import PHMLinear, Rule, load, save

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def model_with_shared_rule(**place):
    rule = Rule.learned(4, **place)
    return nn.Sequential(
        PHMLinear(8, 12, rule=rule), PHMLinear(12, 16, n=4, rank=6, **place), PHMLinear(16, 8, rule=rule)
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.fixture
def saved(path):
    """A model with a shared rule and the file it was saved to."""
    model = model_with_shared_rule()
    save(model, path)
    return model


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", VARIANTS)
def test_every_kind_comes_back_to_the_bit(name, dtype, path):
    layer, other = VARIANTS[name](dtype=dtype), VARIANTS[name](dtype=dtype)
    x = torch.randn(5, layer.in_features).to(dtype)
    save(layer, path)
    load(other, path)
    assert_same_state(other, layer.state_dict())
    assert torch.equal(other(x), layer(x))


@pytest.mark.parametrize("name", [*KINDS, "tensor (3, 4, 4)"])
@pytest.mark.parametrize("other", DTYPES, ids=str)
@pytest.mark.parametrize("own", DTYPES, ids=str)
def test_a_file_is_converted_to_the_precision_of_the_model(name, own, other, path):
    layer, target = VARIANTS[name](dtype=own), VARIANTS[name](dtype=other)
    save(layer, path)
    load(target, path)
    assert_same_state(target, {n: value.to(other) for n, value in layer.state_dict().items()})
    save(target, path)
    load(layer, path)


def test_a_given_rule_survives_conversions(path):
    layer = PHMLinear(12, 20, rule=given(3, 4, 4), dtype=torch.float64)
    layer.to(torch.bfloat16).float()
    save(layer, path)
    other = PHMLinear(12, 20, rule=given(3, 4, 4))
    load(other, path)
    assert_same_state(other, layer.state_dict())


def test_a_shared_rule_is_stored_once_and_declared_tied(saved, path):
    with safe_open(path, framework="pt") as file:
        names, metadata = set(file.keys()), file.metadata()
    assert names == set(saved.state_dict()) - {"2.rule.A"}
    assert json.loads(metadata["tied"]) == {"2.rule.A": "0.rule.A"}


def test_a_shared_rule_comes_back_shared(saved, path):
    other = model_with_shared_rule()
    rule = other[0].rule
    load(other, path)
    assert other[0].rule is rule
    assert other[2].rule is rule
    assert_same_state(other, saved.state_dict())


def test_a_file_with_a_shared_rule_fits_a_model_without(saved, path):
    other = nn.Sequential(
        PHMLinear(8, 12, n=4), PHMLinear(12, 16, n=4, rank=6), PHMLinear(16, 8, n=4)
    )  # fmt: skip
    load(other, path)
    assert_same_state(other, saved.state_dict())


def test_two_rules_do_not_fit_where_one_is_shared(path):
    separate = nn.Sequential(
        PHMLinear(8, 12, n=4), PHMLinear(12, 16, n=4, rank=6), PHMLinear(16, 8, n=4)
    )  # fmt: skip
    save(separate, path)
    model = model_with_shared_rule()
    assert_refused(model, path, r"2\.rule\.A differs from 0\.rule\.A, and both are one tensor here")


def test_safetensors_reads_the_file(saved, path):
    other = model_with_shared_rule()
    load_model(other, path)
    assert_same_state(other, saved.state_dict())


def test_strided_parameters_are_stored(path):
    layer, other = PHMLinear(8, 12, n=4), PHMLinear(8, 12, n=4)
    layer.S = nn.Parameter(layer.S.detach().transpose(1, 2).contiguous().transpose(1, 2))
    assert not layer.S.is_contiguous()
    save(layer, path)
    load(other, path)
    assert_same_state(other, layer.state_dict())


def assert_refused(model, path, match):
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=match):
        load(model, path)
    assert_same_state(model, before)


LAYOUTS = {
    "other n": (lambda: PHMLinear(8, 12, n=2), r"S has the shape \(4, 3, 2\) instead of \(2, 6, 4\)"),
    "a rank": (lambda: PHMLinear(8, 12, n=4, rank=6), r"rule\.U is missing"),
    "no bias": (lambda: PHMLinear(8, 12, False, n=4), "bias is not known here"),
    "low-rank components": (lambda: PHMLinear(8, 12, n=4, component_rank=1), "s is missing"),
    "a fixed rule": (lambda: PHMLinear(8, 12, rule="quaternion"), r"rule\.A is another rule than quaternion"),
    "a dense layer": (lambda: nn.Linear(8, 12), "weight is missing"),
    "a parent": (lambda: nn.Sequential(PHMLinear(8, 12, n=4)), r"0\.S is missing"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_another_layout_is_refused_by_name(layout, path):
    make, match = LAYOUTS[layout]
    save(PHMLinear(8, 12, n=4), path)
    assert_refused(make(), path, match)


def test_a_mistake_in_the_last_layer_leaves_the_first_as_it_was(path):
    save(nn.Sequential(nn.Linear(4, 8), PHMLinear(8, 12, n=4)), path)
    model = nn.Sequential(nn.Linear(4, 8), PHMLinear(8, 12, n=2))
    assert_refused(model, path, r"1\.S has the shape")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_neither_saved_nor_loaded(saved, path, value):
    whole, broken = path.read_bytes(), copy.deepcopy(saved)
    with torch.no_grad():
        broken[1].S[0, 0, 0] = value
    with pytest.raises(
        ValueError, match=r"cannot save this state[^$]*1\.S has 1 entries that are not finite"
    ):
        save(broken, path)
    assert path.read_bytes() == whole
    state = broken.state_dict()
    del state["2.rule.A"]
    save_file(state, path, metadata={"tied": '{"2.rule.A": "0.rule.A"}'})
    assert_refused(saved, path, r"1\.S has 1 entries that are not finite")


def test_an_overflow_on_loading_is_refused(path):
    layer = PHMLinear(8, 12, n=4)
    with torch.no_grad():
        layer.S[0, 0, 0] = 1e5
    save(layer, path)
    assert_refused(PHMLinear(8, 12, n=4, dtype=torch.float16), path, r"S has 1 entries .* torch\.float16")


@pytest.mark.parametrize("kept", [0, 4, 8, 100, 0.5, -1])
def test_a_truncated_file_is_refused_by_name(saved, path, kept):
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole)) if isinstance(kept, float) else kept])
    assert_refused(saved, path, r"model\.safetensors is damaged or no safetensors file")


@pytest.mark.parametrize("content", [b"PK\x03\x04 a zip file, such as torch.save writes", b"\xff" * 64])
def test_another_file_is_refused_by_name(saved, path, content):
    path.write_bytes(content)
    assert_refused(saved, path, r"model\.safetensors is damaged or no safetensors file")


@pytest.mark.parametrize("tied", ["[1]", "{", '{"2.rule.A": ["0.rule.A"]}', "7"])
def test_damaged_metadata_are_refused(saved, path, tied):
    save_file(load_file(path), path, metadata={"tied": tied})
    assert_refused(saved, path, r"model\.safetensors is damaged or no safetensors file")


def test_a_missing_file_is_named(path):
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors"):
        load(PHMLinear(8, 12, n=4), path)


@pytest.mark.parametrize("failing", ["write", "rename"])
def test_a_failing_write_leaves_the_old_file_whole(saved, path, monkeypatch, failing):
    whole = path.read_bytes()

    def half_written(tensors, target, **options):
        target.write_bytes(whole[:50])
        raise OSError("no space left on device")

    def no_rename(self, target):
        raise OSError("no space left on device")

    if failing == "write":
        monkeypatch.setattr(onenth.state, "save_file", half_written)
    else:
        monkeypatch.setattr(type(path), "replace", no_rename)
    with pytest.raises(OSError, match="no space left"):
        save(model_with_shared_rule(), path)
    assert path.read_bytes() == whole
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_file_is_on_the_disk_before_it_counts(saved, path, monkeypatch):
    order, fsync, replace = [], os.fsync, type(path).replace

    def record_sync(handle):
        state = os.fstat(handle)
        order.append(("sync", state.st_ino, state.st_size))
        fsync(handle)

    def record_replace(self, target):
        order.append("replace")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(type(path), "replace", record_replace)
    save(saved, path)
    file, folder = path.stat(), path.parent.stat()
    assert order == [
        ("sync", file.st_ino, file.st_size), "replace", ("sync", folder.st_ino, folder.st_size)
    ]  # fmt: skip


def test_a_model_without_memory_is_neither_saved_nor_loaded(saved, path):
    model = model_with_shared_rule(device="meta")
    for act in (save, load):
        with pytest.raises(ValueError, match=r"0\.S.* are on the meta device: call to_empty"):
            act(model, path)


def test_torchs_own_loading_refuses_by_name():
    model, state = model_with_shared_rule(), model_with_shared_rule().state_dict()
    state["1.S"] = torch.full_like(state["1.S"], math.nan)
    with pytest.raises(ValueError, match=r"1\.S has 48 entries that are not finite"):
        model.load_state_dict(state)
    state["1.S"] = torch.ones(3)
    with pytest.raises(ValueError, match=r"1\.S has the shape \(3,\) instead of"):
        model.load_state_dict(state)

"""Checkpoints: to the bit, or not at all."""

import errno
import math
import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from lab.engine.faults import (
    DAMAGES,
    FILES,
    assert_content,
    content,
    die_again_and_again,
    fail,
    flip,
    limited,
    names,
)

from onenth.lab.engine.checkpoint import Store
from onenth.lab.errors import Problem

OLD, NEW = "step-00000001", "step-00000002"


@pytest.fixture
def said():
    return []


@pytest.fixture
def store(tmp_path, said):
    """A store of the steps 1 and 2."""
    store = Store(tmp_path / "checkpoints", keep=2, say=said.append)
    for step in (1, 2):
        store.save(step, *content(step))
    return store


def again(store):
    return Store(store.folder, store.keep, store._say)


def bits(tensor):
    return tensor.dtype, tensor.shape, tensor.contiguous().reshape(-1).view(torch.uint8).tolist()


SHARED = torch.randn(6, 4)
TENSORS = {
    **{str(dtype): torch.randn(3, 5).to(dtype) for dtype in (torch.float64, torch.float32, torch.float16)},
    "bfloat16": torch.randn(7).bfloat16(),
    "int64": torch.tensor([-(2**63), 2**63 - 1]),
    "bool": torch.tensor([True, False]),
    "rng": torch.get_rng_state(),
    "0-dim": torch.tensor(math.pi),
    "empty": torch.empty(0, 3),
    "empty too": torch.empty(0),
    "not a number": torch.tensor([math.nan, -math.nan, math.inf, -0.0, 1e-45]),
    "payload": torch.tensor([0x7FA00001, -1]).int().view(torch.float32),
    "transposed": SHARED.T,
    "shared": SHARED,
    "shared in part": SHARED[1:3],
    "strided": SHARED[::2, 1],
    "expanded": torch.ones(1).expand(4),
    "parameter": torch.nn.Parameter(torch.ones(2)),
    "name/with: ünïcode": torch.ones(1),
}


def test_tensors_come_back_to_the_bit(tmp_path):
    Store(tmp_path, 1, fail).save(3, {"model": TENSORS, "none": {}}, {})
    found = Store(tmp_path, 1, fail).newest()
    assert (found.step, found.folder) == (3, tmp_path / "step-00000003")
    assert names(found.folder) == ["manifest.json", "model.safetensors", "none.safetensors", "state.json"]
    assert found.tensors.keys() == {"model", "none"}
    assert found.tensors["none"] == {}
    assert {n: bits(value) for n, value in found.tensors["model"].items()} == {
        n: bits(value.detach()) for n, value in TENSORS.items()
    }
    for value in found.tensors["model"].values():
        if value.numel() and value.is_floating_point():
            value.zero_()  # each is memory of its own, to be written to
    assert torch.equal(found.tensors["model"]["int64"], TENSORS["int64"])


FACTS = {
    "loss": 0.1 + 0.2,
    "least": 5e-324,
    "zero": -0.0,
    "big": 2**80,
    "text": "π\ud800\n",
    "deep": [{"a": [None]}],
}


def test_facts_come_back_exactly(tmp_path):
    store = Store(tmp_path, 1, fail)
    store.save(0, {}, FACTS)
    assert repr(store.load(0).facts) == repr(dict(sorted(FACTS.items())))


@pytest.mark.parametrize(
    ("tensors", "facts", "match"),
    [
        ({}, {"loss": math.nan}, "not JSON compliant"),
        ({}, {"loss": -math.inf}, "not JSON compliant"),
        ({}, {"by step": {1: 2}}, "only what consists of dict with str keys"),
        ({}, {"pair": (1, 2)}, "only what consists of"),
        ({}, {"path": Path()}, "not JSON serializable"),
        ({"../model": {}}, {}, r"'\.\./model' cannot name a file"),
        ({"m": {"__metadata__": torch.ones(1)}}, {}, "m: __metadata__ cannot name a tensor"),
    ],
)
def test_what_would_not_come_back_is_refused(store, tensors, facts, match):
    with pytest.raises(Problem, match=rf"could not write .*step-00000003: .*{match}.*: save other values"):
        store.save(3, tensors, facts)
    assert names(store.folder) == [OLD, NEW]


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_newest_stay(tmp_path, keep):
    store = Store(tmp_path, keep, fail)
    assert store.newest() is None
    for step in (5, 10, 123456789, 7):
        store.save(step, {}, {"step": step})
    expected = {1: [7], 2: [7, 123456789], 3: [7, 10, 123456789]}[keep]
    assert store.steps() == expected
    assert all(store.load(step).facts == {"step": step} for step in expected)
    with pytest.raises(ValueError, match="at least one checkpoint stays"):
        Store(tmp_path, 0, fail)


def test_a_step_is_saved_anew(store):
    store.save(2, *content(9))
    assert_content(store.newest(), 9)
    assert_content(store.load(1), 1)
    assert names(store.folder) == [OLD, NEW]


def test_damaged_ones_stay_and_do_not_count(store, said):
    flip(store.folder / NEW / "state.json", 5)
    store = again(store)
    assert store.newest().step == 1
    store.keep = 1
    store.save(1, {}, {})
    assert store.steps() == [1, 2]
    store.save(2, {}, {})
    assert store.steps() == [2]
    assert len(said) == 1


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_noticed(store, said, damage):
    damage(store.folder / NEW, store.folder / OLD)
    with pytest.raises(Problem, match=rf"/{NEW} is damaged: .*: choose another step: 1$"):
        store.load(2)
    assert_content(again(store).newest(), 1)
    [sentence] = said
    assert f"/{NEW} is damaged: " in sentence
    assert sentence.endswith(f"; passing over to {OLD}")
    assert NEW in names(store.folder)


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_is_noticed(store, name):
    path = store.folder / NEW / name
    for bit in random.Random(name).sample(range(8 * path.stat().st_size), 20):
        flip(path, bit)
        with pytest.raises(Problem, match=f"{NEW} is damaged: {name}"):
            store.load(2)
        flip(path, bit)
    assert_content(store.load(2), 2)


def test_none_whole_is_for_a_person_to_decide(store, said):
    for step in (OLD, NEW):
        (store.folder / step / "state.json").unlink()
    with pytest.raises(Problem, match=rf"{OLD} is damaged: state.json is missing; .* to start anew"):
        again(store).newest()
    assert len(said) == 1
    with pytest.raises(Problem, match=r"step-00000007 does not exist: choose another step: 1, 2"):
        store.load(7)


@pytest.mark.parametrize("step", [2, 3])
@pytest.mark.parametrize("part", [0, 0.4, 0.99])
def test_a_full_disk_leaves_all_as_it_was(store, step, part):
    size = (store.folder / NEW / "optimizer.safetensors").stat().st_size
    match = rf"could not write .*/step-0000000{step}: File too large.*: make room, or name another folder"
    with limited(int(part * size)), pytest.raises(Problem, match=match):
        store.save(step, *content(step + 1))
    assert names(store.folder) == [OLD, NEW]
    for each in (1, 2):
        assert_content(store.load(each), each)


@pytest.mark.parametrize("call", range(12))
def test_a_failing_rename_or_sync_leaves_one_of_both(store, monkeypatch, call):
    """Saving anew fails at its call … of os.fsync or os.rename, and never again."""
    calls = iter(range(100))

    def failing(act):
        def once(*args):
            if next(calls) == call:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return act(*args)

        return once

    monkeypatch.setattr(os, "fsync", failing(os.fsync))
    monkeypatch.setattr(os, "rename", failing(os.rename))
    try:
        store.save(2, *content(9))
    except Problem as problem:
        assert f"{NEW}: No space left on device" in str(problem)  # noqa: PT017 (the last call may be the end)
        assert_content(store.load(2), 2 if call < 7 else 9)
    else:
        assert call > 8
    assert_content(store.load(1), 1)
    assert again(store).steps() == [1, 2]
    assert names(store.folder) == [OLD, NEW]


def test_all_is_on_the_disk_before_it_counts(store, monkeypatch):
    """What was synced before each rename: all files, the folder that is renamed, the one it is in."""
    synced, renames = {}, []
    fsync, rename = os.fsync, os.rename

    def record_sync(handle):
        synced[os.fstat(handle).st_ino] = os.fstat(handle).st_size
        fsync(handle)

    def record_rename(source, target):
        files = {path.stat().st_ino: path.stat().st_size for path in Path(source).iterdir()}
        folders = [folder.stat().st_ino in synced for folder in (Path(source), store.folder)]
        renames.append((Path(source).name, files.items() <= synced.items(), *folders))
        rename(source, target)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "rename", record_rename)
    store.save(2, *content(9))
    assert renames == [
        (NEW, False, False, False),
        (f"{NEW}.part", True, True, False),
        (f"{NEW}.old", False, False, True),
    ]


def test_a_folder_that_cannot_be_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Problem, match=r"/file/run: no place for checkpoints, Not a directory: name a folder"):
        Store(tmp_path / "file" / "run", 1, fail)


def test_what_is_none_of_its_own_is_left_alone(store):
    others = [".part", "notes.old", "step-1.part", "step-x.gone", "step-000000003"]
    for name in others:
        (store.folder / name).mkdir()
    assert again(store).steps() == [1, 2]
    assert names(store.folder) == sorted([OLD, NEW, *others])


def test_averages(tmp_path):
    store, draws = (
        Store(tmp_path, 3, fail),
        np.random.default_rng(0).standard_normal((3, 50)).astype("float32"),
    )
    for step, draw in enumerate(draws):
        half = torch.tensor([1.0, 256.0 + 2 * step]).bfloat16()
        big = torch.tensor([1e8, 1.0, -1e8][step])
        state = {"w": torch.from_numpy(draw), "half": half, "big": big, "count": torch.tensor([4])}
        store.save(step, {"model": state, "other": {"x": torch.ones(step + 1)}}, {})
    found = store.averaged("model", [0, 1, 2])
    assert found["w"].numpy().tolist() == (draws.astype("float64").sum(0) / 3).astype("float32").tolist()
    assert found["half"].tolist() == [1.0, 258.0]
    assert found["big"].item() == np.float32(1 / 3)  # in float32 the 1 is lost
    assert [found[name].dtype for name in ("w", "half", "count")] == [
        torch.float32,
        torch.bfloat16,
        torch.int64,
    ]
    assert found["count"].tolist() == [4]
    with pytest.raises(Problem, match=r"step-00000001 has other x than .*step-00000000: average checkpoints"):
        store.averaged("other", [0, 1])
    with pytest.raises(Problem, match=r"has no ema\.safetensors: choose of model, other"):
        store.averaged("ema", [0])
    with pytest.raises(ValueError, match="no mean of no checkpoints"):
        store.averaged("model", [])


@pytest.mark.parametrize(
    "other", [{"n": torch.tensor(2)}, {"n": torch.ones(())}, {}, {"n": torch.tensor([1])}]
)
def test_what_has_no_mean_has_to_agree(tmp_path, other):
    store = Store(tmp_path, 2, fail)
    store.save(1, {"model": {"n": torch.tensor(1)}}, {})
    store.save(2, {"model": other}, {})
    with pytest.raises(Problem, match=r"step-00000002 has other n than .*step-00000001"):
        store.averaged("model", [1, 2])


def test_a_death_loses_nothing(tmp_path):
    left = die_again_and_again(tmp_path, "in place", changes=range(10, 17), kills=3)
    assert {"step step.part", "step.old step.part", "step step.old", "step step.gone"} <= left[
        "change"
    ].keys()

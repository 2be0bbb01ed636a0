"""Checkpoints under hundreds of faults: a tenth of them, or with SOAK=1 in the environment all."""

import os
import random
from collections import Counter

import pytest
from lab.engine.faults import (
    DAMAGES,
    FILES,
    KEPT,
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

pytestmark = pytest.mark.full
PART = 1 if os.environ.get("SOAK") == "1" else 10
OLD, NEW = "step-00000001", "step-00000002"


@pytest.fixture
def folder(tmp_path):
    """That of the checkpoints of the steps 1 and 2."""
    store = Store(tmp_path / "checkpoints", 2, fail)
    for step in (1, 2):
        store.save(step, *content(step))
    return store.folder


@pytest.mark.parametrize("mode", KEPT)
def test_kills(tmp_path, mode):
    left = die_again_and_again(tmp_path, mode, changes=range(60), kills=200 // PART)
    assert sum(left["delay"].values()) == 200 // PART
    assert {"step step.part", "step step.gone"} <= left["change"].keys()
    assert any(names.endswith(".part") for names in left["delay"])  # some came while a save was under way
    assert ("step.old step.part" in left["change"]) == (mode == "in place")


@pytest.mark.parametrize("number", range(0, 20, min(PART, 5)))
@pytest.mark.parametrize("step", [2, 3])
def test_full_disks(folder, number, step):
    size = (folder / NEW / "optimizer.safetensors").stat().st_size
    store = Store(folder, 2, fail)
    with (
        limited(number * (size - 1) // 19),
        pytest.raises(Problem, match=f"could not write .*{step}: File too"),
    ):
        store.save(step, *content(step + 1))
    assert names(folder) == [OLD, NEW]
    for each in (1, 2):
        assert_content(store.load(each), each)
    with limited(size):
        store.save(step, *content(step + 1))
    assert_content(store.newest(), step + 1)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("last", range(1, 4))
def test_the_last_good_one_is_taken(folder, damage, last):
    """Of four, those after the last good one are damaged."""
    said = []
    store = Store(folder, 4, said.append)
    for step in (3, 4):
        store.save(step, *content(step))
    for step in range(last + 1, 5):
        damage(folder / f"step-{step:08d}", folder / OLD)
        (folder / "elsewhere").exists() and (folder / "elsewhere").rename(folder / f"elsewhere {step}")
    found = Store(folder, 4, said.append).newest()
    assert_content(found, last)
    assert len(said) == 4 - last


def test_flipped_bits(folder):
    said, rng, hit = [], random.Random(0), Counter()
    store = Store(folder, 2, said.append)
    sizes = {name: 8 * (folder / NEW / name).stat().st_size for name in FILES}
    places = [(name, rng.randrange(sizes[name])) for name in FILES * (250 // PART)]
    places += [("manifest.json", bit) for bit in range(0, sizes["manifest.json"], PART)]
    for name, bit in places:
        path = folder / NEW / name
        flip(path, bit)
        assert store.newest().step == 1, f"bit {bit} of {name}"
        assert f"{NEW} is damaged: {name}" in said[-1]
        flip(path, bit)
        hit[name] += 1
    assert sum(hit.values()) == len(said) >= 1000 // PART
    assert_content(store.newest(), 2)

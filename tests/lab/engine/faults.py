"""What befalls checkpoints: damage, a disk that is full, and a death at any moment of saving.

Run as a program it is a saver that dies again and again: a process that has torch already forks children, and
checks what each leaves behind.
"""

import itertools
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import torch

from onenth.lab.engine.checkpoint import Store

KEPT = {"in place": 1, "rotating": 2}  # how many stay, where one step is saved anew and where steps go on
FILES = ["manifest.json", "model.safetensors", "optimizer.safetensors", "state.json"]


def content(number, size=64):
    """Tensors and facts that are functions of a number."""
    model = {"w": torch.arange(size, dtype=torch.float32) * number, "steps": torch.tensor(number)}
    return {"model": model, "optimizer": {"m": torch.full((size,), number, dtype=torch.float64)}}, {
        "number": number,
        "third": number / 3,
    }


def assert_content(found, number, size=64):
    tensors, facts = content(number, size)
    assert found.facts == facts
    assert found.tensors.keys() == tensors.keys()
    for group, named in tensors.items():
        assert found.tensors[group].keys() == named.keys()
        assert all(torch.equal(found.tensors[group][name], value) for name, value in named.items())


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@contextmanager
def limited(size):
    """No file can grow beyond a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def flip(path, bit):
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def a_flipped_bit(folder, other):
    flip(folder / "model.safetensors", 8 * (folder / "model.safetensors").stat().st_size - 1)


def a_truncated_file(folder, other):
    os.truncate(folder / "model.safetensors", 100)


def an_extended_file(folder, other):
    with (folder / "model.safetensors").open("ab") as file:
        file.write(b"\0")


def an_emptied_file(folder, other):
    (folder / "state.json").write_bytes(b"")


def a_missing_file(folder, other):
    (folder / "optimizer.safetensors").unlink()


def a_further_file(folder, other):
    shutil.copy(folder / "model.safetensors", folder / "ema.safetensors")


def swapped_files(folder, other):
    first, second = (folder / name for name in ("model.safetensors", "optimizer.safetensors"))
    first.rename(folder / "aside")
    second.rename(first)
    (folder / "aside").rename(second)


def a_file_of_another_step(folder, other):
    shutil.copy(other / "model.safetensors", folder)


def a_link_to_the_file(folder, other):
    (folder / "model.safetensors").rename(folder.parent / "elsewhere")
    (folder / "model.safetensors").symlink_to(folder.parent / "elsewhere")


def a_folder_for_a_file(folder, other):
    (folder / "state.json").unlink()
    (folder / "state.json").mkdir()


def no_manifest(folder, other):
    (folder / "manifest.json").unlink()


def all_of_another_step(folder, other):
    shutil.rmtree(folder)
    shutil.copytree(other, folder)


def a_link_to_the_folder(folder, other):
    folder.rename(folder.parent / "elsewhere")
    folder.symlink_to(folder.parent / "elsewhere")


def an_edited_manifest(folder, other):
    """A fact changed with its hash, as someone would who thinks that this is all."""
    old = (folder / "state.json").read_bytes()
    new = old.replace(b'"number":', b'"Number":')
    assert new != old
    (folder / "state.json").write_bytes(new)
    path = folder / "manifest.json"
    path.write_bytes(path.read_bytes().replace(_hash(old), _hash(new)))


def a_manifest_in_other_words(folder, other):
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=2))


def _hash(data):
    return subprocess.run(["sha256sum"], input=data, capture_output=True, check=True).stdout[:64]


DAMAGES = [
    a_flipped_bit, a_truncated_file, an_extended_file, an_emptied_file, a_missing_file, a_further_file,
    swapped_files, a_file_of_another_step, a_link_to_the_file, a_folder_for_a_file, no_manifest,
    all_of_another_step, a_link_to_the_folder, an_edited_manifest, a_manifest_in_other_words,
]  # fmt: skip


def die_again_and_again(folder, mode, changes, kills):
    """Runs this file as a program: deaths before each change of a range, then at random moments.

    Returns how often each set of names was left behind by the first and by the second.
    """
    done = subprocess.run(
        [sys.executable, __file__, str(folder), mode, str(changes.start), str(changes.stop), str(kills)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


SIZE = 50_000  # numbers in a tensor: most of the time of saving goes into writing
CHANGES = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}


def save_on(folder, mode, number, announce):
    """Saves for ever, and announces each number that is saved."""
    store = Store(folder, KEPT[mode], fail)
    for each in itertools.count(number):
        store.save(7 if mode == "in place" else each, *content(each, SIZE))
        os.write(announce, b"%d\n" % each)


def fail(sentence):
    raise AssertionError(sentence)


def die_at_change(number):
    """The process dies before its change number … of the file system, from now on."""
    count = itertools.count()

    def hook(event, args):
        if event in CHANGES and next(count) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def one_death(folder, mode, last, delay=None, change=None):
    """A child saves on from a number and dies. The last that it announced, and what it left behind."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if change is not None:
                die_at_change(change)
            save_on(folder, mode, last + 1, writer)
        finally:
            os._exit(1)  # after an exception: a child that dies as it should does not come here
    os.close(writer)
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    with open(reader, "rb") as file:
        announced = file.read().split()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    left = {re.sub(r"step-\d{8}", "step", name) for name in names(folder)}
    return int(announced[-1]) if announced else last, " ".join(sorted(left))


def check_survivor(folder, mode, announced):
    """What a new store has is whole, and nothing that was announced is lost. The number of the newest."""
    store = Store(folder, KEPT[mode], fail)
    assert all(re.fullmatch(r"step-\d{8}", name) for name in names(folder)), names(folder)
    found = store.newest()
    number = found.facts["number"]
    assert announced <= number <= announced + 1, f"{announced} was announced, and {number} is there"
    assert_content(found, number, SIZE)
    if mode == "rotating":
        assert store.steps()[-2:] == [number - 1, number]
        assert_content(store.load(number - 1), number - 1, SIZE)
    return number


def main(folder, mode, start, stop, kills):
    store, moments = Store(folder, KEPT[mode], fail), random.Random(0)
    for last in (1, 2):
        begin = time.monotonic()
        store.save(7 if mode == "in place" else last, *content(last, SIZE))
    span = 4 * (time.monotonic() - begin)
    deaths = [{"change": change} for change in range(start, stop)]
    deaths += [{"delay": moments.uniform(0, span)} for _ in range(kills)]
    left = {"change": Counter(), "delay": Counter()}
    for death in deaths:
        announced, what = one_death(folder, mode, last, **death)
        left[next(iter(death))][what] += 1
        last = check_survivor(folder, mode, announced)
    json.dump(left, sys.stdout)


if __name__ == "__main__":
    torch.set_num_threads(1)  # no threads, which a fork would leave behind
    main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))

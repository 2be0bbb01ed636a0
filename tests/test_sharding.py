"""Training on several ranks ends where training on one does.

This file is also the program each rank runs: `test_sharding.py RANK RANKS FOLDER`.
"""

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.tensor import DTensor, Shard
from torch.nn.parallel import DistributedDataParallel

from onenth import PHMLinear, Rule, param_groups, save
from onenth.sharding import clip_grad_norm_, shard

EXACT = {"rtol": 1e-12, "atol": 1e-12}  # sums in float64, in another order
STEPS, BATCH = 4, 24


class Case(NamedTuple):
    method: str
    rank: int | None = None  # of the rule
    parts: int = 1  # micro-batches of a step
    synced_once: bool = True  # or after every part
    max_norm: float | None = None  # of the gradient


CASES = {
    "ddp": Case("ddp"),
    "ddp, rule of rank 6, two parts": Case("ddp", rank=6, parts=2),
    "fsdp": Case("fsdp"),
    "fsdp, rule of rank 6": Case("fsdp", rank=6),
    "fsdp, two parts": Case("fsdp", parts=2),
    "fsdp, two parts, each synced": Case("fsdp", parts=2, synced_once=False),
    "fsdp, clipped": Case("fsdp", max_norm=0.05),
}


def model(case):
    """Three layers, the outer ones with one rule; 24, 20 and 8 outputs are 6, 5 and 2 to a segment."""
    torch.manual_seed(0)
    rule = Rule.learned(4, rank=case.rank, dtype=torch.float64)
    return nn.Sequential(
        PHMLinear(8, 24, rule=rule),
        nn.LayerNorm(24, dtype=torch.float64),
        PHMLinear(24, 20, n=4, dtype=torch.float64),
        nn.ReLU(),
        PHMLinear(20, 8, rule=rule),
    )


def batches():
    generator = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        yield torch.randn(2, BATCH, 8, generator=generator, dtype=torch.float64)


def train(model, case, rank=0, ranks=1):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for x, target in batches():
        own = slice(rank * BATCH // ranks, (rank + 1) * BATCH // ranks)
        parts = list(zip(x[own].chunk(case.parts), target[own].chunk(case.parts), strict=True))
        for number, (x_part, target_part) in enumerate(parts, 1):
            sync = number == len(parts) or not case.synced_once
            if case.method == "ddp":
                model.require_backward_grad_sync = sync
            elif ranks > 1:
                model.set_requires_gradient_sync(sync)
            (nn.functional.mse_loss(model(x_part), target_part) / case.parts).backward()
        if case.max_norm is not None:
            norm = clip_grad_norm_(model.parameters(), case.max_norm)
            assert norm > case.max_norm
        optimizer.step()
        optimizer.zero_grad()


def scattered(rank):
    """Parameters to keep, so that those made next lie in memory in another order on each rank."""
    spare = [nn.Parameter(torch.empty(0)) for _ in range(400)]
    random.Random(rank).shuffle(spare)
    return spare[::2]


def run_rank(rank, ranks, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    mesh = init_device_mesh("cpu", (ranks,))
    found = {}
    for name, case in CASES.items():
        kept = scattered(rank)
        module = model(case)
        del kept
        if case.method == "ddp":
            train(DistributedDataParallel(module), case, rank, ranks)
        else:
            if rank:
                with torch.no_grad():  # for the first rank's to replace
                    for parameter in module[0].rule.parameters():
                        parameter.add_(rank)
            shard(module, mesh)
            train(module, case, rank, ranks)
        found[name] = {
            key: (
                value.full_tensor() if isinstance(value, DTensor) else value.clone(),
                value.placements if isinstance(value, DTensor) else None,
                value.to_local().shape if isinstance(value, DTensor) else None,
            )
            for key, value in module.state_dict().items()
        }
    low_precision_and_saving(mesh)
    torch.save(found, f"{folder}/rank{rank}.pt")
    dist.destroy_process_group()


def low_precision_and_saving(mesh):
    """Sharded components are lowered and rules are not: the layer takes both; and `save` says what to do."""
    for rank in (None, 6):
        module = model(Case("fsdp", rank=rank)).float()
        shard(module, mesh, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
        optimizer = torch.optim.AdamW(param_groups(module, lr=1e-3), foreach=True)
        module(torch.randn(3, 8)).square().sum().backward()
        optimizer.step()
        assert all(parameter.grad.dtype == torch.float32 for parameter in module.parameters())
    with pytest.raises(ValueError, match=r"0\.S.*get_model_state_dict"):
        save(module, "never")


def launch(ranks, folder):
    environment = os.environ | {
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    programs = [
        subprocess.Popen(
            [sys.executable, __file__, str(rank), str(ranks), str(folder)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        outputs = [program.communicate(timeout=200)[0] for program in programs]
    finally:
        for program in programs:
            program.kill()
    assert [program.returncode for program in programs] == [0] * ranks, "\n".join(outputs)
    return [torch.load(folder / f"rank{rank}.pt", weights_only=False) for rank in range(ranks)]


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    return launch(2, tmp_path_factory.mktemp("ranks"))


@pytest.fixture(scope="module")
def three_ranks(tmp_path_factory):
    return launch(3, tmp_path_factory.mktemp("ranks"))


def assert_trained_alike(case, ranks):
    alone = model(case)
    start = {name: value.clone() for name, value in alone.state_dict().items()}
    train(alone, case._replace(method="alone"))
    for found in ranks:
        assert found.keys() == start.keys()
        for name, (value, _, _) in found.items():
            torch.testing.assert_close(value, alone.state_dict()[name], **EXACT)
            assert not torch.equal(value, start[name]), name


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_end_where_one_does(name, two_ranks):
    assert_trained_alike(CASES[name], [found[name] for found in two_ranks])


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_three_ranks_end_where_one_does(name, three_ranks):
    assert_trained_alike(CASES[name], [found[name] for found in three_ranks])


@pytest.mark.parametrize("name", [name for name in CASES if "fsdp" in name])
def test_components_are_sharded_over_outputs_and_rules_replicated(name, two_ranks):
    for found in two_ranks:
        placements = {key: (placement, local) for key, (_, placement, local) in found[name].items()}
        assert placements["0.S"] == ((Shard(1),), (4, 3, 2))
        assert placements["4.S"] == ((Shard(1),), (4, 1, 5))
        assert placements["2.S"] == ((Shard(0),), (2, 5, 6))  # 5 outputs to a segment: as usual
        assert placements["0.bias"][0] == (Shard(0),)
        assert {placements[key] for key in placements if ".rule." in key} == {(None, None)}
    for key, (value, _, _) in two_ranks[0][name].items():
        assert torch.equal(value, two_ranks[1][name][key][0]), key


if __name__ == "__main__":
    run_rank(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))

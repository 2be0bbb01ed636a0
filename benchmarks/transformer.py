"""PHM-Transformers side by side with the same Transformer of dense layers: training steps, memory, decoding.

Every contestant is compared before it is timed: a model with its dense twin, made of the matrices of its
layers; a frozen translation with one that is not. The rounds are interleaved; ratios are medians over them,
with the quartiles.

    python benchmarks/transformer.py --out results/transformer-cpu.json
"""

import argparse
import copy
import dataclasses
from pathlib import Path
from typing import Any

import record
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from onenth import PHMLinear, PHMTransformer, freeze
from onenth.lab.measure import timing
from onenth.lab.measure.timing import Action, contest, peak
from onenth.models import Seq2Seq, Seq2SeqConfig
from onenth.nn.sharing import layers

VERSIONS: dict[str, dict[str, Any]] = {
    "n=1": {"n": 1},
    "n=4": {"n": 4},
    "n=8": {"n": 8},
    "quaternion": {"rule": "quaternion"},
    "rank 8 of n=4": {"n": 4, "rank": 8},
    "rank 16 of n=8": {"n": 8, "rank": 16},
    "rank 8 of n=8": {"n": 8, "rank": 8},
}


def step(model: nn.Module, source: Tensor, target: Tensor) -> Action:
    """A whole training step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    model.train()

    def run() -> None:
        optimizer.zero_grad()
        model(source, target, tgt_is_causal=True).square().mean().backward()
        optimizer.step()

    return run


def dense_twin(model: nn.Module) -> nn.Module:
    """The same model with the matrices of its PHM layers in dense ones."""
    twin = copy.deepcopy(model)
    for module in list(twin.modules()):
        for name, child in module.named_children():
            if isinstance(child, PHMLinear):
                setattr(module, name, child.to_linear())
    return twin


def check(model: nn.Module, *inputs: Tensor) -> None:
    """Raises where a model differs from its dense twin, so that it cannot be timed."""
    model.eval()
    with torch.no_grad():
        wanted, found = dense_twin(model)(*inputs), model(*inputs)
    error = (found - wanted).norm() / wanted.norm()
    if not error < 1e-4:
        raise SystemExit(f"a model is wrong by {error:.1e}: not timed")


def training(sizes: dict[str, int], batch: int, length: int, rounds: int) -> list[dict[str, Any]]:
    """A step with AdamW; the most memory that it takes, without and with parameters and the optimiser's."""
    source, target = (torch.randn(batch, length, sizes["hidden"]) for _ in range(2))
    models = {name: transformer(sizes, **options) for name, options in VERSIONS.items()}
    for model in models.values():
        check(model, source, target)
    steps = {name: step(model, source, target) for name, model in models.items()}
    found = contest(steps, rounds)
    for row in found:
        model = models[row["name"]]
        row["parameters"] = sum(p.numel() for p in model.parameters())
        row["of_layers"] = sum(p.numel() for own in layers(model) for p in own.parameters())
        for parameter in model.parameters():
            parameter.grad = None
        row["peak_MiB"] = round(peak(steps[row["name"]]) / 2**20, 1)
        kept = 3 * sum(p.nbytes for p in model.parameters())  # themselves, and AdamW's two moments
        row["total_MiB"] = round(row["peak_MiB"] + kept / 2**20, 1)
    return found


def transformer(sizes: dict[str, int], **phm: Any) -> PHMTransformer:
    own = sizes["hidden"], sizes["heads"], sizes["layers"], sizes["layers"], sizes["filter"]
    return PHMTransformer(*own, batch_first=True, norm_first=True, **phm)


def decoding(
    sizes: dict[str, int], vocabulary: int, sentences: int, length: int, rounds: int
) -> list[dict[str, Any]]:
    """Beam search with 4 hypotheses, frozen; to the full length, as untrained models do not end."""
    config = Seq2SeqConfig(vocabulary=vocabulary, **sizes)
    source = torch.randint(3, vocabulary, (sentences, length))
    dense = dense_twin(Seq2Seq(config).eval())
    actions: dict[str, Action] = {"nn.Linear": lambda: dense.translate(source, beam=4, max_length=length)}
    for name, options in VERSIONS.items():
        torch.manual_seed(1)
        model = Seq2Seq(dataclasses.replace(config, **options)).eval()
        wanted = model.translate(source[:, :8], max_length=8)
        freeze(model.transformer.encoder, rows=sentences * length, seconds=0.1)
        freeze(model.transformer.decoder, rows=4 * sentences)
        found = model.translate(source[:, :8], max_length=8)
        if not (found.scores - wanted.scores).abs().max() < 1e-3:
            raise SystemExit(f"{name} does not translate frozen as it does otherwise: not timed")
        actions[name] = lambda own=model: own.translate(source, beam=4, max_length=length)
    return contest(actions, rounds)


def show(title: str, found: list[dict[str, Any]]) -> None:
    sizes = "parameters" in found[0]
    table = Table(
        "model", "ratio", "ms", *(["parameters", "peak, MiB", "in all, MiB"] if sizes else []), title=title
    )
    for row in found:
        more = (
            [f"{row['parameters']:,}", f"{row['peak_MiB']:.0f}", f"{row['total_MiB']:.0f}"] if sizes else []
        )
        table.add_row(row["name"], timing.cell(row), f"{row['ms']:.1f}", *more)
    Console(width=110).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--filter", type=int, default=2048)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--batch", type=int, default=32, help="sentences of a training step (default 32)")
    parser.add_argument(
        "--length", type=int, default=64, help="tokens of a sentence in training (default 64)"
    )
    parser.add_argument("--decoded", type=int, default=32, help="tokens of a sentence decoded (default 32)")
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=5, help="times each is timed (default 5)")
    parser.add_argument("--threads", type=int, default=2, help="threads torch may use (default 2)")
    parser.add_argument("--out", type=Path, help="file for the result (JSON)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    sizes = {name: getattr(options, name) for name in ("hidden", "filter", "heads", "layers")}
    rounds, tokens, decoded = options.rounds, f"{options.batch} × {options.length} tokens", options.decoded
    tables = {f"training, {tokens}": training(sizes, options.batch, options.length, rounds)}
    for sentences in (1, 8):
        tables[f"beam search, {sentences} × {decoded} tokens"] = decoding(
            sizes, options.vocabulary, sentences, decoded, 2 * rounds
        )
    for title, found in tables.items():
        show(title, found)
    if options.out:
        about = {"dtype": "float32", "rounds": options.rounds, "vocabulary": options.vocabulary, **sizes}
        record.write(options.out, {**about, **tables})


if __name__ == "__main__":
    main()

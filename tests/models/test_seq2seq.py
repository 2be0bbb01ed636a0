"""Whole models: what they compute, decode, save and refuse."""

import dataclasses
import json
import math

import pytest
import torch
from torch.nn import functional as F

from onenth import QuaternionLinear, freeze
from onenth.models import Seq2Seq, Seq2SeqConfig
from onenth.models.seq2seq import Decoding
from onenth.models.tokens import sinusoids
from onenth.nn.sharing import layers

SMALL = Seq2SeqConfig(vocabulary=20, hidden=24, filter=48, heads=4, layers=2, positions=64)
VERSIONS = {"real": {}, "quaternion": {"rule": "quaternion"}, "n=4": {"n": 4}, "rank 8": {"n": 4, "rank": 8}}


def small(**more):
    return Seq2Seq(dataclasses.replace(SMALL, **more)).eval()


def sources():
    return torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0], [9, 10, 2, 0]])


@pytest.mark.parametrize("version", VERSIONS)
def test_versions_differ_by_one_argument(version):
    model = small(**VERSIONS[version])
    kinds = {repr(layer.rule) for layer in layers(model)}
    assert len(kinds) == 1
    assert len(layers(model)) == 22
    assert model(sources(), sources()).shape == (3, 4, 20)


def test_without_options_it_is_dense():
    assert {layer.n for layer in layers(small())} == {1}
    quaternion = {tuple(layer.rule.tensor().flatten().tolist()) for layer in layers(small(rule="quaternion"))}
    assert quaternion == {tuple(QuaternionLinear(4, 4).rule.tensor().flatten().tolist())}


def test_padding_changes_nothing():
    model = small(n=4)
    alone = model(torch.tensor([[8, 2]]), torch.tensor([[1, 5, 6]]))
    padded = model(sources()[1:2], torch.tensor([[1, 5, 6, 0]]))[:, :3]
    torch.testing.assert_close(alone, padded)


def test_a_source_of_padding_gives_numbers():
    model = small(n=4).train()
    source = sources()
    source[1] = 0
    y = model(source, source)
    assert y.isfinite().all()
    y.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    assert model.eval().translate(source, max_length=5).scores.isfinite().all()


def test_later_tokens_are_not_seen():
    model = small(n=4)
    target = torch.tensor([[1, 5, 6, 7]]).expand(3, 4).clone()
    before = model(sources(), target)
    target[:, 3] = 9
    torch.testing.assert_close(model(sources(), target)[:, :3], before[:, :3])


def test_one_matrix_embeds_and_predicts():
    model = small(n=4)
    assert sum(p.numel() == 20 * 24 for p in model.parameters()) == 1
    memory, padding = model.encode(sources())
    x = model.tokens.embedding(sources()) * math.sqrt(24) + sinusoids(64, 24)[:4]
    y = model.transformer.decoder(x, memory, memory_key_padding_mask=padding, tgt_is_causal=True)
    torch.testing.assert_close(model(sources(), sources()), y @ model.tokens.embedding.weight.T)


def test_positions_are_sines_and_cosines():
    table = sinusoids(50, 8)
    t = torch.arange(50.0)
    torch.testing.assert_close(table[:, 0], t.sin())
    torch.testing.assert_close(table[:, 4], t.cos())
    torch.testing.assert_close(table[:, 3], (t / 10000).sin())


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("version", VERSIONS)
def test_steps_equal_the_whole(version, rows):
    model = small(**VERSIONS[version])
    target = torch.randint(3, 20, (3 * rows, 40))
    with torch.no_grad():
        steps = Decoding(model, sources(), 40, rows)
        found = torch.stack([steps.logits(target[:, t]) for t in range(40)], 1)
        wanted = model(sources().repeat_interleave(rows, 0), target)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def uncached(model, source, beam, alpha, longest):
    """The best of a beam search that computes every prefix anew, one sentence at a time."""
    alive, ended = [((1,), 0.0)], []
    for length in range(1, longest + 1):
        prefixes = torch.tensor([tokens for tokens, _ in alive])
        logp = model(source.expand(len(alive), -1), prefixes)[:, -1].log_softmax(-1)
        grown = [
            ((*tokens, token), before + logp[row, token].item())
            for row, (tokens, before) in enumerate(alive)
            for token in range(20)
        ]
        grown = sorted(grown, key=lambda own: -own[1])[: 2 * beam]
        done = [own for own in grown[:beam] if own[0][-1] == 2 or length == longest]
        ended += [(tokens, score / ((5 + length) / 6) ** alpha) for tokens, score in done]
        alive = [own for own in grown if own[0][-1] != 2][:beam]
    return sorted(ended, key=lambda own: -own[1])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_beam_search_equals_one_without_a_cache(version, alpha):
    model = small(**VERSIONS[version])
    with torch.no_grad():
        model.tokens.embedding.weight.mul_(0.5)  # less sure, so that hypotheses change places
        found = model.translate(sources(), beam=4, alpha=alpha, n_best=2, max_length=7)
        for source, tokens, scores in zip(sources(), found.tokens, found.scores, strict=True):
            wanted = uncached(model, source[None], 4, alpha, 7)[:2]
            for (own, score), line, found_score in zip(wanted, tokens, scores, strict=True):
                assert list(own[1:]) == line[: len(own) - 1].tolist()
                assert abs(score - found_score) < 1e-4


def test_greedy_is_a_beam_of_one():
    model = small(n=4)
    one = model.translate(sources(), beam=1, max_length=9)
    other = model.translate(sources(), beam=1, n_best=1, alpha=0, max_length=9)
    assert torch.equal(one.tokens, other.tokens)


def test_frozen_translates_alike():
    model = small(n=4)
    before = model.translate(sources(), max_length=9)
    freeze(model, rows=12, seconds=0.1)
    after = model.translate(sources(), max_length=9)
    assert torch.equal(before.tokens, after.tokens)
    torch.testing.assert_close(before.scores, after.scores)


def test_compiles_and_exports():
    model = small(n=4)
    torch.compiler.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    wanted = model(sources(), sources())
    torch.testing.assert_close(compiled(sources(), sources()), wanted)
    program = torch.export.export(model, (sources(), sources()))
    torch.testing.assert_close(program.module()(sources(), sources()), wanted)


def test_autocast():
    model = small(n=4)
    with torch.autocast("cpu", torch.bfloat16):
        y = model(sources(), sources())
        found = model.translate(sources(), max_length=5)
    torch.testing.assert_close(y.float(), model(sources(), sources()), rtol=0.1, atol=0.1)
    assert found.scores.isfinite().all()


def test_samples_follow_the_seed():
    model = small(n=4)
    draws = [
        model.sample(sources(), max_length=9, generator=torch.Generator().manual_seed(s)).tokens
        for s in (0, 0, 1)
    ]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


@pytest.mark.parametrize("version", VERSIONS)
def test_saved_and_read_back(version, tmp_path):
    model = small(**VERSIONS[version])
    model.save_pretrained(tmp_path / "new" / "folder")
    other = Seq2Seq.from_pretrained(tmp_path / "new" / "folder")
    assert other.config == model.config
    assert not other.training
    assert torch.equal(other(sources(), sources()), model(sources(), sources()))
    assert {file.name for file in (tmp_path / "new" / "folder").iterdir()} == {
        "config.json",
        "model.safetensors",
    }


def test_learns_to_copy():
    torch.manual_seed(1)
    model = Seq2Seq(dataclasses.replace(SMALL, n=4, dropout=0.0, hidden=32, filter=64))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(300):
        words = torch.randint(3, 12, (64, 4))
        end, begin = torch.full((64, 1), 2), torch.ones(64, 1, dtype=torch.int64)
        logits = model(torch.cat([words, end], 1), torch.cat([begin, words], 1))
        loss = F.cross_entropy(logits.flatten(0, 1), torch.cat([words, end], 1).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    words = torch.randint(3, 12, (50, 4))
    found = (
        model.eval().translate(torch.cat([words, torch.full((50, 1), 2)], 1), max_length=6).tokens[:, 0, :4]
    )
    assert (found == words).all(1).float().mean() > 0.9


def damaged(tmp_path, text=None, **change):
    small(n=4).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    values = {**json.loads(path.read_text()), **change}
    path.write_text(json.dumps(values) if text is None else text)
    return Seq2Seq.from_pretrained(tmp_path)


REFUSED = {
    "list": (lambda _: small()([[1]], sources()), TypeError, ["source", "list"]),
    "numbers": (lambda _: small()(sources().float(), sources()), TypeError, ["source", "float32"]),
    "one sentence": (lambda _: small()(sources()[0], sources()), ValueError, ["source", "(4,)"]),
    "nothing": (lambda _: small()(sources()[:, :0], sources()), ValueError, ["source", "(3, 0)"]),
    "no target": (lambda _: small()(sources(), sources()[:, :0]), ValueError, ["target", "no tokens"]),
    "id": (lambda _: small()(sources() + 15, sources()), ValueError, ["source", "25", "vocabulary=20"]),
    "negative id": (lambda _: small()(sources(), sources() - 1), ValueError, ["target", "-1"]),
    "long source": (
        lambda _: small(positions=3)(sources(), sources()), ValueError, ["source", "4", "positions=3"],
    ),
    "long target": (
        lambda _: small()(sources(), sources().repeat(1, 17)), ValueError, ["target", "68", "positions=64"],
    ),
    "long translation": (
        lambda _: small().translate(sources(), max_length=65), ValueError, ["max_length=65", "positions=64"],
    ),
    "batches": (lambda _: small()(sources(), sources()[:2]), ValueError, ["3 sentences", "2"]),
    "beam": (lambda _: small().translate(sources(), beam=21), ValueError, ["beam=21", "20"]),
    "no beam": (lambda _: small().translate(sources(), beam=0), ValueError, ["beam=0"]),
    "n_best": (lambda _: small().translate(sources(), beam=2, n_best=3), ValueError, ["n_best=3", "2"]),
    "training": (lambda _: small().train().translate(sources()), ValueError, ["training", ".eval()"]),
    "pad": (lambda _: small(pad=20), ValueError, ["pad=20", "vocabulary=20"]),
    "eos": (lambda _: small(eos=-1), ValueError, ["eos=-1"]),
    "odd": (lambda _: small(hidden=25, heads=5), ValueError, ["25"]),
    "heads": (lambda _: small(heads=5), ValueError, ["num_heads=5", "24"]),
    "n and rule": (lambda _: small(n=2, rule="quaternion"), ValueError, ["n=2", "n=4"]),
    "no n": (lambda _: small(rule="diagonal"), ValueError, ["diagonal", "needs n"]),
    "no folder": (lambda path: Seq2Seq.from_pretrained(path / "none"), FileNotFoundError, ["config.json"]),
    "no JSON": (lambda path: damaged(path, text="{"), ValueError, ["config.json", "damaged"]),
    "model": (lambda path: damaged(path, model="Other"), ValueError, ["Seq2Seq"]),
    "entry": (lambda path: damaged(path, speed=3), ValueError, ["speed", "not known"]),
    "size": (lambda path: damaged(path, filter=96), ValueError, ["linear1", "instead of"]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name, tmp_path):
    run, kind, words = REFUSED[name]
    with pytest.raises(kind) as raised:
        run(tmp_path)
    for word in words:
        assert word in str(raised.value)

"""The Transformer against torch's, what its layers share, its cache, and what it refuses."""

import copy
from functools import partial

import pytest
import torch
from torch import nn
from twins import copy_into

from onenth import Rule, load, save
from onenth.nn.cache import Cache
from onenth.nn.sharing import layers
from onenth.nn.transformer import PHMTransformer, PHMTransformerDecoder, PHMTransformerEncoder
from onenth.nn.transformer_layers import PHMTransformerDecoderLayer, PHMTransformerEncoderLayer

SIZES = {
    "d_model": 24, "nhead": 4, "num_encoder_layers": 2, "num_decoder_layers": 2, "dim_feedforward": 48,
    "dropout": 0.0,
}  # fmt: skip
KINDS = {
    "real": {"n": 1},
    "n=4": {"n": 4},
    "quaternion": {"rule": "quaternion"},
    "rank 8 of n=4": {"n": 4, "rank": 8},
    "diagonal": {"n": 4, "rule": "diagonal"},
    "shared": {"n": 4, "rules": "shared"},
    "post-norm": {"n": 4, "norm_first": False},
    "gelu": {"n": 4, "activation": "gelu"},
    "without bias": {"n": 4, "bias": False},
}
double = torch.float64


def transformer(**options):
    given = {**SIZES, "batch_first": True, "norm_first": True, "dtype": double, **options}
    return PHMTransformer(**given).eval()


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def twins(**options):
    ours = transformer(**options)
    own = {name: value for name, value in options.items() if name not in ("n", "rule", "rank", "rules")}
    given = {**SIZES, "batch_first": True, "norm_first": True, "dtype": double, **own}
    torchs = nn.Transformer(**given).eval()
    for name, parameter in ours.named_parameters():
        if "norm" in name or name.endswith("bias"):
            nn.init.normal_(parameter, 0.5)
    copy_into(torchs, ours)
    return ours, torchs


def sentences(batch=3, source=7, target=5, size=24):
    x, y = torch.randn(batch, source, size, dtype=double), torch.randn(batch, target, size, dtype=double)
    return x, y, torch.arange(source) >= torch.tensor([[7], [4], [2]])


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("kind", KINDS)
def test_equals_torchs_with_the_same_matrices(kind):
    ours, torchs = twins(**KINDS[kind])
    x, y, padding = sentences()
    causal = nn.Transformer.generate_square_subsequent_mask(5, dtype=double)
    given = {"src_key_padding_mask": padding, "memory_key_padding_mask": padding}
    x.requires_grad_(), y.requires_grad_()
    found = ours(x, y, tgt_is_causal=True, **given)
    wanted = torchs(x, y, tgt_mask=causal, tgt_is_causal=True, src_mask=torch.zeros(7, 7).double(), **{
        name: torch.zeros(3, 7, dtype=double).masked_fill(padding, -torch.inf) for name in given
    })  # fmt: skip
    torch.testing.assert_close(found, wanted)
    dy = torch.randn_like(found)
    torch.testing.assert_close(
        torch.autograd.grad(found, (x, y), dy), torch.autograd.grad(wanted, (x, y), dy)
    )
    torch.testing.assert_close(ours(x, y, tgt_mask=causal, **given), found)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_batches_second_and_none():
    ours, torchs = twins(n=4, batch_first=False)
    x, y, _ = sentences()
    torch.testing.assert_close(
        ours(x.transpose(0, 1), y.transpose(0, 1)), torchs(x.transpose(0, 1), y.transpose(0, 1))
    )
    torch.testing.assert_close(ours(x[0], y[0]), torchs(x[0], y[0]))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_the_parameters_gradients_at_n_1_are_torchs():
    ours, torchs = twins(n=1)
    x, y, _ = sentences()
    for model in (ours, torchs):
        model(x, y).square().sum().backward()
    for own, twin in zip(ours.decoder.layers, torchs.decoder.layers, strict=True):
        torch.testing.assert_close(own.linear1.S.grad[0], twin.linear1.weight.grad)
        both = torch.cat([own.multihead_attn.q_proj.S.grad[0], own.multihead_attn.kv_proj.S.grad[0]])
        torch.testing.assert_close(both, twin.multihead_attn.in_proj_weight.grad)
        torch.testing.assert_close(own.norm3.weight.grad, twin.norm3.weight.grad)


def hamilton(layer, x):
    """The paper's equations: the quaternion of matrices (r, i, j, k) times that of segments (a, b, c, d)."""
    r, i, j, k = layer.S
    a, b, c, d = x.chunk(4, -1)
    y = [
        a @ r.T - b @ i.T - c @ j.T - d @ k.T, a @ i.T + b @ r.T - c @ k.T + d @ j.T,
        a @ j.T + b @ k.T + c @ r.T - d @ i.T, a @ k.T - b @ j.T + c @ i.T + d @ r.T,
    ]  # fmt: skip
    return torch.cat(y, -1) + layer.bias


def test_the_quaternion_transformer_multiplies_as_hamilton_did():
    layer = PHMTransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, rule="quaternion", dtype=double)
    x = torch.randn(3, 5, 8, dtype=double)
    q, k, v = hamilton(layer.self_attn.in_proj, x).chunk(3, -1)
    heads = [
        (q[..., own] @ k[..., own].mT / 2).softmax(-1) @ v[..., own] for own in (slice(0, 4), slice(4, 8))
    ]
    y = layer.norm1(x + hamilton(layer.self_attn.out_proj, torch.cat(heads, -1)))
    y = layer.norm2(y + hamilton(layer.linear2, hamilton(layer.linear1, y).relu()))
    torch.testing.assert_close(layer(x), y)


SHARED = {"per_layer": 22, "per_attention": 14, "per_block": 10, "per_role": 11, "shared": 1}


@pytest.mark.parametrize("rules", SHARED)
def test_rules_are_shared_as_asked(rules, tmp_path):
    model = transformer(n=4, rules=rules)
    assert len({id(layer.rule) for layer in layers(model)}) == SHARED[rules]
    assert len({layer.S.detach().sum().item() for layer in layers(model)}) == 22  # each drawn by itself
    assert len({layer.rule.A.detach().sum().item() for layer in layers(model)}) == SHARED[rules]
    save(model, tmp_path / "state")
    other = transformer(n=4, rules=rules)
    load(other, tmp_path / "state")
    x, y, _ = sentences()
    assert torch.equal(model(x, y), other(x, y))
    assert torch.equal(model(x, y), copy.deepcopy(model)(x, y))


def test_a_rule_given_is_shared_by_all():
    rule = Rule.learned(4, dtype=double)
    kept = rule.A.clone()
    model = transformer(rule=rule)
    model.reset_parameters()
    assert {id(layer.rule) for layer in layers(model)} == {id(rule)}
    assert torch.equal(rule.A, kept)


@pytest.mark.parametrize("rules", SHARED)
def test_every_matrix_starts_with_the_variance_of_torchs(rules):
    model = PHMTransformer(128, 4, 2, 2, 256, n=4, rules=rules)
    for _ in range(2):
        for layer in layers(model):
            k, d = layer.out_features, layer.in_features
            together = 512 if layer.in_features == 128 and k in (128, 256, 384) else None
            fans = {k + d, together}
            assert any(abs(layer.weight.var() * 3 / (6 / fan) - 1) < 0.03 for fan in fans if fan)
        model.reset_parameters()


def test_copies_of_a_layer_differ():
    layer = PHMTransformerEncoderLayer(24, 4, 48, n=4)
    stack = PHMTransformerEncoder(layer, 3)
    assert stack.layers[0] is layer
    drawn = {own.linear1.S.detach().sum().item() for own in stack.layers}
    assert len(drawn) == 3
    stack.reset_parameters()
    assert not drawn & {own.linear1.S.detach().sum().item() for own in stack.layers}


@pytest.mark.parametrize("kind", ["n=4", "quaternion", "rank 8 of n=4", "shared"])
def test_checkpointed_gradients_are_the_same(kind):
    plain = transformer(**KINDS[kind]).train()
    thrifty = transformer(checkpoint=True, **KINDS[kind]).train()
    thrifty.load_state_dict(plain.state_dict())
    x, y, padding = sentences()
    for model in (plain, thrifty):
        model(x, y, src_key_padding_mask=padding, tgt_is_causal=True).square().sum().backward()
    for (name, one), other in zip(plain.named_parameters(), thrifty.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, msg=name)


def test_checkpointing_keeps_less():
    kept = []
    for checkpoint in (False, True):
        model = transformer(n=4, checkpoint=checkpoint).train()
        x, y, _ = sentences()
        total = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t, to=total: to.append(t.nbytes) or t, lambda t: t
        ):
            model(x, y)
        kept.append(sum(total))
    assert kept[1] < kept[0] / 5


def test_padding_alone_gives_numbers():
    model = transformer(n=4)
    x, y, padding = sentences()
    padding[1] = True
    z = model(x, y, src_key_padding_mask=padding, memory_key_padding_mask=padding)
    assert z.isfinite().all()
    z.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_compiles():
    model = transformer(n=4)
    x, y, padding = sentences()
    torch.compiler.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    given = {"src_key_padding_mask": padding, "tgt_is_causal": True}
    torch.testing.assert_close(compiled(x, y, **given), model(x, y, **given))


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated")  # torch's own, on first use
def test_compiles_with_inductor():
    model = transformer(n=4, dtype=torch.float32)
    x, y, padding = sentences()
    x, y = x.float(), y.float()
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True)
    for run in (compiled, model):
        model.zero_grad()
        z = run(x, y, src_key_padding_mask=padding, tgt_is_causal=True)
        z.square().sum().backward()
        found = [z.detach(), *(p.grad for p in model.parameters())]
        if run is compiled:
            wanted = found
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)


def test_exports():
    model = transformer(n=4)
    x, y, padding = sentences()
    given = {"src_key_padding_mask": padding, "tgt_is_causal": True}
    program = torch.export.export(model, (x, y), given)
    torch.testing.assert_close(program.module()(x, y, **given), model(x, y, **given))


def test_autocast():
    model = transformer(n=4, dtype=torch.float32)
    x, y, _ = sentences()
    x, y = x.float(), y.float()
    with torch.autocast("cpu", torch.bfloat16):
        z = model(x, y)
    torch.testing.assert_close(z.float(), model(x, y), rtol=0.1, atol=0.1)


def test_meta():
    model = PHMTransformer(**SIZES, n=4, device="meta")
    assert all(p.is_meta for p in model.parameters())


# decoding position by position


def stepwise(decoder, x, cache):
    return torch.cat([decoder.step(x[:, t : t + 1], cache) for t in range(x.shape[1])], 1)


@pytest.mark.parametrize("length", [1, 5, 40, 70])  # within a block of the cache, and beyond
@pytest.mark.parametrize("kind", KINDS)
def test_cached_equals_uncached(kind, length):
    decoder = transformer(**KINDS[kind]).decoder
    memory, _, padding = sentences()
    x = torch.randn(3, length, 24, dtype=double)
    with torch.no_grad():
        wanted = decoder(x, memory, tgt_is_causal=True, memory_key_padding_mask=padding)
        found = stepwise(decoder, x, decoder.start(memory, padding, positions=length))
    torch.testing.assert_close(found, wanted)


def test_rows_continue_others():
    """Rows change places at random; each must equal the decoding of the sentence that it stands for."""
    decoder = transformer(n=4).decoder
    memory, _, padding = sentences()
    rows, length = 4, 37
    cache = decoder.start(memory, padding, positions=length, rows=rows)
    written = torch.empty(3 * rows, 0, 24, dtype=double)
    with torch.no_grad():
        for _ in range(length):
            x = torch.randn(3 * rows, 1, 24, dtype=double)
            written = torch.cat([written, x], 1)
            found = decoder.step(x, cache)
            many = memory.repeat_interleave(rows, 0), padding.repeat_interleave(rows, 0)
            wanted = decoder(written, many[0], tgt_is_causal=True, memory_key_padding_mask=many[1])[:, -1:]
            torch.testing.assert_close(found, wanted)
            own = torch.randint(rows, (3, rows)) + rows * torch.arange(3)[:, None]
            cache.select(own.flatten())
            written = written[own.flatten()]
    assert len(cache) == length


def test_steps_have_few_shapes():
    decoder = transformer(n=4).decoder
    cache = decoder.start(torch.randn(2, 7, 24, dtype=double), positions=80, rows=2)
    shapes = set()
    with torch.no_grad():
        for _ in range(80):
            decoder.step(torch.randn(4, 1, 24, dtype=double), cache)
            shapes.add((tuple(cache.own[0].keys.shape), tuple(cache.memory[0].keys.shape)))
    assert len(shapes) == 3


def started(rows=1, **options) -> tuple[PHMTransformerDecoder, Cache]:
    decoder = transformer(n=4).decoder
    return decoder, decoder.start(torch.randn(2, 7, 24, dtype=double), positions=2, rows=rows, **options)


def step(rows_of_cache, rows):
    decoder, cache = started(rows_of_cache)
    decoder.step(torch.randn(rows, 1, 24, dtype=double), cache)


def beyond():
    decoder, cache = started()
    stepwise(decoder, torch.randn(2, 3, 24, dtype=double), cache)


encoder_layer = partial(PHMTransformerEncoderLayer, 24, 4, 48, n=4)
REFUSED = {
    "heads": (lambda: PHMTransformerEncoderLayer(24, 5, n=4), ValueError, ["num_heads=5", "embed_dim=24"]),
    "n": (lambda: PHMTransformerEncoderLayer(24, 4, 50, n=4), ValueError, ["50", "by 4"]),
    "no n": (lambda: PHMTransformerEncoderLayer(24, 4), ValueError, ["n=4"]),
    "n of a rule": (lambda: transformer(rule=Rule.learned(4), n=2), ValueError, ["n=2", "n=4"]),
    "rules": (lambda: transformer(n=4, rules="per_head"), ValueError, ["per_head", '"per_role"']),
    "activation": (lambda: encoder_layer(activation="tanh"), ValueError, ["activation='tanh'", "relu"]),
    "option": (lambda: encoder_layer(ranks=3), TypeError, ["ranks"]),
    "layers": (lambda: PHMTransformerEncoder(encoder_layer(), 0), ValueError, ["num_layers=0"]),
    "layer": (
        lambda: PHMTransformerEncoder(nn.TransformerEncoderLayer(24, 4), 2), TypeError,
        ["TransformerEncoderLayer"],
    ),
    "positions": (lambda: started(0), ValueError, ["rows=0"]),
    "padding": (
        lambda: started(memory_key_padding_mask=torch.zeros(2, 6, dtype=torch.bool)), ValueError,
        ["(2, 6)", "(2, 7)"],
    ),
    "cache of other sentences": (lambda: step(1, 3), ValueError, ["2 rows", "input 3", "another batch"]),
    "cache of other rows": (lambda: step(2, 2), ValueError, ["4 rows", "input 2"]),
    "cache is full": (beyond, ValueError, ["2 positions"]),
    "batches": (
        lambda: transformer(n=4)(torch.ones(2, 7, 24).double(), torch.ones(3, 5, 24).double()), ValueError,
        ["different batches"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name):
    run, kind, words = REFUSED[name]
    with pytest.raises(kind) as raised:
        run()
    for word in words:
        assert word in str(raised.value)


def test_decoder_layer_alone():
    layer = PHMTransformerDecoderLayer(24, 4, 48, n=4, rules="per_block")
    assert len({id(own.rule) for own in layers(layer)}) == 3

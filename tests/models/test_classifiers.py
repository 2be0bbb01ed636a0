"""The classifiers: pooling over what is not padding, and the paper's sizes."""

import dataclasses

import pytest
import torch
from torch.nn import functional as F

from onenth.models import PairClassifier, PairConfig, SequenceClassifier, SequenceConfig

PAIR = PairConfig(vocabulary=20, features=20, hidden=20)
SEQUENCE = SequenceConfig(vocabulary=20, hidden=24, filter=48)
VERSIONS = {"real": {}, "quaternion": {"rule": "quaternion"}, "n=4": {"n": 4}}


def sequence(**more):
    return SequenceClassifier(dataclasses.replace(SEQUENCE, **more)).eval()


def pair(**more):
    return PairClassifier(dataclasses.replace(PAIR, **more)).eval()


ids = torch.tensor([[5, 6, 7, 4], [8, 3, 0, 0]])


@pytest.mark.parametrize("version", VERSIONS)
def test_padding_changes_nothing(version):
    one, two = sequence(**VERSIONS[version]), pair(**VERSIONS[version])
    torch.testing.assert_close(one(ids)[1:], one(ids[1:, :2]))
    torch.testing.assert_close(two(ids, ids)[1:], two(ids[1:, :2], ids[1:, :3]))


def test_pools_maximum_and_mean():
    model = pair(n=4)
    states, _ = model.encoder(model.vectors(ids))
    read = [torch.cat([h.amax(0), h.mean(0)]) for h in (states[0], states[1, :2])]
    both = torch.stack([torch.cat([read[0], read[0]]), torch.cat([read[1], read[1]])])
    torch.testing.assert_close(model(ids, ids), model.perceptron(both))


def test_padding_alone_gives_numbers():
    nothing = torch.zeros_like(ids)
    for model, given in ((sequence(n=4).train(), (nothing,)), (pair(n=4).train(), (ids, nothing))):
        y = model(*given)
        assert y.isfinite().all()
        y.sum().backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_the_vectors_are_fixed():
    model = pair(n=4)
    vectors = torch.randn(20, 20)
    model.set_vectors(vectors)
    assert torch.equal(model.vectors.weight, vectors)
    model.train()(ids, ids).sum().backward()
    assert model.vectors.weight.grad is None


def test_saved_and_read_back(tmp_path):
    for model, given in ((sequence(n=4, rank=8), (ids,)), (pair(n=5, rules="shared"), (ids, ids))):
        folder = tmp_path / type(model).__name__
        model.save_pretrained(folder)
        other = type(model).from_pretrained(folder)
        assert other.config == model.config
        assert torch.equal(other(*given), model(*given))


def test_learns_agreement_of_two_words():
    torch.manual_seed(1)
    model = SequenceClassifier(dataclasses.replace(SEQUENCE, n=4, dropout=0.0))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(150):
        words = torch.randint(3, 20, (64, 6))
        loss = F.cross_entropy(model(words), words[:, 0] % 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    words = torch.randint(3, 20, (200, 6))
    assert (model.eval()(words).argmax(1) == words[:, 0] % 2).float().mean() > 0.95


REFUSED = {
    "batches": (lambda: pair()(ids, ids[:1]), ValueError, ["2 premises", "1 hypotheses"]),
    "nothing": (lambda: pair()(ids, ids[:, :0]), ValueError, ["hypothesis", "no tokens"]),
    "id": (lambda: pair()(ids, ids + 15), ValueError, ["hypothesis", "23", "vocabulary=20"]),
    "numbers": (lambda: sequence()(ids.double()), TypeError, ["ids", "float64"]),
    "long": (lambda: sequence(positions=3)(ids), ValueError, ["ids", "positions=3"]),
    "vectors": (lambda: pair().set_vectors(torch.ones(20, 10)), ValueError, ["(20, 10)", "(20, 20)"]),
    "n": (lambda: pair(n=3), ValueError, ["by 3"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name):
    run, kind, words = REFUSED[name]
    with pytest.raises(kind) as raised:
        run()
    for word in words:
        assert word in str(raised.value)

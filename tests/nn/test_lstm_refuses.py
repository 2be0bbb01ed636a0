"""What the LSTM and its cell refuse."""

import math

import pytest
import torch
from lstms import DOUBLE, D, H
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from onenth import PHMLSTM, Rule
from onenth.nn import PHMLSTMCell


def lstm(**options):
    return PHMLSTM(D, H, n=4, **options)


def packed(sizes, features=D):
    return PackedSequence(torch.ones(sum(sizes), features), torch.tensor(sizes))


ones, zeros = torch.ones(5, 3, D), torch.zeros(1, 3, H)
REFUSED = {
    "input_size": (lambda: PHMLSTM(10, 12, n=4), ValueError, ["input_size=10 by 4", "10 and 12: 1, 2"]),
    "hidden_size": (lambda: PHMLSTM(8, 6, n=4), ValueError, ["hidden_size=6 by 4", "8 and 6: 1, 2"]),
    "both sizes": (lambda: PHMLSTM(10, 6, n=4), ValueError, ["input_size=10 by 4 or hidden_size=6"]),
    "proj_size divided": (lambda: lstm(proj_size=6), ValueError, ["proj_size=6 by 4"]),
    "fused": (lambda: PHMLSTM(8, 6, n=4, rules="fused"), ValueError, ["hidden_size=6 by 4"]),
    "cell's sizes": (lambda: PHMLSTMCell(10, 6, n=4), ValueError, ["PHMLSTMCell(10, 6", "input_size=10"]),
    "no n": (lambda: PHMLSTM(8, 12), ValueError, ["n=4"]),
    "another n": (lambda: PHMLSTM(8, 12, n=2, rule=Rule.learned(4)), ValueError, ["n=2", "n=4"]),
    "rank of a name": (lambda: PHMLSTM(8, 12, rule="quaternion", rank=8), ValueError, ["rank=8"]),
    "component_rank": (lambda: lstm(component_rank=9), ValueError, ["component_rank=9"]),
    "rule's dtype": (lambda: PHMLSTM(8, 12, rule=Rule.learned(4), **DOUBLE), TypeError, ["float64"]),
    "dtype": (lambda: lstm(dtype=torch.int64), TypeError, ["int64"]),
    "input_size 0": (lambda: PHMLSTM(0, 12, n=4), ValueError, ["input_size=0", "at least 1"]),
    "hidden_size float": (lambda: PHMLSTM(8, 12.0, n=4), TypeError, ["hidden_size=12.0", "float"]),
    "num_layers 0": (lambda: lstm(num_layers=0), ValueError, ["num_layers=0", "at least 1"]),
    "num_layers bool": (lambda: lstm(num_layers=True), TypeError, ["num_layers=True", "bool"]),
    "bias": (lambda: lstm(bias=4), TypeError, ["bias=4", "True or False"]),
    "batch_first": (lambda: lstm(batch_first=1), TypeError, ["batch_first=1"]),
    "bidirectional": (lambda: lstm(bidirectional=2), TypeError, ["bidirectional=2"]),
    "proj_size negative": (lambda: lstm(proj_size=-4), ValueError, ["proj_size=-4", "at least 0"]),
    "proj_size": (lambda: lstm(proj_size=12), ValueError, ["proj_size=12", "hidden_size=12"]),
    "dropout": (lambda: lstm(num_layers=2, dropout=1.5), ValueError, ["dropout=1.5", "0 to 1"]),
    "dropout NaN": (lambda: lstm(num_layers=2, dropout=math.nan), ValueError, ["dropout=nan"]),
    "dropout bool": (lambda: lstm(num_layers=2, dropout=True), TypeError, ["dropout=True"]),
    "rules": (lambda: lstm(rules="per_layer"), ValueError, ["'per_layer'", '"per_gate", "fused", "shared"']),
    "cell": (lambda: lstm(cell="lstm"), ValueError, ["'lstm'", '"standard", "paper"']),
    "no tensor": (lambda: lstm()([1.0]), TypeError, ["the input is a list"]),
    "dimensions": (lambda: lstm()(torch.ones(1, 5, 3, D)), ValueError, ["2 or 3 dimensions, got 4"]),
    "features": (lambda: lstm()(torch.ones(5, 3, 7)), ValueError, ["input_size=8", "(5, 3, 7)"]),
    "features packed": (lambda: lstm()(packed([2, 1], 7)), ValueError, ["input_size=8", "(3, 7)"]),
    "input's dtype": (lambda: lstm()(ones.double()), TypeError, ["float64", "float32"]),
    "whole numbers": (lambda: lstm()(ones.long()), TypeError, ["int64"]),
    "input's device": (lambda: lstm()(ones.to("meta")), ValueError, ["meta", "cpu"]),
    "no steps": (lambda: lstm()(ones[:0]), ValueError, ["no steps", "(0, 3, 8)"]),
    "no steps, batch first": (lambda: lstm(batch_first=True)(ones[:, :0]), ValueError, ["no steps"]),
    "no steps unbatched": (lambda: lstm()(ones[:0, 0]), ValueError, ["no steps", "(0, 8)"]),
    "hx alone": (lambda: lstm()(ones, zeros), TypeError, ["pair (h_0, c_0)", "Tensor"]),
    "hx of three": (lambda: lstm()(ones, (zeros,) * 3), TypeError, ["pair", "3 of them"]),
    "hx batch": (lambda: lstm()(ones, (zeros[:, :2], zeros)), ValueError, ["h_0", "(1, 2, 12)"]),
    "hx size": (lambda: lstm()(ones, (zeros, zeros[..., :8])), ValueError, ["c_0", "(1, 3, 8)"]),
    "hx unbatched": (lambda: lstm()(ones[:, 0], (zeros, zeros)), ValueError, ["(1, 12)", "(1, 3, 12)"]),
    "hx dtype": (lambda: lstm()(ones, (zeros, zeros.double())), TypeError, ["c_0", "float64"]),
    "hx packed": (lambda: lstm()(packed([2, 1]), (zeros, zeros)), ValueError, ["(1, 2, 12)", "(1, 3, 12)"]),
    "cell's dimensions": (lambda: PHMLSTMCell(D, H, n=4)(ones), ValueError, ["1 or 2 dimensions, got 3"]),
    "cell's states": (
        lambda: PHMLSTMCell(D, H, n=4)(ones[0], (zeros, zeros[0])), ValueError, ["(3, 12)", "(1, 3, 12)"]
    ),
    "from another": (lambda: PHMLSTM.from_lstm(nn.GRU(D, H), n=4), TypeError, ["nn.LSTM", "GRU"]),
    "from another cell": (lambda: PHMLSTMCell.from_lstm_cell(nn.LSTM(D, H), n=4), TypeError, ["LSTMCell"]),
    "taken": (lambda: PHMLSTM.from_lstm(nn.LSTM(D, H), n=4, bias=True), TypeError, ["bias", "leave it out"]),
    "from to paper": (lambda: PHMLSTM.from_lstm(nn.LSTM(D, H), n=4, cell="paper"), ValueError, ["'paper'"]),
    "paper to": (lambda: lstm(cell="paper").to_lstm(), ValueError, ["'paper'"]),
    "paper cell to": (lambda: PHMLSTMCell(D, H, n=4, cell="paper").to_lstm_cell(), ValueError, ["'paper'"]),
    "state of nn.LSTM": (lambda: lstm().load_state_dict(nn.LSTM(D, H).state_dict()), ValueError, ["missing"]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, kind, words = REFUSED[name]
    with pytest.raises(kind) as error:
        call()
    for word in words:
        assert word in str(error.value)


def test_dropout_of_a_single_layer_is_warned_of():
    with pytest.warns(UserWarning, match=r"dropout=0\.1 .* num_layers=1"):
        lstm(dropout=0.1)

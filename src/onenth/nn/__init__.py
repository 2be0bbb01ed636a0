"""Layers that read as their formulas, with the signatures of torch.nn."""

from onenth.nn import init
from onenth.nn.attention import PHMMultiheadAttention
from onenth.nn.groups import param_groups
from onenth.nn.linear import ComplexLinear, PHMLinear, QuaternionLinear
from onenth.nn.lstm import PHMLSTM
from onenth.nn.lstm_cell import PHMLSTMCell
from onenth.nn.transformer import PHMTransformer, PHMTransformerDecoder, PHMTransformerEncoder
from onenth.nn.transformer_layers import PHMTransformerDecoderLayer, PHMTransformerEncoderLayer

__all__ = [
    "PHMLSTM",
    "ComplexLinear",
    "PHMLSTMCell",
    "PHMLinear",
    "PHMMultiheadAttention",
    "PHMTransformer",
    "PHMTransformerDecoder",
    "PHMTransformerDecoderLayer",
    "PHMTransformerEncoder",
    "PHMTransformerEncoderLayer",
    "QuaternionLinear",
    "init",
    "param_groups",
]

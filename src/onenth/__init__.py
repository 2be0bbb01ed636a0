"""Layers with one n-th of the parameters.

PHMLinear        nn.Linear with 1/n of the parameters
PHMLSTM          nn.LSTM, and PHMTransformer, nn.Transformer; their parts are in onenth.nn
Rule             a rule of multiplication, to share between layers
algebra          complex, quaternion, octonion, Clifford, … as structure tensors
"""

from onenth import algebra
from onenth.describe import describe
from onenth.explain import explain
from onenth.fit import nearest
from onenth.freeze import check_frozen, freeze, unfreeze
from onenth.nn import PHMLSTM, ComplexLinear, PHMLinear, PHMTransformer, QuaternionLinear, param_groups
from onenth.ops import using
from onenth.rule import Rule
from onenth.state import load, save

__all__ = [
    "PHMLSTM",
    "ComplexLinear",
    "PHMLinear",
    "PHMTransformer",
    "QuaternionLinear",
    "Rule",
    "algebra",
    "check_frozen",
    "describe",
    "explain",
    "freeze",
    "load",
    "nearest",
    "param_groups",
    "save",
    "unfreeze",
    "using",
]
__version__ = "0.1.0.dev0"

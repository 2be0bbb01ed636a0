"""Layers that read as their formulas, with the signatures of torch.nn."""

from onenth.nn import init
from onenth.nn.groups import param_groups
from onenth.nn.linear import ComplexLinear, PHMLinear, QuaternionLinear

__all__ = ["ComplexLinear", "PHMLinear", "QuaternionLinear", "init", "param_groups"]

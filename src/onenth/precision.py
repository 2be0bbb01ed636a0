"""Keeping sums at the precision of their terms."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def autocast_off(tensor: Tensor) -> AbstractContextManager[None]:
    """Keeps autocast from lowering a sum over rules and components, which is small and rounds once, after."""
    device = tensor.device.type
    if not torch.amp.is_autocast_available(device):
        return nullcontext()
    return torch.autocast(device, enabled=False)

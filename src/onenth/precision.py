"""What autocast changes, and what it must leave alone."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def autocast_dtype(tensor: Tensor) -> torch.dtype | None:
    """The precision that autocast asks for where this tensor is, if it is on there and lowers this tensor."""
    device = tensor.device.type
    if not torch.amp.is_autocast_available(device) or not torch.is_autocast_enabled(device):
        return None
    return None if tensor.dtype == torch.float64 else torch.get_autocast_dtype(device)


def autocast_off(tensor: Tensor) -> AbstractContextManager[None]:
    """Keeps autocast from lowering a sum over rules and components, which is small and rounds once, after."""
    device = tensor.device.type
    if not torch.amp.is_autocast_available(device):
        return nullcontext()
    return torch.autocast(device, enabled=False)

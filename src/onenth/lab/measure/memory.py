"""The most memory a run has taken."""

import resource
import sys

import torch

from onenth.lab.errors import Problem


def peak_memory(device: torch.device) -> int:
    """Bytes: of a CUDA device those that tensors took at once, of the CPU those that the process took.

    They do not compare: the latter include Python, torch and the data.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if device.type == "cpu":
        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    raise Problem(f"the peak memory of {device} is not known here: measure on cpu or cuda")

"""Errors for people: what decoding refuses of its caller, and of a model."""

import math
from typing import Any

import torch
from torch import Tensor

from onenth.decoding.steps import Steps

LARGEST = math.log(torch.finfo(torch.float32).max)


def check_steps(steps: Steps, *methods: str) -> None:
    """A model has what decoding calls."""
    missing = [name for name in ("vocabulary", *methods) if not hasattr(steps, name)]
    if missing:
        lacks = ", ".join(missing)
        raise TypeError(f"steps is a {type(steps).__name__} without {lacks}: see onenth.decoding.Steps")
    check_count("steps.vocabulary", steps.vocabulary)


def check_count(name: str, value: object, least: int = 1, most: int | None = None, of: str = "") -> None:
    """A whole number from least to most; `of` says where most comes from."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be a whole number, not {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name}={value} must be at least {least}")
    if most is not None and value > most:
        raise ValueError(f"{name}={value} must be at most {of}={most}")


def check_number(name: str, value: object) -> None:
    """A real number, neither NaN nor infinite."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r} must be a number, not {type(value).__name__}")
    if not math.isfinite(value):
        raise ValueError(f"{name}={value} must be finite")


def check_id(name: str, value: object, vocabulary: int) -> None:
    check_count(name, value, 0, vocabulary - 1, "vocabulary − 1")


def check_alpha(alpha: float, longest: int) -> None:
    """A penalty of at least 1 that float32 can hold."""
    check_number("alpha", alpha)
    if alpha < 0:
        raise ValueError(f"alpha={alpha} must be at least 0: the early stop needs penalties that grow")
    if alpha * math.log((5 + longest) / 6) > LARGEST:
        raise ValueError(f"alpha={alpha} overflows the length penalty of max_length={longest}")


def check_temperature(temperature: float) -> None:
    check_number("temperature", temperature)
    if temperature <= 0:
        raise ValueError(f"temperature={temperature} must be above 0: use greedy for the likeliest tokens")
    if temperature < torch.finfo(torch.float32).tiny:
        raise ValueError(f"temperature={temperature} is 0 in float32: use greedy for the likeliest tokens")


def check_top_p(top_p: float) -> None:
    check_number("top_p", top_p)
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p={top_p} must be above 0 and at most 1")


def per_row(name: str, value: Any, rows: int, device: torch.device) -> Tensor:
    """One whole number for all rows, or a tensor with one for each."""
    if not isinstance(value, Tensor):
        return torch.full((rows,), value, dtype=torch.int64, device=device)
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        raise TypeError(f"{name} is {value.dtype}: it must hold whole numbers")
    if value.shape != (rows,):
        raise ValueError(f"{name} has the shape {tuple(value.shape)}: give one number, or ({rows},) of them")
    return value.to(device, torch.int64)


def checked(logits: Tensor, rows: int, vocabulary: int, device: torch.device) -> Tensor:
    """Logits in float32 at least, if they are what `Steps` promises."""
    if not isinstance(logits, Tensor):
        raise TypeError(f"steps.logits gave a {type(logits).__name__}: it must give a torch.Tensor")
    if logits.shape != (rows, vocabulary):
        wanted, got = (rows, vocabulary), tuple(logits.shape)
        raise ValueError(f"steps.logits must give (rows, vocabulary)={wanted}, and gave {got}")
    if not logits.is_floating_point():
        raise TypeError(f"steps.logits gave {logits.dtype}: it must give floating-point numbers")
    if logits.device != device:
        raise ValueError(
            f"steps.logits is on {logits.device}, the tokens are on {device}: name the device with device="
        )
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def refuse(peaks: Tensor) -> None:
    """Says where logits were NaN or +inf, of the largest ones of each step (steps, rows)."""
    step, row = (~(peaks < math.inf)).nonzero()[0].tolist()
    raise ValueError(f"steps.logits gave {peaks[step, row]:g} at step {step}, row {row}")

"""Frozen inference: what follows from the weights alone is computed once, not in every call."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils import parametrize

from onenth.bilinear import Algorithm, Certificate
from onenth.nn.frozen import Frozen, Kept
from onenth.nn.linear import PHMLinear
from onenth.ops import cost, dispatch
from onenth.ops.cost import PathName
from onenth.ops.dispatch import EXTRA_ERROR, Precision
from onenth.rule import FixedRule, Rule
from onenth.solver import MAX_N, NotReached, decompose

_RESTARTS = 4  # of the solver at each rank


@dataclass(frozen=True)
class FrozenLayer:
    """What `freeze` did with one layer."""

    name: str
    paths: dict[int, PathName]  # by the number of rows asked for
    nbytes: int  # kept beside the parameters
    certificate: Certificate | None  # of an algorithm that was found for its rule
    note: str  # why none was, where one would have helped


@dataclass(frozen=True)
class FrozenModel:
    """What `freeze` did, layer by layer."""

    layers: list[FrozenLayer]

    def __str__(self) -> str:
        lines = [f"{len(self.layers)} layers frozen, {sum(own.nbytes for own in self.layers):,} bytes kept"]
        for own in self.layers:
            paths = ", ".join(f"{rows} rows: {path}" for rows, path in own.paths.items())
            lines.append(f"  {own.name or '(the model)'}: {paths}")
            lines += [f"    {text}" for text in (own.certificate, own.note) if text]
        return "\n".join(lines)


def freeze(
    model: nn.Module,
    rows: int | Iterable[int] = (1, 1024),
    *,
    precision: Precision = "usual",
    seconds: float = 10.0,
) -> FrozenModel:
    """Prepares a model for inference, in place: PHM layers keep what is fastest for these numbers of rows.

    A layer keeps H, or its components mixed for R products, or neither; with n=1 it multiplies few rows faster
    than `nn.Linear`. For a learned rule an exact algorithm
    of few products is searched for, and for a fixed one looked up. Its parameters stop learning. All of it
    is undone by `unfreeze`, by `model.train()`, and, with a warning, where weights turn out to have changed.
    Torch does not see every change: after a write through `.data`, or inside a compiled program, call
    `check_frozen`.

    Args:
        model: in evaluation mode.
        rows: inputs at a time that the layers will get, one number or several.
        precision: "usual" takes algorithms that err at most twice as much as the dense path, "fast" eight
            times, as far as their certificates predict.
        seconds: to search for an algorithm, for each rule.

    Example:
        >>> model = nn.Sequential(PHMLinear(512, 512, rule="quaternion")).eval()
        >>> print(freeze(model, rows=1024))
        1 layers frozen, 524,288 bytes kept
          0: 1024 rows: bilinear
            rank 8: 50% of the dense arithmetic, residual 0.0e+00, growth 1.41, entries up to 2; error over dense 1.5x in fp32, 2.2x in bf16
    """  # noqa: E501
    asked = [rows] if isinstance(rows, int) else list(rows)
    _check_asked(asked, precision, seconds)
    layers = list(_layers(model))
    for name, layer in layers:
        _check_layer(name, layer)
    unfreeze(model)
    searched: dict[tuple[int, int], tuple[Algorithm | None, str]] = {}
    learned = {name: _learned(layer) for name, layer in layers}
    done = []
    for name, layer in layers:
        kept, note = _plan(layer, asked, EXTRA_ERROR[precision], seconds, searched)
        for parameter in learned[name]:
            layer.get_parameter(parameter).requires_grad_(False)
        frozen = Frozen(layer, kept, learned[name])
        layer._frozen = frozen
        with torch.no_grad():
            work = dispatch.work(layer.rule, frozen.held.S, frozen.held.A.dtype, frozen.held)
        paths: dict[int, PathName] = dict.fromkeys(asked, "dense")
        if not layer.weight_alone and not layer.rule.is_one:
            paths = {count: cost.best(work, count, EXTRA_ERROR[precision]) for count in asked}
        done.append(FrozenLayer(name, paths, frozen.nbytes, frozen.held.certificate, note))
    for _, layer in layers:
        assert layer._frozen is not None
        layer._frozen.mark(layer)  # rules are shared: all of them have stopped learning only now
    return FrozenModel(done)


def unfreeze(model: nn.Module) -> None:
    """Undoes `freeze`: nothing is kept, and what learned before learns again."""
    for _, layer in _layers(model):
        layer.thaw()


def check_frozen(model: nn.Module) -> None:
    """Computes again what frozen layers keep, and raises a ValueError that names those that differ."""
    stale = [name for name, layer in _layers(model) if layer._frozen and layer._frozen.differs(layer)]
    if stale:
        raise ValueError(
            f"the weights of {', '.join(name or 'the model' for name in stale)} have changed since they were "
            "frozen, in a way torch does not see: call onenth.freeze again"
        )


def _layers(model: nn.Module) -> Iterator[tuple[str, PHMLinear]]:
    return ((name, module) for name, module in model.named_modules() if isinstance(module, PHMLinear))


def _learned(layer: PHMLinear) -> tuple[str, ...]:
    """The parameters that H is made of, as far as they learn."""
    return tuple(name for name, own in layer.named_parameters() if name != "bias" and own.requires_grad)


def _plan(
    layer: PHMLinear,
    asked: list[int],
    extra_error: float,
    seconds: float,
    searched: dict[tuple[int, int], tuple[Algorithm | None, str]],
) -> tuple[Kept, str]:
    """What is worth keeping for these numbers of rows, and why no algorithm is where one would help."""
    rule, S = layer.rule, layer.components()
    if layer.weight_alone or rule.is_one:
        return Kept(layer.weight_alone, None, False), ""
    with torch.no_grad():
        work = dispatch.work(rule, S, S.dtype)._replace(has_H=True)
    own = rule.factors()
    algorithm, note = None, ""
    if own is not None:
        work = work._replace(rank=own.rank, mixes_right=False)
    else:
        hoped = work._replace(rank=_fewest(rule), mixes_left=True, mixes_right=False, error=1.0)
        if any(cost.best(hoped, count, extra_error) == "bilinear" for count in asked):
            key = id(rule), work.c
            if key not in searched:
                searched[key] = _search(rule, S.dtype, work.c, extra_error, seconds)
            algorithm, note = searched[key]
        rank = None if algorithm is None else algorithm.certificate.rank
        work = hoped._replace(rank=rank)
    paths = {cost.best(work, count, extra_error) for count in asked}
    return Kept("dense" in paths, algorithm if "bilinear" in paths else None, "bilinear" in paths), note


def _fewest(rule: Rule) -> int:
    """Products that are known for this rule, or that one of its size needs by counting dimensions."""
    if isinstance(rule, FixedRule) and rule.algorithms:
        return rule.algorithms[0].certificate.rank
    terms, p, q = rule.terms, rule.n_out, rule.n_in
    return -(-terms * p * q // (terms + p + q - 2))


@torch.no_grad()
def _search(
    rule: Rule, dtype: torch.dtype, columns: int, extra_error: float, seconds: float
) -> tuple[Algorithm | None, str]:
    """The fewest products within the error, and otherwise why there are none."""
    closest = None
    for algorithm in rule.algorithms if isinstance(rule, FixedRule) else ():
        closest = algorithm.certificate
        if closest.error(dtype, columns) <= extra_error:
            return algorithm, ""
    if max(rule.terms, rule.n_out, rule.n_in) > MAX_N:
        return None, f"no algorithm was searched for: the solver goes up to n={MAX_N}"
    until = time.monotonic() + seconds
    for rank in range(_fewest(rule), rule.n_out * rule.n_in) if closest is None else ():
        left = until - time.monotonic()
        if left <= 0:
            break
        try:
            algorithm = decompose(rule.tensor(), rank, restarts=_RESTARTS, seconds=left)
        except NotReached as refusal:
            closest = refusal.closest.certificate
            continue
        closest = algorithm.certificate
        if closest.error(dtype, columns) <= extra_error:
            return algorithm, ""
    return None, f"no algorithm errs at most {extra_error:g} times as much as the dense path: {closest}"


def _check_asked(asked: list[int], precision: str, seconds: float) -> None:
    if not asked:
        raise ValueError("rows is empty: give the numbers of rows that the model will get, such as rows=1")
    for count in asked:
        if not isinstance(count, int) or isinstance(count, bool):
            raise TypeError(f"rows={count!r} must be a whole number, not {type(count).__name__}")
        if count < 1:
            raise ValueError(f"rows={count} must be at least 1")
    if precision not in EXTRA_ERROR:
        raise ValueError(f'precision={precision!r} is unknown: write "usual" or "fast"')
    if not seconds > 0:
        raise ValueError(f"seconds={seconds} must be more than 0")


def _check_layer(name: str, layer: PHMLinear) -> None:
    """Refuses what would not stay as it is, or is not there."""
    where = name or "the model"
    if layer.training:
        raise ValueError(f"{where} is in training mode, where weights change: call model.eval() first")
    for module in (layer, layer.rule):
        if parametrize.is_parametrized(module):
            raise ValueError(
                f"{where} has a parametrization, which computes its weights in every call: "
                "remove it with torch.nn.utils.parametrize.remove_parametrizations first"
            )
        if hooks := module._forward_pre_hooks.values():
            names = ", ".join(getattr(hook, "__name__", type(hook).__name__) for hook in hooks)
            raise ValueError(
                f"{where} has hooks that may change its weights before a call ({names}): "
                "remove them, freeze, and add them again if they do not"
            )
    for own, parameter in layer.named_parameters():
        full = f"{name}.{own}".lstrip(".")
        if parameter.is_meta:
            raise ValueError(f"{full} is on the meta device: initialise or load the model first")
        if hasattr(parameter, "full_tensor"):
            raise ValueError(f"{full} is sharded: gather the model on one rank first")

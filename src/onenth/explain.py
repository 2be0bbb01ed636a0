"""Why a layer computes as it does."""

from dataclasses import dataclass

from onenth.nn.linear import PHMLinear
from onenth.ops import cost, dispatch
from onenth.ops.cost import Candidate, PathName
from onenth.ops.dispatch import EXTRA_ERROR


@dataclass(frozen=True)
class Explanation:
    """The paths that could compute a layer, and the one that does; printed, a table."""

    title: str
    path: PathName
    candidates: list[Candidate]

    def __str__(self) -> str:
        least = next(own.seconds for own in self.candidates if own.path == self.path)
        rows = [("path", "predicted", "error", "")]
        for own in self.candidates:
            why = own.reason or f"{own.seconds / least:.2f} times as long"
            known = own.seconds > 0
            rows.append((
                own.path,
                f"{1e6 * own.seconds:.0f} µs" if known else "–",
                f"{own.error:.2g}x" if known else "–",
                "taken" if own.path == self.path else why,
            ))  # fmt: skip
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = (
            f"  {path:<{widths[0]}}  {time:>{widths[1]}}  {error:>{widths[2]}}  {why}".rstrip()
            for path, time, error, why in rows
        )
        return "\n".join([self.title, *lines])


def explain(layer: PHMLinear, rows: int = 1) -> Explanation:
    """The paths for so many rows, their predicted time and error, and why one is taken.

    Training is meant where gradients are on and the layer learns, inference elsewhere: explain a call where
    you would make it. The times are those of a typical machine of the kind, and stand for their ratios.

    Example:
        >>> import torch
        >>> layer = PHMLinear(4096, 4096, n=4)
        >>> with torch.no_grad():
        ...     print(explain(layer, rows=1))  # doctest: +ELLIPSIS
        PHMLinear(4096, 4096, n=4), 1 row, float32 on cpu, inference
        ...
          decode  ...  taken
    """
    if not isinstance(layer, PHMLinear):
        raise TypeError(f"explain takes a PHMLinear, not {type(layer).__name__}")
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
        raise ValueError(f"rows={rows!r} must be a whole number of at least 1")
    held = None if layer._frozen is None else layer._frozen.held
    S = layer.components()
    work = dispatch.work(layer.rule, S, S.dtype, held)
    rank = "" if layer.rank is None else f", rank={layer.rank}"
    title = (
        f"{type(layer).__name__}({layer.in_features}, {layer.out_features}, n={layer.n}{rank}), "
        f"{rows} row{'s' * (rows > 1)}, {str(S.dtype).removeprefix('torch.')} on {S.device.type}, "
        f"{'training' if work.trains else 'frozen' if held else 'inference'}"
    )
    if layer.rule.is_one:
        only = Candidate("dense", cost.seconds(work._replace(has_H=True), "dense", rows), 1.0, "")
        return Explanation(title, "dense", [only])
    limit = EXTRA_ERROR[dispatch.precision()]
    return Explanation(title, dispatch.choose(work, rows), cost.candidates(work, rows, limit))

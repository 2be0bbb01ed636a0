"""Pictures of the artificial experiments: loss and angle over training, and rules as heat maps."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onenth.lab.artificial import LOSS, SAME, Result, remixed

_COLOURS = ("tab:grey", "tab:red", "tab:blue", "tab:cyan", "tab:green", "tab:purple")


def draw(results: Sequence[Result], folder: Path) -> list[Path]:
    """Writes curves.png and a picture of every rule that has a true one beside it; returns their paths."""
    figures = {"curves.png": curves(results)}
    for result in results:
        if result.true is not None:
            figures[f"{result.experiment.name.lower().replace(' ', '-')}.png"] = rules(result)
    for name, figure in figures.items():
        figure.savefig(folder / name, dpi=150)
    return [folder / name for name in figures]


def curves(results: Sequence[Result]) -> Figure:
    """Loss of all experiments on the left; on the right, the angle between learned and true rule."""
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True)
    for i, result in enumerate(results):
        colour, experiment = _COLOURS[i % len(_COLOURS)], result.experiment
        steps, style = range(1, len(result.losses) + 1), "-" if experiment.recovers else "--"
        left.plot(steps, result.losses, style, color=colour, label=experiment.name, linewidth=1.8)
        if not result.angles:
            continue
        above = 2 if experiment.recovers else 3
        right.plot(steps, result.angles, style, color=colour, linewidth=1.8, zorder=above)
        right.plot(len(steps), result.angles[-1], "o", color=colour, markersize=5, zorder=above)
        if not experiment.recovers:
            right.annotate(f"{experiment.name} ends here", (len(steps), result.angles[-1]), (0, 9),
                           textcoords="offset points", ha="center", color=colour)  # fmt: skip
    _label(left, "Are the operators learned?", "loss (mean squared error)", LOSS)
    _label(right, "Is the rule learned?", "largest principal angle (rad)", SAME)
    left.set_xlim(left=1)
    right.set_ylim(top=20)
    left.legend(frameon=False, loc="lower left")
    return figure


def rules(result: Result) -> Figure:
    """The terms A_i as heat maps: true, as learned, and the learned terms nearest to the true ones."""
    true, experiment = result.true, result.experiment
    if true is None:
        raise ValueError(f"{experiment.name} has no true rule to draw")
    n, unit = experiment.n, true.abs().max().item()
    rows = [
        (f"{experiment.algebra}\nrule", true, unit),
        ("learned", result.learned, result.learned.abs().max().item()),
        ("learned,\nterms re-mixed\nto match", remixed(result.learned, true), unit),
    ]
    size = max(0.75, 1.35 - 0.06 * n)  # inches for one term
    figure = Figure(figsize=(1.1 * n * size + 2.9, 3.2 * size + 1.2), layout="constrained")
    figure.suptitle(_verdict(result))
    for row, (axes, (label, A, bound)) in enumerate(zip(figure.subplots(3, n), rows, strict=True)):
        for i, (axis, term) in enumerate(zip(axes, A, strict=True)):
            image = axis.imshow(term.numpy(), cmap="RdBu_r", vmin=-bound, vmax=bound)
            axis.set(xticks=[], yticks=[], title=f"$A_{{{i + 1}}}$" if row == 0 else "")
        axes[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=11, labelpad=8)
        bar = figure.colorbar(image, ax=list(axes), pad=0.03, aspect=10)
        bar.set_ticks([-bound, 0, bound], labels=[f"−{bound:.2g}", "0", f"{bound:.2g}"])
    return figure


def _verdict(result: Result) -> str:
    layers, angle = result.experiment.layers, result.angles[-1]
    count = "1 layer" if layers == 1 else f"{layers} layers"
    learned = "learned" if angle < SAME else "not learned"
    return f"{result.experiment.name}, {count}: the rule is {learned}\nlargest angle {angle:.2g} rad"


def _label(axis: Axes, title: str, quantity: str, target: float) -> None:
    axis.set(title=title, xlabel="step of the optimiser", ylabel=quantity, yscale="log", xscale="log")
    axis.axhline(target, color="black", linewidth=0.8, linestyle=":")
    axis.annotate("target", (0.01, target), (0, 3), xycoords=("axes fraction", "data"),
                  textcoords="offset points", fontsize=9)  # fmt: skip
    axis.spines[["top", "right"]].set_visible(False)

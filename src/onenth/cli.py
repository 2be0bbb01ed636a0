"""The command line: a table of commands, each a plain function.

What a command finds out goes to stdout, all else to stderr. Exit codes: 0 done; 1 a target was missed; 2 the
person who asked has to put something right; 128 and the number of a signal where one stopped a run, which has
saved itself.
"""

import functools
import io
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import onenth

if TYPE_CHECKING:
    import torch


def _without(error: ModuleNotFoundError) -> str:
    library = (error.name or "").partition(".")[0]
    return f"the onenth command needs {library}, which is not installed: pip install onenth[lab]"


try:
    import typer
    import typer.core
except ModuleNotFoundError as error:
    raise SystemExit(_without(error)) from error

_LAB = ("matplotlib", "rich", "sacrebleu", "sentencepiece", "tensorboard")

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Decides every number drawn.")]
Data = Annotated[
    Path | None, typer.Option(help="Folder of the corpus; the embedded one where it is left out.")
]
Out = Annotated[Path, typer.Option(help="Folder of all runs; made if there is none.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Another value for a setting; as often as you like."),
]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto: cuda where there is one.")]
Split = Literal["dev", "test"]


def demo(
    out: Annotated[Path, typer.Option(help="Folder for tables, pictures and runs.")] = Path("demo"),
    seed: Seed = 0,
) -> None:
    """Learn operators and rules, agreement and style, on data that the library brings.

    The paper's artificial experiments, then six models of subject-verb agreement and three of style transfer:
    tables of what they reach, pictures, and runs to go on with. Exits with 1 where a target is missed.
    """
    from onenth.lab.demo import show

    _make(out)
    if missed := show(out, seed):
        typer.echo("\n".join(f"target missed by {sentence}" for sentence in missed), err=True)
        raise typer.Exit(1)


def list_(
    recipe: Annotated[str | None, typer.Argument(help="A recipe, for its settings; or a task.")] = None,
    as_json: Json = False,
) -> None:
    """List recipes with their sizes, or all settings of one with the paper's values."""
    from onenth.lab import listing
    from onenth.lab.tasks import TASKS

    if recipe is None or recipe in TASKS:
        listing.show(recipe, as_json)
    else:
        listing.show_one(recipe, as_json)


def train(
    recipe: Annotated[str, typer.Argument(help="task/setup/variant, see onenth list.")],
    data: Data = None,
    out: Out = Path("runs"),
    seed: Seed = 0,
    assignments: Set = None,
    device: Device = "auto",
    fresh: Annotated[bool, typer.Option("--fresh", help="Remove what was trained, and start anew.")] = False,
    as_json: Json = False,
) -> None:
    """Train and evaluate a recipe; goes on where it was left.

    With several processes: `torchrun --nproc-per-node 2 -m onenth train …`.
    """
    import json

    from onenth.lab.experiment import Experiment, perform
    from onenth.lab.settings import change
    from onenth.lab.tasks import recipe as named

    own = change(named(recipe), assignments or [])
    experiment = Experiment(own, seed, data, out, _device(device))
    found = perform(experiment, _console(), fresh=fresh)
    if found is None:
        return
    if as_json:
        print(json.dumps(found, indent=2))
        return
    for key, value in found["metrics"].items():
        if isinstance(value, float | str):
            print(f"{key}: {value if isinstance(value, str) else f'{value:.2f}'}")
    print(f"{experiment.folder}")


def evaluate(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    data: Data = None,
    split: Annotated[Split, typer.Option(help="Which rows.")] = "test",
    outputs: Annotated[bool, typer.Option("--outputs", help="Print what the model gives, by line.")] = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Measure the model of a finished run again, on any data."""
    import json

    from onenth.lab import experiment

    metrics, lines = experiment.evaluate(run, data, split, _device(device))
    if outputs:
        print("\n".join(lines))
    elif as_json:
        print(json.dumps(metrics, indent=2))
    else:
        for key, value in metrics.items():
            print(f"{key}: {value:.2f}" if isinstance(value, float) else f"{key}: {value}")


def translate(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    beam: Annotated[int | None, typer.Option(min=1, help="Hypotheses; the recipe's by default.")] = None,
    alpha: Annotated[float | None, typer.Option(min=0, help="Exponent of the length penalty.")] = None,
    n_best: Annotated[
        int, typer.Option(min=1, help="Texts for each line; of several, print line, score, text.")
    ] = 1,
    device: Device = "auto",
) -> None:
    """Translate the lines of stdin to stdout."""
    from onenth.lab.lines import read, translated

    search = {name: value for name, value in (("beam", beam), ("alpha", alpha)) if value is not None}
    for line in translated(run, read(sys.stdin.buffer), search, n_best, _device(device)):
        print(line, flush=True)


def sweep(
    setup: Annotated[str, typer.Argument(help="task/setup, such as agreement/small.")],
    n: Annotated[str, typer.Option(help="Values of n, with commas.")] = "1,2,4,8",
    rank: Annotated[str, typer.Option(help="Ranks, with commas; none: the full rule.")] = "none",
    rule: Annotated[str, typer.Option(help="learned, diagonal, algebras; with commas.")] = "learned",
    seeds: Annotated[str, typer.Option(help="Seeds, with commas, or as 0-4.")] = "0-2",
    data: Data = None,
    out: Out = Path("runs"),
    assignments: Set = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Train all combinations of n, rank, rule and seed; finished ones are not run again."""
    from onenth.lab import sweep as sweeps
    from onenth.lab import table as tables
    from onenth.lab.numbers import numbers, words

    names = [*sweeps.variants(numbers("--n", n), numbers("--rank", rank, none=True), words("--rule", rule))]
    chosen = sweeps.planned(setup, names, assignments or [])
    sweeps.run(chosen, numbers("--seeds", seeds), data, out, _device(device), _console())
    tables.show(out, chosen[0].task, as_json)


def table(
    task: Annotated[str, typer.Argument(help="agreement or style.")],
    runs: Annotated[Path, typer.Option(help="Folder of all runs.")] = Path("runs"),
    as_json: Json = False,
) -> None:
    """Print a task's finished runs: mean and spread over seeds, and the difference from dense."""
    from onenth.lab import table as tables

    tables.show(runs, _task(task), as_json)


def params(as_json: Json = False) -> None:
    """Count the parameters of the paper's tables again, row by row.

    Beside each printed figure stand the count, what it includes, and which layers share a rule. Where the
    paper's text describes another network than the table is of, that one is counted as well.
    """
    from onenth.lab.params import show

    show(as_json)


Inputs = Annotated[int, typer.Argument(min=1, help="Inputs d of the layer.")]
Outputs = Annotated[int, typer.Argument(min=1, help="Outputs k of the layer.")]
N = Annotated[int | None, typer.Option(min=1, help="The parameters are divided by it.")]
Rank = Annotated[int | None, typer.Option(min=1, help="Products of a learned rule.")]
RuleName = Annotated[str, typer.Option(help="learned, diagonal, or an algebra by name.")]
Rows = Annotated[int, typer.Option(min=1, help="Rows of the input.")]


def explain(
    d: Inputs, k: Outputs, n: N = None, rank: Rank = None, rule: RuleName = "learned", rows: Rows = 1024
) -> None:
    """Show the paths that could compute a layer in training, and why one is taken."""
    from onenth.lab.errors import Problem

    try:
        layer = onenth.PHMLinear(d, k, **_phm(n, rank, rule))
    except (ValueError, TypeError) as error:
        raise Problem(str(error)) from error
    print(onenth.explain(layer, rows))


def bench(
    d: Inputs = 2048,
    k: Outputs = 2048,
    n: N = None,
    rank: Rank = None,
    rule: RuleName = "learned",
    rows: Rows = 1024,
    rounds: Annotated[int, typer.Option(min=1, help="Times that each is timed.")] = 10,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Time a layer beside nn.Linear on this machine; n=4 where nothing is said."""
    from onenth.lab import bench as benches

    found = benches.measure(d, k, rows, _phm(n, rank, rule), _device(device), rounds)
    benches.show(found, as_json)


COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "list": list_,
    "train": train,
    "evaluate": evaluate,
    "translate": translate,
    "sweep": sweep,
    "table": table,
    "params": params,
    "explain": explain,
    "bench": bench,
}


def main() -> None:
    """Run the command that the arguments name."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # not every terminal knows every letter
    try:
        app()
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(_LAB):
            raise
        sys.exit(_without(error))


def _guarded(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with errors for people: a sentence on stderr and an exit code."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        from onenth.lab.engine.signals import Stopped
        from onenth.lab.errors import Problem

        try:
            command(*arguments, **options)
        except Problem as problem:
            typer.echo(f"onenth: {problem}", err=True)
            raise typer.Exit(2) from problem
        except Stopped as stopped:
            typer.echo(f"onenth: {stopped}", err=True)
            raise typer.Exit(stopped.code) from stopped
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read has read enough
            raise typer.Exit(141) from None
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            typer.echo(f"onenth: {where}{error.strerror or error}", err=True)
            raise typer.Exit(2) from error

    return run


class _WithSettings(typer.core.TyperCommand):
    """A command that takes `--set`: its help ends with all settings."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from onenth.lab.listing import help_text

        self.epilog = help_text()
        super().format_help(ctx, formatter)


def _make(folder: Path) -> None:
    """Finds out before the work, not after it, whether its results can be kept."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise typer.BadParameter(f"cannot write to {folder}: {error.strerror}", param_hint="--out") from error


def _console() -> Any:
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def _device(name: str) -> "torch.device":
    import torch

    from onenth.lab.errors import Problem

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found = torch.device(name)
    except RuntimeError:
        raise Problem(f"--device {name}: write cpu, cuda or auto") from None
    if found.type not in ("cpu", "cuda"):
        raise Problem(f"--device {name}: write cpu, cuda or auto")
    if found.type == "cuda" and not torch.cuda.is_available():
        raise Problem(f"--device {name}: torch finds no GPU here; write cpu or auto")
    return found


def _task(name: str) -> str:
    from onenth.lab.errors import Problem
    from onenth.lab.tasks import TASKS

    if name not in TASKS:
        raise Problem(f"there is no task {name!r}: write {' or '.join(TASKS)}")
    return name


def _phm(n: int | None, rank: int | None, rule: str) -> dict[str, Any]:
    """What a layer takes; n=4 where neither n nor an algebra is named."""
    if n is None and rule in ("learned", "diagonal"):
        n = 4
    return {"n": n, "rank": rank, "rule": rule}


def _version(asked: bool) -> None:
    if asked:
        print(f"onenth {onenth.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Layers with one n-th of the parameters."""


app = typer.Typer(
    callback=_options,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for _name, _command in COMMANDS.items():
    _kind = _WithSettings if _command in (train, sweep) else typer.core.TyperCommand
    app.command(_name, cls=_kind)(_guarded(_command))

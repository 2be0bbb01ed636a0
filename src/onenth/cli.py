"""The command line: a table of commands, each a plain function."""

import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import onenth


def _without(error: ModuleNotFoundError) -> str:
    library = (error.name or "").partition(".")[0]
    return f"the onenth command needs {library}, which is not installed: pip install onenth[lab]"


try:
    import typer
except ModuleNotFoundError as error:
    raise SystemExit(_without(error)) from error


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pictures; made if there is none.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Decides every number drawn.")] = 0,
) -> None:
    """Learn rotations, Hamilton products, and the rules of four algebras from data.

    These are the paper's artificial experiments, in about ten seconds: a table of losses and angles, and
    pictures of the learned rules. Exits with 1 where a target is missed.
    """
    from onenth.lab import artificial
    from onenth.lab.demo import show

    _make(out)
    if missed := show(out, seed, artificial.EXPERIMENTS):
        typer.echo("\n".join(f"target missed by {sentence}" for sentence in missed), err=True)
        raise typer.Exit(1)


def params(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of rows.")] = False,
) -> None:
    """Count the parameters of the paper's tables again, row by row.

    Beside each printed figure stand the count, what it includes, and which layers share a rule. Where the
    paper's text describes another network than the table is of, that one is counted as well.
    """
    from onenth.lab.params import show

    show(as_json)


COMMANDS: dict[str, Callable[..., None]] = {"demo": demo, "params": params}


def main() -> None:
    """Run the command that the arguments name."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # not every terminal knows every letter
    try:
        app()
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(("matplotlib", "rich")):
            raise
        sys.exit(_without(error))


def _make(folder: Path) -> None:
    """Finds out before the work, not after it, whether its results can be kept."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise typer.BadParameter(f"cannot write to {folder}: {error.strerror}", param_hint="--out") from error


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
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for _name, _command in COMMANDS.items():
    app.command(_name)(_command)

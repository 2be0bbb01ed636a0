"""The command on small corpora: called, and its runs found again."""

from lab.corpora import SMALL, agreement, style
from typer.testing import CliRunner

from onenth.cli import app

MAKE = {"agreement": agreement, "style": style}
SIZE = {"agreement": [], "style": ["--set", "model.vocabulary=300"]}


def invoke(*arguments, text=None):
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(app, words, input=text, env={"COLUMNS": "100"})


def train(folder, name="agreement/small/n4", *more, data=None):
    task = name.partition("/")[0]
    own = data or MAKE[task](folder / f"{task}-data")
    return invoke("train", name, "--data", own, "--out", folder / "runs", *SMALL, *SIZE[task], *more)


def only(folder, name="result.json"):
    [path] = folder.rglob(name)
    return path


def run_of(folder, task, variant="n4", seed=0):
    [path] = [
        path for path in (folder / "runs" / task / "small").iterdir() if path.name.startswith(f"{variant}+")
    ]
    return path / f"seed-{seed}"

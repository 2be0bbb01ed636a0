"""The log of a run: what is in it, and that a run taken up again leaves no line twice."""

import io
import json

import pytest
from lab.engine.toy import model, run
from rich.console import Console

from onenth.lab.engine.report import LOG, Reporter, lines
from onenth.lab.engine.signals import Stopped
from onenth.lab.errors import Problem


def reporter(folder, text=None, steps=31):
    console = Console(file=text or io.StringIO(), force_terminal=text is not None, width=200)
    return Reporter(folder, "toy", steps, console)


def trained(folder, tell, **settings):
    with tell:
        return run(folder / "checkpoints", tell=tell, report_every=5, evaluate_every=10, **settings)()


def steps(folder):
    return [(line["step"], "dev_loss" in line) for line in lines(folder)]


WHOLE = [(5, False), (10, False), (10, True), (15, False), (20, False), (20, True), (25, False), (30, False),
         (30, True), (31, False), (31, True)]  # fmt: skip


def test_a_line_for_each_report_and_each_look(tmp_path):
    trained(tmp_path, reporter(tmp_path))
    assert steps(tmp_path) == WHOLE
    first = lines(tmp_path)[0]
    assert set(first) == {"step", "loss", "tokens_per_second", "rate", "bad"}
    assert first["rate"] == pytest.approx(1e-2 * 5 / 10)
    assert first["tokens_per_second"] > 0


class Stops(Reporter):
    """Ends at a step, as a crash would, or as if asked to."""

    at, how = 0, None

    def step(self, step):
        super().step(step)
        if step == self.at:
            raise self.how


@pytest.mark.parametrize("how", [Stopped(0, 15), RuntimeError("out")])
def test_lines_after_the_checkpoint_come_again_once(how, tmp_path):
    tell = Stops(tmp_path, "toy", 31, Console(file=io.StringIO()))
    tell.at, tell.how = 23, how
    with pytest.raises(type(how)):
        trained(tmp_path, tell, save_every=12)
    assert steps(tmp_path)[-1] == (20, True)
    with (tmp_path / LOG).open("a") as log:
        log.write('{"step": 21, "lo')  # a crash in the middle of a line
    trained(tmp_path, reporter(tmp_path), save_every=12)
    assert steps(tmp_path) == WHOLE


def test_what_is_not_finite_is_null(tmp_path):
    with reporter(tmp_path) as tell:
        tell.begin(0)
        tell.line(3, {"loss": float("nan"), "norm": float("inf"), "rate": 0.5})
        tell.bad(4, float("nan"), 1.0, list(range(9)))
    assert lines(tmp_path) == [
        {"step": 3, "loss": None, "norm": None, "rate": 0.5},
        {"step": 4, "bad_loss": None, "bad_norm": 1.0, "rows": list(range(9))},
    ]


def test_a_bad_batch_is_told_with_its_rows(tmp_path):
    text = io.StringIO()
    with Reporter(tmp_path, "toy", 9, Console(file=text, width=200)) as tell:
        tell.begin(0)
        tell.bad(4, float("nan"), 1.0, [7, 3, 9])
    assert "step 4: loss nan, gradient 1: left out, nothing has changed; rows 8, 4, 10" in text.getvalue()


def test_the_bar_shows_steps_and_figures(tmp_path):
    text = io.StringIO()
    trained(tmp_path, reporter(tmp_path, text))
    for part in ("toy", "31/31", "left:", "loss 0.", "tokens_per_second", "dev_accuracy"):
        assert part in text.getvalue()


def test_tensorboard_has_the_figures(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trained(tmp_path, reporter(tmp_path))
    found = EventAccumulator(str(tmp_path / "tensorboard"))
    found.Reload()
    assert [event.step for event in found.Scalars("loss")] == [5, 10, 15, 20, 25, 30, 31]
    losses = [line["loss"] for line in lines(tmp_path) if "loss" in line]
    assert [event.value for event in found.Scalars("loss")] == pytest.approx(losses, rel=1e-6)
    assert len(found.Scalars("dev_accuracy")) == 4


def test_a_damaged_line_is_named(tmp_path):
    (tmp_path / LOG).write_text(json.dumps({"step": 1}) + "\n{\n")
    with pytest.raises(Problem, match=rf"{LOG}:2: is no JSON"):
        lines(tmp_path)
    assert lines(tmp_path / "nowhere") == []


def test_a_model_of_its_own_is_told_to_nobody(tmp_path):
    run(tmp_path, own=model())()
    assert not list(tmp_path.rglob(LOG))

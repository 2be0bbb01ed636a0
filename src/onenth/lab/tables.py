"""The paper's tables of results: their rows, and the parameters that they print.

A figure is nothing without what it was counted of. A `Reading` says which network a row means and which of
its layers share a rule; where text and tables of the paper disagree, a table has one for each.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """A row of a table, as printed.

    Args:
        name: of the model.
        figure: its number of parameters.
        percent: the change against the first row; None where none is printed.
        phm: what PHM layers take; n=1 is the real model.
        bias: whether the figure includes biases.
        dagger: whether the model is one "re-scaled with a factor of 2".
        note: what is odd about the figure.
    """

    name: str
    figure: str
    percent: float | None
    phm: dict[str, Any]
    bias: bool = True
    dagger: bool = False
    note: str = ""

    @property
    def learns(self) -> bool:
        """Whether there are rules to learn, and so to share."""
        return self.phm.get("n", 1) > 1


def _dagger(row: Row) -> bool:
    return row.dagger


def _learned(row: Row) -> bool:
    return row.learns and not row.dagger


@dataclass(frozen=True)
class Reading:
    """One way to read a table.

    Args:
        name: for reports.
        rules: which layers share a rule, in the words of the module.
        about: a sentence on it.
        covers: the rows it is for.
        sizes: of the network, where they are not the printed table's.
        wider: what multiplies the hidden size of a "re-scaled" model.
        as_printed: whether its counts are those behind the figures.
        bias: count the biases even where the figure does not.
    """

    name: str
    rules: str
    about: str
    covers: Callable[[Row], bool] = lambda row: not row.dagger
    sizes: dict[str, Any] = field(default_factory=dict)
    wider: float = 1.0
    as_printed: bool = False
    bias: bool = False


@dataclass(frozen=True)
class Table:
    """A table: the kind of network, what its figures leave out, the rows, and how to read them."""

    name: str
    title: str
    network: str
    leaves_out: str
    rows: tuple[Row, ...]
    readings: tuple[Reading, ...]


_PERCENT = "the percentage is that of the printed figures, not of the counts"
_DIGITS = "given to two digits, where the last two rows are to the thousand"
_NORMS = "norms, embeddings or softmax"

_REAL = Row("Transformer (Tm)", "44M", None, {"n": 1}, bias=False)
_QUATERNION = Row("Quaternion Tm", "11M", -75.0, {"rule": "quaternion"}, bias=False)
_PHM = (
    Row("PHM-Tm n=2", "22M", -50.0, {"n": 2}, bias=False),
    Row("PHM-Tm n=4", "11M", -75.0, {"n": 4}, bias=False),
    Row("PHM-Tm n=8", "5.5M", -87.5, {"n": 8}, bias=False),
    Row("PHM-Tm n=16", "2.9M", -93.4, {"n": 16}, bias=False),
)
_TWICE = (
    Row("PHM-Tm† n=2", "44M", None, {"n": 2}, bias=False, dagger=True),
    Row("PHM-Tm† n=4", "22M", -50.0, {"n": 4}, bias=False, dagger=True, note=_PERCENT),
    Row("PHM-Tm† n=8", "11M", -75.0, {"n": 8}, bias=False, dagger=True, note=_PERCENT),
)
_LSTM = (
    Row("LSTM", "721K", None, {"n": 1}),
    Row("Quaternion LSTM", "180K", -75.0, {"rule": "quaternion"}, bias=False, note="counted without bias"),
    Row("PHM-LSTM n=2", "361K", -49.9, {"n": 2}),
    Row("PHM-LSTM n=5", "146K", -79.7, {"n": 5}),
    Row("PHM-LSTM n=10", "81K", -88.7, {"n": 10}),
)
_SMALL = (
    Row("Transformer (Tm)", "400K", None, {"n": 1}, note=_DIGITS),
    Row("Quaternion Tm", "100K", None, {"rule": "quaternion"}, note=_DIGITS),
    Row("PHM-Tm n=2", "200K", -50.0, {"n": 2}, note=f"{_DIGITS}; {_PERCENT}"),
    Row("PHM-Tm n=4", "101K", -74.8, {"n": 4}, note=_PERCENT),
    Row("PHM-Tm n=8", "56K", -86.0, {"n": 8}),
)

_GATES = "eight PHM layers, for each gate one of the input and one of the state; one bias, nn.LSTM has two"
_FUSED = "as the formula has it: one PHM layer of the input and one of the state, split into gates"
_BIAS = "the quaternion LSTM with the bias that the other rows have"
_ATTENTION = "a rule for each attention, and one for each feed-forward layer"
_LAYER = "a rule for each PHM layer"
_FOUR = "as the text has it"
_PAIRS = "as the text has it for these two"
_PARAMS = "about twice the parameters: the largest hidden size up to √2 · 512 that n and the heads divide"
_HIDDEN = "the hidden size doubled, as the text has it: four times the parameters"

TABLES = (
    Table("nli", "Natural language inference", "lstm", "word vectors (fixed) or perceptron", _LSTM, (
        Reading("as printed", "per_gate", _GATES, as_printed=True),
        Reading("fused", "fused", _FUSED, _learned),
        Reading("with bias", "per_gate", _BIAS, lambda row: not row.bias, bias=True),
    )),
    Table("translation", "Machine translation", "transformer", _NORMS, (_REAL, _QUATERNION, *_PHM, *_TWICE), (
        Reading("as printed", "per_attention", _ATTENTION, as_printed=True),
        Reading("dagger-params", "per_attention", _PARAMS, _dagger, wider=2**0.5, as_printed=True),
        Reading("dagger-hidden", "per_attention", _HIDDEN, _dagger, wider=2.0),
        Reading("per_layer", "per_layer", _LAYER, _learned),
        Reading("4 layers", "per_attention", _FOUR, sizes={"layers": 4}),
        Reading("De-En, Ro-En", "per_attention", _PAIRS, sizes={"layers": 2, "heads": 4, "hidden": 256}),
    )),
    Table("style", "Text style transfer", "transformer", _NORMS, (_REAL, *_PHM), (
        Reading("as printed", "per_attention", _ATTENTION, as_printed=True),
        Reading("per_layer", "per_layer", _LAYER, _learned),
        Reading("4 layers", "per_attention", _FOUR, sizes={"layers": 4}),
    )),
    Table("agreement", "Subject-verb agreement", "encoder", "norms, embeddings or head", _SMALL, (
        Reading("as printed", "per_layer", _LAYER, as_printed=True),
        Reading("per_attention", "per_attention", _ATTENTION, _learned),
    )),
)  # fmt: skip

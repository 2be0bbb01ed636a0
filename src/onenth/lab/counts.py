"""The parameters of the paper's networks, counted.

The networks of `onenth.lab.tables` are built, on the meta device and so at no cost, and their parameters are
counted. There is no formula for them here.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from onenth.lab.tables import TABLES, Reading, Row, Table
from onenth.nn import PHMLSTM, PHMTransformer, PHMTransformerEncoder, PHMTransformerEncoderLayer
from onenth.nn.sharing import layers


@dataclass(frozen=True)
class Count:
    """A row of a table in one reading. Percentages are changes against the real model, None for itself."""

    table: str
    row: str
    reading: str
    network: str
    printed: str
    printed_percent: float | None
    counted: int
    rounded: str  # in the unit and with the decimals that are printed
    percent: float | None
    counting_rule: str
    rules: str | None  # which layers share one; None where none is learned
    learned_rules: int
    note: str

    @property
    def agrees(self) -> bool:
        """Whether the figure, and the percentage where there is one, is the one printed."""
        return self.rounded == self.printed and self.printed_percent in (None, self.percent)


def rows() -> list[Count]:
    """Every row of every table, in each of its readings.

    Example:
        >>> lstm = rows()[0]
        >>> lstm.printed, lstm.counted
        ('721K', 721200)
    """
    return [own for table in TABLES for reading in table.readings for own in read(table, reading)]


def read(table: Table, reading: Reading) -> list[Count]:
    """The rows that a reading covers."""
    real, found = table.rows[0], []
    against = count(build(table, reading, real))
    for row in filter(reading.covers, table.rows):
        module = build(table, reading, row)
        counted = count(module)
        found.append(Count(
            table=table.name,
            row=row.name,
            reading=reading.name,
            network=_sizes(module),
            printed=row.figure,
            printed_percent=row.percent,
            counted=counted,
            rounded=rounded(counted, row.figure),
            percent=None if row is real else round(100 * (counted / against - 1), 1),
            counting_rule=_counting_rule(table, row.bias or reading.bias),
            rules=reading.rules if row.learns else None,
            learned_rules=len({layer.rule for layer in layers(module) if [*layer.rule.parameters()]}),
            note="; ".join(filter(None, (reading.about, row.note if reading.as_printed else ""))),
        ))  # fmt: skip
    return found


def build(table: Table, reading: Reading, row: Row) -> nn.Module:
    """The network of a row, on the meta device."""
    options = {"bias": row.bias or reading.bias, "rules": reading.rules, "device": "meta", **row.phm}
    sizes = {**reading.sizes, "wider": reading.wider} if row.dagger else reading.sizes
    return _NETWORKS[table.network](options, **sizes)


def count(module: nn.Module) -> int:
    """The parameters of a module, each once, but for those of its norms."""
    norms = {p for part in module.modules() if isinstance(part, nn.LayerNorm) for p in part.parameters()}
    return sum(p.numel() for p in module.parameters() if p not in norms)


def rounded(counted: int, figure: str) -> str:
    """A count in the unit of a printed figure, with as many decimals.

    Example:
        >>> rounded(5_526_528, "5.5M"), rounded(81_200, "81K")
        ('5.5M', '81K')
    """
    unit = figure[-1]
    decimals = len(figure[:-1].partition(".")[2])
    return f"{counted / {'K': 1e3, 'M': 1e6}[unit]:.{decimals}f}{unit}"


def _counting_rule(table: Table, bias: bool) -> str:
    what = "weights, learned rules and biases; not" if bias else "weights and learned rules; not biases,"
    return f"{what} {table.leaves_out}"


def _sizes(module: Any) -> str:
    if isinstance(module, PHMLSTM):
        return f"LSTM of {module.input_size} features, hidden {module.hidden_size}"
    stacks = [module] if isinstance(module, PHMTransformerEncoder) else [module.encoder, module.decoder]
    first = stacks[0].layers[0]
    depth = " + ".join(str(len(stack.layers)) for stack in stacks)
    heads, filters = first.self_attn.num_heads, first.linear1.out_features
    return f"{depth} layers, {heads} heads, hidden {first.d_model}, filter {filters}"


def _lstm(options: dict[str, Any]) -> nn.Module:
    return PHMLSTM(300, 300, **options)


def _encoder(options: dict[str, Any]) -> nn.Module:
    return PHMTransformerEncoder(PHMTransformerEncoderLayer(128, 4, 512, **options), 2)


def _transformer(
    options: dict[str, Any], hidden: int = 512, heads: int = 8, layers: int = 6, wider: float = 1.0
) -> nn.Module:
    step = math.lcm(heads, options.get("n", 1))
    hidden = int(hidden * wider) // step * step
    return PHMTransformer(hidden, heads, layers, layers, 4 * hidden, **options)


_NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "lstm": _lstm,
    "encoder": _encoder,
    "transformer": _transformer,
}

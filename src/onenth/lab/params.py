"""The paper's #Params columns on a terminal, or as JSON."""

import json
from collections.abc import Iterator
from dataclasses import asdict

from rich import box
from rich.console import Console
from rich.table import Table as Grid

from onenth.lab.counts import Count, read, rows
from onenth.lab.tables import TABLES, Reading, Table

_WIDTH = 80  # what the tables need


def show(as_json: bool = False) -> None:
    """Prints all rows on stdout: tables for people, or a JSON list."""
    if as_json:
        print(json.dumps([asdict(own) for own in rows()], indent=2))
        return
    report = Console(highlight=False, markup=False)
    report.width = max(_WIDTH, report.width)  # in a narrower one, rich would cut figures
    for table in TABLES:
        for part in _section(table):
            report.print(part)
    report.print("rules: how many are learned. ≠: the figure or percentage is not the one printed.")


def _section(table: Table) -> Iterator[Grid | str]:
    """A table with its counts, then its other readings; after each, what is meant."""
    counts = {reading.name: read(table, reading) for reading in table.readings}
    printed, others = ([own for own in table.readings if own.as_printed is want] for want in (True, False))
    first = counts[printed[0].name][0]

    def meaning(reading: Reading) -> tuple[str, str]:
        network = counts[reading.name][0].network
        same = "" if network == first.network else f"{network}; "
        return reading.name, f'{same}rules="{reading.rules}"; {reading.about}'

    yield f"{table.title}: {first.network}\ncounted: {first.counting_rule}"
    yield _as_printed([own for reading in printed for own in counts[reading.name]])
    yield _legend([*map(meaning, printed), *((row.name, row.note) for row in table.rows if row.note)])
    yield _otherwise(table, {own.name: counts[own.name] for own in others})
    yield _legend([*map(meaning, others), ("", "")])


def _as_printed(counts: list[Count]) -> Grid:
    grid = _grid("as printed", "printed", "counted", "rounded", "", "rules")
    for own in counts:
        grid.add_row(
            own.row,
            _change(own.printed, own.printed_percent),
            f"{own.counted:,}",
            _change(own.rounded, own.percent),
            "" if own.agrees else "≠",
            str(own.learned_rules or "–"),
        )
    return grid


def _otherwise(table: Table, counts: dict[str, list[Count]]) -> Grid:
    """A column for each reading."""
    grid = _grid("read otherwise", *counts)
    columns = [{own.row: f"{own.counted:,}" for own in column} for column in counts.values()]
    for row in table.rows:
        if any(row.name in column for column in columns):
            grid.add_row(row.name, *(column.get(row.name, "–") for column in columns))
    return grid


def _grid(first: str, *others: str) -> Grid:
    grid = Grid(first, *others, box=box.SIMPLE, padding=(0, 1, 0, 0))
    for column in grid.columns[1:]:
        column.justify = "right"
    return grid


def _legend(lines: list[tuple[str, str]]) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 1))
    for line in lines:
        grid.add_row(*line)
    return grid


def _change(figure: str, percent: float | None) -> str:
    return figure if percent is None else f"{figure} ({percent:.1f}%)"

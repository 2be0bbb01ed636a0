"""The paper's parameter counts: what it prints, what the networks have, and where the two differ."""

import json
import math
import re

import pytest
from torch import nn

from onenth import PHMLinear, Rule
from onenth.lab.counts import build, count, read, rounded, rows
from onenth.lab.params import show
from onenth.lab.tables import TABLES

# the first two columns of the paper's tables, as it sets them
SOURCE = {
    "nli": r"""
        LSTM & 721K
        Quaternion LSTM & 180K (-75.0\%)
        PHM-LSTM ($n=2$) &361K (-49.9\%)
        PHM-LSTM ($n=5$) &146K (-79.7\%)
        PHM-LSTM ($n=10$) &81K (-88.7\%)
    """,
    "translation": r"""
        Transformer (Tm) & 44M
        Quaternion Tm & 11M (-75.0\%)
        PHM-Tm $n=2$ & 22M (-50.0\%)
        PHM-Tm $n=4$ & 11M (-75.0\%)
        PHM-Tm $n=8$ & 5.5M (-87.5\%)
        PHM-Tm $n=16$ & 2.9M (-93.4\%)
        PHM-Tm$^\dagger$ $n=2$ & 44M
        PHM-Tm$^\dagger$  $n=4$ & 22M (-50.0\%)
        PHM-Tm$^\dagger$  $n=8$ & 11M (-75.0\%)
    """,
    "style": r"""
        Transformer (Tm) & 44M
        PHM-Tm ($n=2$) & 22M (-50.0\%)
        PHM-Tm ($n=4$) & 11M (-75.0\%)
        PHM-Tm ($n=8$) & 5.5M (-87.5\%)
        PHM-Tm ($n=16$) & 2.9M (-93.4\%)
    """,
    "agreement": r"""
        Transformer (Tm) & 400K
        Quaternion Tm & 100K
        PHM-Tm ($n=2$) & 200K (-50.0\%)
        PHM-Tm ($n=4$) & 101K  (-74.8\%)
        PHM-Tm ($n=8$) & 56K  (-86.0\%)
    """,
}

COUNTED = {
    "nli": [721_200, 180_000, 361_264, 146_200, 81_200],
    "translation": [44_040_192, 11_010_048, 22_020_432, 11_012_736, 5_526_528, 2_924_544,
                    43_545_936, 21_775_488, 10_907_904],
    "style": [44_040_192, 22_020_432, 11_012_736, 5_526_528, 2_924_544],
    "agreement": [395_520, 100_608, 198_976, 101_120, 55_552],
}  # fmt: skip

# to two digits, where other figures of the table are to the thousand
TWO_DIGITS = {("agreement", row) for row in ("Transformer (Tm)", "Quaternion Tm", "PHM-Tm n=2")}
# of the printed figures, not of what they were rounded from
OF_FIGURES = {
    ("agreement", "PHM-Tm n=2"),
    ("agreement", "PHM-Tm n=4"),
    ("translation", "PHM-Tm† n=4"),
    ("translation", "PHM-Tm† n=8"),
}

ALL = rows()
MAIN = {own.name for table in TABLES for own in table.readings if own.as_printed}
PRINTED = [own for own in ALL if own.reading in MAIN]


def only(**wanted):
    [own] = [own for own in ALL if all(getattr(own, name) == value for name, value in wanted.items())]
    return own


def number(figure):
    return float(figure[:-1]) * {"K": 1e3, "M": 1e6}[figure[-1]]


def test_the_tables_are_those_of_the_paper():
    assert list(SOURCE) == [table.name for table in TABLES]
    for table in TABLES:
        found = []
        for line in SOURCE[table.name].strip().splitlines():
            name, figure, percent = re.fullmatch(r"(.*?) *& *(\S+)(?: +\((\S+)\\%\))?", line.strip()).groups()
            name = re.sub(r"\(?\$(n=\d+)\$\)?", r"\1", name.replace(r"$^\dagger$", "†"))
            found.append((" ".join(name.split()), figure, percent and float(percent)))
        assert [(row.name, row.figure, row.percent) for row in table.rows] == found


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_what_the_networks_of_a_table_have(table):
    assert [own.counted for own in PRINTED if own.table == table.name] == COUNTED[table.name]
    assert [own.row for own in PRINTED if own.table == table.name] == [row.name for row in table.rows]


@pytest.mark.parametrize("own", PRINTED, ids=lambda own: f"{own.table}, {own.row}")
def test_counts_round_to_what_is_printed(own):
    """But for the rows named above, whose figures and percentages come about as said there."""
    key = own.table, own.row
    two_digits, of_figures = key in TWO_DIGITS, key in OF_FIGURES
    assert own.agrees is not (two_digits or of_figures)
    assert (own.rounded == own.printed) is not two_digits
    assert (own.printed_percent in (None, own.percent)) is not of_figures
    if two_digits:
        assert number(own.printed) == float(f"{own.counted:.2g}")
    if of_figures:
        real = only(table=own.table, reading="as printed", percent=None)
        share = number(own.printed) / number(real.printed)
        assert own.printed_percent == math.copysign(math.floor(1000 * (1 - share) + 0.5) / 10, -1)
    assert ("two digits" in own.note) is two_digits
    assert ("percentage is that of the printed figures" in own.note) is of_figures


@pytest.mark.parametrize("own", ALL, ids=lambda own: f"{own.table}, {own.reading}, {own.row}")
def test_counts_are_those_of_the_formula(own):
    """kd/n + n³, with the dense layers those of torch."""
    if own.network.startswith("LSTM"):
        weights, biases = 2 * 4 * 300 * 300, 4 * 300
    else:
        depth, hidden, filters = re.fullmatch(
            r"(.*) layers, \d heads, hidden (\d+), filter (\d+)", own.network
        ).groups()
        sizes = {"nhead": 1, "d_model": int(hidden), "dim_feedforward": int(filters), "device": "meta"}
        dense = nn.ModuleList(nn.TransformerEncoderLayer(**sizes) for _ in range(int(depth.split(" + ")[0])))
        if "+" in depth:
            dense.extend(nn.TransformerDecoderLayer(**sizes) for _ in range(int(depth.split(" + ")[1])))
        named = [(name, p.numel()) for name, p in dense.named_parameters() if "norm" not in name]
        weights = sum(size for name, size in named if "bias" not in name)
        biases = sum(size for name, size in named if "bias" in name)
    n = int(found[1]) if (found := re.search(r"n=(\d+)", own.row)) else 4 if "Quaternion" in own.row else 1
    biased = "not biases" not in own.counting_rule
    assert own.counted == weights // n + own.learned_rules * n**3 + biased * biases
    assert (own.rules is None) is (own.learned_rules == 0) is ("n=" not in own.row)


def test_who_shares_rules():
    def learned(table, row, reading):
        return only(table=table, row=row, reading=reading).learned_rules

    assert learned("translation", "PHM-Tm n=16", "as printed") == 42  # 18 attentions, 24 feed-forward layers
    assert learned("translation", "PHM-Tm n=16", "per_layer") == 66
    assert learned("agreement", "PHM-Tm n=8", "as printed") == 8
    assert learned("agreement", "PHM-Tm n=8", "per_attention") == 6
    assert learned("nli", "PHM-LSTM n=10", "as printed") == 8
    assert learned("nli", "PHM-LSTM n=10", "fused") == 2


@pytest.mark.parametrize(
    ("wanted", "counted"),
    [
        ({"row": "Quaternion LSTM", "reading": "with bias"}, "181K"),  # printed: 180K
        ({"row": "PHM-LSTM n=5", "reading": "fused"}, "145K"),  # 146K
        ({"row": "PHM-LSTM n=10", "reading": "fused"}, "75K"),  # 81K
        ({"table": "translation", "row": "PHM-Tm n=16", "reading": "per_layer"}, "3.0M"),  # 2.9M
        ({"table": "style", "row": "PHM-Tm n=16", "reading": "per_layer"}, "3.0M"),  # 2.9M
        ({"table": "translation", "row": "Transformer (Tm)", "reading": "4 layers"}, "29M"),  # 44M
        ({"table": "translation", "row": "PHM-Tm† n=2", "reading": "dagger-hidden"}, "88M"),  # 44M
        ({"table": "agreement", "row": "PHM-Tm n=8", "reading": "per_attention"}, "55K"),  # 56K
    ],
)
def test_other_readings_give_other_figures(wanted, counted):
    own = only(**wanted)
    assert own.rounded == counted != own.printed
    assert not own.agrees


def test_the_text_describes_smaller_networks():
    real = {"table": "translation", "row": "Transformer (Tm)"}
    assert only(**real, reading="4 layers").counted == 29_360_128
    assert only(**real, reading="De-En, Ro-En").counted == 3_670_016
    per_layer = only(table="translation", row="PHM-Tm n=16", reading="per_layer")
    assert per_layer.counted == 3_022_848
    n8 = only(table="translation", row="PHM-Tm n=8", reading="per_layer")
    assert (n8.rounded, n8.percent, n8.printed_percent) == ("5.5M", -87.4, -87.5)


@pytest.mark.parametrize("n", [2, 4, 8])
def test_a_doubled_hidden_size_is_four_times_the_parameters(n):
    plain, params, hidden = (
        only(table="translation", row=row, reading=reading)
        for row, reading in (
            (f"PHM-Tm n={n}", "as printed"),
            (f"PHM-Tm† n={n}", "dagger-params"),
            (f"PHM-Tm† n={n}", "dagger-hidden"),
        )
    )
    rules = 42 * n**3
    assert hidden.counted - rules == 4 * (plain.counted - rules)
    assert "hidden 720" in params.network
    assert 720 % math.lcm(n, 8) == 0
    assert 720**2 < 2 * 512**2 < (720 + math.lcm(n, 8)) ** 2
    assert 1.97 < params.counted / plain.counted < 2


def test_each_parameter_counts_once_and_those_of_norms_never():
    rule = Rule.learned(2)
    layers = [PHMLinear(4, 6, rule=rule), nn.LayerNorm(6), PHMLinear(6, 4, bias=False, rule=rule)]
    assert count(nn.Sequential(*layers)) == 2**3 + 12 + 6 + 12


def test_networks_hold_no_memory():
    for table in TABLES:
        for reading in table.readings:
            module = build(table, reading, table.rows[0])
            assert all(p.is_meta for p in module.parameters())


@pytest.mark.parametrize(
    ("counted", "figure", "text"),
    [(2_949_999, "1.0M", "2.9M"), (2_950_001, "1.0M", "3.0M"), (499, "1K", "0K"), (44_040_192, "1M", "44M")],
)
def test_rounds_as_a_figure_does(counted, figure, text):
    assert rounded(counted, figure) == text


@pytest.mark.parametrize("columns", [20, 80, 200])
def test_no_figure_is_cut(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    show()
    out, err = capsys.readouterr()
    assert err == ""
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= max(80, columns)
    for own in ALL:
        assert f"{own.counted:,}" in out
    for table in TABLES:
        for reading in table.readings:
            assert reading.name in out
    assert sum("  ≠  " in line for line in out.splitlines()) == len(TWO_DIGITS | OF_FIGURES)


def test_json_holds_all_rows(capsys):
    show(as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert [(row["table"], row["reading"], row["row"], row["counted"]) for row in found] == [
        (own.table, own.reading, own.row, own.counted) for own in ALL
    ]
    assert found[0].keys() >= {"printed", "printed_percent", "percent", "counting_rule", "rules", "note"}


def test_a_reading_covers_rows_in_the_order_of_the_table():
    for table in TABLES:
        for reading in table.readings:
            names = [own.row for own in read(table, reading)]
            assert names == [row.name for row in table.rows if row.name in names] != []

"""Tables as rich draws them, to the byte: random ones, on terminals of several widths and files."""

import io
import random

import pytest
from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from coterie.cli.tables import show_tables
from coterie.insight.render.tables import NUMBERS, Table, printable

UNBROKEN = 1_000_000
HEADINGS = ("GROUP", "TOPIC-NAME", "N", "CURRENT-OFFSET")
PIECES = (
    "a",
    "bc",
    "a-long-word",
    "日本語",
    "é",
    "e\u0301",
    "😀",
    "[b]",
    "x  y",
    "-",
    "…",
    "12345",
)
CELLS = {"int64": ("7", "1234567890", "-"), "bool": ("yes", "no", "-")}
CELLS["timestamp"] = ("1970-01-01T00:00:00.000Z", "-")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def words(draw):
    parts = [draw.choice(PIECES) + draw.choice(("", " ")) for _ in range(draw.randrange(1, 7))]
    return printable("".join(parts)).strip()


def cell(draw, kind):
    return draw.choice(CELLS[kind]) if kind in CELLS else words(draw)


def piece(draw):
    """Return a table, or a text of some lines."""
    if draw.random() < 0.2:
        return "\n".join(words(draw) for _ in range(draw.randrange(1, 4)))
    kinds = [draw.choice(("string", "string", *CELLS)) for _ in range(draw.randrange(1, 9))]
    headings = [draw.choice((*HEADINGS, "TWO WORDS") if k == "string" else HEADINGS) for k in kinds]
    count = draw.choice((0, 1, 2, 9))
    columns = [[cell(draw, kind) for _ in range(count)] for kind in kinds]
    return Table(draw.choice((None, words(draw), words(draw) * 5)), headings, kinds, columns)


def by_rich(one):
    """Return the same for rich."""
    if isinstance(one, str):
        return Text(one)
    title = one.title and Text(one.title, style="table.title", no_wrap=True, overflow="ignore")
    table = RichTable(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading, kind in zip(one.headings, one.kinds, strict=True):
        side = "right" if kind in NUMBERS else "left"
        table.add_column(heading, justify=side, overflow="fold", no_wrap=kind in CELLS)
    for row in zip(*one.columns, strict=True):
        table.add_row(*map(Text, row))
    return table


def rich_on_terminal(pieces):
    out = Terminal()
    for one in map(by_rich, pieces):
        console = Console(file=out, highlight=False)
        needed = Measurement.get(console, console.options.update(width=UNBROKEN), one)
        console.width = max(console.width, needed.minimum)
        console.print(one)
    return out.getvalue()


def rich_in_file(pieces):
    out = io.StringIO()
    console = Console(file=out, width=UNBROKEN, highlight=False, color_system=None)
    for one in map(by_rich, pieces):
        console.print(one, soft_wrap=True)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def shown(pieces, out):
    show_tables(pieces, out)
    return out.getvalue()


@pytest.mark.parametrize("columns", [20, 40, 80, 120, 300])
def test_a_table_looks_as_rich_draws_it(monkeypatch, columns):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(columns))
    draw = random.Random(columns)
    for _ in range(40):
        pieces = [piece(draw) for _ in range(2)]
        assert shown(pieces, Terminal()) == rich_on_terminal(pieces)
        assert shown(pieces, io.StringIO()) == rich_in_file(pieces)


def test_where_rich_would_leave_no_room_for_a_column_it_keeps_one(monkeypatch):
    """A heading of two words over numbers is never broken, so the terminal is too narrow."""
    monkeypatch.setenv("COLUMNS", "1")
    table = Table(None, ["N", "NO ASSIGNMENT"], ["string", "int64"], [["n"], ["7"]])
    lines = shown([table], Terminal()).splitlines()
    assert any("n " in line and line.rstrip().endswith("7") for line in lines)

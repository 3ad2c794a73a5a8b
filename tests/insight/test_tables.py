"""Tables that fit, as rich draws them, to the byte; those that do not keep each word whole."""

import io
import random
import shlex
from collections import Counter

import pytest
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from coterie.base.printable import printable
from coterie.cli.tables import show_tables
from coterie.insight.tables import NAME, NUMBERS, Block, Table
from support.terminal import plain

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


def test_a_table_that_fits_looks_as_rich_draws_it(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "1000")
    draw = random.Random(1000)
    for _ in range(80):
        pieces = [piece(draw) for _ in range(2)]
        assert shown(pieces, Terminal()) == rich_on_terminal(pieces)
        assert shown(pieces, io.StringIO()) == rich_in_file(pieces)


def at_width(monkeypatch, columns, *pieces):
    """The lines on a terminal of so many columns, without styles."""
    monkeypatch.setenv("COLUMNS", str(columns))
    return plain(shown(pieces, Terminal())).splitlines()


@pytest.mark.parametrize("columns", [1, 20, 40, 80, 120])
def test_no_word_is_broken_and_no_line_is_wider_than_it_must_be(monkeypatch, columns):
    draw = random.Random(columns)
    for _ in range(60):
        one = piece(draw)
        lines = at_width(monkeypatch, columns, one)
        for line in lines:
            assert cell_len(line) <= columns or " " not in line
        texts = (
            [one] if isinstance(one, str) else [cell for column in one.columns for cell in column]
        )
        words = Counter(word for text in texts for word in text.split() if word != "-")
        assert words - Counter(word for line in lines for word in line.split()) == Counter()


WIDE = "the-id-of-a-member-that-nobody-breaks"
SENTENCE = "it was evicted after its session had ended, and came back as another member later"


@pytest.mark.parametrize(
    ("columns", "is_table"), [(79, False), (80, True), (100, True), (130, True)]
)
def test_sentences_are_wrapped_in_their_column_while_it_has_room(monkeypatch, columns, is_table):
    """A member's id of 37 columns, a gap of 3, a rule's edges of 2, and 36 for the sentence: 78."""
    table = Table(None, ["MEMBER", "CAUSE"], [NAME, "string"], [[WIDE], [f"{SENTENCE} xx"]])
    columns -= 2
    lines = at_width(monkeypatch, columns, table)
    assert any(line.split() == ["MEMBER", "CAUSE"] for line in lines) == is_table
    assert all(len(line) <= columns for line in lines)
    assert any(WIDE in line for line in lines)


def test_rows_that_do_not_fit_are_blocks_with_headings_and_without_what_is_missing(monkeypatch):
    table = Table(
        "a title of four words",
        ["MEMBER", "OFFSET-NOW", "HOST", "CAUSE"],
        [NAME, "int64", NAME, "string"],
        [[WIDE, "b"], ["7", "-"], ["/1.2.3.4", "-"], [SENTENCE, "left"]],
    )
    assert at_width(monkeypatch, 40, table) == [
        "a title of four words",
        "",
        WIDE,
        "    OFFSET-NOW 7   HOST /1.2.3.4",
        "  it was evicted after its session had",
        "    ended, and came back as another",
        "    member later",
        "b",
        "  left",
        "",
    ]


def test_a_block_of_its_own_ends_with_a_command_that_a_shell_takes_from_several_lines(monkeypatch):
    command = f"coterie explain copy --group {WIDE} --since 1970-01-01T00:00:00.000Z"
    own = Block([["rewind", "group g"], [SENTENCE]], "bold red", command)
    table = Table(None, ["A", "B"], [NAME, NAME], [[WIDE], [WIDE]], [own])
    below = at_width(monkeypatch, 60, f"go on:\n{command}")[1:]
    assert shlex.split("\n".join(below).replace("\\\n", " ")) == command.split()
    lines = at_width(monkeypatch, 60, table)
    assert lines[1] == "rewind   group g"
    begin = next(at for at, line in enumerate(lines) if "coterie" in line)
    assert len(lines[begin:]) > 2
    assert shlex.split("\n".join(lines[begin:]).replace("\\\n", " ")) == command.split()
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[1;31mrewind\x1b[0m   group g" in shown([table], Terminal())


def test_another_tools_table_is_printed_as_it_is_where_it_fits(monkeypatch):
    lines = ["GROUP           TOPIC   ", "g               t       "]
    table = Table(None, ["GROUP", "TOPIC"], [NAME, NAME], [["g"], ["t"]], plain=lines)
    assert at_width(monkeypatch, 21, table) == [line.rstrip() for line in lines]
    assert at_width(monkeypatch, 20, table)[1].split() == ["GROUP", "TOPIC"]
    assert shown([table], io.StringIO()).splitlines() == [line.rstrip() for line in lines]

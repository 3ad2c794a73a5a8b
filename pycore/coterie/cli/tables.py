"""Tables for people, as wide as the terminal: the look of rich in a fraction of its time.

rich measures and draws cell by cell; this module measures whole columns. A table that is too wide
has its sentences wrapped, as long as each column of sentences has ``ROOM``; otherwise each row is a
block of lines. Names, numbers and times are never broken.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TextIO

from coterie.base.printable import printable
from coterie.base.terminal import (
    INDENT,
    Screen,
    columns_of,
    longest,
    packed,
    screen_of,
    text_lines,
    wrapped,
)
from coterie.insight.tables import MISSING, NAME, NUMBERS, Block, Piece, Table

NOTHING = (MISSING, "")
WHOLE = (*NUMBERS, "timestamp", "bool", NAME)  # kinds whose cells are never wrapped
ROOM = 36  # columns of a terminal, the least for a column of sentences
GAP = 3  # blanks between two columns
PARTS = re.compile(r"[^-]+-?|-")  # of a heading: a line may end after a hyphen
RULE = "\N{BOX DRAWINGS LIGHT HORIZONTAL}"


def show_tables(drawn: Iterable[Piece], out: TextIO, to_terminal: bool = True) -> None:
    """Print tables and texts, wrapped to the width of a terminal; without one, unwrapped."""
    screen = screen_of(out) if to_terminal else Screen()
    for piece in drawn:
        if isinstance(piece, str):
            lines = text_lines(piece, screen.width)
        else:
            lines = table_lines(piece, screen)
        out.writelines((line if screen.width else line.rstrip()) + "\n" for line in lines)


def table_lines(table: Table, screen: Screen) -> Iterator[str]:
    """Yield the lines of a table: title, headings, rule, rows; or those of its blocks."""
    if table.plain is not None and (
        screen.width is None or longest([line.rstrip() for line in table.plain]) <= screen.width
    ):
        yield from table.plain if screen.width is None else map(str.rstrip, table.plain)
        return
    widths = column_widths(table, screen.width)
    if table.title is not None:
        title = screen.style("table.title")
        yield from (line.join(title) for line in text_lines(printable(table.title), screen.width))
    if widths is None:
        yield ""
        for block in table.blocks or blocks_of(table):
            yield from block_lines(block, screen)
        yield ""
        return
    yield from drawn_lines(table, widths, screen)


def drawn_lines(table: Table, widths: Sequence[int], screen: Screen) -> Iterator[str]:
    """Yield headings, rule and rows in columns of these widths."""
    columns = table.columns
    long = sum(widths) + GAP * (len(widths) - 1)
    yield " " * (long + 2)
    right = [kind in NUMBERS for kind in table.kinds]
    yield from heading_lines(table.headings, widths, right, screen.style("table.header"))
    yield f" {RULE * long} "
    gap = " " * GAP
    if all(longest(column) <= width for column, width in zip(columns, widths, strict=True)):
        formats, cells = zip(*map(padded, columns, widths, right), strict=True)
        yield from map(f" {gap.join(formats)} ".__mod__, zip(*cells, strict=True))
    else:
        for row in zip(*columns, strict=True):
            for cells in zip_longest(*map(wrapped, row, widths), fillvalue=""):
                yield f" {gap.join(map(pad, cells, widths, right))} "
    yield " " * (long + 2)


def heading_lines(
    headings: Sequence[str], widths: Sequence[int], right: Sequence[bool], style: tuple[str, str]
) -> Iterator[str]:
    """Yield the lines of the headings, aligned at the bottom; their blanks have the style, too."""
    blank, last = " ".join(style), len(headings) - 1
    lines = list(map(heading_wrapped, headings, widths))
    height = max(map(len, lines))
    for number in range(height):
        cells = []
        for at, (text, width) in enumerate(zip(lines, widths, strict=True)):
            before, after = at > 0, at < last
            below = number - height + len(text)
            if below < 0:
                cells.append((" " * (width + before + after)).join(style))
            else:
                shown = pad(text[below], width, right[at]).join(style)
                cells.append(blank * before + shown + blank * after)
        yield f" {' '.join(cells)} "


def heading_wrapped(heading: str, width: int) -> list[str]:
    """Wrap a heading at blanks, and after hyphens."""
    lines = wrapped(heading, width)
    return [part for line in lines for part in packed(PARTS.findall(line), width, 0, 0, gap=0)]


def column_widths(table: Table, screen_width: int | None) -> list[int] | None:
    """Return the widths of the columns; None: the table is too wide for the screen.

    If lines are too long, the widest columns are narrowed, evenly: headings to their longest word,
    sentences to their longest word and ``ROOM``.
    """
    cells = list(map(longest, table.columns))
    headings = list(map(columns_of, table.headings))
    widths = list(map(max, cells, headings))
    edges = 2 + GAP * (len(widths) - 1)
    if screen_width is None or sum(widths) + edges <= screen_width:
        return widths
    least = [
        max(
            longest(PARTS.findall(heading.replace(" ", "-"))),
            cell if kind in WHOLE else max(longest(" ".join(column).split()), min(cell, ROOM)),
        )
        for heading, kind, column, cell in zip(
            table.headings, table.kinds, table.columns, cells, strict=True
        )
    ]
    room = screen_width - edges
    if sum(least) > room:
        return None

    def narrowed(most: int) -> list[int]:
        return [max(low, min(width, most)) for low, width in zip(least, widths, strict=True)]

    fitting = bisect_right(range(room + 1), room, key=lambda most: sum(narrowed(most)))
    return narrowed(fitting - 1)


def blocks_of(table: Table) -> Iterator[Block]:
    """Yield the rows of a table as blocks: cells with their headings, sentences below."""
    first, *others = zip(table.headings, table.kinds, table.columns, strict=True)
    named: list[list[str]] = [list(first[2])]
    sentences: list[Sequence[str]] = []
    for heading, kind, column in others:
        if kind not in WHOLE and longest(column) > ROOM:
            sentences.append(column)
        else:
            named.append(["" if cell in NOTHING else f"{heading} {cell}" for cell in column])
    for cells, texts in zip_longest(zip(*named, strict=True), zip(*sentences, strict=True)):
        below = [[text] for text in texts or () if text not in NOTHING]
        yield Block([[cell for cell in cells if cell], *below])


def block_lines(block: Block, screen: Screen) -> Iterator[str]:
    """Yield the lines of a block; the first text has its style."""
    width = screen.width
    assert width is not None  # without a terminal, a table is drawn
    head, *others = [list(map(printable, texts)) for texts in block.lines if texts]
    first, *later = packed(head, width, 0, 2 * INDENT, GAP)
    if first.startswith(head[0]):
        first = head[0].join(screen.style(block.style)) + first.removeprefix(head[0])
    yield from (first, *later)
    for texts in others:
        if len(texts) == 1:
            yield from text_lines(" " * INDENT + texts[0], width)
        else:
            yield from packed(texts, width, INDENT, 2 * INDENT, GAP)
    if block.command:
        yield from text_lines(" " * INDENT + printable(block.command), width)
        yield ""


def padded(column: Sequence[str], width: int, right: bool) -> tuple[str, Sequence[str]]:
    """Return a % format that pads cells to a width, and the cells for it."""
    if "".join(column).isascii():
        return f"%{width if right else -width}s", column
    return "%s", [pad(text, width, right) for text in column]


def pad(text: str, width: int, right: bool) -> str:
    """Pad a text with blanks to a width, on the left if ``right`` aligned."""
    blanks = " " * (width - columns_of(text))
    return blanks + text if right else text + blanks

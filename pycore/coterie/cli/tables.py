"""Tables for people, as wide as a terminal or unbroken: rich's look in a fraction of its time.

rich measures and draws cell by cell; here widths are taken of whole columns. Of rich are the width
and the styles of the terminal, the width of what is not ASCII, and how texts are broken at words.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple, TextIO

from coterie.insight.render.tables import NUMBERS, Piece, Table

WHOLE = (*NUMBERS, "timestamp", "bool")  # kinds whose cells are never broken
GAP = 3  # blanks between two columns
RULE = "\N{BOX DRAWINGS LIGHT HORIZONTAL}"
PLAIN = ("", "")
TEXTS_KEPT = 4096  # that were broken: names and causes come again and again


class Screen(NamedTuple):
    """Where a table is drawn: columns of the terminal, None where no line is broken; its styles.

    A style is what is written before a text and what after it.
    """

    width: int | None = None
    title: tuple[str, str] = PLAIN
    heading: tuple[str, str] = PLAIN


def show_tables(drawn: Iterable[Piece], out: TextIO, to_terminal: bool = True) -> None:
    """Print tables and texts: as wide as the terminal, or unbroken where there is none.

    On a terminal that is too narrow for numbers and times, lines are as long as those need.
    """
    on_terminal = to_terminal and out.isatty()
    screen = terminal(out) if on_terminal else Screen()
    for piece in drawn:
        lines = text_lines(piece, screen) if isinstance(piece, str) else table_lines(piece, screen)
        out.writelines((line if on_terminal else line.rstrip()) + "\n" for line in lines)


def terminal(out: TextIO) -> Screen:
    """Return a terminal's width, and its styles as rich has them (NO_COLOR, TERM)."""
    from rich.console import Console  # whoever writes to a file does not wait for rich
    from rich.text import Text

    console = Console(file=out)

    def style(name: str) -> tuple[str, str]:
        with console.capture() as written:
            console.print(Text("x", style=name), end="")
        before, _, after = written.get().partition("x")
        return before, after

    return Screen(console.width, style("table.title"), style("table.header"))


def text_lines(text: str, screen: Screen) -> Iterator[str]:
    """Yield the lines of a text, those that are too long broken between words."""
    width = longest([text]) if screen.width is None else max(screen.width, longest(text.split()))
    for line in text.split("\n"):
        yield from broken(line, width)


def table_lines(table: Table, screen: Screen) -> Iterator[str]:
    """Yield the lines of a table: title, headings, a rule, rows."""
    columns = table.columns
    most, widths = measured(table, screen.width)
    long = sum(widths) + GAP * (len(widths) - 1)
    if table.title is not None:
        yield cropped(table.title, most).join(screen.title)
    yield " " * (long + 2)
    right = [kind in NUMBERS for kind in table.kinds]
    yield from heading_lines(table.headings, widths, right, screen.heading)
    yield f" {RULE * long} "
    gap = " " * GAP
    if all(longest(column) <= width for column, width in zip(columns, widths, strict=True)):
        formats, cells = zip(*map(padded, columns, widths, right), strict=True)
        yield from map(f" {gap.join(formats)} ".__mod__, zip(*cells, strict=True))
    else:
        for row in zip(*columns, strict=True):
            for cells in zip_longest(*map(broken, row, widths), fillvalue=""):
                yield f" {gap.join(map(pad, cells, widths, right))} "
    yield " " * (long + 2)


def heading_lines(
    headings: Sequence[str], widths: Sequence[int], right: Sequence[bool], style: tuple[str, str]
) -> Iterator[str]:
    """Yield the headings, at the bottom where some take more lines; their blanks have the style."""
    blank, last = " ".join(style), len(headings) - 1
    lines = [broken(*one) for one in zip(headings, widths, strict=True)]
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


def measured(table: Table, screen_width: int | None) -> tuple[int | None, list[int]]:
    """Return how long a line may be (None: as long as it is), and the columns' widths.

    Where lines are too long, the widest columns that may be broken become narrower, evenly.
    """
    headed = [(name, *column) for name, column in zip(table.headings, table.columns, strict=True)]
    widths = [longest(column) for column in headed]
    if screen_width is None:
        return None, widths
    words = [longest(" ".join(column).split()) for column in headed]
    edges = 2 + GAP * (len(widths) - 1)
    most = max(screen_width, sum(words) + edges)
    # A blank on either side of a column counts as its own, but for the first and the last.
    sides = [(at > 0) + (at < len(widths) - 1) for at in range(len(widths))]
    wide = [width + side for width, side in zip(widths, sides, strict=True)]
    narrow(wide, [kind not in WHOLE for kind in table.kinds], sum(widths) + edges - most)
    return most, [max(1, width - side) for width, side in zip(wide, sides, strict=True)]


def narrow(widths: list[int], breakable: Sequence[bool], excess: int) -> None:
    """Take ``excess`` from the widths, from those of the widest columns that may be broken."""
    while excess > 0:
        found = {width for width, may in zip(widths, breakable, strict=True) if may and width}
        if not found:
            return
        widest = max(found)
        step = min(excess, widest - max(found - {widest}, default=0))
        chosen = [at for at, may in enumerate(breakable) if may and widths[at] == widest]
        for left, at in zip(range(len(chosen), 0, -1), chosen, strict=True):
            taken = min(step, round(excess / left))
            widths[at] -= taken
            excess -= taken


def longest(texts: Sequence[str]) -> int:
    """Return how many columns of a terminal the longest of the texts takes."""
    if "".join(texts).isascii():
        return max(map(len, texts), default=0)
    return max(map(columns_of, texts), default=0)


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cropped(text: str, width: int | None) -> str:
    """Return as much of a text as fits."""
    if width is None or columns_of(text) <= width:
        return text
    from rich.cells import set_cell_size

    return set_cell_size(text, width)


def padded(column: Sequence[str], width: int, right: bool) -> tuple[str, Sequence[str]]:
    """Return the format that makes cells of a column as wide as it is, and what it takes."""
    if "".join(column).isascii():
        return f"%{width if right else -width}s", column
    return "%s", [pad(text, width, right) for text in column]


def pad(text: str, width: int, right: bool) -> str:
    """Return a text with as many blanks as it lacks, before it or after it."""
    blanks = " " * (width - columns_of(text))
    return blanks + text if right else text + blanks


@functools.lru_cache(TEXTS_KEPT)
def broken(text: str, width: int) -> Sequence[str]:
    """Return the lines of a text that is broken at words, and within a word that is too long."""
    if columns_of(text) <= width:
        return (text,)
    if text.isascii() and " " not in text:
        return [text[at : at + width] for at in range(0, len(text), width)]
    from rich.console import Console
    from rich.text import Text

    return [line.plain for line in Text(text).wrap(Console(), width, overflow="fold")]

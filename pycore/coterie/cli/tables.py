"""Tables for people, as wide as the terminal: the look of rich in a fraction of its time.

rich measures and draws cell by cell; this module measures whole columns. rich still provides the
terminal's width and styles, the width of non-ASCII text, and the wrapping of text at words.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple, TextIO

from coterie.insight.render.tables import NUMBERS, Piece, Table

WHOLE = (*NUMBERS, "timestamp", "bool")  # kinds whose cells are never wrapped
GAP = 3  # blanks between two columns
RULE = "\N{BOX DRAWINGS LIGHT HORIZONTAL}"
PLAIN = ("", "")
TEXTS_CACHED = 4096  # wrapped: names and causes repeat


class Screen(NamedTuple):
    """The terminal: its width in columns (None: do not wrap lines), and its styles.

    A style is a pair: the text before, and the text after.
    """

    width: int | None = None
    title: tuple[str, str] = PLAIN
    heading: tuple[str, str] = PLAIN


def show_tables(drawn: Iterable[Piece], out: TextIO, to_terminal: bool = True) -> None:
    """Print tables and texts, wrapped to the width of a terminal; without one, unwrapped.

    Numbers and times are never wrapped, even if the terminal is too narrow for them.
    """
    on_terminal = to_terminal and out.isatty()
    screen = terminal(out) if on_terminal else Screen()
    for piece in drawn:
        lines = text_lines(piece, screen) if isinstance(piece, str) else table_lines(piece, screen)
        out.writelines((line if on_terminal else line.rstrip()) + "\n" for line in lines)


def terminal(out: TextIO) -> Screen:
    """Return a terminal's width and styles, from rich (NO_COLOR, TERM)."""
    from rich.console import Console  # slow to import
    from rich.text import Text

    console = Console(file=out)

    def style(name: str) -> tuple[str, str]:
        with console.capture() as capture:
            console.print(Text("x", style=name), end="")
        before, _, after = capture.get().partition("x")
        return before, after

    return Screen(console.width, style("table.title"), style("table.header"))


def text_lines(text: str, screen: Screen) -> Iterator[str]:
    """Yield the lines of a text, wrapped at words."""
    width = longest([text]) if screen.width is None else max(screen.width, longest(text.split()))
    for line in text.split("\n"):
        yield from wrapped(line, width)


def table_lines(table: Table, screen: Screen) -> Iterator[str]:
    """Yield the lines of a table: title, headings, rule, rows."""
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
            for cells in zip_longest(*map(wrapped, row, widths), fillvalue=""):
                yield f" {gap.join(map(pad, cells, widths, right))} "
    yield " " * (long + 2)


def heading_lines(
    headings: Sequence[str], widths: Sequence[int], right: Sequence[bool], style: tuple[str, str]
) -> Iterator[str]:
    """Yield the lines of the headings, aligned at the bottom; their blanks have the style, too."""
    blank, last = " ".join(style), len(headings) - 1
    lines = [wrapped(heading, width) for heading, width in zip(headings, widths, strict=True)]
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
    """Return the width of lines (None: unlimited), and the widths of the columns.

    If lines are too long, the widest columns that may be wrapped are narrowed, evenly.
    """
    headed = [(name, *column) for name, column in zip(table.headings, table.columns, strict=True)]
    widths = [longest(column) for column in headed]
    if screen_width is None:
        return None, widths
    words = [longest(" ".join(column).split()) for column in headed]
    edges = 2 + GAP * (len(widths) - 1)
    most = max(screen_width, sum(words) + edges)
    # A column includes the blank on either side; the first and last have one on one side only.
    sides = [(at > 0) + (at < len(widths) - 1) for at in range(len(widths))]
    wide = [width + side for width, side in zip(widths, sides, strict=True)]
    narrow(wide, [kind not in WHOLE for kind in table.kinds], sum(widths) + edges - most)
    return most, [max(1, width - side) for width, side in zip(wide, sides, strict=True)]


def narrow(widths: list[int], breakable: Sequence[bool], excess: int) -> None:
    """Reduce the widths by ``excess``, starting with the widest columns that may be wrapped."""
    while excess > 0:
        candidates = {width for width, may in zip(widths, breakable, strict=True) if may and width}
        if not candidates:
            return
        widest = max(candidates)
        step = min(excess, widest - max(candidates - {widest}, default=0))
        chosen = [at for at, may in enumerate(breakable) if may and widths[at] == widest]
        for left, at in zip(range(len(chosen), 0, -1), chosen, strict=True):
            taken = min(step, round(excess / left))
            widths[at] -= taken
            excess -= taken


def longest(texts: Sequence[str]) -> int:
    """Return the width of the widest text, in columns of a terminal."""
    if "".join(texts).isascii():
        return max(map(len, texts), default=0)
    return max(map(columns_of, texts), default=0)


def columns_of(text: str) -> int:
    """Return the width of a text, in columns of a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cropped(text: str, width: int | None) -> str:
    """Truncate a text to a width."""
    if width is None or columns_of(text) <= width:
        return text
    from rich.cells import set_cell_size

    return set_cell_size(text, width)


def padded(column: Sequence[str], width: int, right: bool) -> tuple[str, Sequence[str]]:
    """Return a % format that pads cells to a width, and the cells for it."""
    if "".join(column).isascii():
        return f"%{width if right else -width}s", column
    return "%s", [pad(text, width, right) for text in column]


def pad(text: str, width: int, right: bool) -> str:
    """Pad a text with blanks to a width, on the left if ``right`` aligned."""
    blanks = " " * (width - columns_of(text))
    return blanks + text if right else text + blanks


@functools.lru_cache(TEXTS_CACHED)
def wrapped(text: str, width: int) -> Sequence[str]:
    """Wrap a text at words, and within words that are too long."""
    if columns_of(text) <= width:
        return (text,)
    if text.isascii() and " " not in text:
        return [text[at : at + width] for at in range(0, len(text), width)]
    from rich.console import Console
    from rich.text import Text

    return [line.plain for line in Text(text).wrap(Console(), width, overflow="fold")]

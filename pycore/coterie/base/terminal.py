"""Texts at a terminal: its width and styles, and lines that break only between words.

Wrapping is for people: into a pipe or a file, a line stays one line. A word is never broken, so an
id can be copied; one that is wider than the terminal has a line of its own, and the terminal
breaks it.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TextIO

from coterie.base.printable import printable

USUAL_COLUMNS = 80  # of a terminal that does not say how wide it is
INDENT = 2  # of the lines that go on with a text
TEXTS_CACHED = 4096  # wrapped: names and causes repeat
COMMAND = "coterie "  # how a line begins that is a command
QUOTED = re.compile("'[^']*'")  # words of a shell that are one
FIXED_SPACE = "\u00a0"  # is in no text: it counts as unprintable
PLAIN = ("", "")
report_width: int | None = None  # of the terminal that shows the reports of tests, if one does


class Screen(NamedTuple):
    """A terminal: its width in columns (None: no terminal, so nothing is wrapped), and its styles.

    A style is a pair: the text before, and the text after.
    """

    width: int | None = None
    style: Callable[[str], tuple[str, str]] = lambda name: PLAIN


def screen_of(out: TextIO) -> Screen:
    """Return the screen of a stream, with styles from rich (NO_COLOR, TERM)."""
    width = columns_at(out)
    if width is None:
        return Screen()
    from rich.console import Console  # slow to import
    from rich.text import Text

    console = Console(file=out)

    @functools.cache
    def style(name: str) -> tuple[str, str]:
        with console.capture() as capture:
            console.print(Text("x", style=name), end="")
        before, _, after = capture.get().partition("x")
        return before, after

    return Screen(width, style)


def columns_at(out: TextIO) -> int | None:
    """Return the width of a terminal, None if a stream is none; COLUMNS sets another."""
    if not out.isatty():
        return None
    requested = os.environ.get("COLUMNS", "")
    if requested.isdecimal() and int(requested):
        return int(requested)
    try:
        return os.get_terminal_size(out.fileno()).columns or USUAL_COLUMNS
    except OSError:
        return USUAL_COLUMNS


def print_text(text: str, out: TextIO | None = None) -> None:
    """Print a text on a stream (standard output), wrapped at a terminal."""
    out = out or sys.stdout
    print(*text_lines(text, columns_at(out)), sep="\n", file=out)


def report_text(text: str, margin: int = 0) -> str:
    """Return a text for the report of a test, wrapped if a terminal shows the report.

    ``margin``: the columns that something else fills.
    """
    return "\n".join(text_lines(text, report_width and report_width - margin))


def write_data(lines: Iterable[str], out: TextIO) -> None:
    """Write lines of data as they are; at a terminal, unprintable characters are escaped."""
    if out.isatty():
        lines = ("\n".join(map(printable, line.split("\n"))) for line in lines)
    out.writelines(lines)


def text_lines(text: str, width: int | None) -> Iterator[str]:
    """Yield the lines of a text, each wrapped with its own indent and ``INDENT`` more.

    Only line breaks are left of unprintable characters. A command is continued as a shell takes it.
    """
    for line in map(printable, text.split("\n")):
        if width is None or columns_of(line) <= width:
            yield line
        else:
            words = line.lstrip(" ")
            indent = len(line) - len(words)
            if words.startswith(COMMAND):
                whole = QUOTED.sub(lambda found: found[0].replace(" ", FIXED_SPACE), words)
                options = whole.replace(" --", "\n--").split("\n")
                lines = packed(options, width, indent, indent + INDENT, end=" \\")
                yield from (line.replace(FIXED_SPACE, " ") for line in lines)
            else:
                yield from packed(words.split(" "), width, indent, indent + INDENT)


def packed(
    units: Sequence[str], width: int, first: int, later: int, gap: int = 1, end: str = ""
) -> list[str]:
    """Return lines of units, as many as fit; units that do not fit alone are broken into words.

    ``first`` and ``later`` are the indents; a word that does not fit behind one has none. ``end``
    ends all lines but the last.
    """
    lines: list[str] = []
    blank, room = " " * gap, width - len(end)
    line, used, is_empty = " " * first, first, True
    for unit in units:
        size = len(unit) if unit.isascii() else columns_of(unit)
        if used + size + (0 if is_empty else gap) <= room:
            line += unit if is_empty else blank + unit
            used += size if is_empty else gap + size
            is_empty = False
            continue
        if not is_empty:
            lines.append(line + end)
        if later + size <= room:
            line, used = " " * later + unit, later + size
        elif " " in unit:
            *whole, line = packed(unit.split(" "), width, later, later, 1, end)
            lines += whole
            used = columns_of(line)
        else:
            line, used = unit, size
        is_empty = False
    return [*lines, line]


@functools.lru_cache(TEXTS_CACHED)
def wrapped(text: str, width: int) -> Sequence[str]:
    """Wrap a text at words, without an indent."""
    return (text,) if columns_of(text) <= width else packed(text.split(" "), width, 0, 0)


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

"""Render rows of any question as JSON, CSV or a table. Knows fields, not questions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from coterie.base import csvrows
from coterie.base.printable import printable
from coterie.base.times import format_time
from coterie.insight.fields import Fields

MISSING = "-"
MAX_NAME_LENGTH = 100  # characters of a name in a table; Kafka allows ids of 32767
HEAD, TAIL = 60, 20  # characters shown of a longer name
NAMES = frozenset(
    {"group", "group_id", "topic", "member_id", "client_id", "client_host", "group_instance_id"}
)
ENCODE = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps makes an encoder for each call
TWO_MINUTES_MS = 120_000
NUMBERS = ("int32", "int64", "double")
NAME = "name"  # the kind of a table's column of ``NAMES``
Row = dict[str, Any]


def duration(elapsed_ms: int) -> str:
    """Format a duration: in seconds below two minutes, then in minutes, hours or days."""
    if elapsed_ms < TWO_MINUTES_MS:
        return f"{elapsed_ms / 1000:.1f} s"
    for size_ms, unit in ((86_400_000, "d"), (3_600_000, "h")):
        if elapsed_ms >= 2 * size_ms:
            return f"{elapsed_ms / size_ms:.1f} {unit}"
    return f"{elapsed_ms / 60_000:.1f} min"


def json_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yield a JSON array, one row a line; unknown values are null."""
    before = "["
    for row in rows:
        yield before + "\n" + ENCODE(row)
        before = ","
    yield ("[" if before == "[" else "") + "\n]\n"


def csv_lines(fields: Fields, rows: Iterable[Row]) -> Iterator[str]:
    """Yield CSV under one heading; unknown values are empty, lists and structs are JSON."""
    line = csvrows.line_writer()
    encoded = [name for name, kind in fields.items() if kind == "bool" or not isinstance(kind, str)]
    ahead = line(fields)  # lazily: if the first row fails, nothing is printed
    for row in rows:
        yield ahead
        cells = {**row, **{name: ENCODE(row[name]) for name in encoded if row[name] is not None}}
        ahead = line([cells[name] for name in fields])
    yield ahead


class Block(NamedTuple):
    """A row of a table as lines of short texts, and a command to go on with.

    ``style`` is that of the first text.
    """

    lines: Sequence[Sequence[str]]
    style: str = "table.header"
    command: str = ""


class Table(NamedTuple):
    """A table to draw: a title, headings, the type of each column, columns of cells.

    ``blocks`` are its rows for a terminal that is too narrow; None: made from the cells. ``plain``
    are the lines of another tool's table, for all that is wide enough.
    """

    title: str | None
    headings: Sequence[str]
    kinds: Sequence[Any]
    columns: Sequence[Sequence[str]]
    blocks: Iterable[Block] | None = None
    plain: Sequence[str] | None = None


Piece = Table | str  # a unit of output for people


def table(fields: Fields, rows: Sequence[Row], title: str | None = None) -> Table:
    """Return rows as a table: headings as Kafka's tools write them, "-" for unknown values.

    Only names longer than ``MAX_NAME_LENGTH`` are cut; other cells wrap in a narrow terminal.
    """
    columns = [cells(name, [row[name] for row in rows], kind) for name, kind in fields.items()]
    kinds = [NAME if name in NAMES else kind for name, kind in fields.items()]
    return Table(title, [heading(name) for name in fields], kinds, columns)


def cells(name: str, values: Sequence[Any], kind: Any) -> list[str]:
    """Return a column as text for people; a long name is cut in the middle."""
    if not isinstance(kind, str) or kind == "double":  # 1 and 1.0 are equal
        return [cell(value, kind) for value in values]
    shown = {value: cell(value, kind) for value in set(values)}
    if name in NAMES:
        shown = {value: shortened(text) for value, text in shown.items()}
    return [shown[value] for value in values]


def shortened(name: str) -> str:
    """Return a name; if it is long, its middle is replaced by an ellipsis."""
    return name if len(name) <= MAX_NAME_LENGTH else f"{name[:HEAD]}…{name[-TAIL:]}"


def heading(name: str) -> str:
    return name.upper().replace("_", "-")


def cell(value: Any, kind: Any) -> str:
    if value is None or value == "":
        return MISSING
    if kind == "timestamp":
        return format_time(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(kind, list):
        return ", ".join(cell(element, kind[0]) for element in value) or MISSING
    if isinstance(kind, dict):
        return " ".join(cell(value[name], inner) for name, inner in kind.items())
    return printable(str(value))

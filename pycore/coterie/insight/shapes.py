"""Rows of any question as JSON, CSV and a table for people. Knows fields, not questions."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from coterie import csvrows
from coterie.insight.fields import Fields
from coterie.times import format_time

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

MISSING = "-"
LONGEST = 100  # characters of a name in a table; Kafka lets an id have 32767
HEAD, TAIL = 60, 20  # what is kept of a longer one
NAMES = frozenset(
    {"group", "group_id", "topic", "member_id", "client_id", "client_host", "group_instance_id"}
)
ROW_END = "\r\n"  # what the csv module writes; it quotes a cell with either, so a lone CR too
ENCODE = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps makes an encoder for each call
NUMBERS = ("int32", "int64", "double")
Row = dict[str, Any]


def json_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yield a JSON array, one row a line; what is not known is null."""
    before = "["
    for row in rows:
        yield before + "\n" + ENCODE(row)
        before = ","
    yield ("[" if before == "[" else "") + "\n]\n"


def csv_lines(fields: Fields, rows: Iterable[Row]) -> Iterator[str]:
    """Yield CSV under one heading; what is not known is empty, lists and structs are JSON."""
    out = io.StringIO()
    writer = csvrows.writer(out, ROW_END)
    writer.writerow(fields)
    for row in rows:
        yield taken(out)
        writer.writerow([csv_cell(row[name]) for name in fields])
    yield taken(out)


def taken(out: io.StringIO) -> str:
    """Return the row that was written, on a line of its own, and forget it."""
    text = out.getvalue().removesuffix(ROW_END) + "\n"
    out.seek(0)
    out.truncate()
    return text


def csv_cell(value: Any) -> Any:
    """Return a value as CSV has it."""
    return ENCODE(value) if isinstance(value, bool | list | dict) else value


def table(fields: Fields, rows: Iterable[Row], title: str | None = None) -> Table:
    """Return rows as a table: headings as Kafka's tools write them, "-" where nothing is known.

    Only a name of more than ``LONGEST`` characters is cut: another cell goes on in the next line
    where the terminal is narrow.
    """
    drawn = plain_table(title)
    for name, kind in fields.items():
        add_column(drawn, heading(name), kind)
    for row in rows:
        cells = (named_cell(name, row[name], kind) for name, kind in fields.items())
        drawn.add_row(*map(text, cells))
    return drawn


def named_cell(name: str, value: Any, kind: Any) -> str:
    """Return a value as people read it; of a long name its beginning and its end."""
    shown = cell(value, kind)
    return shortened(shown) if name in NAMES else shown


def shortened(name: str) -> str:
    """Return a name of which the middle is left out if it is long."""
    return name if len(name) <= LONGEST else f"{name[:HEAD]}…{name[-TAIL:]}"


def text(plain: str) -> Text:
    """Return a text as it stands: of a string rich would read the markup."""
    from rich.text import Text  # whoever draws nothing does not wait for rich

    return Text(plain)


def add_column(drawn: Table, title: str, kind: Any) -> None:
    """Add a column: numbers stand right; they and times are never broken."""
    number = kind in NUMBERS
    drawn.add_column(
        title,
        justify="right" if number else "left",
        overflow="fold",
        no_wrap=number or kind in ("timestamp", "bool"),
    )


def plain_table(title: str | None = None) -> Table:
    """Return an empty table in the style of all.

    The title is a text as it stands: a string would be read as markup, and a name like ``a[b]``
    would lose its end, and it would be broken where the table is narrower.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    above = None
    if title is not None:
        above = Text(title, style="table.title", no_wrap=True, overflow="ignore")
    return Table(title=above, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)


def heading(name: str) -> str:
    """Return a field's name as a heading."""
    return name.upper().replace("_", "-")


def cell(value: Any, kind: Any) -> str:
    """Return a value as people read it."""
    if value is None or value == "":
        return MISSING
    if kind == "timestamp":
        return format_time(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(kind, list):
        return ", ".join(cell(one, kind[0]) for one in value) or MISSING
    if isinstance(kind, dict):
        return " ".join(cell(value[name], inner) for name, inner in kind.items())
    return printable(str(value))


def printable(text: str) -> str:
    """Return text without what would move a terminal's cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)

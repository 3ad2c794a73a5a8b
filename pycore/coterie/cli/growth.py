"""``coterie growth``: which groups fill the topic, and how much compaction would free."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import click

from coterie.base.times import format_duration
from coterie.cli import question_command
from coterie.cli.params import parameter_options
from coterie.insight import tables
from coterie.insight.question_engine import Row
from coterie.insight.questions import growth

SUMMED = (
    *("records", "bytes", "tombstones", "requests", "superseded_records"),
    *("superseded_bytes", "free_bytes", "held_transaction_bytes", "held_active_bytes"),
)
NO_GROUP = "(no group)"  # markers, unknown keys, batches without records
COLUMNS = {
    "share": "string",
    "bytes": "int64",
    "records": "int64",
    "requests": "int64",
    "superseded_bytes": "int64",
    "free_bytes": "int64",
    "tombstones": "int64",
    "interval": "string",
    "too_often": "bool",
}


@click.command("growth")
@question_command.question_options()
@click.option(
    "--by",
    type=click.Choice(["group", "topic", "group-topic"]),
    default="group",
    show_default=True,
    help="What a line of the table is; data has a row for each group and topic.",
)
@click.option("--top", type=click.IntRange(min=0), default=20, show_default=True, help="0: all.")
@click.option("--too-often", is_flag=True, help="Only groups that commit too often.")
@parameter_options(growth.Parameters)
def command(
    by: str,
    top: int,
    interval_ms: int,
    too_often: bool,
    every_ms: int | None,
    options: question_command.Options,
) -> None:
    """Tell who fills the topic, what compaction would free now, and what holds it.

    A batch's bytes on disk are shared out to its records by the size of their keys and values, also
    where it is compressed. REQUESTS are batches: a commit of any number of partitions is one.
    """
    if every_ms == 0:
        raise click.BadParameter("give a length above 0", param_hint="'--every'")
    ask = growth.Parameters(interval_ms, every_ms)
    parts = question_command.parts_of(growth.NAME, ask, options)
    rows = (row for part in parts for row in part.rows if row["too_often"] or not too_often)

    def draw(rows: list[Row]) -> Iterable[tables.Piece]:
        if too_often and not rows:
            return [f"no group commits a partition more than every {format_duration(interval_ms)}"]
        if every_ms is not None:
            return draw_over_time(rows)
        return draw_totals(rows, by.split("-"), top)

    question_command.show(growth.FIELDS, rows, options, draw=draw)


def draw_totals(rows: list[Row], by: list[str], top: int) -> Iterator[tables.Piece]:
    """Yield the totals, a table of the biggest groups or topics, and the open transactions."""
    whole = {name: sum(row[name] for row in rows) for name in SUMMED}
    yield "\n".join(summary(whole))
    lines = [line_of(by, key, key_rows, whole) for key, key_rows in gathered(rows, by).items()]
    lines.sort(key=lambda line: -line["bytes"])
    shown = lines[:top] if top else lines
    title = f"by {' and '.join(by)}"
    if len(shown) < len(lines):
        title += f": the biggest {len(shown)} of {len(lines)} (--top 0 shows all)"
    yield tables.table(dict.fromkeys(by, "string") | COLUMNS, shown, title)
    opened = [
        {"group": row["group_id"], "topic": row["topic"], **transaction}
        for row in rows
        for transaction in row["open_transactions"]
    ]
    if opened:
        own_fields: Any = growth.FIELDS["open_transactions"][0]
        fields: dict[str, Any] = {"group": "string", "topic": "string", **own_fields}
        yield tables.table(fields, opened, "open transactions: nothing after them is compacted")


def summary(whole: Row) -> Iterator[str]:
    """Yield the lines of totals."""
    size = whole["bytes"]
    yield (
        f"{size:,} bytes, {whole['records']:,} records in {whole['requests']:,} batches, "
        f"{whole['tombstones']:,} tombstones"
    )
    yield (
        f"superseded: {whole['superseded_records']:,} records, {whole['superseded_bytes']:,} bytes "
        f"({percent(whole['superseded_bytes'], size)})"
    )
    yield (
        f"  compaction would free {whole['free_bytes']:,} bytes now; open transactions hold "
        f"{whole['held_transaction_bytes']:,}, active segments {whole['held_active_bytes']:,}"
    )


def gathered(rows: Iterable[Row], by: list[str]) -> dict[tuple[str, ...], list[Row]]:
    """Return the rows of each line of the table."""
    lines: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        group = NO_GROUP if row["group_id"] is None else row["group_id"]
        topic = f"({row['kind']})" if row["topic"] is None else row["topic"]
        names = {"group": group, "topic": topic}
        lines.setdefault(tuple(names[name] for name in by), []).append(row)
    return lines


def line_of(by: list[str], key: tuple[str, ...], rows: list[Row], whole: Row) -> Row:
    line: Row = dict(zip(by, key, strict=True))
    line |= {name: sum(row[name] for row in rows) for name in SUMMED}
    often = [row["interval_ms"] for row in rows if row["interval_ms"] is not None]
    return line | {
        "share": percent(line["bytes"], whole["bytes"]),
        "interval": f"{min(often) / 1000:.3f} s" if often else None,
        "too_often": any(row["too_often"] for row in rows),
    }


def draw_over_time(rows: list[Row]) -> Iterator[tables.Piece]:
    """Yield a table with a line per span of time, and the group with most commits in it."""
    fields = {"time": "timestamp", "requests": "int64", "records": "int64", "bytes": "int64"}
    fields |= {"busiest_group": "string", "its_requests": "int64"}
    spans: dict[int, list[Row]] = {}
    for row in rows:
        if row["time"] is not None:
            spans.setdefault(row["time"], []).append(row)
    lines = []
    for time, span_rows in sorted(spans.items()):
        line = {
            name: sum(row[name] for row in span_rows) for name in ("records", "bytes", "requests")
        }
        by_group = {
            group: sum(row["requests"] for row in group_rows)
            for (group,), group_rows in gathered(span_rows, ["group"]).items()
        }
        busiest = max(by_group, key=lambda group: by_group[group])
        lines.append(
            {"time": time, **line, "busiest_group": busiest, "its_requests": by_group[busiest]}
        )
    yield tables.table(fields, lines)


def percent(part: int, whole: int) -> str:
    """Format a share in percent."""
    return f"{100 * part / whole:.1f} %" if whole else "-"

"""``coterie expire``: which offsets have expired or expire next, when, and by which rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import click

from coterie.base.times import format_duration, format_time
from coterie.cli import question_command
from coterie.cli.failures import say
from coterie.cli.newest import Newest
from coterie.cli.params import DURATION, TIME
from coterie.insight import tables
from coterie.insight.question_engine import Row
from coterie.insight.questions import expire

DEFAULT = format_duration(expire.DEFAULT_RETENTION_MS)
GONE = "gone"  # instead of a state: the log has the group, the coordinator no longer
OFFSET_FIELDS = (
    *("topic", "partition", "offset", "commit_timestamp", "status", "rule"),
    *("expires_at", "removed_at"),
)
GROUP_FIELDS = {
    "group": "string",
    "state": "string",
    "idle_since": "timestamp",
    "offsets": "int64",  # not removed
    **dict.fromkeys((expire.REMOVED, expire.EXPIRED, expire.DUE, expire.KEPT), "int64"),
    "next_at": "timestamp",
    "next_in": "string",
    "rules": "string",
}


@click.command("expire")
@question_command.question_options()
@click.option(
    "--now", "now_ms", type=TIME, help="Judge as of TIME; by default the log's newest record's."
)
@click.option(
    "--retention",
    "retention_ms",
    type=DURATION,
    help=f"The broker's offsets.retention.minutes, as 7d or 36h.  [default: {DEFAULT}, Kafka's]",
)
@click.option(
    "--what-if",
    "what_if_ms",
    type=DURATION,
    multiple=True,
    help="Also show what would be gone with this retention; repeatable.",
)
@click.option(
    "--within",
    "within_ms",
    type=DURATION,
    help="Only what is overdue or expires within DURATION.",
)
@click.option("--status", multiple=True, type=click.Choice(expire.STATUSES), help="Only these.")
@click.option("--idle", is_flag=True, help="Only groups without members.")
@click.option("--offsets", "by_offset", is_flag=True, help="In the table, a line for each offset.")
def command(
    now_ms: int | None,
    retention_ms: int | None,
    what_if_ms: tuple[int, ...],
    within_ms: int | None,
    status: tuple[str, ...],
    idle: bool,
    by_offset: bool,
    options: question_command.Options,
) -> None:
    """Tell which committed offsets are gone or go next, when, and by which of Kafka's rules.

    Also which groups are idle, and since when. The table has a line a group, data a row an offset.
    """
    question_command.check(options)
    notes = []
    if now_ms is None and options.until_ms is not None:
        now_ms = options.until_ms
    if retention_ms is None:
        retention_ms = expire.Parameters.retention_ms
        notes.append(f"retention is {DEFAULT}, Kafka's default; --retention sets the broker's")
    ask = expire.Parameters(now_ms, retention_ms, what_if_ms)
    newest = Newest("--now") if now_ms is None else None
    states: dict[str, str] = {}  # of all live groups, also those without a shown row

    def matches(row: Row) -> bool:
        if row["status"] != expire.REMOVED:
            states[row["group_id"]] = row["state"]
        if within_ms is not None and not goes_within(row, within_ms):
            return False
        return (not status or row["status"] in status) and (not idle or is_idle(row))

    parts = question_command.parts_of(expire.NAME, ask, options, newest=newest)
    rows = (row for part in parts for row in part.rows if matches(row))

    def draw(rows: list[Row]) -> Iterable[tables.Piece]:
        known = ask if newest is None else replace(ask, now_ms=newest.ms)
        return (draw_offsets if by_offset else draw_groups)(rows, known, states)

    question_command.show(expire.FIELDS, rows, options, draw=draw)
    if newest is not None:
        newest_at = format_time(newest.ms)
        say(f"coterie: now is {newest_at}, the log's newest record; --now sets another")
    for note in notes:
        say(f"coterie: {note}")


def is_idle(row: Row) -> bool:
    """Return whether the group exists without members."""
    if row["status"] == expire.REMOVED:
        return row["idle_since"] is not None  # None: the group is gone
    return bool(row["state"] == "Empty")


def goes_within(row: Row, within_ms: int) -> bool:
    """Return whether an existing offset expires within ``within_ms``."""
    if row["status"] == expire.REMOVED:
        return False
    if row["rule"] == "no_offsets":
        return True
    return row["remaining_ms"] is not None and row["remaining_ms"] <= within_ms


def by_group(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows of each group; groups keep their order."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["group_id"], []).append(row)
    return groups


def draw_groups(
    rows: list[Row], ask: expire.Parameters, states: dict[str, str]
) -> Iterator[tables.Piece]:
    """Yield a table with a line per group; the groups that lose offsets first come first."""
    what_if_fields = {f"gone_at_{format_duration(ms)}": "int64" for ms in ask.what_if_ms}
    lines = [
        {"state": states.get(group, GONE), **group_line(group, group_rows, ask)}
        for group, group_rows in by_group(rows).items()
    ]
    assert ask.now_ms is not None  # the caller has set it
    lines.sort(key=lambda line: (line["next_at"] is None, line["next_at"] or 0))
    title = (
        f"{plural(len(lines), 'group')} at {format_time(ask.now_ms)}, "
        f"retention {format_duration(ask.retention_ms)}"
    )
    yield tables.table({**GROUP_FIELDS, **what_if_fields}, lines, title)


def group_line(group: str, rows: list[Row], ask: expire.Parameters) -> Row:
    """Return the line of a group: its offsets by status, and the next expiry."""
    counts = Counter(row["status"] for row in rows if row["topic"] is not None)
    standing = [row for row in rows if row["status"] != expire.REMOVED]
    head, *_ = rows  # of one group, so all have one state
    times = [row["expires_at"] for row in standing if row["expires_at"] is not None]
    next_at = min(times, default=None)
    assert ask.now_ms is not None  # the caller has set it
    line = {
        "group": group,
        "idle_since": head["idle_since"],
        "offsets": sum(counts[status] for status in expire.STATUSES) - counts[expire.REMOVED],
        **{status: counts[status] for status in expire.STATUSES},
        "next_at": next_at,
        "next_in": None if next_at is None else format_duration(next_at - ask.now_ms),
        "rules": ", ".join(sorted({row["rule"] for row in rows})),
    }
    for index, ms in enumerate(ask.what_if_ms):
        line[f"gone_at_{format_duration(ms)}"] = sum(
            row["what_if"][index]["expired"] for row in standing if row["what_if"]
        )
    return line


def draw_offsets(
    rows: list[Row], ask: expire.Parameters, states: dict[str, str]
) -> Iterator[tables.Piece]:
    """Yield a table per group, with a line per offset."""
    fields: dict[str, Any] = {name: expire.FIELDS[name] for name in OFFSET_FIELDS}
    fields |= {"in": "string"}
    fields |= {f"at_{format_duration(ms)}": "timestamp" for ms in ask.what_if_ms}
    for group, group_rows in by_group(rows).items():
        lines = []
        for row in group_rows:
            left = row["remaining_ms"]
            line = {**row, "in": None if left is None else format_duration(left)}
            for index, ms in enumerate(ask.what_if_ms):
                expires_at = row["what_if"][index]["expires_at"] if row["what_if"] else None
                line[f"at_{format_duration(ms)}"] = expires_at
            lines.append(line)
        head, *_ = group_rows
        idle = head["idle_since"]
        since = "" if idle is None else f", idle since {format_time(idle)}"
        state = states.get(group, GONE)
        yield tables.table(fields, lines, f"group {group}: {state}{since}")


def plural(count: int, what: str) -> str:
    """Return a count with its noun."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"

"""``coterie expire``: which offsets are gone or go next, when, and by which rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import click

from coterie.cli import asking
from coterie.cli.failures import say
from coterie.cli.newest import Newest
from coterie.cli.params import DURATION, TIME
from coterie.insight.asking import Row
from coterie.insight.questions import expire
from coterie.insight.render import tables
from coterie.times import format_duration, format_time

DEFAULT = "7d"
GONE = "gone"  # instead of a state: the log knows the group, the coordinator no longer does
OFFSET_FIELDS = (
    *("topic", "partition", "offset", "commit_timestamp", "status", "rule"),
    *("expires_at", "removed_at"),
)
GROUP_FIELDS = {
    "group": "string",
    "state": "string",
    "idle_since": "timestamp",
    "offsets": "int64",  # that are there
    **dict.fromkeys((expire.REMOVED, expire.EXPIRED, expire.DUE, expire.KEPT), "int64"),
    "next_at": "timestamp",
    "next_in": "string",
    "rules": "string",
}


@click.command("expire")
@asking.question_options()
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
    options: asking.Options,
) -> None:
    """Tell which committed offsets are gone or go next, when, and by which of Kafka's rules.

    Also which groups are idle, and since when. The table has a line a group, data a row an offset.
    """
    asking.check(options)
    notes = []
    if now_ms is None and options.until_ms is not None:
        now_ms = options.until_ms
    if retention_ms is None:
        retention_ms = expire.Parameters.retention_ms
        notes.append(f"retention is {DEFAULT}, Kafka's default; --retention sets the broker's")
    ask = expire.Parameters(now_ms, retention_ms, what_if_ms)
    newest = Newest("--now") if now_ms is None else None
    states: dict[str, str] = {}  # of the groups that are there, whichever of their rows are shown

    def wanted(row: Row) -> bool:
        if row["status"] != expire.REMOVED:
            states[row["group_id"]] = row["state"]
        if within_ms is not None and not goes_within(row, within_ms):
            return False
        return (not status or row["status"] in status) and (not idle or is_idle(row))

    parts = asking.parts_of(expire.NAME, ask, options, newest=newest)
    rows = (row for part in parts for row in part.rows if wanted(row))

    def draw(rows: list[Row]) -> Iterable[tables.Piece]:
        known = ask if newest is None else replace(ask, now_ms=newest.ms)
        return (draw_offsets if by_offset else draw_groups)(rows, known, states)

    asking.show(expire.FIELDS, rows, options, draw=draw)
    if newest is not None:
        newest_at = format_time(newest.ms)
        say(f"coterie: now is {newest_at}, the log's newest record; --now sets another")
    for note in notes:
        say(f"coterie: {note}")


def is_idle(row: Row) -> bool:
    """Whether the group is there, and has no members."""
    if row["status"] == expire.REMOVED:
        return row["idle_since"] is not None  # of a group that is gone, nothing is known
    return bool(row["state"] == "Empty")


def goes_within(row: Row, within_ms: int) -> bool:
    """Whether it is there, and goes so soon."""
    if row["status"] == expire.REMOVED:
        return False
    if row["rule"] == "no_offsets":
        return True
    return row["remaining_ms"] is not None and row["remaining_ms"] <= within_ms


def by_group(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows of each group, groups in their order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["group_id"], []).append(row)
    return found


def draw_groups(
    rows: list[Row], ask: expire.Parameters, states: dict[str, str]
) -> Iterator[tables.Piece]:
    """Yield a table of a line a group, those that lose offsets first."""
    kept = {f"gone_at_{format_duration(ms)}": "int64" for ms in ask.what_if_ms}
    lines = [
        {"state": states.get(group, GONE), **group_line(group, theirs, ask)}
        for group, theirs in by_group(rows).items()
    ]
    assert ask.now_ms is not None  # it is known by now
    lines.sort(key=lambda line: (line["next_at"] is None, line["next_at"] or 0))
    title = (
        f"{plural(len(lines), 'group')} at {format_time(ask.now_ms)}, "
        f"retention {format_duration(ask.retention_ms)}"
    )
    yield tables.table({**GROUP_FIELDS, **kept}, lines, title)


def group_line(group: str, rows: list[Row], ask: expire.Parameters) -> Row:
    """Return what a group's offsets come to."""
    counts = Counter(row["status"] for row in rows if row["topic"] is not None)
    standing = [row for row in rows if row["status"] != expire.REMOVED]
    head = (standing or rows)[0]
    times = [row["expires_at"] for row in standing if row["expires_at"] is not None]
    next_at = min(times, default=None)
    assert ask.now_ms is not None  # it is known by now
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
    """Yield a table for each group: its offsets one by one."""
    fields: dict[str, Any] = {name: expire.FIELDS[name] for name in OFFSET_FIELDS}
    fields |= {"in": "string"}
    fields |= {f"at_{format_duration(ms)}": "timestamp" for ms in ask.what_if_ms}
    for group, theirs in by_group(rows).items():
        lines = []
        for row in theirs:
            left = row["remaining_ms"]
            line = {**row, "in": None if left is None else format_duration(left)}
            for index, ms in enumerate(ask.what_if_ms):
                told = row["what_if"][index]["expires_at"] if row["what_if"] else None
                line[f"at_{format_duration(ms)}"] = told
            lines.append(line)
        idle = theirs[0]["idle_since"]
        since = "" if idle is None else f", idle since {format_time(idle)}"
        state = states.get(group, GONE)
        yield tables.table(fields, lines, f"group {tables.printable(group)}: {state}{since}")


def plural(count: int, what: str) -> str:
    """Return a number of things."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"

"""``coterie explain``: a group's life as a timeline, each generation with its cause."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from coterie.cli import asking
from coterie.cli.brokerlogs import (
    flap_options,
    read_logs,
    request_log_options,
    server_log_option,
)
from coterie.cli.params import at_option
from coterie.insight import explain, shapes
from coterie.insight.asking import Row
from coterie.insight.causes import counted
from coterie.insight.words import cause_of, summed, waited

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN = {
    "timestamp": "timestamp",
    "generation": "int32",
    "member_count": "int32",
    "event": "string",
    "cause": "string",
    "duration": "int64",  # drawn as one
}
HEADINGS = ("TIME", "GEN", "MEMBERS", "EVENT", "CAUSE", "NO ASSIGNMENT")
SUMS = ("flapping", "client", "summary")


@click.command("explain")
@asking.question_options()
@at_option
@server_log_option
@request_log_options
@flap_options
def command(
    at_ms: int | None,
    server_logs: tuple[str, ...],
    request_logs: tuple[str, ...],
    log_zone: str,
    flap_count: int,
    flap_window_ms: int,
    options: asking.Options,
) -> None:
    """Show the life of groups: who joined, left or changed what, and what was committed between.

    A record names members, not reasons: "left or was evicted" is all that the log tells of one
    that is gone. A broker's own logs tell more, where they are given. NO ASSIGNMENT is how long
    the rebalance took; without a server log it is known at most (<), where the group's record
    before it is next to this one.
    """
    told = read_logs(server_logs, request_logs, log_zone)
    ask = explain.Ask(flap_count, flap_window_ms, told)
    if not asking.put(explain.NAME, ask, options, at_ms=at_ms, draw=draw):
        asking.say_no_group(at_ms)


def draw(rows: list[Row]) -> Iterator[RenderableType]:
    """Yield a table and what sums it up for each group."""
    by_group: dict[str, list[Row]] = {}
    for row in rows:
        by_group.setdefault(row["group_id"], []).append(row)
    for group, theirs in by_group.items():
        yield table_of(group, [row for row in theirs if row["event"] not in SUMS])
        yield shapes.text("\n".join(sum_lines(theirs)) + "\n")


def table_of(group: str, rows: list[Row]) -> RenderableType:
    """Return the timeline of a group."""
    table = shapes.plain_table(f"group {shapes.shortened(shapes.printable(group))}")
    for heading, kind in zip(HEADINGS, SHOWN.values(), strict=True):
        shapes.add_column(table, heading, kind)
    for row in rows:
        cells = {**row, "cause": cause_of(row), "duration": waited(row)}
        table.add_row(
            *(shapes.text(shapes.cell(cells[name], kind)) for name, kind in SHOWN.items())
        )
    return table


def sum_lines(rows: list[Row]) -> Iterator[str]:
    """Yield what sums up a group: the whole, who flaps, who causes rebalances."""
    for row in rows:
        if row["event"] == "summary":
            yield shapes.printable(summed(row))
    for row in rows:
        if row["event"] in SUMS[:2]:
            count = f" ({counted(row['count'], 'rebalance')})" if row["event"] == "client" else ""
            yield f"  {shapes.printable(row['cause'])}{count}"

"""``coterie lag``: how far groups were behind, where and when the end offsets are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from coterie.cli import asking
from coterie.cli.failures import say
from coterie.cli.params import TIME
from coterie.insight import lag, shapes
from coterie.insight.asking import Row
from coterie.insight.endoffsets import read_end_offsets
from coterie.times import format_duration

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN = ("group_id", "topic", "partition", "time", "offset", "end_offset", "lag", "status")


@click.command("lag")
@asking.question_options()
@click.option(
    "--end-offsets",
    "file",
    metavar="FILE",
    required=True,
    help="topic:partition:offset lines, as kafka-get-offsets prints, or CSV: time,topic,"
    "partition,offset.",
)
@click.option(
    "--at",
    "at_ms",
    type=TIME,
    help="The time of end offsets that have none; by default the end of the log.",
)
@click.option("--latest", is_flag=True, help="Only the last sample of each partition.")
def command(file: str, at_ms: int | None, latest: bool, options: asking.Options) -> None:
    """Give the lag of each partition at each time whose end offset is known, and at no other.

    A lag that is not known is not made up: STATUS says why. A commit beyond the end offset gives
    no lag at all, neither a negative one nor 0: its status is ahead. BEHIND is how long ago the
    first unread record was written: between two samples, so it has two ends.
    """
    asking.check(options)
    ends = read_end_offsets(file)
    if at_ms is not None and ends.timed:
        raise click.UsageError("--at is for end offsets without a time; FILE has times")
    counts: Counter[str] = Counter()

    def counted(rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            counts[row["status"]] += 1
            yield row

    parts = asking.parts_of(lag.NAME, lag.Ask(ends, at_ms, latest), options)
    rows = counted(row for part in parts for row in part.rows)
    asking.show(lag.FIELDS, rows, options, draw=draw)
    unknown = {status: counts[status] for status in lag.STATUSES if status != lag.OK}
    if any(unknown.values()):
        why = ", ".join(f"{count} {status}" for status, count in unknown.items() if count)
        say(f"coterie: {sum(unknown.values())} of {counts.total()} lags are not known: {why}")


def draw(rows: list[Row]) -> Iterator[RenderableType]:
    """Yield the table."""
    fields = {name: lag.FIELDS[name] for name in SHOWN} | {"behind": "string"}
    yield shapes.table(fields, [{**row, "behind": behind(row)} for row in rows])


def behind(row: Row) -> str | None:
    """Return within what the age of the first unread record lies."""
    least, most = row["lag_ms_min"], row["lag_ms_max"]
    if least is None:
        return None
    if least == most:
        return format_duration(least)
    return f"{format_duration(least)} to {'?' if most is None else format_duration(most)}"

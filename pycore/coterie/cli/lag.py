"""``coterie lag``: the lag of groups, at the times with known end offsets."""

from __future__ import annotations

from collections.abc import Iterator

import click

from coterie.base.times import format_duration
from coterie.cli import question_command
from coterie.cli.group_names import chosen_groups
from coterie.cli.lag_notes import LostRecords, Statuses, say_untimed
from coterie.cli.newest import Newest, log_until
from coterie.cli.params import TIME, log_until_option
from coterie.insight import tables
from coterie.insight.offsets.end_offsets import read_end_offsets
from coterie.insight.question_engine import Row
from coterie.insight.questions import lag

SHOWN = ("group_id", "topic", "partition", "time", "offset", "end_offset", "lag", "status")


@click.command("lag")
@question_command.question_options()
@click.option(
    "--end-offsets",
    "file",
    metavar="FILE",
    help="topic:partition:offset lines, as kafka-get-offsets prints, or CSV: time,topic,"
    "partition,offset. With --bootstrap-server, by default the end offsets of now.",
)
@click.option(
    "--at",
    "at_ms",
    type=TIME,
    help="The time of end offsets that have none; by default the end of the log.",
)
@log_until_option
@click.option("--latest", is_flag=True, help="Only the last sample of each partition.")
@click.option(
    "--totals", "totalled", is_flag=True, help="One row a group and time, over its partitions."
)
def command(
    file: str | None,
    at_ms: int | None,
    log_until_ms: int | None,
    latest: bool,
    totalled: bool,
    options: question_command.Options,
) -> None:
    """Give the lag of each partition at each time whose end offset is known, and at no other.

    A lag that is not known is not made up: STATUS says why. A commit beyond the end offset gives
    no lag at all, neither a negative one nor 0: its status is ahead. BEHIND is how long ago the
    first unread record was written: between two samples, so it has two ends. A sample that is later
    than the log has the status beyond_log, and an upper bound of the lag.
    """
    question_command.check(options)
    if file is None:
        file = sampled_now(at_ms, options)
    options.files.append(file)
    ends = read_end_offsets(file)
    if at_ms is not None and ends.timed:
        raise click.UsageError("--at is for end offsets without a time; FILE has times")
    newest = Newest("--log-until")
    if ends.timed or question_command.until(options, at_ms) is not None or log_until_ms is not None:
        log_until_ms = log_until(options.logs.listing, options.where, log_until_ms, at_ms)
        newest.ms = log_until_ms
    statuses = Statuses("status")
    ask = lag.Parameters(ends, at_ms, latest, log_until_ms)
    parts = question_command.parts_of(lag.NAME, ask, options, newest=newest)
    lost = LostRecords(ends)
    rows = statuses.of(lost.of(row for part in parts for row in part.rows))
    if totalled:
        question_command.show(lag.TOTALS, lag.totals(rows), options)
    else:
        question_command.show(lag.FIELDS, rows, options, draw=draw)
    say_untimed(ends, question_command.until(options, at_ms), newest.ms)
    statuses.say_unknown()
    lost.say_lost()


def sampled_now(at_ms: int | None, options: question_command.Options) -> str:
    """Sample the end offsets of a cluster, beside its copy; return the file."""
    if options.logs.servers is None:
        raise click.UsageError("Missing option '--end-offsets'.")
    if at_ms is not None:
        raise click.UsageError("--at needs --end-offsets: a cluster has only those of now")
    from coterie.cli.live_state import sampled  # with asyncio, which takes long to import

    listing = options.logs.listing
    return sampled(options, chosen_groups(options.groups, listing, options.where, options.excluded))


def draw(rows: list[Row]) -> Iterator[tables.Piece]:
    """Yield the table of lags, and a table with a line per group."""
    fields = {name: lag.FIELDS[name] for name in SHOWN} | {"behind": "string"}
    drawn = [{**row, "lag": lag_text(row), "behind": behind(row)} for row in rows]
    yield tables.table(question_command.with_trust(fields, rows), drawn)
    yield tables.table(lag.TOTALS, latest_totals(rows), "lag of each group, as of its last sample")


def latest_totals(rows: list[Row]) -> list[Row]:
    """Return a row per group: the sum of its lags, at the last sample of each partition."""
    last = {(row["group_id"], row["topic"], row["partition"]): row for row in rows}
    newest: dict[str, int | None] = {}
    for row in last.values():
        known = [ms for ms in (newest.get(row["group_id"]), row["time"]) if ms is not None]
        newest[row["group_id"]] = max(known, default=None)
    return list(lag.totals(last.values(), lambda row: newest[row["group_id"]]))


def lag_text(row: Row) -> str | None:
    """Format the lag; of an unknown lag, the upper bound if there is one."""
    if row["lag"] is not None:
        return str(row["lag"])
    return None if row["lag_max"] is None else f"<= {row['lag_max']}"


def behind(row: Row) -> str | None:
    """Format the range of the first unread record's age."""
    least, most = row["lag_ms_min"], row["lag_ms_max"]
    if least is None:
        return None
    if least == most:
        return format_duration(least)
    return f"{format_duration(least)} to {'?' if most is None else format_duration(most)}"

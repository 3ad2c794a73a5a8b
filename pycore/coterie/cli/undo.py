"""``coterie undo``: the offsets that a group had, as the file that puts it back there."""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from coterie.cli import asking
from coterie.cli.failures import Failed, say
from coterie.cli.params import TIME
from coterie.insight import shapes, undo
from coterie.insight.asking import Row
from coterie.times import format_time

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN = ("topic", "partition", "change", "offset", "latest_offset", "difference")
TIMES = ("commit_timestamp", "latest_commit_timestamp")
RESET = "reset"


@click.command("undo")
@asking.question_options(first=RESET)
@click.option("--all-groups", is_flag=True, help="Every group that has or had offsets.")
@click.option("--at", "at_ms", type=TIME, required=True, help="Go back to TIME.")
@click.option(
    "--against-latest",
    is_flag=True,
    help="Only compare: print what differs from the latest; exit 1 if anything does.",
)
@click.option(
    "--without-deleted",
    is_flag=True,
    help="Leave out partitions for which the group has no offset now, as of a deleted topic.",
)
def command(
    at_ms: int,
    all_groups: bool,
    against_latest: bool,
    without_deleted: bool,
    options: asking.Options,
) -> None:
    """Give the committed offsets that a group had at TIME, to reset it to.

    Standard output, or FILE, is what `kafka-consumer-groups --reset-offsets --from-file` takes:
    topic,partition,offset for one --group, group,topic,partition,offset for more. What it would
    change stands beside it on standard error. With another --format: that comparison as data.
    """
    if bool(options.groups) == all_groups:
        raise click.UsageError("give either --group or --all-groups")
    parts = asking.parts_of(undo.NAME, undo.Ask(at_ms), options)
    rows = [row for part in parts for row in part.rows]
    if without_deleted:
        rows = [row for row in rows if row["change"] != undo.DELETED]
    if against_latest:
        rows = [row for row in rows if row["change"] != undo.SAME]
    if options.form == RESET and not against_latest:
        write_reset(rows, at_ms, options)
    else:
        shown = replace(options, form="table") if options.form == RESET else options
        asking.show(undo.FIELDS, rows, shown, draw=draw)
    for line in warnings(rows, at_ms):
        say(f"coterie: {line}")
    if against_latest and rows:
        raise click.exceptions.Exit(1)


def write_reset(rows: list[Row], at_ms: int, options: asking.Options) -> None:
    """Write the file, and say on standard error what it would change."""
    planned = [row for row in rows if row["offset"] is not None]
    if not planned:
        raise Failed(f"no offset was committed at {format_time(at_ms)}: nothing to go back to")
    one = len(set(options.groups)) == 1
    with asking.text_out(options.logs.listing, options.out, options.overwrite) as out:
        out.writelines(reset_lines(planned, with_group=not one))
    asking.show_table(draw(rows), sys.stderr)


def reset_lines(rows: Iterable[Row], *, with_group: bool) -> Iterator[str]:
    """Yield the lines of a file for ``--from-file``: no heading, a line a partition."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator=shapes.ROW_END)
    for row in rows:
        group = [row["group_id"]] if with_group else []
        writer.writerow([*group, row["topic"], row["partition"], row["offset"]])
        yield shapes.taken(out)


def draw(rows: list[Row]) -> Iterator[RenderableType]:
    """Yield a table for each group: what would change."""
    fields = {name: undo.FIELDS[name] for name in (*SHOWN, *TIMES)}
    by_group: dict[str, list[Row]] = {}
    for row in rows:
        by_group.setdefault(row["group_id"], []).append(row)
    for group, theirs in by_group.items():
        counts = Counter(row["change"] for row in theirs)
        told = ", ".join(f"{counts[change]} {change}" for change in undo.CHANGES if counts[change])
        yield shapes.table(fields, theirs, f"group {shapes.printable(group)}: {told}")


def warnings(rows: list[Row], at_ms: int) -> Iterator[str]:
    """Yield what to beware of before the file is given to Kafka's tool."""
    by_group: dict[str, list[Row]] = {}
    for row in rows:
        by_group.setdefault(row["group_id"], []).append(row)
    for group, theirs in by_group.items():
        state, since = theirs[0]["state"], theirs[0]["trusted_from"]
        if since is not None and at_ms < since:
            yield (
                f"group {group!r}: its log was compacted; before {format_time(since)} it may lack "
                "offsets that were current then"
            )
        if state not in (None, "Empty"):
            yield (
                f"group {group!r} is {state}: Kafka's tool refuses a group with members; "
                "stop them first"
            )
        counts = Counter(row["change"] for row in theirs)
        if counts[undo.NEW]:
            yield (
                f"group {group!r}: {partitions(counts[undo.NEW])} without an offset then; a reset "
                "leaves the present one (kafka-consumer-groups --delete-offsets removes it)"
            )
        if counts[undo.DELETED]:
            yield (
                f"group {group!r}: {partitions(counts[undo.DELETED])} without an offset now; where "
                "the topic is gone Kafka's tool fails (--without-deleted leaves them out)"
            )
        open_count = sum(row["pending"] for row in theirs)
        if open_count:
            yield (
                f"group {group!r}: {partitions(open_count)} with an offset in an open transaction, "
                "which may still be committed over a reset"
            )


def partitions(count: int) -> str:
    """Return a number of partitions."""
    return f"{count} partition" if count == 1 else f"{count} partitions"

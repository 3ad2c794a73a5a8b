"""``coterie compare``: the copies of a log that several brokers have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from coterie.base.atomic_file import check_file
from coterie.base.printable import printable
from coterie.base.terminal import write_data
from coterie.cli.failures import say, say_faults
from coterie.cli.logs import Logs, say_left_alone
from coterie.cli.output_file import text_of, whole_file
from coterie.cli.progress import TerminalProgress
from coterie.cli.tables import show_tables
from coterie.insight import tables
from coterie.insight.records.comparison import (
    BEHIND,
    BEST,
    DIVERGED,
    EPOCH_FIELDS,
    FIELDS,
    MISSING,
    OTHER_TOPIC,
    SAME,
    compare,
)
from coterie.insight.records.copy_tails import GROUP_FIELDS
from coterie.log.topic_id import CREATED_AGAIN
from coterie.log.trust import named
from coterie.state.redpanda import REDPANDA, begins_as_redpandas

Row = dict[str, Any]
SHOWN = (
    *("offsets_partition", "copy", "status", "start_offset", "end_offset", "last_epoch"),
    *("common_until", "commits_only_here", "commits_lacking"),
)
WORSE_LAST = (SAME, MISSING, BEHIND, OTHER_TOPIC, DIVERGED)


@click.command("compare")
@click.argument("copies", metavar="COPY COPY...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--take",
    type=click.Choice(["best"]),
    help="Print only the folder of the most complete copy of each partition, a line each.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="For people, or as data (times in epoch ms).",
)
@click.option("-o", "--out", metavar="FILE", help="Write to FILE, complete or not at all.")
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists.")
def command(
    copies: tuple[str, ...], take: str | None, form: str, out: str | None, overwrite: bool
) -> None:
    """Compare the copies of a log from several brokers; exit 1 if any has diverged.

    Or if one is of another topic: of the offsets topic before it was deleted and created again.
    Each COPY is a LOG: the folder of one broker. The best copy of a partition has the highest
    leader epoch, and of those the highest end offset: the history that the brokers retain. Every
    other copy is compared with it. --take best prints folders that other commands take:
    coterie explain $(coterie compare a b --take best).
    """
    if len(set(copies)) < max(len(copies), 2):
        raise click.UsageError("give two copies or more, each once")
    if take is not None and form != "table":
        raise click.UsageError("--take prints folders; leave out --format")
    if overwrite and out is None:
        raise click.UsageError("--overwrite is for --out FILE")
    logs = {path: Logs((path,)) for path in copies}
    listings = {path: log.listing for path, log in logs.items()}
    inputs = [path for log in logs.values() for path in log.inputs]
    if out is not None:  # before any work
        check_file(out, overwrite=overwrite, inputs=inputs)
    rows: list[Row] = []
    with TerminalProgress() as progress:
        for partition_rows in compare(listings, progress):
            rows += partition_rows
    target = (
        nullcontext(None) if out is None else whole_file(out, overwrite=overwrite, inputs=inputs)
    )
    with target as path:
        write(rows, take, form, path)
    for listing in listings.values():
        say_left_alone(listing)
    say_faults(sum(row["faults"] for row in rows))
    say_none_whole(rows)
    if any(begins_as_redpandas(listing.partitions().values()) for listing in listings.values()):
        say(f"coterie: {REDPANDA}")
    say_other_topics(rows)
    if take is None and any(row["status"] in (DIVERGED, OTHER_TOPIC) for row in rows):
        raise click.exceptions.Exit(1)


def say_none_whole(rows: list[Row]) -> None:
    """Print the partitions whose best copy has corrupt places, too."""
    damaged = [row for row in rows if row["status"] == BEST and row["faults"]]
    if damaged:
        first, more = damaged[0], f" and {len(damaged) - 1:,} more" if damaged[1:] else ""
        say(
            f"coterie: no copy of {named(first['offsets_partition'])}{more} is whole: the best, of "
            f"{first['copy']}, has corrupt places, and another copy may have their records; "
            "`coterie verify COPY` shows those of each"
        )


def say_other_topics(rows: list[Row]) -> None:
    """Print which copies are of a topic that was deleted."""
    others = [row for row in rows if row["status"] == OTHER_TOPIC]
    if others:
        copies, old = (sorted({row[name] for row in others}) for name in ("copy", "topic_id"))
        new = sorted({row["topic_id"] for row in rows} - {*old, None})
        say(
            f"coterie: copies of {len(old) + len(new)} topics: {CREATED_AGAIN}; the newest records "
            f"are of the one with the id {', '.join(new)}. What {', '.join(copies)} has of "
            f"{', '.join(old)} is not compared, and not the best"
        )


def write(rows: list[Row], take: str | None, form: str, path: Path | None) -> None:
    """Write the rows, or the folders of the best copies."""
    with text_of(path) as file:
        if take is not None:
            write_data((f"{row['folder']}\n" for row in rows if row["status"] == BEST), file)
        elif form == "json":
            write_data(tables.json_lines(rows), file)
        elif form == "csv":
            write_data(tables.csv_lines(FIELDS, rows), file)
        else:
            show_tables(draw(rows), file, path is None)


def draw(rows: list[Row]) -> Iterator[tables.Piece]:
    """Yield the totals, the partitions that differ, and what only one copy has."""
    partitions: dict[int | None, list[Row]] = {}
    for row in rows:
        partitions.setdefault(row["offsets_partition"], []).append(row)
    worst = {
        number: max((row["status"] for row in some if row["status"] != BEST), key=WORSE_LAST.index)
        for number, some in partitions.items()
    }
    counts = Counter(worst.values())
    found = ", ".join(f"{counts[status]} {status}" for status in WORSE_LAST if counts[status])
    yield f"{len(next(iter(partitions.values())))} copies; partitions: {found}"
    different = [row for row in rows if worst[row["offsets_partition"]] != SAME]
    if different:
        yield tables.table({name: FIELDS[name] for name in SHOWN}, different)
    for number, some in partitions.items():
        if worst[number] == DIVERGED:
            yield from draw_divergence(number, some)


def draw_divergence(number: int | None, rows: list[Row]) -> Iterator[tables.Piece]:
    """Yield what happened to a partition whose copies have diverged."""
    best = next(row["copy"] for row in rows if row["status"] == BEST)
    only: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if row["status"] != DIVERGED:
            continue
        until = row["common_until"]
        yield printable(
            f"{named(number)}: {row['copy']} and {best} have the same history up to offset "
            f"{until}; then {row['copy']} has {of_epoch(row, 'only_here', 'here')}, and {best} has "
            f"{of_epoch(row, 'lacking', 'there')}"
        )
        only[row["copy"], until] = row["only_here"]
        only[best, until] = row["lacking"]
    epochs = [{"copy": row["copy"], **epoch} for row in rows for epoch in row["epochs"]]
    yield tables.table({"copy": "string", **EPOCH_FIELDS}, epochs, f"{named(number)}: epochs")
    groups = [
        {"copy": copy, "from_offset": until, **group}
        for (copy, until), some in only.items()
        for group in some
    ]
    fields = {"copy": "string", "from_offset": "int64", **GROUP_FIELDS}
    yield tables.table(fields, groups, f"{named(number)}: what only one copy has")


def of_epoch(row: Row, side: str, place: str) -> str:
    """Return how many records a copy has after the common history, and their first epoch."""
    count, epoch = row[f"records_{side}"], row[f"epoch_{place}"]
    records = "1 record" if count == 1 else f"{count:,} records"
    return records if epoch is None else f"{records}, the first of epoch {epoch}"

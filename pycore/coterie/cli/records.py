"""``coterie records``: every record of a log, one JSON object per line."""

from __future__ import annotations

import os
import sys
from bisect import bisect_right
from dataclasses import replace

import click

from coterie.base.printable import printable
from coterie.cli.failures import say
from coterie.cli.group_names import check_present, chosen_groups
from coterie.cli.logs import Logs, logs_argument, say_each, say_left_alone
from coterie.cli.params import (
    at_option,
    end_of,
    group_exclude_option,
    group_option,
    since_option,
    until_option,
)
from coterie.errors import LogError
from coterie.log.folders import (
    SHARE_STATE,
    SHARE_STATE_FOLDER,
    TOPIC,
    Listing,
    Log,
    find_segments,
    find_share_state,
    read_segment,
)
from coterie.log.records import DECODERS, FaultHandler, JsonLines, group_of, segment_records

LINES_AT_ONCE = 2_000


def fault_printer(name: str) -> FaultHandler:
    """Return a function that prints a fault of a segment."""

    def print_fault(
        position: int, base_offset: int | None, kind: str, offset: int | None, detail: str
    ) -> None:
        place = f"byte {position}" if offset is None else f"byte {position}, offset {offset}"
        say(f"coterie: {name}: {place}: {kind}: {detail}")

    return print_fault


def unknown_fields(count: int) -> str:
    """Return a note on records that a newer Kafka, or another broker, has written."""
    records = "1 record has" if count == 1 else f"{count:,} records have"
    return (
        f'{records} tagged fields that this version of coterie does not know: "_unknown_tags" has '
        "each as its tag and its bytes"
    )


def topic_of(logs: Logs) -> str:
    """Return the topic whose partitions LOG... are."""
    folders = [os.path.basename(os.path.abspath(path)) for path in logs.paths]
    is_of_shares = folders and all(map(SHARE_STATE_FOLDER.fullmatch, folders))
    return SHARE_STATE if is_of_shares else TOPIC


def share_state_of(logs: Logs) -> Listing:
    """Return the segments of __share_group_state in LOG..."""
    if logs.servers is not None:
        raise click.UsageError(
            f"--topic {SHARE_STATE} goes with LOG; copy it: coterie fetch --topic {SHARE_STATE}"
        )
    listing = find_share_state(logs.paths)
    if not listing.segments:
        why = "no segment (.log)" if all(map(os.path.isdir, logs.paths)) else "no such folder"
        ask_for = f"give a folder of {SHARE_STATE}-N folders, or one such folder"
        raise LogError(f"{logs.shown}: {why}; {ask_for}")
    return listing


def share_groups(log: Log, _: object) -> set[str]:
    """Return the ids of the groups with a record in __share_group_state."""
    found: set[str | None] = set()
    for segment in find_segments(log).segments:
        data = read_segment(segment, in_memory=True)
        rows = segment_records(data, partition=None, segment="", topic=SHARE_STATE)
        found.update(map(group_of, rows))
    return {name for name in found if name is not None}


def from_place(listing: Listing, partition: int, offset: int, shown: str) -> Listing:
    """Return the segments of a partition that may have an offset or a later one."""
    segments = listing.partitions().get(partition)
    if segments is None:
        raise LogError(f"{shown}: there is no partition {partition}")
    before = bisect_right([one.base_offset or 0 for one in segments], offset) - 1
    return replace(listing, segments=tuple(segments[max(before, 0) :]))


@click.command("records")
@click.option(
    "--topic",
    type=click.Choice(list(DECODERS)),
    help=f"Whose records: of {TOPIC}, or of {SHARE_STATE}, which has the states of share groups' "
    "partitions. Default: that of the folders LOG...",
)
@group_option
@group_exclude_option
@at_option
@since_option
@until_option
@click.option(
    "--partition",
    type=click.IntRange(min=0),
    metavar="N",
    help="Only the records of partition N of the topic.",
)
@click.option(
    "--offset",
    "first_offset",
    type=click.IntRange(min=0),
    metavar="OFFSET",
    help="With --partition: only its records from OFFSET on, as of the LOG-OFFSET of a finding.",
)
@logs_argument
def command(
    logs: Logs,
    topic: str | None,
    partition: int | None,
    first_offset: int | None,
    groups: tuple[str, ...],
    excluded: tuple[str, ...],
    at_ms: int | None,
    since_ms: int | None,
    until_ms: int | None,
) -> None:
    """Print the records of a log, decoded, one JSON object a line.

    In order of partition, segment and place in the log. Bytes are base64; a key or value that
    cannot be read keeps its bytes as "raw". Tagged fields that are not known are pairs of a tag and
    its bytes, "_unknown_tags". Records that cannot be read at all are left out, with a
    line on standard error. --at, --since and --until go by the records' own timestamps.
    """
    end_ms = end_of(at_ms, since_ms, until_ms)
    if first_offset is not None and partition is None:
        raise click.UsageError("--offset needs --partition")
    topic = topic or topic_of(logs)
    listing = share_state_of(logs) if topic == SHARE_STATE else logs.listing
    if partition is not None:
        skipped = 0 if groups else first_offset or 0  # a group may be in earlier segments alone
        listing = from_place(listing, partition, skipped, logs.shown)
    known_in = share_groups if topic == SHARE_STATE else None
    only = chosen_groups(groups, listing, excluded=excluded, known_in=known_in)
    ranges = {}
    if since_ms is not None or end_ms is not None:
        from coterie.log.time_range import TimeRange  # with numpy, which --help does not need

        ranges = {
            number: TimeRange(segments, since_ms, end_ms)
            for number, segments in listing.partitions().items()
        }
    out = sys.stdout.buffer  # JSON is UTF-8 in any locale
    at_terminal = sys.stdout.isatty()
    encoder = JsonLines()
    present: set[str | None] = set()
    for segment in listing.segments:
        lines: list[str] = []
        requested = ranges.get(segment.partition)
        for row in segment_records(
            read_segment(segment, in_memory=True),
            partition=segment.partition,
            segment=segment.log_name,
            groups=only,
            on_fault=fault_printer(segment.name),
            topic=topic,
        ):
            if only is not None:
                present.add(group_of(row))
            if first_offset is not None and row["offset"] < first_offset:
                continue
            if requested and not requested.has(row["timestamp"], row["offset"]):
                continue
            line = encoder.line(row)
            lines.append(printable(line) if at_terminal else line)
            if len(lines) == LINES_AT_ONCE:
                out.write(("\n".join(lines) + "\n").encode("utf-8", "surrogatepass"))
                lines.clear()
        if lines:
            out.write(("\n".join(lines) + "\n").encode("utf-8", "surrogatepass"))
    say_each(filter(None, (requested.note(n) for n, requested in ranges.items())))
    if encoder.with_unknown_fields:
        say(f"coterie: {unknown_fields(encoder.with_unknown_fields)}")
    say_left_alone(listing)
    check_present(groups, only, present)

"""``coterie verify``: every fault of a log, one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click

from coterie._core.fold.fold_state import Fault
from coterie.cli.logs import Logs, logs_argument, say_left_alone
from coterie.cli.progress import TerminalProgress
from coterie.log.folders import Listing, Segment, read_segment
from coterie.replay.engine import Progress
from coterie.state.partial import ScanOptions

PIECE_BYTES = 32 << 20  # bounds the state in memory


@click.command("verify")
@logs_argument
def command(logs: Logs) -> None:
    """Print every fault of a log, one JSON object a line; exit 1 if there is any.

    Kinds: length (below 14 or beyond the file's end), tail (fewer than 17 bytes, or only zeros, up
    to the end), magic, crc, codec, records, marker: of a batch; key, value: of a record.
    """
    count = 0
    listing = logs.listing
    with TerminalProgress() as progress:
        for fault in faults(listing, progress):
            progress.clear()
            click.echo(json.dumps(fault._asdict(), ensure_ascii=False))
            count += 1
    say_left_alone(listing)
    if count:
        raise click.exceptions.Exit(1)


def faults(listing: Listing, progress: Progress) -> Iterator[Fault]:
    """Yield the faults of all segments, in the order of the log."""
    progress.total(sum(segment.size for segment in listing.segments))
    for segment in listing.segments:
        yield from segment_faults(segment)
        progress.advance(segment.size)


def segment_faults(segment: Segment) -> Iterator[Fault]:
    """Yield the faults of one segment; discard its state."""
    data = memoryview(read_segment(segment, in_memory=True))
    at, expected = 0, -1
    while at < len(data):
        fold = ScanOptions().new_fold()
        at += fold.scan(
            data[at:],
            file=segment.name,
            position=at,
            expected_offset=expected,
            max_bytes=PIECE_BYTES,
        )
        expected = fold.expected_offset
        yield from fold.faults

"""``coterie verify``: every fault of a log, one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from coterie._core.fold.fold_state import Fault
from coterie.cli.logs import Logs, logs_argument, say_each, say_left_alone
from coterie.cli.progress import TerminalProgress
from coterie.log.folders import Listing, Segment, read_segment
from coterie.replay.engine import Progress
from coterie.state.partial import ScanOptions

if TYPE_CHECKING:
    from coterie.log.leader_epochs import EpochJumps

PIECE_BYTES = 32 << 20  # bounds the state in memory


@click.command("verify")
@logs_argument
def command(logs: Logs) -> None:
    """Print every fault of a log, one JSON object a line; exit 1 if there is any.

    A leader epoch that rises by two or more is a hint on standard error, and no fault.

    Kinds: length (below 14 or beyond the file's end), tail (fewer than 17 bytes, or only zeros, up
    to the end), magic, crc, codec, records, marker: of a batch; key, value: of a record.
    """
    from coterie.log.leader_epochs import EpochJumps  # numpy is slow to import

    count = 0
    listing, jumps = logs.listing, EpochJumps()
    with TerminalProgress() as progress:
        for fault in faults(listing, progress, jumps):
            progress.clear()
            click.echo(json.dumps(fault._asdict(), ensure_ascii=False))
            count += 1
    say_left_alone(listing)
    say_each(jumps.lines())
    if count:
        raise click.exceptions.Exit(1)


def faults(listing: Listing, progress: Progress, jumps: EpochJumps) -> Iterator[Fault]:
    """Yield the faults of all segments, in the order of the log; add their batches to ``jumps``."""
    from coterie.log.batch_headers import batch_headers

    progress.total(sum(segment.size for segment in listing.segments))
    for segment in listing.segments:
        data = memoryview(read_segment(segment, in_memory=True))
        yield from segment_faults(segment, data)
        jumps.add(segment, batch_headers(data))
        progress.advance(segment.size)


def segment_faults(segment: Segment, data: memoryview) -> Iterator[Fault]:
    """Yield the faults of one segment; discard its state."""
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

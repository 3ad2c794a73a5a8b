"""``coterie verify``: every fault of a log, and where its times go back."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from coterie._core.fold.fold_state import Fault
from coterie.base.terminal import print_text
from coterie.cli.failures import say
from coterie.cli.logs import Logs, logs_argument, say_each, say_left_alone
from coterie.cli.progress import TerminalProgress
from coterie.log.folders import Listing, Segment, read_segment
from coterie.state.faults import fault_line
from coterie.state.partial import ScanOptions
from coterie.state.redpanda import REDPANDA, is_of_redpanda
from coterie.state.replay_engine import Progress

if TYPE_CHECKING:
    from coterie.log.clock import ClockStep, ClockSteps
    from coterie.log.leader_epochs import EpochJumps
    from coterie.log.offset_gaps import OffsetGaps

PIECE_BYTES = 32 << 20  # bounds the state in memory


@click.command("verify")
@logs_argument
def command(logs: Logs) -> None:
    """Print every fault of a log, one JSON object a line; exit 1 if there is any.

    At a terminal, a fault is a text.

    Then print each place where the time goes back by a second or more (kind clock). That is no
    fault: the exit status stays 0. A leader epoch that rises by two or more is a hint on standard
    error, and no fault either; nor are gaps of offsets, which a line there counts.

    Kinds: length (below 14 or beyond the file's end), tail (fewer than 17 bytes, or only zeros, up
    to the end), magic, crc, codec, records, marker: of a batch; key, value: of a record.
    """
    count = 0
    listing, hints = logs.listing, Hints()
    with TerminalProgress() as progress:
        for fault in faults(listing, progress, hints):
            progress.clear()
            print_fault(fault._asdict())
            count += 1
        progress.clear()
        for clock in hints.clocks.values():
            for step in clock.steps:
                print_fault(clock_entry(step))
    say_left_alone(listing)
    say_each(hints.lines())
    if hints.is_redpandas:
        say(f"coterie: {REDPANDA}")
    if count:
        raise click.exceptions.Exit(1)


def print_fault(entry: dict[str, Any]) -> None:
    """Print a fault as a line of JSON; at a terminal, as a text."""
    if sys.stdout.isatty():
        print_text(fault_line(Fault(**entry)))
    else:
        click.echo(json.dumps(entry, ensure_ascii=False))


def clock_entry(step: ClockStep) -> dict[str, Any]:
    """Return a place where the time goes back, with the fields of a fault."""
    return {
        "file": step.file,
        "position": step.position,
        "base_offset": step.log_offset,
        "kind": "clock",
        "offset": step.log_offset,
        "detail": step.in_words(),
    }


class Hints:
    """Finds where times go back, leader epochs jump and offsets are missing, and who wrote the log.

    The first segment loads numpy: a log that cannot be read needs none.
    """

    def __init__(self) -> None:
        self.clocks: dict[int | None, ClockSteps] = {}
        self.jumps: EpochJumps | None = None
        self.gaps: OffsetGaps | None = None
        self.is_redpandas = False

    def add(self, segment: Segment, data: memoryview) -> None:
        """Add a partition's next segment with these bytes."""
        from coterie.log.batch_headers import batch_headers
        from coterie.log.clock import ClockSteps
        from coterie.log.leader_epochs import EpochJumps
        from coterie.log.offset_gaps import OffsetGaps

        self.jumps, self.gaps = self.jumps or EpochJumps(), self.gaps or OffsetGaps()
        headers = batch_headers(data)
        self.jumps.add(segment, headers)
        self.gaps.add(segment, headers)
        clock = self.clocks.setdefault(segment.partition, ClockSteps())
        clock.read([segment], lambda _: data)

    def lines(self) -> Iterator[str]:
        """Yield a line for each partition whose leader epoch jumps, and one for missing offsets."""
        if self.jumps is not None:
            yield from self.jumps.lines()
        if self.gaps is not None and (line := self.gaps.line()):
            yield line


def faults(listing: Listing, progress: Progress, hints: Hints) -> Iterator[Fault]:
    """Yield the faults of all segments, in the order of the log; add the segments to ``hints``."""
    progress.total(sum(segment.size for segment in listing.segments))
    for segment in listing.segments:
        data = memoryview(read_segment(segment, in_memory=True))
        yield from segment_faults(segment, data, hints)
        hints.add(segment, data)
        progress.advance(segment.size)


def segment_faults(segment: Segment, data: memoryview, hints: Hints) -> Iterator[Fault]:
    """Yield the faults of one segment with these bytes; discard its state."""
    at, expected = 0, -1
    while at < len(data):
        fold = ScanOptions().new_fold()
        fold.faults_max = sys.maxsize
        at += fold.scan(
            data[at:],
            file=segment.name,
            position=at,
            expected_offset=expected,
            max_bytes=PIECE_BYTES,
        )
        expected = fold.expected_offset
        hints.is_redpandas |= is_of_redpanda(fold)
        yield from fold.faults

"""Since when a log is complete: compaction removes superseded records.

Kafka cleans all segments of a partition but the last. A removed record leaves a gap in the offsets,
and the record that superseded it is in a cleaned segment, too. So a state is complete from the time
at which the last segment begins. The state at an earlier time may lack commits.
Source: LogCleaner, LogCleanerManager. Rules: docs/rules/log-format.md#compaction.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from coterie.base.times import format_time

if TYPE_CHECKING:
    from coterie._core.fold.fold_state import Scanned

BASE_OFFSET = re.compile(r"([0-9]{20})\.log(?:\.(?:zst|gz))?")
PARTITIONS_NAMED = 10


def trusted_from(scanned: Iterable[Scanned]) -> int | None:
    """Return the time (epoch ms) since which a partition's state is complete; None: always.

    Parameters
    ----------
    scanned
        ``PartitionFold.segments`` of one partition, in log order.
    """
    pieces = list(scanned)
    full = [piece for piece in pieces if piece.batches]
    if not full:
        return None
    active = pieces[-1].file
    named_base = base_offset(active)
    if named_base is not None and named_base > full[-1].last_offset + 1:
        # The active segment has no batch; its name shows that the one before it lost its end.
        return max(piece.max_timestamp for piece in full)
    expected, missing, missing_in_active, inside = 0, False, False, False
    for piece in full:
        if piece.first_offset > expected:
            missing = True
            missing_in_active |= inside
        inside = piece.file == active  # later gaps are within the active segment
        missing |= piece.gap
        missing_in_active |= piece.gap and piece.file == active
        expected = max(expected, piece.last_offset + 1)
    if not missing:
        return None
    if missing_in_active:  # it was not yet active when the log was cleaned
        return max(piece.max_timestamp for piece in full)
    # Records of the last millisecond of the previous segment may be gone, too.
    earlier = [piece.max_timestamp + 1 for piece in full if piece.file != active]
    first = [piece.first_timestamp for piece in full if piece.file == active][:1]
    return max(earlier + first)


def base_offset(file: str) -> int | None:
    """Return the base offset in a segment's name; None if there is none."""
    match = BASE_OFFSET.fullmatch(os.path.basename(file))
    return None if match is None else int(match[1])


def trust_lines(since_ms: Mapping[int | None, int], hint: str = "") -> Iterator[str]:
    """Yield a line for each compacted partition: since when it can be trusted.

    The first few partitions have a line each; one line stands for the others. ``hint`` is added
    to the last line.
    """
    partitions = list(since_ms.items())
    lines = [
        f"{named(number)}: trusted since {format_time(ms)}; compacted before"
        for number, ms in partitions[:PARTITIONS_NAMED]
    ]
    if len(partitions) > PARTITIONS_NAMED:
        latest = format_time(max(since_ms.values()))
        lines.append(
            f"{len(partitions) - PARTITIONS_NAMED} more partitions: compacted too; all are trusted "
            f"since {latest}"
        )
    if lines and hint:
        lines[-1] += f"; {hint}"
    yield from lines


def named(number: int | None) -> str:
    """Return the name of a partition of the topic in messages."""
    return "the log" if number is None else f"partition {number}"

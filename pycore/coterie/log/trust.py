"""How far back a log can be trusted: compaction forgets what was superseded.

Only segments before the last one of a partition are cleaned, and each removed record leaves a gap
in the offsets. The record that superseded it is in a cleaned segment too. So a state is whole from
the time at which the last segment begins; before that it may lack commits that were current then.
Source: LogCleaner, LogCleanerManager. Rules: docs/rules/log-format.md#compaction.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from coterie.times import format_time

if TYPE_CHECKING:
    from coterie._core.fold.fold_state import Scanned

BASE_OFFSET = re.compile(r"([0-9]{20})\.log(?:\.(?:zst|gz))?")
PARTITIONS_TOLD = 10


def trusted_from(scanned: Iterable[Scanned]) -> int | None:
    """Return the time (epoch ms) from which a partition's state is whole; None: from its start.

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
        # An active segment without a batch: its name says that the one before it lost its end.
        return max(piece.max_timestamp for piece in full)
    expected, missing, missing_in_active, inside = 0, False, False, False
    for piece in full:
        if piece.first_offset > expected:
            missing = True
            missing_in_active |= inside
        inside = piece.file == active  # what follows has a batch of the active one before it
        missing |= piece.gap
        missing_in_active |= piece.gap and piece.file == active
        expected = max(expected, piece.last_offset + 1)
    if not missing:
        return None
    if missing_in_active:  # then it was not the active one when the log was cleaned
        return max(piece.max_timestamp for piece in full)
    # What happened in the very millisecond in which the segment before ends may be gone as well.
    earlier = [piece.max_timestamp + 1 for piece in full if piece.file != active]
    first = [piece.first_timestamp for piece in full if piece.file == active][:1]
    return max(earlier + first)


def base_offset(file: str) -> int | None:
    """Return the offset that a segment's name says it begins at; None: it says none."""
    match = BASE_OFFSET.fullmatch(os.path.basename(file))
    return None if match is None else int(match[1])


def trust_lines(since_ms: Mapping[int | None, int], hint: str = "") -> Iterator[str]:
    """Yield a line for each partition that was compacted: since when it can be trusted.

    Of many partitions the first few have a line each. ``hint`` ends the last line.
    """
    told = list(since_ms.items())
    lines = [
        f"{named(number)}: trusted since {format_time(ms)}; compacted before"
        for number, ms in told[:PARTITIONS_TOLD]
    ]
    if len(told) > PARTITIONS_TOLD:
        latest = format_time(max(since_ms.values()))
        lines.append(
            f"{len(told) - PARTITIONS_TOLD} more partitions: compacted too; all are trusted "
            f"since {latest}"
        )
    if lines and hint:
        lines[-1] += f"; {hint}"
    yield from lines


def named(number: int | None) -> str:
    """Return how a partition of the topic is called in a message."""
    return "the log" if number is None else f"partition {number}"

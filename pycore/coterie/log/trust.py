"""How far back a log can be trusted: compaction forgets what was superseded.

Only segments before the last one of a partition are ever cleaned, and whatever is taken out of
them leaves a gap in the offsets (spec: log format, section 9). What superseded it lies in a
cleaned segment too. So a state is whole from the time on at which the last segment begins; before
that it may lack commits that were current then. Source: LogCleaner, LogCleanerManager.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie._core.fold.fold import Scanned


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
    expected, missing, missing_in_active = 0, False, False
    for piece in full:
        if piece.first_offset > expected:
            missing = True
            missing_in_active |= piece.file == active and piece.position > 0
        missing |= piece.gap
        missing_in_active |= piece.gap and piece.file == active
        expected = max(expected, piece.last_offset + 1)
    if not missing:
        return None
    if missing_in_active:  # then it was not the active one when the log was cleaned
        return max(piece.max_timestamp for piece in full)
    earlier = [piece.max_timestamp for piece in full if piece.file != active]
    first = [piece.first_timestamp for piece in full if piece.file == active][:1]
    return max(earlier + first)

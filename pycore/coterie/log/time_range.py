"""Choose single records of a partition by their own times, and count those that order disagrees on.

Rules: docs/log.md#times-that-go-back.
"""

from __future__ import annotations

from collections.abc import Sequence

from coterie.base.times import MAX_MS
from coterie.log.clock import begin_of, cut_at
from coterie.log.folders import Segment
from coterie.log.trust import named

MIN_MS = -1 << 63


class TimeRange:
    """The records of a partition from one time to another.

    Parameters
    ----------
    segments
        The partition's log. Its batches are read for their times before its records are.
    since_ms, until_ms : int or None
        The first and the last time; None: no bound. Records without a time are always in range.

    Attributes
    ----------
    more, fewer : int
        How many records the log's order would choose in addition, and how many it would not.
    """

    def __init__(
        self, segments: Sequence[Segment], since_ms: int | None, until_ms: int | None
    ) -> None:
        self.first_ms = MIN_MS if since_ms is None else since_ms
        self.last_ms = MAX_MS if until_ms is None else until_ms
        self.begin = None if since_ms is None else begin_of(segments, None, since_ms)
        self.cut = None if until_ms is None else cut_at(segments, None, until_ms)
        self.more = self.fewer = 0

    def has(self, timestamp: int, log_offset: int) -> bool:
        """Whether a record is in range by its own time."""
        is_since, is_until = timestamp >= self.first_ms, timestamp <= self.last_ms
        if timestamp == -1:
            is_since = is_until = True
        chosen = is_since and is_until
        if self.begin is not None and log_offset >= self.begin.next_offset:
            is_since = True
        elif self.begin is not None and log_offset < self.begin.log_offset:
            is_since = False
        if self.cut is not None:  # before it, records of the first later batch go by their own
            is_until = is_until and log_offset < self.cut.log_offset
        in_order = is_since and is_until
        self.more += in_order and not chosen
        self.fewer += chosen and not in_order
        return chosen

    def note(self, number: int | None) -> str | None:
        """Return what the log's order would choose; None: the same."""
        if not self.more and not self.fewer:
            return None
        return (
            f"{named(number)}: records are chosen by their own times, which go back; the log's "
            f"order would choose {self.more:,} more and {self.fewer:,} fewer"
        )

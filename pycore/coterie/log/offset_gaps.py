"""Offsets that no batch of a log has: compaction removes records, and so does a loss.

Which it was, no file says. A message set (magic 0 and 1) does not say at which offset it begins, so
only gaps before a batch of magic 2 are found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.log.trust import named

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from coterie.log.folders import Segment


class OffsetGaps:
    """Finds gaps between the batches of partitions, within and between their segments."""

    def __init__(self) -> None:
        self._next: dict[int | None, int] = {}  # the offset after the last batch
        self._offsets = 0
        self._first: str | None = None

    def add(self, segment: Segment, headers: NDArray[Any]) -> None:
        if not len(headers):
            return
        base, ends = headers["base_offset"], headers["last_offset"] + 1
        expected = np.maximum.accumulate(
            np.concatenate([[self._next.get(segment.partition, base[0])], ends])
        )
        gaps = np.flatnonzero((base > expected[:-1]) & (headers["magic"] == 2))
        self._next[segment.partition] = int(expected[-1])
        if len(gaps) and self._first is None:
            at = gaps[0]
            self._first = (
                f"{expected[at]} to {base[at] - 1} of {named(segment.partition)} ({segment.name}, "
                f"byte {headers['position'][at]})"
            )
        self._offsets += int((base - expected[:-1])[gaps].sum())

    def line(self) -> str | None:
        """Return a line with the first gap, and how many offsets there are; None: no gap."""
        if self._first is None:
            return None
        return (
            f"offsets without a batch: {self._first}, {self._offsets:,} in all; compaction removes "
            "records, so this is no fault"
        )

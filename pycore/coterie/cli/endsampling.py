"""Samples of end offsets beside a copy that is fetched, in the form that ``lag`` reads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from coterie import csvrows
from coterie.log.folders import find_segments, read_segment
from coterie.log.mapped import intact
from coterie.state.partial import PartialState, scan

if TYPE_CHECKING:
    from coterie.cluster.cluster import Cluster
    from coterie.cluster.errors import ClusterError

FILE = "end-offsets.csv"
HEADING = "time,topic,partition,offset\n"
LONGEST_LINE_BYTES = 4096


class EndSampler:
    """Appends the end offsets of the topics that groups commit to to ``DIR/end-offsets.csv``.

    The topics are those of the commits in the copy, so no other permission is needed to find them.
    """

    def __init__(self, out: Path, now_ms: Callable[[], int], notice: Callable[[str], None]) -> None:
        self.path = out / FILE
        self._out, self._now_ms, self._notice = out, now_ms, notice
        self._state = PartialState()
        self.has_read = False
        self._said: set[str] = set()

    def read_copy(self, partitions: tuple[int, ...]) -> None:
        """Take the commits that the copy has already; call it once, before :meth:`take`."""
        self.has_read = True
        listing = find_segments([self._out]) if any(self._out.glob("*/*.log")) else None
        for segment in () if listing is None else listing.segments:
            if segment.partition in partitions:
                data = read_segment(segment)
                with intact(data):
                    self.take(segment.partition, memoryview(data))

    def take(self, partition: int | None, batches: memoryview) -> None:
        """Take batches that were appended to the copy."""
        self._state.absorb(scan(batches, partition=partition))

    async def sample(self, cluster: Cluster) -> None:
        """Append one sample; a line at a partition."""
        from coterie.cluster.end_offsets import end_offsets

        topics = {row["topic"] for group in self._state.groups() for row in group["offsets"]}
        at_ms = self._now_ms()
        found = await end_offsets(cluster, topics, self._skipped)
        line = csvrows.line_writer()
        rows = [line([at_ms, *place, offset]) for place, offset in sorted(found.items())]
        with open(self.path, "ab+") as file:
            end = file.seek(0, os.SEEK_END)
            start = max(end - LONGEST_LINE_BYTES, 0)
            file.seek(start)
            whole = start + file.read().rfind(b"\n") + 1  # a killed process leaves a torn line
            file.truncate(whole)
            file.write(("" if whole else HEADING).encode() + "".join(rows).encode())

    async def repeat(self, cluster: Cluster, every_s: int) -> None:
        """Sample, again and again."""
        while True:
            await self.sample(cluster)
            await asyncio.sleep(every_s)

    def _skipped(self, topic: str, error: ClusterError) -> None:
        """Print once for each topic why its end offsets are missing."""
        if topic not in self._said:
            self._said.add(topic)
            self._notice(f"no end offsets of {topic}: {error}")

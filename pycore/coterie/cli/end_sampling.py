"""Samples of end offsets beside a copy that is fetched, in the form that ``lag`` reads."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Callable, Container
from pathlib import Path
from typing import TYPE_CHECKING

from coterie.base import csvrows
from coterie.base.atomic_file import atomic_write
from coterie.base.user_files import open_regular, regular_file
from coterie.cli.failures import Failed
from coterie.insight.offsets.end_offsets import OLD_SAMPLES_HEADING, SAMPLES_FILE, SAMPLES_HEADING
from coterie.live.segments import may_pass
from coterie.log.folders import Segment, find_segments, read_segment
from coterie.log.mapped import intact
from coterie.state.partial import scan
from coterie.state.rows import pending_rows, visible_offsets

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from coterie.live.cluster import Cluster
    from coterie.live.cluster_errors import ClusterError

HEADING, OLD_HEADING = SAMPLES_HEADING.encode(), OLD_SAMPLES_HEADING.encode()
LONGEST_LINE_BYTES = 4096


class EndSampler:
    """Appends the end offsets of the topics that groups commit to to ``DIR/end-offsets.csv``.

    The topics are those of the commits in the copy, so no other permission is needed to find them.
    ``groups``: only of the commits of these groups; None: of all. ``keep_ms``: for how long samples
    stay; once a quarter of the file is older, it is written anew without them. None: all stay.

    Raises
    ------
    Failed
        The file exists, and ``fetch`` did not write it.
    """

    def __init__(
        self,
        out: Path,
        now_ms: Callable[[], int],
        notice: Callable[[str], None],
        groups: Container[str] | None = None,
        keep_ms: int | None = None,
    ) -> None:
        self.path = out / SAMPLES_FILE
        self._keep_ms = keep_ms
        self._out, self._now_ms, self._notice, self._groups = out, now_ms, notice, groups
        self._topics: set[str] = set()
        self.has_read = False
        self._reported_topics: set[str] = set()
        data = b""
        try:
            with contextlib.suppress(FileNotFoundError), open_regular(self.path) as file:
                data = file.read(len(HEADING))
        except OSError as error:
            raise Failed(f"{self.path}: cannot be read: {error.strerror}; move it away") from None
        if not HEADING.startswith(data) and not data.startswith(OLD_HEADING):
            heading = HEADING.decode().strip()
            raise Failed(f"{self.path}: has another heading than {heading}; move it away")

    async def read_copy(self, partitions: tuple[int, ...]) -> None:
        """Take the commits that the copy has already; call it once, before :meth:`take`."""
        self.has_read = True
        listing = find_segments([self._out]) if any(self._out.glob("*/*.log")) else None
        for segment in () if listing is None else listing.segments:
            if segment.partition in partitions:
                self._topics |= await asyncio.to_thread(topics_of_segment, segment, self._groups)

    def take(self, partition: int | None, batches: memoryview) -> None:
        """Take batches that were appended to the copy."""
        self._topics |= _topics_of(batches, partition, self._groups)

    async def sample(self, cluster: Cluster) -> None:
        """Append one sample; a line at a partition."""
        from coterie.live.end_offsets import EARLIEST, end_offsets

        # Starts are older than the time: a commit of that time below one did lose records.
        starts = await end_offsets(cluster, self._topics, lambda *_: None, EARLIEST)
        at_ms = self._now_ms()
        found = await end_offsets(cluster, self._topics, self._skipped)
        self._reported_topics -= {topic for topic, _ in found}
        line = csvrows.line_writer()
        rows = [
            line([at_ms, *place, offset, starts.get(place)])
            for place, offset in sorted(found.items())
        ]
        self._extend_old_form()
        with open(self.path, "ab+", opener=regular_file) as file:
            end = file.seek(0, os.SEEK_END)
            start = max(end - LONGEST_LINE_BYTES, 0)
            file.seek(start)
            whole = start + file.read().rfind(b"\n") + 1  # a killed process leaves a torn line
            file.truncate(whole)
            file.write((b"" if whole else HEADING) + "".join(rows).encode())

        await asyncio.to_thread(self._drop_old, at_ms)

    def _extend_old_form(self) -> None:
        """Write a file of the form before anew, with log start offsets that are not known."""
        with contextlib.suppress(FileNotFoundError), open_regular(self.path) as file:
            if file.readline() != OLD_HEADING:
                return
            with atomic_write(self.path) as aside, aside.open("wb") as new:
                new.write(HEADING)
                new.writelines(line[:-1] + b",\n" for line in file if line.endswith(b"\n"))

    def _drop_old(self, now_ms: int) -> None:
        """Write the file anew without old samples, once there are enough of them."""
        if self._keep_ms is None:
            return
        since_ms = now_ms - self._keep_ms
        with open_regular(self.path) as file:
            file.readline()
            if not is_before(file.readline(), since_ms - self._keep_ms // 3):
                return
            first = next((line for line in file if not is_before(line, since_ms)), b"")
            with atomic_write(self.path) as aside, aside.open("wb") as new:
                new.write(HEADING + first)
                shutil.copyfileobj(file, new)

    async def repeat(self, cluster: Cluster, every_s: int) -> None:
        """Sample, again and again; an error that lasts is reported once."""
        reported = ""
        while True:
            try:
                await self.sample(cluster)
                reported = ""
            except OSError as error:
                if not may_pass(error):
                    raise
                line = f"{self.path}: cannot be written: {error.strerror}; trying again"
                if line != reported:
                    self._notice(line)
                reported = line
            await asyncio.sleep(every_s)

    def _skipped(self, topic: str, error: ClusterError) -> None:
        """Print why the end offsets of a topic are missing, once until they are there again."""
        if topic not in self._reported_topics:
            self._reported_topics.add(topic)
            self._notice(f"no end offsets of {topic}: {error}")


def is_before(line: bytes, ms: int) -> bool:
    """Whether a sample is older; its time is the first field."""
    time = line.partition(b",")[0]
    return time.isdigit() and int(time) < ms


def topics_of_segment(segment: Segment, groups: Container[str] | None) -> set[str]:
    """Return the topics that groups (None: all) commit to in a segment."""
    data = read_segment(segment)
    with intact(data):
        return _topics_of(data, segment.partition, groups)


def _topics_of(data: Buffer, partition: int | None, groups: Container[str] | None) -> set[str]:
    """Return the topics that groups commit to, also in transactions without an end."""
    fold = scan(data, partition=partition).fold(partition)
    topics = {row["topic"] for _, row in visible_offsets(fold, groups) if row is not None}
    return topics | {
        row["topic"] for group, _, row in pending_rows(fold) if groups is None or group in groups
    }

"""Notes on lags: how many are unknown, and why; the assumed time of the end offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from operator import itemgetter

from coterie.base.times import format_time
from coterie.cli.failures import say
from coterie.insight.groups.causes import counted
from coterie.insight.offsets.end_offsets import EndOffsets
from coterie.insight.offsets.log_starts import lost_text
from coterie.insight.question_engine import Row
from coterie.insight.questions import lag


class Statuses:
    """Counts the lag statuses of rows; ``field`` is the status field, None if there is no lag."""

    def __init__(self, field: str) -> None:
        self.field = field
        self.counts: Counter[str] = Counter()

    def of(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows, and count them."""
        for row in rows:
            if row[self.field] is not None:
                self.counts[row[self.field]] += 1
            yield row

    def say_unknown(self) -> None:
        """Print how many lags are unknown, and why."""
        unknown = {name: self.counts[name] for name in lag.STATUSES if name != lag.OK}
        if any(unknown.values()):
            why = ", ".join(f"{count} {name}" for name, count in unknown.items() if count)
            shares = f"{sum(unknown.values())} of {self.counts.total()}"
            say(f"coterie: {shares} lags are not known: {why}")


class LostRecords:
    """Finds commits below the log start offsets of samples."""

    def __init__(self, ends: EndOffsets) -> None:
        self._starts = {
            (*place, sample.time_ms): sample.start_offset
            for place, samples in ends.samples.items()
            for sample in samples
            if sample.start_offset is not None
        }
        self.counts: dict[tuple[str, str, int], int] = {}  # the most of all samples

    def of(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows, and note how many records are lost."""
        for row in rows:
            key = row["group_id"], row["topic"], row["partition"]
            start = self._starts.get((*key[1:], row["time"]), self._starts.get((*key[1:], None)))
            is_known = row["status"] != lag.BEYOND_LOG and row["offset"] is not None
            if start is not None and is_known and row["offset"] < start:
                self.counts[key] = max(start - row["offset"], self.counts.get(key, 0))
            yield row

    def say_lost(self) -> None:
        """Print how many records were deleted before groups read them."""
        if not self.counts:
            return
        (group, topic, number), most = max(self.counts.items(), key=itemgetter(1))
        say(
            f"coterie: {lost_text(sum(self.counts.values()))}, of "
            f"{counted(len(self.counts), 'partition')}: committed below the log start offset; "
            f"most of group {group!r}, {topic}-{number}: {most:,}"
        )


def say_untimed(ends: EndOffsets, at_ms: int | None, until_ms: int) -> None:
    """Print the assumed time of the end offsets, if neither FILE nor ``--at`` gives one."""
    if not ends.timed and at_ms is None:
        say(
            "coterie: the end offsets have no time, and are taken as of the end of the log, "
            f"{format_time(until_ms)}; --at says when they were taken"
        )

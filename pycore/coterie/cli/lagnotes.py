"""Notes on lags: how many are unknown, and why; the assumed time of the end offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from coterie.cli.failures import say
from coterie.insight.asking import Row
from coterie.insight.offsets.end_offsets import EndOffsets
from coterie.insight.questions import lag
from coterie.times import format_time


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


def say_untimed(ends: EndOffsets, at_ms: int | None, until_ms: int) -> None:
    """Print the assumed time of the end offsets, if neither FILE nor ``--at`` gives one."""
    if not ends.timed and at_ms is None:
        say(
            "coterie: the end offsets have no time, and are taken as of the end of the log, "
            f"{format_time(until_ms)}; --at says when they were taken"
        )

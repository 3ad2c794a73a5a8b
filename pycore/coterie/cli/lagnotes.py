"""What is said beside lags: how many are not known, and why; what end offsets were taken for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from coterie.cli.failures import say
from coterie.insight.asking import Row
from coterie.insight.offsets.end_offsets import EndOffsets
from coterie.insight.questions import lag
from coterie.times import format_time


class Statuses:
    """Counts the statuses of lags as rows pass; ``field`` has them, None in a row without a lag."""

    def __init__(self, field: str) -> None:
        self.field = field
        self.counts: Counter[str] = Counter()

    def of(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows."""
        for row in rows:
            if row[self.field] is not None:
                self.counts[row[self.field]] += 1
            yield row

    def say_unknown(self) -> None:
        """Say how many lags are not known, and why."""
        unknown = {name: self.counts[name] for name in lag.STATUSES if name != lag.OK}
        if any(unknown.values()):
            why = ", ".join(f"{count} {name}" for name, count in unknown.items() if count)
            told = f"{sum(unknown.values())} of {self.counts.total()} lags are not known: {why}"
            say(f"coterie: {told}")


def say_untimed(ends: EndOffsets, at_ms: int | None, until_ms: int) -> None:
    """Say what end offsets were taken for, if neither they nor ``--at`` have a time."""
    if not ends.timed and at_ms is None:
        say(
            "coterie: the end offsets have no time, and are taken as of the end of the log, "
            f"{format_time(until_ms)}; --at says when they were taken"
        )

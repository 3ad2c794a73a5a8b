"""Notes on logs whose times go back, beside an answer: docs/log.md#times-that-go-back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from coterie.base.times import format_duration, format_time
from coterie.log.trust import named

if TYPE_CHECKING:
    from coterie.log.clock import Begin, ClockStep, Cut

NAMED = 5


class ClockNotes:
    """Collects what the partitions of a log say about their times.

    ``by_times``: the answer goes by the times of records, and the log's order is the alternative.
    """

    def __init__(self, *, by_times: bool = False) -> None:
        self.by_times = by_times
        self.back: list[tuple[int, int | None]] = []  # by how much, and in which partition
        self.places: list[str] = []  # what a time means where order and times differ

    def take(
        self,
        number: int | None,
        steps: Iterable[ClockStep],
        cut: Cut | None,
        begin: Begin | None = None,
    ) -> None:
        """Take a partition: where its time goes back, where it ends and begins as of a time."""
        most_ms = max((step.by_ms for step in steps), default=0)
        if most_ms:
            self.back.append((most_ms, number))
        if cut is not None:
            left_out = f"{batches(cut.left_out)} from there on"
            self.places.append(
                f"{named(number)}: as of {format_time(cut.at_ms)}, the log ends before offset "
                f"{cut.log_offset}; "
                + (f"{left_out} count here by their own times" if self.by_times else
                   f"by record times, {left_out} would count")
            )  # fmt: skip
        if begin is not None and begin.earlier:
            self.places.append(
                f"{named(number)}: since {format_time(begin.since_ms)}, the log begins at offset "
                f"{begin.log_offset}; by record times, {batches(begin.earlier)} from there on "
                "would not count"
            )

    def notes(self) -> Iterator[str]:
        """Yield a line about times that go back, and one for each partition that was cut off."""
        if self.back:
            most = format_duration(max(self.back, key=lambda entry: entry[0])[0])
            names = ", ".join(named(number) for _, number in self.back[:NAMED])
            more = len(self.back) - NAMED
            where = names + (f" and {more} more" if more > 0 else "")
            yield (
                f"times go back in {where}, by up to {most}: rows are in log order; "
                "`coterie verify` lists each place"
            )
        yield from self.places[:NAMED]
        if len(self.places) > NAMED:
            yield f"the same holds for {len(self.places) - NAMED} more places"


def batches(count: int) -> str:
    return "1 batch" if count == 1 else f"{count:,} batches"

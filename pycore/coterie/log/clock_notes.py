"""Notes on logs whose times go back, beside an answer: docs/log.md#times-that-go-back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from coterie.log.trust import named
from coterie.times import format_duration, format_time

if TYPE_CHECKING:
    from coterie.log.clock import ClockStep, Cut

NAMED = 5


class ClockNotes:
    """Collects what the partitions of a log say about their times."""

    def __init__(self) -> None:
        self.back: list[tuple[int, int | None]] = []  # by how much, and in which partition
        self.cuts: list[tuple[int | None, Cut]] = []

    def take(self, number: int | None, steps: Iterable[ClockStep], cut: Cut | None) -> None:
        """Take a partition: where its time goes back, and where it ends as of a time."""
        most_ms = max((step.by_ms for step in steps), default=0)
        if most_ms:
            self.back.append((most_ms, number))
        if cut is not None:
            self.cuts.append((number, cut))

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
        for number, cut in self.cuts[:NAMED]:
            count = "1 batch" if cut.left_out == 1 else f"{cut.left_out:,} batches"
            yield (
                f"{named(number)}: as of {format_time(cut.at_ms)}, the log ends before offset "
                f"{cut.log_offset}; by record times, {count} from there on would count"
            )
        if len(self.cuts) > NAMED:
            yield f"the same holds for {len(self.cuts) - NAMED} more partitions"

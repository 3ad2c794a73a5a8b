"""What a question keeps of a log while its pieces go by, and how that of two parts is one.

A question with a function ``tallies`` says by it what it keeps. So a partition can be read in parts
by several processes (``coterie.insight.records.log_parts``): each has tallies of its own, which are
absorbed in log order. What a tally keeps is bounded by keys and findings, never by records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from coterie.insight.records.log_reader import PieceConsumer, feed
from coterie.insight.records.partition_view import PartitionView, RecordFilter


class Aggregate(PieceConsumer, Protocol):
    """Takes the pieces of a part of a log, and then what another took of the next part."""

    def absorb(self, later: Any, /) -> None:
        """Go on with what another of the same kind kept of the pieces that follow on these.

        Both were made alike, and names are numbered alike in both. The other is used up.
        """


Made = Mapping[str, tuple[RecordFilter, Aggregate]]
"""Tallies by name, each with the records that it wants to see."""

Maker = Callable[[PartitionView, Any], Made]


def kept(facts: PartitionView, make: Maker, ask: Any) -> dict[str, Any]:
    """Return a question's tallies, by name, once all pieces of the partition are through."""
    if facts.parts is not None:
        return facts.parts.tallies
    return keep(facts, make(facts, ask)) if facts.seen is None else facts.seen


def keep(
    facts: PartitionView, made: Mapping[str, tuple[RecordFilter, PieceConsumer]]
) -> dict[str, Any]:
    """Have the log go by, once for all of these tallies, and return them by name.

    As ``PartitionView.seen`` they answer all questions that they are of.
    """
    for view in dict.fromkeys(view for view, _ in made.values()):
        takers = [tally for its, tally in made.values() if its == view]
        if facts.cut is not None:
            facts.cut.take(facts.of(view).log, columns_of(takers), takers)
        else:
            feed(facts.of(view).pieces(columns_of(takers)), takers)
    return {name: tally for name, (_, tally) in made.items()}


def columns_of(takers: Iterable[PieceConsumer]) -> frozenset[str] | None:
    """Return the columns that some of these take; None: all."""
    found: set[str] = set()
    for taker in takers:
        columns: frozenset[str] | None = getattr(taker, "COLUMNS", None)
        if columns is None:
            return None
        found |= columns
    return frozenset(found)

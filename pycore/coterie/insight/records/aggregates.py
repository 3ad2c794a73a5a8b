"""What a question keeps of a log while its pieces go by, and how that of two parts is one.

A question with a function ``aggregates`` says by it what it keeps. So a partition can be read in
parts by several processes (``coterie.insight.records.log_parts``): each has aggregates of its own,
which are absorbed in log order. What an aggregate keeps is bounded by keys and findings, never by
records.
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


AggregatesByName = Mapping[str, tuple[RecordFilter, Aggregate]]
"""Aggregates by name, each with the records that it wants to see."""

AggregateFactory = Callable[[PartitionView, Any], AggregatesByName]


def aggregates_of(view: PartitionView, make: AggregateFactory, ask: Any) -> dict[str, Any]:
    """Return a question's aggregates, by name, once all pieces of the partition are through."""
    if view.parts is not None:
        return view.parts.aggregates
    return run_aggregates(view, make(view, ask)) if view.seen is None else view.seen


def run_aggregates(
    view: PartitionView, made: Mapping[str, tuple[RecordFilter, PieceConsumer]]
) -> dict[str, Any]:
    """Have the log go by, once for all of these aggregates, and return them by name.

    As ``PartitionView.seen`` they answer all questions that they are of.
    """
    for record_filter in dict.fromkeys(record_filter for record_filter, _ in made.values()):
        consumers = [aggregate for its, aggregate in made.values() if its == record_filter]
        if view.cut is not None:
            view.cut.take(view.of(record_filter).log, columns_of(consumers), consumers)
        else:
            feed(view.of(record_filter).pieces(columns_of(consumers)), consumers)
    return {name: aggregate for name, (_, aggregate) in made.items()}


def columns_of(consumers: Iterable[PieceConsumer]) -> frozenset[str] | None:
    """Return the columns that some of these take; None: all."""
    found: set[str] = set()
    for consumer in consumers:
        columns: frozenset[str] | None = getattr(consumer, "COLUMNS", None)
        if columns is None:
            return None
        found |= columns
    return frozenset(found)

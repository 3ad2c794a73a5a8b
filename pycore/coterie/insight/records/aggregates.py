"""Aggregates: the results of a question over the pieces of a log.

An aggregate grows with keys and findings, never with records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from coterie.insight.records.partition_view import PartitionView, RecordFilter
from coterie.insight.records.record_columns import RecordColumns
from coterie.log.clock import ClockSteps


class Aggregate(Protocol):
    """Takes the pieces of a log, in order.

    An attribute ``COLUMNS`` names the columns of ``RecordScan`` that it needs; without it, all.
    """

    def take(self, records: RecordColumns, /) -> None:
        """Take the next piece."""


AggregatesByName = Mapping[str, tuple[RecordFilter, Aggregate]]
"""Aggregates by name, each with the filter of the records that it takes."""

AggregateFactory = Callable[[PartitionView, Any], AggregatesByName]


def aggregates_of(view: PartitionView, make: AggregateFactory, parameters: Any) -> dict[str, Any]:
    """Return a question's filled aggregates, by name; read the partition if necessary."""
    if view.shared_aggregates is not None:
        return view.shared_aggregates
    return run_aggregates(view, make(view, parameters))


def run_aggregates(view: PartitionView, unfilled: AggregatesByName) -> dict[str, Any]:
    """Read the log once for all of these aggregates, and return them by name.

    Set as ``PartitionView.shared_aggregates``, they serve several questions.
    """
    for record_filter in dict.fromkeys(record_filter for record_filter, _ in unfilled.values()):
        clock = ClockSteps()
        own = [
            aggregate
            for wanted_filter, aggregate in unfilled.values()
            if wanted_filter == record_filter
        ]
        aggregates = [clock, *own]
        feed(view.of(record_filter).pieces(columns_of(aggregates)), aggregates)
        view.clock_steps = clock.steps
    return {name: aggregate for name, (_, aggregate) in unfilled.items()}


def feed(pieces: Iterable[RecordColumns], aggregates: Iterable[Aggregate]) -> None:
    aggregates = list(aggregates)
    for records in pieces:
        for aggregate in aggregates:
            aggregate.take(records)


def columns_of(aggregates: Iterable[Aggregate]) -> frozenset[str] | None:
    """Return the columns that these aggregates take together; None: all."""
    union: set[str] = set()
    for aggregate in aggregates:
        columns: frozenset[str] | None = getattr(aggregate, "COLUMNS", None)
        if columns is None:
            return None
        union |= columns
    return frozenset(union)

"""Aggregates: the results of a question over the pieces of a log, which merge part by part.

A question with a function ``aggregates`` can be answered from parts of a partition, read by
several threads or processes (``coterie.insight.records.log_parts``): each part fills aggregates of
its own, which are merged in log order. An aggregate grows with keys and findings, never with
records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from coterie.insight.records.log_reader import PieceConsumer, feed
from coterie.insight.records.partition_view import PartitionView, RecordFilter
from coterie.log.clock import ClockSteps


class Aggregate(PieceConsumer, Protocol):
    """Takes the pieces of a part of a log, then absorbs the aggregate of the next part."""

    def absorb(self, later: Any, /) -> None:
        """Merge the aggregate of the next part of the log into this one.

        Both were made with the same arguments. ``later`` must not be used afterwards.
        """


AggregatesByName = Mapping[str, tuple[RecordFilter, Aggregate]]
"""Aggregates by name, each with the filter of the records that it takes."""

AggregateFactory = Callable[[PartitionView, Any], AggregatesByName]


def aggregates_of(view: PartitionView, make: AggregateFactory, parameters: Any) -> dict[str, Any]:
    """Return a question's filled aggregates, by name; read the partition if necessary."""
    if view.parts is not None:
        return view.parts.aggregates
    if view.at_ms is not None:
        view.read(view.record_filter)  # decides whether threads may read it
    return (
        run_aggregates(view, make(view, parameters))
        if view.shared_aggregates is None
        else view.shared_aggregates
    )


def run_aggregates(
    view: PartitionView, unfilled: Mapping[str, tuple[RecordFilter, PieceConsumer]]
) -> dict[str, Any]:
    """Read the log once for all of these aggregates, and return them by name.

    Set as ``PartitionView.shared_aggregates``, they serve several questions.
    """
    for record_filter in dict.fromkeys(record_filter for record_filter, _ in unfilled.values()):
        clock = ClockSteps()
        consumers = [
            clock,
            *(
                aggregate
                for wanted_filter, aggregate in unfilled.values()
                if wanted_filter == record_filter
            ),
        ]
        if view.cut is not None:
            view.cut.take(view.of(record_filter).log, columns_of(consumers), consumers)
        else:
            feed(view.of(record_filter).pieces(columns_of(consumers)), consumers)
        view.clock_steps = clock.steps
    return {name: aggregate for name, (_, aggregate) in unfilled.items()}


def columns_of(consumers: Iterable[PieceConsumer]) -> frozenset[str] | None:
    """Return the columns that these consumers take together; None: all."""
    union: set[str] = set()
    for consumer in consumers:
        columns: frozenset[str] | None = getattr(consumer, "COLUMNS", None)
        if columns is None:
            return None
        union |= columns
    return frozenset(union)

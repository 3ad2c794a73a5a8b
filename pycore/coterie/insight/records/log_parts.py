"""Read a partition's log in parts, each in its own process, with the same answers as one reading.

A *part* is a run of whole segments.

1. :func:`survey` reads a part and returns what other parts depend on: the last state, the records
   of groups, and the transactions that are open at its end.
2. :func:`join` merges the surveys in log order.
3. :func:`second_readings` yields the input of each part's second reading.
4. :func:`aggregate` reads a part again and decides each of its records.
5. :func:`finish` merges the results in log order.

Memory does not grow with the number of records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coterie.insight.records.aggregates import Aggregate, AggregateFactory, columns_of
from coterie.insight.records.cut import SegmentRun
from coterie.insight.records.group_log import GroupRecords
from coterie.insight.records.log_reader import (
    ReadingContext,
    ReadSegment,
    SurveyedLog,
    feed,
    read_pieces,
)
from coterie.insight.records.partition_view import JoinedParts, PartitionView, RecordFilter
from coterie.log.folders import Segment, read_segment

SurveyedLogs = dict[RecordFilter, SurveyedLog]


class SecondReading(NamedTuple):
    """The input of a part's second reading; each field may be empty.

    Attributes
    ----------
    aggregates : dict
        Empty aggregates, by name, each with its records.
    contexts : dict
        What the surveys know about the whole log.
    record_filters : tuple of RecordFilter
        Further states to fold.
    """

    aggregates: Mapping[str, tuple[RecordFilter, Aggregate]]
    contexts: Mapping[RecordFilter, ReadingContext]
    record_filters: tuple[RecordFilter, ...]


class PartResult(NamedTuple):
    aggregates: Mapping[str, Aggregate]
    logs: SurveyedLogs


def aggregate_factory(question: Any) -> AggregateFactory | None:
    """Return the function that makes a question's aggregates.

    None: the question cannot be answered from parts.
    """
    factory: AggregateFactory | None = getattr(question, "aggregates", None)
    return factory


def states_of(view: PartitionView, question: Any, parameters: Any) -> tuple[RecordFilter, ...]:
    """Return the states that a question needs, as far as they are known yet."""
    states: tuple[RecordFilter, ...] = getattr(question, "states", lambda view, parameters: ())(
        view, parameters
    )
    return states


def parts_of(segments: Iterable[Segment], part_bytes: int) -> list[SegmentRun]:
    """Split segments into runs of at least ``part_bytes``; the last run may be smaller."""
    parts: list[list[Segment]] = []
    filled = part_bytes
    for segment in segments:
        if filled >= part_bytes:
            parts.append([])
            filled = 0
        parts[-1].append(segment)
        filled += segment.size
    return [tuple(part) for part in parts]


def record_filters_of(view: PartitionView, question: Any, parameters: Any) -> list[RecordFilter]:
    """Return the record filters that a question may need; one with tracks replaces one without."""
    record_filters = [
        *states_of(view, question, parameters),
        view.record_filter,
        RecordFilter(None, view.at_ms),
        RecordFilter(view.groups, None),
    ]
    return list(
        {record_filter[:2]: record_filter for record_filter in reversed(record_filters)}.values()
    )


def survey(
    part: SegmentRun, record_filters: Iterable[RecordFilter], read: ReadSegment = read_segment
) -> SurveyedLogs:
    """Read a part for the first time, once for each filter."""
    return {
        record_filter: SurveyedLog(part, record_filter.options, read)
        for record_filter in record_filters
    }


def join(view: PartitionView, surveys: Iterable[SurveyedLogs]) -> SurveyedLogs:
    """Merge the surveys of a partition's parts, in log order, into the view."""
    joined: SurveyedLogs = {}
    for logs in surveys:
        absorb_logs(joined, logs)
    view.parts = JoinedParts(joined, {})
    view.logs = joined
    return joined


def absorb_logs(logs: SurveyedLogs, later: SurveyedLogs) -> None:
    """Append the logs of the next part to the logs of the parts before it."""
    for record_filter, log in later.items():
        if record_filter not in logs:
            logs[record_filter] = SurveyedLog((), record_filter.options)
        logs[record_filter].absorb(log)


def second_readings(
    view: PartitionView, question: Any, parameters: Any, part_count: int
) -> Iterator[SecondReading]:
    """Yield the input of each part's second reading, in log order; empty if none is needed."""
    assert view.parts is not None  # they are joined
    make = aggregate_factory(question)
    assert make is not None  # only such questions are read in parts
    aggregates = make(view, parameters)
    missing_states = tuple(v for v in states_of(view, question, parameters) if v not in view.logs)
    if not aggregates and not missing_states:
        return
    record_filters = dict.fromkeys(record_filter for record_filter, _ in aggregates.values())
    contexts: dict[RecordFilter, Sequence[ReadingContext]] = {
        record_filter: view.of(record_filter).log.reading_contexts()
        for record_filter in record_filters
    }
    for number in range(part_count):
        yield SecondReading(
            aggregates,
            {record_filter: of_parts[number] for record_filter, of_parts in contexts.items()},
            missing_states,
        )


def aggregate(
    part: SegmentRun, reading: SecondReading, read: ReadSegment = read_segment
) -> PartResult:
    """Read a part for the second time: decide its records and fill the aggregates."""
    for record_filter, context in reading.contexts.items():
        consumers = [
            aggregate
            for wanted_filter, aggregate in reading.aggregates.values()
            if wanted_filter == record_filter
        ]
        feed(
            read_pieces(part, record_filter.options, context, read, columns_of(consumers)),
            consumers,
        )
    aggregates = {name: aggregate for name, (_, aggregate) in reading.aggregates.items()}
    logs = survey(part, reading.record_filters, read)
    for log in logs.values():
        log.group_log = GroupRecords()  # the first reading delivered them
    return PartResult(aggregates, logs)


def finish(
    view: PartitionView, question: Any, parameters: Any, results: Iterable[PartResult]
) -> None:
    """Merge the parts' results, in log order; then the question can be answered."""
    assert view.parts is not None  # they are joined
    make = aggregate_factory(question)
    assert make is not None  # only such questions are read in parts
    aggregates = {name: aggregate for name, (_, aggregate) in make(view, parameters).items()}
    logs: SurveyedLogs = {}
    for result in results:
        for name, aggregate in result.aggregates.items():
            aggregates[name].absorb(aggregate)
        absorb_logs(logs, result.logs)
    view.parts.aggregates = aggregates
    view.parts.logs.update(logs)

"""A partition's log in parts, each read by a process of its own, with the answers of one reading.

A *part* is a run of segments. First :func:`survey` finds
what goes beyond it, and :func:`join` puts that together in log order: the last state, the records
of groups, how each transaction ended that is open where a part ends. A question of states can be
answered then. Else :func:`begins` says what each part is to be read with a second time, and
:func:`aggregate` decides all of its records. What each part keeps is absorbed in log order by
:func:`finish`. Nothing here grows with the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coterie.insight.records.aggregates import Aggregate, AggregateFactory, columns_of
from coterie.insight.records.group_log import GroupRecords
from coterie.insight.records.log_reader import Begin, ReadSegment, SurveyedLog, feed, read_pieces
from coterie.insight.records.partition_view import JoinedParts, PartitionView, RecordFilter
from coterie.log.folders import Segment, read_segment

Part = tuple[Segment, ...]
Found = dict[RecordFilter, SurveyedLog]


class Begun(NamedTuple):
    """What a part is read with: aggregates by name, what is known of all of the log, views to read.

    There may be nothing of all that.
    """

    aggregates: Mapping[str, tuple[RecordFilter, Aggregate]]
    begins: Mapping[RecordFilter, Begin]
    record_filters: tuple[RecordFilter, ...]


class Kept(NamedTuple):
    """What a part keeps of its second reading."""

    aggregates: Mapping[str, Aggregate]
    found: Found


def maker_of(question: Any) -> AggregateFactory | None:
    """Return what makes a question's aggregates; None: it has to read a partition as one."""
    if is_of_states(question):
        return no_aggregates
    found: AggregateFactory | None = getattr(question, "aggregates", None)
    return found


def is_of_states(question: Any) -> bool:
    """Whether a question looks at states alone, which one reading gives."""
    return not hasattr(question, "aggregates") and hasattr(question, "states")


def no_aggregates(view: PartitionView, ask: Any) -> Mapping[str, tuple[RecordFilter, Aggregate]]:
    """Return the aggregates of a question of states."""
    return {}


def states_of(view: PartitionView, question: Any, ask: Any) -> tuple[RecordFilter, ...]:
    """Return the states that a question looks at, as far as is known."""
    found: tuple[RecordFilter, ...] = getattr(question, "states", lambda view, ask: ())(view, ask)
    return found


def parts_of(segments: Iterable[Segment], part_bytes: int) -> list[Part]:
    """Return runs of neighbouring segments of at least so many bytes, but for the last."""
    found: list[list[Segment]] = []
    filled = part_bytes
    for segment in segments:
        if filled >= part_bytes:
            found.append([])
            filled = 0
        found[-1].append(segment)
        filled += segment.size
    return [tuple(part) for part in found]


def record_filters_of(view: PartitionView, question: Any, ask: Any) -> list[RecordFilter]:
    """Return which records a question may look at: a state with tracks stands for one without."""
    states = states_of(view, question, ask)
    if states and is_of_states(question):
        return list(dict.fromkeys(states))
    record_filters = [
        *states,
        view.record_filter,
        RecordFilter(None, view.at_ms),
        RecordFilter(view.groups, None),
    ]
    return list(
        {record_filter[:2]: record_filter for record_filter in reversed(record_filters)}.values()
    )


def survey(
    part: Part, record_filters: Iterable[RecordFilter], read: ReadSegment = read_segment
) -> Found:
    """Read a part for the first time."""
    return {
        record_filter: SurveyedLog(part, record_filter.options, read)
        for record_filter in record_filters
    }


def join(view: PartitionView, found: Iterable[Found]) -> Found:
    """Put together what was found in the parts of a partition, in log order."""
    joined: Found = {}
    for one in found:
        absorb_logs(joined, one)
    view.parts = JoinedParts(joined, {})
    view.logs = joined
    return joined


def absorb_logs(ours: Found, later: Found) -> None:
    """Let logs follow on those of the part before."""
    for record_filter, log in later.items():
        if record_filter not in ours:
            ours[record_filter] = SurveyedLog((), record_filter.options)
        ours[record_filter].absorb(log)


def begins(view: PartitionView, question: Any, ask: Any, part_count: int) -> Iterator[Begun]:
    """Yield what each part is read with the second time, in log order; nothing: it need not be."""
    assert view.parts is not None  # they are joined
    make = maker_of(question)
    assert make is not None  # else it is not asked in parts
    made = make(view, ask)
    more = tuple(v for v in states_of(view, question, ask) if v not in view.logs)
    if not made and not more:
        return
    record_filters = dict.fromkeys(record_filter for record_filter, _ in made.values())
    begun: dict[RecordFilter, Sequence[Begin]] = {
        record_filter: view.of(record_filter).log.begins() for record_filter in record_filters
    }
    for number in range(part_count):
        yield Begun(
            made, {record_filter: those[number] for record_filter, those in begun.items()}, more
        )


def aggregate(part: Part, begun: Begun, read: ReadSegment = read_segment) -> Kept:
    """Read a part for the second time."""
    for record_filter, begin in begun.begins.items():
        consumers = [one for its, one in begun.aggregates.values() if its == record_filter]
        feed(
            read_pieces(part, record_filter.options, begin, read, columns_of(consumers)), consumers
        )
    aggregates = {name: one for name, (_, one) in begun.aggregates.items()}
    found = survey(part, begun.record_filters, read)
    for log in found.values():
        log.group_log = GroupRecords()  # they came with the first reading
    return Kept(aggregates, found)


def finish(view: PartitionView, question: Any, ask: Any, kept: Iterable[Kept]) -> None:
    """Absorb what the parts of a partition kept, in log order; the question can be answered."""
    assert view.parts is not None  # they are joined
    make = maker_of(question)
    assert make is not None  # else it is not asked in parts
    whole = {name: one for name, (_, one) in make(view, ask).items()}
    found: Found = {}
    for later in kept:
        for name, one in later.aggregates.items():
            whole[name].absorb(one)
        absorb_logs(found, later.found)
    view.parts.aggregates = whole
    view.parts.logs.update(found)

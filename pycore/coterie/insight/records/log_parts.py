"""A partition's log in parts, each read by a process of its own, with the answers of one reading.

A *part* is a run of segments. First :func:`survey` finds
what goes beyond it, and :func:`join` puts that together in log order: the last state, the records
of groups, how each transaction ended that is open where a part ends. A question of states can be
answered then. Else :func:`begins` says what each part is to be read with a second time, and
:func:`tally` decides all of its records. What each part keeps is absorbed in log order by
:func:`finish`. Nothing here grows with the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coterie.insight.records.aggregates import Aggregate, Maker, columns_of
from coterie.insight.records.group_log import GroupRecords
from coterie.insight.records.log_reader import Begin, ReadSegment, SurveyedLog, feed, read_pieces
from coterie.insight.records.partition_view import JoinedParts, PartitionView, RecordFilter
from coterie.log.folders import Segment, read_segment

Part = tuple[Segment, ...]
Found = dict[RecordFilter, SurveyedLog]


class Begun(NamedTuple):
    """What a part is read with: tallies by name, what is known of all of the log, views to read.

    There may be nothing of all that.
    """

    tallies: Mapping[str, tuple[RecordFilter, Aggregate]]
    begins: Mapping[RecordFilter, Begin]
    views: tuple[RecordFilter, ...]


class Kept(NamedTuple):
    """What a part keeps of its second reading."""

    tallies: Mapping[str, Aggregate]
    found: Found


def maker_of(question: Any) -> Maker | None:
    """Return what makes a question's tallies; None: it has to read a partition as one."""
    if is_of_states(question):
        return no_tallies
    found: Maker | None = getattr(question, "tallies", None)
    return found


def is_of_states(question: Any) -> bool:
    """Whether a question looks at states alone, which one reading gives."""
    return not hasattr(question, "tallies") and hasattr(question, "states")


def no_tallies(facts: PartitionView, ask: Any) -> Mapping[str, tuple[RecordFilter, Aggregate]]:
    """Return the tallies of a question of states."""
    return {}


def states_of(facts: PartitionView, question: Any, ask: Any) -> tuple[RecordFilter, ...]:
    """Return the states that a question looks at, as far as is known."""
    found: tuple[RecordFilter, ...] = getattr(question, "states", lambda facts, ask: ())(facts, ask)
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


def views_of(facts: PartitionView, question: Any, ask: Any) -> list[RecordFilter]:
    """Return which records a question may look at: a state with tracks stands for one without."""
    states = states_of(facts, question, ask)
    if states and is_of_states(question):
        return list(dict.fromkeys(states))
    views = [*states, facts.view, RecordFilter(None, facts.at_ms), RecordFilter(facts.groups, None)]
    return list({view[:2]: view for view in reversed(views)}.values())


def survey(part: Part, views: Iterable[RecordFilter], read: ReadSegment = read_segment) -> Found:
    """Read a part for the first time."""
    return {view: SurveyedLog(part, view.options, read) for view in views}


def join(facts: PartitionView, found: Iterable[Found]) -> Found:
    """Put together what was found in the parts of a partition, in log order."""
    joined: Found = {}
    for one in found:
        absorb_logs(joined, one)
    facts.parts = JoinedParts(joined, {})
    facts.logs = joined
    return joined


def absorb_logs(ours: Found, later: Found) -> None:
    """Let logs follow on those of the part before."""
    for view, log in later.items():
        if view not in ours:
            ours[view] = SurveyedLog((), view.options)
        ours[view].absorb(log)


def begins(facts: PartitionView, question: Any, ask: Any, part_count: int) -> Iterator[Begun]:
    """Yield what each part is read with the second time, in log order; nothing: it need not be."""
    assert facts.parts is not None  # they are joined
    make = maker_of(question)
    assert make is not None  # else it is not asked in parts
    made = make(facts, ask)
    more = tuple(v for v in states_of(facts, question, ask) if v not in facts.logs)
    if not made and not more:
        return
    views = dict.fromkeys(view for view, _ in made.values())
    begun: dict[RecordFilter, Sequence[Begin]] = {
        view: facts.of(view).log.begins() for view in views
    }
    for number in range(part_count):
        yield Begun(made, {view: those[number] for view, those in begun.items()}, more)


def tally(part: Part, begun: Begun, read: ReadSegment = read_segment) -> Kept:
    """Read a part for the second time."""
    for view, begin in begun.begins.items():
        takers = [one for its, one in begun.tallies.values() if its == view]
        feed(read_pieces(part, view.options, begin, read, columns_of(takers)), takers)
    tallies = {name: one for name, (_, one) in begun.tallies.items()}
    found = survey(part, begun.views, read)
    for log in found.values():
        log.group_log = GroupRecords()  # they came with the first reading
    return Kept(tallies, found)


def finish(facts: PartitionView, question: Any, ask: Any, kept: Iterable[Kept]) -> None:
    """Absorb what the parts of a partition kept, in log order; the question can be answered."""
    assert facts.parts is not None  # they are joined
    make = maker_of(question)
    assert make is not None  # else it is not asked in parts
    whole = {name: one for name, (_, one) in make(facts, ask).items()}
    found: Found = {}
    for later in kept:
        for name, one in later.tallies.items():
            whole[name].absorb(one)
        absorb_logs(found, later.found)
    facts.parts.tallies = whole
    facts.parts.logs.update(found)

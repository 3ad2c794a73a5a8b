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

from coterie.insight.records.aggregates import Maker, Tally, columns_of, feed
from coterie.insight.records.group_log import GroupLog
from coterie.insight.records.log_reader import Begin, Reader, ReadSegment, read_pieces
from coterie.insight.records.partition_view import PartitionFacts, Parts, View
from coterie.log.folders import Segment, read_segment

Part = tuple[Segment, ...]
Found = dict[View, Reader]


class Begun(NamedTuple):
    """What a part is read with: tallies by name, what is known of all of the log, views to read.

    There may be nothing of all that.
    """

    tallies: Mapping[str, tuple[View, Tally]]
    begins: Mapping[View, Begin]
    views: tuple[View, ...]


class Kept(NamedTuple):
    """What a part keeps of its second reading."""

    tallies: Mapping[str, Tally]
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


def no_tallies(facts: PartitionFacts, ask: Any) -> Mapping[str, tuple[View, Tally]]:
    """Return the tallies of a question of states."""
    return {}


def states_of(facts: PartitionFacts, question: Any, ask: Any) -> tuple[View, ...]:
    """Return the states that a question looks at, as far as is known."""
    found: tuple[View, ...] = getattr(question, "states", lambda facts, ask: ())(facts, ask)
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


def views_of(facts: PartitionFacts, question: Any, ask: Any) -> list[View]:
    """Return which records a question may look at: a state with tracks stands for one without."""
    states = states_of(facts, question, ask)
    if states and is_of_states(question):
        return list(dict.fromkeys(states))
    views = [*states, facts.view, View(None, facts.at_ms), View(facts.groups, None)]
    return list({view[:2]: view for view in reversed(views)}.values())


def survey(part: Part, views: Iterable[View], read: ReadSegment = read_segment) -> Found:
    """Read a part for the first time."""
    return {view: Reader(part, view.options, read) for view in views}


def join(facts: PartitionFacts, found: Iterable[Found]) -> Found:
    """Put together what was found in the parts of a partition, in log order."""
    joined: Found = {}
    for one in found:
        absorb_logs(joined, one)
    facts.parts = Parts(joined, {})
    facts.logs = joined
    return joined


def absorb_logs(ours: Found, later: Found) -> None:
    """Let logs follow on those of the part before."""
    for view, log in later.items():
        if view not in ours:
            ours[view] = Reader((), view.options)
        ours[view].absorb(log)


def begins(facts: PartitionFacts, question: Any, ask: Any, part_count: int) -> Iterator[Begun]:
    """Yield what each part is read with the second time, in log order; nothing: it need not be."""
    assert facts.parts is not None  # they are joined
    make = maker_of(question)
    assert make is not None  # else it is not asked in parts
    made = make(facts, ask)
    more = tuple(v for v in states_of(facts, question, ask) if v not in facts.logs)
    if not made and not more:
        return
    views = dict.fromkeys(view for view, _ in made.values())
    begun: dict[View, Sequence[Begin]] = {view: facts.of(view).log.begins() for view in views}
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
        log.group_log = GroupLog()  # they came with the first reading
    return Kept(tallies, found)


def finish(facts: PartitionFacts, question: Any, ask: Any, kept: Iterable[Kept]) -> None:
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

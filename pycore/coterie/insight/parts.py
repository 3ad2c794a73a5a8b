"""A partition's log in parts, each read by a process of its own, with the answers of one reading.

A *part* is a run of segments. First :func:`survey` finds what goes beyond it, and :func:`join`
puts that together in log order: the states that the question looks at; and where it looks at
records, names, the records of groups, and how each transaction ended that is open where a part
ends. A question of states can be answered then. Else :func:`begins` says what each part is to be
read with a second time, and :func:`tally` decides all of its records, or folds what the question
asks for once it knows the states. What each part keeps is absorbed in log order by :func:`finish`.
Nothing here grows with the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coterie.insight.facts import PartitionFacts, Parts, State, View, folded
from coterie.insight.grouplog import GroupLog
from coterie.insight.reading import Begin, Reader, ReadSegment
from coterie.insight.tallies import Maker, Tally, feed
from coterie.log.folders import Segment, read_segment
from coterie.state.partial import PartialState

Part = tuple[Segment, ...]
PartState = tuple[PartialState, GroupLog]


class Found(NamedTuple):
    """What a survey found, by view: records as columns, and states."""

    logs: dict[View, Reader]
    states: dict[View, PartState]

    def group_logs(self) -> list[GroupLog]:
        """Return the records of groups, whose bytes travel on their own."""
        return [log.group_log for log in self.logs.values()] + [
            group_log for _, group_log in self.states.values()
        ]


class Begun(NamedTuple):
    """What a part is read with: tallies by name, what is known of all of the log, states to fold.

    There may be nothing of all that.
    """

    tallies: Mapping[str, tuple[View, Tally]]
    begins: Mapping[View, Begin]
    views: tuple[View, ...]


class Kept(NamedTuple):
    """What a part keeps of its second reading."""

    tallies: Mapping[str, Tally]
    states: dict[View, PartState]


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


def views_of(
    facts: PartitionFacts, question: Any, ask: Any
) -> tuple[tuple[View, ...], tuple[View, ...]]:
    """Return the views of which a question may look at records, and those of its states."""
    states = states_of(facts, question, ask)
    make = maker_of(question)
    if states and (make is None or not make(facts, ask)):
        return (), states
    logs = tuple(dict.fromkeys([facts.view, View(None, facts.at_ms), View(None, None)]))
    return logs, tuple(dict.fromkeys([*logs, *states]))


def survey(
    part: Part,
    views: tuple[Iterable[View], Iterable[View]],
    read: ReadSegment = read_segment,
) -> Found:
    """Read a part for the first time."""
    logs, states = views
    return Found(
        {view: Reader(part, *view[:2], read) for view in logs}, fold_states(part, states, read)
    )


def fold_states(
    part: Part, views: Iterable[View], read: ReadSegment = read_segment
) -> dict[View, PartState]:
    """Return states of a part."""
    found = {}
    for view in views:
        fold, group_log = folded(view, part, read)
        found[view] = PartialState(view.options, {part[0].partition: fold}), group_log
    return found


def absorb_states(ours: dict[View, PartState], later: Mapping[View, PartState]) -> None:
    """Let states follow on those of the part before."""
    for view, (state, group_log) in later.items():
        if view not in ours:
            ours[view] = PartialState(view.options), GroupLog()
        ours[view][0].absorb(state)
        ours[view][1].absorb(group_log)


def states_by_view(states: Mapping[View, PartState]) -> dict[View, State]:
    """Return what facts have of states: of the only partition."""
    return {
        view: State(next(iter(state.partitions.values())), group_log)
        for view, (state, group_log) in states.items()
    }


def join(facts: PartitionFacts, found: Iterable[Found]) -> Found:
    """Put together what was found in the parts of a partition, in log order."""
    joined = Found({}, {})
    for one in found:
        for view, log in one.logs.items():
            if view not in joined.logs:
                joined.logs[view] = Reader((), *view[:2])
            joined.logs[view].absorb(log)
        absorb_states(joined.states, one.states)
    facts.parts = Parts(joined.logs, states_by_view(joined.states), {})
    facts.states = facts.parts.states
    return joined


def begins(facts: PartitionFacts, question: Any, ask: Any, part_count: int) -> Iterator[Begun]:
    """Yield what each part is read with the second time, in log order; nothing: it need not be."""
    assert facts.parts is not None  # they are joined
    make = maker_of(question)
    assert make is not None  # else it is not asked in parts
    made = make(facts, ask)
    more = tuple(v for v in states_of(facts, question, ask) if v not in facts.parts.states)
    if not made and not more:
        return
    views = dict.fromkeys(view for view, _ in made.values())
    begun: dict[View, Sequence[Begin]] = {view: facts.parts.logs[view].begins() for view in views}
    for number in range(part_count):
        yield Begun(made, {view: those[number] for view, those in begun.items()}, more)


def tally(part: Part, begun: Begun, read: ReadSegment = read_segment) -> Kept:
    """Read a part for the second time."""
    for view, begin in begun.begins.items():
        log = Reader(part, *view[:2], read, begin)
        feed(log.pieces(), [one for its, one in begun.tallies.values() if its == view])
    tallies = {name: one for name, (_, one) in begun.tallies.items()}
    states = fold_states(part, begun.views, read)
    # The records of groups came with the first reading.
    return Kept(tallies, {view: (state, GroupLog()) for view, (state, _) in states.items()})


def finish(facts: PartitionFacts, question: Any, ask: Any, kept: Iterable[Kept]) -> None:
    """Absorb what the parts of a partition kept, in log order; the question can be answered."""
    assert facts.parts is not None  # they are joined
    make = maker_of(question)
    assert make is not None  # else it is not asked in parts
    whole = {name: one for name, (_, one) in make(facts, ask).items()}
    states: dict[View, PartState] = {}
    for later in kept:
        for name, one in later.tallies.items():
            whole[name].absorb(one)
        absorb_states(states, later.states)
    facts.parts.tallies = whole
    facts.parts.states.update(states_by_view(states))

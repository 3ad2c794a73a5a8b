"""A partition's log in parts, each read by a process of its own, with the answers of one reading.

A *part* is a run of segments. Each is read twice, as a whole log is. First :func:`survey` finds
what goes beyond it, and :func:`join` puts that together in log order: names, the last state, the
records of groups, how each transaction ended that is open where a part ends. So :func:`begins` can
say what each part is to be read with, and :func:`tally` then decides all of its records. What each
part keeps is absorbed in log order by :func:`finish`. Nothing here grows with the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coterie.insight.facts import PartitionFacts, Parts, View
from coterie.insight.reading import Begin, Reader, ReadSegment, read_pieces
from coterie.insight.tallies import Maker, Tally, columns_of, feed
from coterie.log.folders import Segment, read_segment

Part = tuple[Segment, ...]
Found = dict[View, Reader]


class Begun(NamedTuple):
    """What a part is read with: tallies by name, and what is known of all of the log."""

    tallies: Mapping[str, tuple[View, Tally]]
    begins: Mapping[View, Begin]


def maker_of(question: Any) -> Maker | None:
    """Return what makes a question's tallies; None: it has to read a partition as one."""
    found: Maker | None = getattr(question, "tallies", None)
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
    """Return which records a question may look at."""
    times = getattr(question, "fold_times", lambda ask: ())(ask)
    views = [facts.view, View(None, facts.at_ms), View(None, None)]
    return list(dict.fromkeys([*views, *(View(facts.groups, at_ms) for at_ms in times)]))


def survey(part: Part, views: Iterable[View], read: ReadSegment = read_segment) -> Found:
    """Read a part for the first time."""
    return {view: Reader(part, *view, read) for view in views}


def join(facts: PartitionFacts, found: Iterable[Found]) -> Found:
    """Put together what was found in the parts of a partition, in log order."""
    joined: Found = {}
    for one in found:
        for view, log in one.items():
            if view not in joined:
                joined[view] = Reader((), *view)
            joined[view].absorb(log)
    facts.parts = Parts(joined, {})
    return joined


def begins(facts: PartitionFacts, make: Maker, ask: Any) -> Iterator[Begun]:
    """Yield what each part is read with the second time, in log order."""
    assert facts.parts is not None  # they are joined
    made = make(facts, ask)
    views = dict.fromkeys(view for view, _ in made.values())
    begun: dict[View, Sequence[Begin]] = {
        view: facts.parts.surveys[view].begins() for view in views
    }
    for those in zip(*begun.values(), strict=True):
        yield Begun(made, dict(zip(views, those, strict=True)))


def tally(part: Part, begun: Begun, read: ReadSegment = read_segment) -> dict[str, Tally]:
    """Read a part for the second time."""
    for view, begin in begun.begins.items():
        takers = [one for its, one in begun.tallies.values() if its == view]
        feed(read_pieces(part, *view, begin, read, columns_of(takers)), takers)
    return {name: one for name, (_, one) in begun.tallies.items()}


def finish(
    facts: PartitionFacts, make: Maker, ask: Any, tallied: Iterable[Mapping[str, Tally]]
) -> None:
    """Absorb what the parts of a partition kept, in log order; the question can be answered."""
    assert facts.parts is not None  # they are joined
    whole = {name: one for name, (_, one) in make(facts, ask).items()}
    for later in tallied:
        for name, one in later.items():
            whole[name].absorb(one)
    facts.parts.tallies = whole

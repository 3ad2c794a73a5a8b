"""The members of a group as of a record, with their partitions: the owners behind a finding.

A classic group's record has its members. A consumer group is replayed up to the record, once for
each request; its assignments have topic ids, whose names the log may lack.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import takewhile
from operator import itemgetter
from typing import Any

from coterie.insight.groups.topic_names import topic_names
from coterie.insight.records.group_replay import replay
from coterie.insight.records.partition_view import PartitionView
from coterie.state.assignments import Assignment, assignments
from coterie.state.consumer_protocol_groups import PROTOCOLS, consumer_member

CURRENT_ASSIGNMENT = PROTOCOLS["consumer"].current
Row = dict[str, Any]


def owners_at(
    view: PartitionView, group: str, log_offset: int, places: Iterable[tuple[str, int]]
) -> list[Row]:
    """Return the members that own any of some partitions as of a record."""
    searched = set(places)
    return [
        member
        for member, owned in members_at(view, group, log_offset)
        if any((topic, number) in searched for topic in owned for number in owned[topic])
    ]


def members_at(
    view: PartitionView, group: str, log_offset: int
) -> Iterator[tuple[Row, Assignment]]:
    """Yield each member of a group as of a record, with its partitions.

    None of a share or streams group.
    """
    state = classic_at(view, group, log_offset)
    if state is not None:
        assigned = assignments({"type": "classic", **state})
        for member in state["members"]:
            yield member, assigned[member["member_id"]][0]
        return
    records = view.newer_by_group.get(group, ())
    so_far = takewhile(lambda record: record.log_offset <= log_offset, records)
    replayed = deque(replay(so_far), maxlen=1)
    if not replayed:
        return
    ((_, _, last),) = replayed
    for member in map(consumer_member, last.consumer.members()):
        yield member, owned_by(view, member)


def owned_by(view: PartitionView, member: Row) -> Assignment:
    """Return the partitions of a member of a consumer group."""
    names, owned = topic_names(view), Assignment()
    for topic in member["current_assignment"]:
        name = names.get(topic["topic_id"], topic["topic_id"])
        owned.setdefault(name, []).extend(topic["partitions"])
    return owned


def owners_between(
    view: PartitionView, group: str, begin: int, end: int, place: tuple[str, int]
) -> list[Row]:
    """Return who owned a partition from one record up to another, in log order.

    A member of a consumer group owns it from the record on that assigns it to the member.
    """
    history, (topic, number) = view.histories.get(group), place
    later = [
        (at, owner)
        for at in (row["log_offset"] for row in (history.generations if history else ()))
        if begin < at < end
        for owner in owners_at(view, group, at, [place])
    ]
    for record, name, replayed in replay(view.newer_by_group.get(group, ())):
        if not begin < record.log_offset < end or record.version != CURRENT_ASSIGNMENT:
            continue
        member = replayed.member(record.version, name or "")
        if member is not None and number in owned_by(view, member).get(topic, ()):
            later.append((record.log_offset, member))
    later.sort(key=itemgetter(0))
    return [*owners_at(view, group, begin, [place]), *(owner for _, owner in later)]


def classic_at(view: PartitionView, group: str, log_offset: int) -> Row | None:
    """Return a classic group as of a record; None: it did not exist."""
    history = view.histories.get(group)
    if history is None:
        return None
    index = bisect_right(history.generations, log_offset, key=itemgetter("log_offset")) - 1
    return history.state(index) if index >= 0 else None

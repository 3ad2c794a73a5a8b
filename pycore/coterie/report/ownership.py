"""The partitions of each member over time: bars from one record of the group to the next.

A metadata record of a classic group has the assignments of all members, which are valid until the
next record. In a newer group each member has records of its own. ``GENERATIONS`` and ``MEMBERS``
limit the bars of a page; the number left out is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coterie.base.consumer_protocol import owned_partitions
from coterie.errors import CorruptData
from coterie.insight.records.group_log import GroupRecord
from coterie.insight.records.group_replay import replay
from coterie.insight.records.partition_view import GroupHistory
from coterie.log.connect_protocol import CONNECT, CONNECTOR, read_work
from coterie.state.consumer_protocol_groups import CURRENT_KEYS, MEMBER_KEYS

GENERATIONS = 400  # the last ones are shown
MEMBERS = 150  # those that were members longest are shown
Row = dict[str, Any]
Assigned = dict[str, list[int]]
Lane = tuple[bool, str]  # whether the id is a static one, and the id


class MemberBar(NamedTuple):
    """A member's partitions from ``start_ms`` to ``end_ms``; None: not an assignment of topics.

    ``revoking``: the partitions of a consumer group's member that it has to give up.
    """

    member_id: str
    start_ms: int
    end_ms: int
    generation: int | None
    assigned: Assigned | None
    revoking: Assigned | None = None


def timeline(bars: list[MemberBar], clients: Mapping[str, Sequence[Any]], left_out: int) -> Row:
    """Return bars as data: lanes in the order of their first bar, each assignment once.

    A static member has one lane for all its member ids. ``members`` are the lanes: (client
    id, host, static id, first member id); ``ids`` all member ids, ``assignments`` (number of
    partitions, text), ``bars`` (lane, start, end, generation, assignment, member id).
    """
    lanes = {bar.member_id: lane_of(bar.member_id, clients) for bar in bars}
    spent: dict[Lane, int] = {}
    heads: dict[Lane, list[Any]] = {}
    for bar in bars:
        lane = lanes[bar.member_id]
        spent[lane] = spent.get(lane, 0) + bar.end_ms - bar.start_ms
        names = clients.get(bar.member_id, (None, None, None))
        head = heads.setdefault(lane, [*names, bar.member_id])
        if head[:2] != list(names[:2]):
            head[:2] = [None, None]  # several clients have used this lane
    longest = set(sorted(spent, key=lambda lane: -spent[lane])[:MEMBERS])
    shown = [lane for lane in spent if lane in longest]
    places = {lane: place for place, lane in enumerate(shown)}
    texts: dict[tuple[int | None, str], int] = {}
    ids: dict[str, int] = {}
    drawn = [
        [
            *(places[lanes[bar.member_id]], bar.start_ms, bar.end_ms, bar.generation),
            texts.setdefault(assignment_text(bar.assigned, bar.revoking), len(texts)),
            ids.setdefault(bar.member_id, len(ids)),
        ]
        for bar in bars
        if lanes[bar.member_id] in longest
    ]
    return {
        "members": [heads[lane] for lane in shown],
        "ids": list(ids),
        "assignments": list(texts),
        "bars": drawn,
        "left_out": {"generations": left_out, "members": len(spent) - len(longest)},
    }


def lane_of(member_id: str, clients: Mapping[str, Sequence[Any]]) -> Lane:
    """Return the lane of a member id or of its static id."""
    instance = clients.get(member_id, (None, None, None))[2]
    return (False, member_id) if instance is None else (True, instance)


def classic_clients(life: GroupHistory) -> dict[str, tuple[str | None, str | None, str | None]]:
    """Return client id, host and static id of each member id of a classic group.

    For a static member that was replaced only the static id is known: its record names the first
    client.
    """
    return {
        member_id: (None, None, client.group_instance_id)
        if member_id in life.taken_over
        else (client.client_id, client.client_host, client.group_instance_id)
        for member_id, client in life.clients.items()
    }


def assignment_text(
    assigned: Assigned | None, revoking: Assigned | None = None
) -> tuple[int | None, str]:
    """Return the number of assigned partitions, and the names of all."""
    if assigned is None:
        return None, ""
    texts = [
        f"{topic}: {ranges(numbers)}" if numbers else topic
        for topic, numbers in sorted(assigned.items())
    ]
    texts += [
        f"to give up {topic}: {ranges(numbers)}"
        for topic, numbers in sorted((revoking or {}).items())
    ]
    return sum(map(len, assigned.values())), "; ".join(texts)


def ranges(numbers: list[int]) -> str:
    """Return ascending numbers as text: 0-2, 5."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def classic_bars(life: GroupHistory, end_ms: int) -> Iterator[MemberBar]:
    """Yield the bars of a classic group's last ``GENERATIONS`` records; ``end_ms``: of the log."""
    first = max(len(life.records) - GENERATIONS, 0)
    times = [record.timestamp for record in life.records]
    for index in range(first, len(life.records)):
        state = life.state(index)
        if state is None or times[index] < 0:
            continue
        next_ms = times[index + 1] if index + 1 < len(times) else end_ms
        for member in state["members"]:
            assigned = assigned_of(state["protocol_type"], member)
            bounds = times[index], max(next_ms, times[index])
            yield MemberBar(member["member_id"], *bounds, state["generation"], assigned)


def assigned_of(protocol_type: str | None, member: Row) -> Assigned | None:
    """Decode a member's assignment; None if the bytes are not one.

    A worker of Kafka Connect has tasks by connector; a connector itself has no numbers.
    """
    try:
        if protocol_type == CONNECT:
            assigned: Assigned = {}
            for connector, task in sorted(read_work(member["subscription"], member["assignment"])):
                if task == CONNECTOR:
                    assigned[f"connector {connector}"] = []
                else:
                    assigned.setdefault(f"tasks of {connector}", []).append(task)
            return assigned
        return owned_partitions(member["assignment"]) if protocol_type == "consumer" else None
    except CorruptData:
        return None


def newer_bars(
    records: Iterable[GroupRecord], names: dict[str, str], end_ms: int
) -> Iterator[MemberBar]:
    """Yield the bars of a newer group; ``names``: topic id -> name, as far as known."""
    open_bars: dict[str, MemberBar] = {}
    before = None
    for record, member_id, group in replay(records):
        at_ms = record.timestamp
        if group is not before:  # in another partition of the topic, without its members
            for bar in open_bars.values():
                yield bar._replace(end_ms=max(at_ms, bar.start_ms))
            open_bars, before = {}, group
        if record.version not in CURRENT_KEYS or at_ms < 0:
            continue
        assert member_id is not None  # it is in the key
        last = open_bars.pop(member_id, None)
        if last is not None and at_ms > last.start_ms:
            yield last._replace(end_ms=at_ms)
        row = None if record.value is None else group.member(record.version, member_id)
        if row is not None and "current_assignment" in row:
            assigned, revoking = (
                {
                    names.get(topic["topic_id"], topic["topic_id"]): sorted(topic["partitions"])
                    for topic in row[kind]
                }
                for kind in ("current_assignment", "pending_revocation")
            )
            bounds = member_id, at_ms, at_ms
            open_bars[member_id] = MemberBar(*bounds, row["member_epoch"], assigned, revoking)
    for bar in open_bars.values():
        yield bar._replace(end_ms=max(end_ms, bar.start_ms))


def newer_clients(records: Iterable[GroupRecord]) -> dict[str, tuple[Any, ...]]:
    """Return member id -> (client id, host, static id) of a newer group."""
    found: dict[str, tuple[Any, ...]] = {}
    for record, member_id, group in replay(records):
        if record.version in MEMBER_KEYS:
            assert member_id is not None  # it is in the key
            row = group.member(record.version, member_id)
            if row is not None:
                names = ("client_id", "client_host", "group_instance_id")
                found[member_id] = tuple(row[name] for name in names)
    return found

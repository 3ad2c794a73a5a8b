"""What the records of a group and its commits suggest of its members.

Adds to a group's timeline how members seem to have left, and to a classic group's how long
partitions had no owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coterie.insight.groups import departures
from coterie.insight.groups.departures import POLL_TIMEOUT, Departure
from coterie.insight.groups.epochs import Gone
from coterie.insight.groups.protocol_switches import row_in_words
from coterie.insight.groups.timeline import EMPTY, SOURCE
from coterie.insight.groups.unowned import OwnershipTracker, Place, joins_complete
from coterie.insight.offsets.commit_spans import CommitSpans
from coterie.insight.records.partition_view import GroupHistory

SESSION_MS = 45_000  # Kafka's group.consumer.session.timeout.ms: no record has a broker's own
Row = dict[str, Any]


def follow(
    history: GroupHistory, events: Sequence[Row], spans: CommitSpans, *, suggest: bool
) -> list[Departure]:
    """Add to the events of a group what is known of its members; return those that are gone.

    ``suggest``: whether to add how they seem to have left, because no broker's log shows it.
    """
    records = {record["log_offset"]: index for index, record in enumerate(history.generations)}
    tracker = OwnershipTracker()
    committed: dict[Place, int] = {}  # the last commits so far
    before: Row | None = None
    gone: list[Departure] = []
    for place, row in enumerate(events):
        committed.update(spans.last_before(history.group, place))
        index = records.get(row["log_offset"])
        if index is None:
            continue
        record, state = history.generations[index], history.state(index)
        left = departures_of(row, record, state, before, tracker.owners, committed)
        unowned = tracker.take(record, state, committed)
        if unowned is not None:
            if row.get(SOURCE) and row.get("duration_ms") is not None:
                unowned = unowned.within(row["duration_ms"])
            row |= {"unowned_least_ms": unowned.least_ms, "unowned_most_ms": unowned.most_ms}
        if suggest and departures.add_suggestions(row, left):
            row["cause"] = row_in_words(row)
        gone += left.values()
        before = None if state is None else {"state": state, "at_ms": record["timestamp"]}
    return gone


def follow_consumers(
    members: Iterable[Gone],
    events: Sequence[Row],
    spans: CommitSpans,
    group: str,
    names: Mapping[str, str],
) -> list[Departure]:
    """Add how a consumer group's members seem to have left; return those that are gone.

    ``names``: topic id -> name. A static member that had left for now has its own reason, and so
    has one that did not give up partitions in time: it did not poll.
    """
    waiting = {
        (gone.member["member_id"], gone.record.file, gone.record.position): gone for gone in members
    }
    committed: dict[Place, int] = {}  # the last commits so far
    found: list[Departure] = []
    for place, row in enumerate(events):
        committed.update(spans.last_before(group, place))
        left: dict[str, Departure] = {}
        late: set[str] = set()
        for cause in row["causes"]:
            name = cause["member_id"], row["file"], row["position"]
            if name in waiting and waiting[name].timed_out:
                late.add(name[0])
            if cause["what"] != "left_or_evicted" or cause["detail"] or name not in waiting:
                continue
            departure = departure_of_consumer(waiting.pop(name), committed, names)
            if departure is not None:
                left[name[0]] = departure
        if left and departures.add_suggestions(row, left):
            row["cause"] = row_in_words(row)
        if late:
            row["suggested"] = row.get("suggested", {}) | dict.fromkeys(late, POLL_TIMEOUT)
        found += left.values()
    return found


def departure_of_consumer(
    gone: Gone, committed: Mapping[Place, int], names: Mapping[str, str]
) -> Departure | None:
    """Return the departure of a consumer group's member; None: of a share group, or not known.

    ``committed``: the last commits before it; ``names``: topic id -> name.
    """
    timeout_ms = gone.member["rebalance_timeout_ms"] or 0
    if timeout_ms <= 0:
        return None
    last = [committed.get((names.get(topic, topic), number)) for topic, number in gone.places]
    return Departure(
        gone.member["member_id"],
        gone.record.timestamp,
        gone.joined_ms,
        max((ms for ms in last if ms is not None), default=None),
        SESSION_MS,
        timeout_ms,
        gone.record.log_offset,
    )


def departures_of(
    row: Row,
    record: Row,
    state: Row | None,
    before: Row | None,
    owners: Mapping[Place, str],
    committed: Mapping[Place, int],
) -> dict[str, Departure]:
    """Return the members that a record lacks, of those of the record before."""
    at_ms = record["timestamp"]
    if before is None or state is None or at_ms is None or before["at_ms"] is None:
        return {}
    gone_ms = at_ms if row["event"] == EMPTY else joins_complete(state, before["at_ms"], at_ms)
    left = {cause["member_id"] for cause in row["causes"] if cause["what"] == "left_or_evicted"}
    left |= {cause["detail"] for cause in row["causes"] if cause["what"] == "restarted"}
    arrivals = [cause for cause in row["causes"] if cause["what"] in ("joined", "restarted")]
    others_joined = row["event"] != EMPTY and bool(arrivals)
    last: dict[str, int] = {}
    for place, member in owners.items():
        if member in left and place in committed:
            last[member] = max(committed[place], last.get(member, committed[place]))
    return {
        member["member_id"]: Departure(
            member["member_id"],
            gone_ms,
            before["at_ms"],
            last.get(member["member_id"]),
            member["session_timeout_ms"],
            member["rebalance_timeout_ms"],
            record["log_offset"],
            others_joined,
        )
        for member in before["state"]["members"]
        if member["member_id"] in left
    }

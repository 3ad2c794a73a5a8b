"""The generations and epochs of a group with their members: what a rehearsal plays again.

The events and causes are those of ``explain``, so a broker's logs make them exact; beside each
stand the members as of its record, with their subscriptions, timeouts and assignments. Of an epoch
these are the target assignments that were computed for it. Epochs of share and streams groups have
no members. A last row of a group has its commits, thinned
(``coterie.insight.offsets.commit_curves``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from coterie.base.consumer_protocol import read_subscription
from coterie.errors import CorruptData
from coterie.insight.groups.causes import CAUSE
from coterie.insight.groups.departures import ways_of
from coterie.insight.groups.epochs import EPOCH_EVENT, STATIC_LEAVE
from coterie.insight.groups.member_changes import STATIC_REPLACEMENT
from coterie.insight.groups.protocol_switches import DOWNGRADED, UPGRADED
from coterie.insight.groups.timeline import DELETED, EMPTY, GENERATION
from coterie.insight.groups.topic_names import topic_names
from coterie.insight.offsets.commit_curves import CommitCurves
from coterie.insight.questions import explain
from coterie.insight.questions.explain import Parameters, PartitionTimelines
from coterie.insight.records.aggregates import AggregatesByName
from coterie.insight.records.group_replay import GroupReplay, replay
from coterie.insight.records.partition_view import PartitionView
from coterie.state.assignments import assignments, by_topic
from coterie.state.consumer_protocol_groups import PROTOCOLS, consumer_member

__all__ = ["FIELDS", "NAME", "Parameters", "aggregates", "rows"]

NAME = "generations"
COORDINATOR_CHANGE = "coordinator_change"
COMMITS, CURVES = "commits", "commit_curves"
OF_EPOCHS = (EPOCH_EVENT, STATIC_LEAVE, UPGRADED)
EVENTS = (
    *(GENERATION, EMPTY, DELETED, COORDINATOR_CHANGE, STATIC_REPLACEMENT, DOWNGRADED),
    *OF_EPOCHS,
)
MEMBER = {
    "member_id": "string",
    "client_id": "string",
    "client_host": "string",
    "group_instance_id": "string",
    "protocol": "string",  # classic, consumer
    "session_timeout_ms": "int32",  # null: the broker's
    "rebalance_timeout_ms": "int32",
    "server_assignor": "string",  # that it votes for
    "topics": ["string"],  # subscribed, or found for its regular expression; null: not readable
    "assignment": [{"topic": "string", "partitions": ["int32"]}],
}
FIELDS = {
    "group_id": "string",
    "event": "string",  # of EVENTS
    "timestamp": "timestamp",  # of the record
    "log_offset": "int64",
    "generation": "int32",  # or epoch
    "joined_at": "timestamp",  # when the joins were complete; null: not known
    "protocol": "string",
    "causes": [CAUSE],
    "departures": [{"member_id": "string", "how": "string"}],  # where known; how: of WAYS
    "members": [MEMBER],
    "commits": [
        {"topic": "string", "partition": "int32", "times_ms": ["int64"], "offsets": ["int64"]}
    ],  # of the event commits
}
Row = dict[str, Any]


def aggregates(view: PartitionView, parameters: Parameters) -> AggregatesByName:
    return {**explain.aggregates(view, parameters), **_curves(view)}


def _curves(view: PartitionView) -> AggregatesByName:
    return {CURVES: (view.record_filter, CommitCurves())}


def rows(view: PartitionView, parameters: Parameters) -> Iterator[Row]:
    """Yield the events of each group, in log order, with its members after each; its commits."""
    timelines = PartitionTimelines(view, parameters)
    filled: CommitCurves = timelines.read(_curves(view))[CURVES]
    curves: dict[str, list[Row]] = {}
    for curve in filled.curves():
        row = curve._asdict()
        curves.setdefault(row.pop("group"), []).append(row)
    for group in view.group_ids:
        last = None
        history = view.histories.get(group)
        index_of = (
            {}
            if history is None
            else {row["log_offset"]: index for index, row in enumerate(history.generations)}
        )
        events = [event for event in timelines.rows_of(group) if event["event"] in EVENTS]
        epochs = _Epochs(view, group, events)
        for event in events:
            index = index_of.get(event["log_offset"])
            row = {name: event.get(name) for name in FIELDS}
            row |= {"group_id": group, "causes": event.get("causes", []), "members": []}
            last = row
            ways = ways_of(row | {"suggested": event.get("suggested")})
            row["departures"] = [{"member_id": one, "how": how} for one, how in ways.items()]
            if history is not None and index is not None and event["event"] != UPGRADED:
                row["joined_at"] = history.generations[index]["current_state_timestamp"]
                state = history.state(index)
                row["members"] = [] if state is None else _members(state)
            else:
                row["members"] = epochs.members(event)
            yield row
        if last is not None and group in curves:
            of_commits = {"group_id": group, "event": COMMITS, "timestamp": last["timestamp"]}
            empty = {"causes": [], "departures": [], "members": [], "commits": curves[group]}
            yield dict.fromkeys(FIELDS) | of_commits | empty


class _Epochs:
    """The members of a consumer group at its epochs, and after some other batches of records."""

    def __init__(self, view: PartitionView, group: str, events: Collection[Row]) -> None:
        self._at_epoch: dict[int, list[Row]] = {}  # by the log offset of its record
        self._after: dict[tuple[str, int], list[Row]] = {}  # by batch
        self._first: dict[tuple[str, int], int] = {}  # batch -> its first epoch's log offset
        records = view.newer_by_group.get(group, ())
        others = {_batch(one) for one in events if one["event"] == STATIC_REPLACEMENT}
        names = topic_names(view) if records else {}
        last: list[Row] = []
        for record, _, replayed in replay(records):
            if record.value is not None:
                if record.version == PROTOCOLS["consumer"].epoch:
                    last = self._at_epoch[record.log_offset] = _consumers(replayed, names)
                    self._first.setdefault((record.file, record.position), record.log_offset)
                elif record.version == PROTOCOLS["consumer"].target_epoch:
                    _assign(last, _consumers(replayed, names))
            if (batch := (record.file, record.position)) in others:
                self._after[batch] = _consumers(replayed, names)

    def members(self, event: Row) -> list[Row]:
        """Return the members as of an event; none: it is of another kind."""
        if event["event"] == STATIC_REPLACEMENT:
            return self._after.get(_batch(event), [])
        offset = event["log_offset"]
        if event["event"] == UPGRADED:  # if no member carried on, the epoch has its own event
            offset = self._first.get(_batch(event)) if event["member_count"] else None
        return self._at_epoch.get(offset, [])


def _batch(event: Row) -> tuple[str, int]:
    return event["file"], event["position"]


def _consumers(group: GroupReplay, names: Mapping[str, str]) -> list[Row]:
    """Return the members of a consumer group, with their targets."""
    expressions = group.consumer.regular_expressions
    found = []
    for member in map(consumer_member, group.consumer.members()):
        targets = member["target_assignment"]
        for topic in targets:
            topic["topic"] = names.get(topic["topic_id"])
        topics = {*member["subscribed_topics"], *expressions.get(member["subscribed_regex"], ())}
        found.append(
            {name: member[name] for name in MEMBER if name in member}
            | {"protocol": "consumer" if member["upgraded"] else "classic"}
            | {"topics": sorted(topics), "assignment": _assignment(by_topic(targets))}
        )
    return found


def _assign(members: list[Row], later: list[Row]) -> None:
    """Give members the targets that they have later."""
    targets = {member["member_id"]: member["assignment"] for member in later}
    for member in members:
        member["assignment"] = targets.get(member["member_id"], [])


def _assignment(partitions: Mapping[str, list[int]]) -> list[Row]:
    return [{"topic": name, "partitions": numbers} for name, numbers in sorted(partitions.items())]


def _members(state: Row) -> list[Row]:
    assigned = assignments({"type": "classic", **state})
    return [
        {
            **{name: member[name] for name in MEMBER if name in member},
            "protocol": "classic",
            "server_assignor": None,
            "topics": _topics(member["subscription"]),
            "assignment": _assignment(assigned[member["member_id"]][0]),
        }
        for member in state["members"]
    ]


def _topics(subscription: bytes) -> list[str] | None:
    try:
        return sorted(read_subscription(subscription).topics)
    except CorruptData:
        return None

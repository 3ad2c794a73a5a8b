"""The generations of a classic group with their members: what a rehearsal plays again.

The events and causes are those of ``explain``, so a broker's logs make them exact; beside each
stand the members as of its record, with their subscriptions, timeouts and assignments. A last row
of a group has its commits, thinned (``coterie.insight.offsets.commit_curves``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coterie.base.consumer_protocol import read_subscription
from coterie.errors import CorruptData
from coterie.insight.groups.causes import CAUSE
from coterie.insight.groups.departures import ways_of
from coterie.insight.groups.timeline import DELETED, EMPTY, GENERATION
from coterie.insight.offsets.commit_curves import CommitCurves
from coterie.insight.questions import explain
from coterie.insight.questions.explain import Parameters, PartitionTimelines
from coterie.insight.records.aggregates import AggregatesByName
from coterie.insight.records.partition_view import PartitionView
from coterie.state.assignments import assignments

__all__ = ["FIELDS", "NAME", "Parameters", "aggregates", "rows"]

NAME = "generations"
COORDINATOR_CHANGE, REPLACED = "coordinator_change", "static_replacement"
COMMITS, CURVES = "commits", "commit_curves"
EVENTS = (GENERATION, EMPTY, DELETED, COORDINATOR_CHANGE, REPLACED)
MEMBER = {
    "member_id": "string",
    "client_id": "string",
    "client_host": "string",
    "group_instance_id": "string",
    "session_timeout_ms": "int32",
    "rebalance_timeout_ms": "int32",
    "topics": ["string"],  # subscribed; null: the subscription cannot be read
    "assignment": [{"topic": "string", "partitions": ["int32"]}],
}
FIELDS = {
    "group_id": "string",
    "event": "string",  # of EVENTS
    "timestamp": "timestamp",  # of the record
    "log_offset": "int64",
    "generation": "int32",
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
        for event in timelines.rows_of(group):
            if event["event"] not in EVENTS:
                continue
            index = index_of.get(event["log_offset"])
            row = {name: event.get(name) for name in FIELDS}
            row |= {"group_id": group, "causes": event.get("causes", []), "members": []}
            last = row
            ways = ways_of(row | {"suggested": event.get("suggested")})
            row["departures"] = [{"member_id": one, "how": how} for one, how in ways.items()]
            if history is not None and index is not None:
                row["joined_at"] = history.generations[index]["current_state_timestamp"]
                state = history.state(index)
                row["members"] = [] if state is None else _members(state)
            yield row
        if last is not None and group in curves:
            of_commits = {"group_id": group, "event": COMMITS, "timestamp": last["timestamp"]}
            empty = {"causes": [], "departures": [], "members": [], "commits": curves[group]}
            yield dict.fromkeys(FIELDS) | of_commits | empty


def _members(state: Row) -> list[Row]:
    assigned = assignments({"type": "classic", **state})
    return [
        {
            **{name: member[name] for name in MEMBER if name in member},
            "topics": _topics(member["subscription"]),
            "assignment": [
                {"topic": topic, "partitions": numbers}
                for topic, numbers in sorted(assigned[member["member_id"]][0].items())
            ],
        }
        for member in state["members"]
    ]


def _topics(subscription: bytes) -> list[str] | None:
    try:
        return sorted(read_subscription(subscription).topics)
    except CorruptData:
        return None

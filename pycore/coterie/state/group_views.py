"""The views of kafka-consumer-groups as rows: offsets, members, state and the list.

Rows are made from group rows (``PartialState.groups``); ``coterie.state.tabular`` draws them.
Values that only a live broker knows (coordinator, log end offset, lag) are None. Kafka's order of
rows depends on hashes; here members are sorted by number of partitions (most first), then by id,
and partitions by topic and number. Sources: ConsumerGroupCommand, ShareGroupCommand,
StreamsGroupCommand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from coterie.base.ordering import java_order, place_order
from coterie.errors import CorruptData
from coterie.log.connect_protocol import CONNECT, CONNECTOR, read_assignment, read_state, work_of
from coterie.state.assignments import Assignment, assignments, by_topic
from coterie.state.consumer_protocol_groups import TAGGED_OF_GROUP, unreconciled
from coterie.state.share_state import UNSET, SharePartition

Row = dict[str, Any]
KINDS = ("consumer", "share", "streams")
TASK_NAMES = {"activeTasks": "ACTIVE", "standbyTasks": "STANDBY", "warmupTasks": "WARMUP"}


def kind_of(group: Row) -> str | None:
    """Return which of Kafka's tools lists a group; None for classic groups of another kind."""
    if group["type"] in ("share", "streams"):
        kind: str = group["type"]
        return kind
    return "consumer" if group["protocol_type"] in (None, "", "consumer") else None


def drawn_as(group: Row, view: str) -> str:
    """Return whose view shows a group: its kind's, or for a worker of Connect its own."""
    if view == "members" and group["type"] == "classic" and group["protocol_type"] == CONNECT:
        return CONNECT
    return kind_of(group) or "consumer"


def list_row(group: Row) -> Row:
    return {
        "group": group["group_id"],
        "type": group["type"].capitalize(),
        "protocol_type": group["protocol_type"],
        "state": group["state"],
    }


def offset_rows(group: Row) -> list[Row]:
    """Return the offsets view: partitions of members, then other committed partitions."""
    committed = {(o["topic"], o["partition"]): o for o in group["offsets"]}
    assigned = assignments(group)
    owned: set[tuple[str, int]] = set()
    rows = []
    members = sorted(
        group["members"],
        key=lambda m: (-_size(assigned[m["member_id"]][0]), java_order(m["member_id"])),
    )
    for member in members:
        for place in _places(assigned[member["member_id"]][0]):
            owned.add(place)
            rows.append(_offset_row(group, place, committed.get(place), member))
    rest = sorted(committed.keys() - owned, key=place_order)
    rows += [_offset_row(group, place, committed[place], None) for place in rest]
    return rows


def _offset_row(group: Row, place: tuple[str, int], offset: Row | None, member: Row | None) -> Row:
    epoch = None if offset is None or offset["leader_epoch"] < 0 else offset["leader_epoch"]
    return {
        "group": group["group_id"],
        "topic": place[0],
        "partition": place[1],
        "leader_epoch": epoch,
        "current_offset": None if offset is None else offset["offset"],
        "log_end_offset": None,
        "lag": None,
        "consumer_id": None if member is None else member["member_id"],
        "host": None if member is None else member["client_host"],
        "client_id": None if member is None else member["client_id"],
    } | ({"topic_id": offset["topic_id"]} if offset is not None and "topic_id" in offset else {})


def open_transaction_rows(group: Row) -> list[Row]:
    """Return the offsets that open transactions hold, by producer and place in the log."""
    committed = {(o["topic"], o["partition"]): o["offset"] for o in group["offsets"]}
    return [
        {
            "group": group["group_id"],
            "producer_id": producer["producer_id"],
            "since": offset["commit_timestamp"],
            "topic": offset["topic"],
            "partition": offset["partition"],
            "current_offset": committed.get((offset["topic"], offset["partition"])),
            "pending_offset": offset["offset"],
        }
        for producer in group["pending_transactional_offsets"]
        for offset in producer["offsets"]
    ]


def member_rows(group: Row) -> list[Row]:
    """Return the members view; epochs and targets are None in a classic group."""
    assigned = assignments(group)
    modern = group["type"] == "consumer"
    return [
        {
            "group": group["group_id"],
            "consumer_id": member["member_id"],
            "group_instance_id": member["group_instance_id"],
            "host": member["client_host"],
            "client_id": member["client_id"],
            "partitions": _size(assigned[member["member_id"]][0]),
            "current_epoch": member["member_epoch"] if modern else None,
            "current_assignment": assigned[member["member_id"]][0],
            "target_epoch": group["target_assignment_epoch"] if modern else None,
            "target_assignment": by_topic(member["target_assignment"]) if modern else {},
            "upgraded": member["upgraded"] if modern else None,
            "member_state": member["member_state"] if modern else None,
            "pending_revocation": by_topic(member["pending_revocation"]) if modern else {},
            **(_epochs_of(member["current_assignment"]) if modern else {}),
        }
        for member in group["members"]
    ]


def _epochs_of(assignment: list[Row]) -> Row:
    """Return the epochs at which a member got its partitions, by topic, if the log has them."""
    epochs: dict[str, list[int | None]] = {}
    for topic in assignment:
        name = topic["topic_id"] if topic["topic"] is None else topic["topic"]
        of_partitions = sorted(
            zip(topic["partitions"], topic.get("assignment_epochs", ()), strict=False)
        )
        if of_partitions:
            epochs[name] = [epoch for _, epoch in of_partitions]
    return {"assignment_epochs": epochs} if epochs else {}


def _tagged(group: Row) -> Row:
    """Return what Kafka 4.3 added to a group's records, if the log has it."""
    return {name: group[name] for name in TAGGED_OF_GROUP if name in group}


def unreconciled_rows(group: Row) -> list[Row]:
    """Return the members of a consumer group that do not have their target assignment yet."""
    is_consumer = group["type"] == "consumer"
    return member_rows(group | {"members": unreconciled(group)}) if is_consumer else []


def worker_rows(group: Row) -> list[Row]:
    """Return the workers of a Connect cluster, with what its leader assigned to them.

    Kafka has no such view. What cannot be read is None.
    """
    rows = []
    for row, member in zip(member_rows(group), group["members"], strict=True):
        state = assignment = None
        with suppress(CorruptData):
            state = read_state(member["subscription"])
        with suppress(CorruptData):
            assignment = read_assignment(member["assignment"])
        work = work_of(state, assignment)
        tasks: Assignment = {}
        for connector, task in sorted(work):
            if task != CONNECTOR:
                tasks.setdefault(connector, []).append(task)
        standard = ("group", "consumer_id", "group_instance_id", "host", "client_id", "partitions")
        rows.append(
            {
                **{name: row[name] for name in standard},
                "url": None if state is None else state.url,
                "leader": member["member_id"] == group["leader"],
                "config_offset": None if state is None else state.config_offset,
                "assigned_config_offset": None if assignment is None else assignment.config_offset,
                "delay_ms": None if assignment is None else assignment.delay_ms,
                "error": None if assignment is None else assignment.error,
                "connectors": sorted(name for name, task in work if task == CONNECTOR),
                "tasks": tasks,
            }
        )
    return rows


def state_row(group: Row) -> Row:
    """Return the state view: one row."""
    classic = group["type"] == "classic"
    # A broker reports a classic group's protocol only while the group is stable.
    protocol = group["protocol"] if not classic or group["state"] == "Stable" else None
    return {
        "group": group["group_id"],
        "coordinator": None,
        "assignment_strategy": protocol,
        "state": group["state"],
        "group_epoch": None if classic else group["group_epoch"],
        "target_assignment_epoch": None if classic else group["target_assignment_epoch"],
        "members": len(group["members"]),
    } | _tagged(group)


def share_offset_rows(group: Row) -> list[Row]:
    """Return a share group's partitions; ``share_state`` has their states, from another topic."""
    places: Assignment = {}
    for topic in group["initialized_topics"]:
        places.setdefault(topic["topic"], []).extend(topic["partitions"])
    rows = [
        {
            "group": group["group_id"],
            "topic": topic,
            "partition": partition,
            "leader_epoch": None,
            "start_offset": None,
        }
        for topic, partition in _places(places)
    ]
    if "share_state" in group:
        states: Mapping[Any, SharePartition] = group["share_state"]
        ids = {name: topic_id for topic_id, name in group["topic_ids"].items()}
        for row in rows:
            state = states.get((row["group"], ids.get(row["topic"]), row["partition"]), UNSET)
            if state.start_offset is None:
                state = UNSET
            row["leader_epoch"], row["start_offset"] = state.leader_epoch, state.start_offset
            row["in_flight_records"] = state.in_flight_records
            row["delivery_complete_count"] = state.delivery_complete_count
            row["log_end_offset"] = row["lag"] = None
    return rows


def with_end_offsets(rows: Iterable[Row], ends: Mapping[tuple[str, int], int]) -> None:
    """Add the ends of partitions' logs to rows of offsets, and the lag.

    The lag of a group ahead of the end is unknown, as in ``lag``: the end is older than the commit.
    """
    for row in rows:
        end = ends.get((row["topic"], row["partition"]))
        row["log_end_offset"] = end
        done = [row["current_offset"]] if "current_offset" in row else [
            row["start_offset"], row.get("delivery_complete_count")
        ]  # fmt: skip
        if end is not None and None not in done and sum(done) <= end:
            row["lag"] = end - sum(done)


def share_member_rows(group: Row) -> list[Row]:
    rows = []
    for member in group["members"]:
        assignment = by_topic(member["current_assignment"])
        rows.append(
            {
                "group": group["group_id"],
                "consumer_id": member["member_id"],
                "host": member["client_host"],
                "client_id": member["client_id"],
                "partitions": _size(assignment),
                "member_epoch": member["member_epoch"],
                "assignment": assignment,
            }
        )
    return rows


def share_state_row(group: Row) -> Row:
    """Return a share or streams group's state."""
    return {
        "group": group["group_id"],
        "coordinator": None,
        "state": group["state"],
        "group_epoch": group["group_epoch"],
        "assignment_epoch": group["target_assignment_epoch"],
        "members": len(group["members"]),
    } | _tagged(group)


def streams_member_rows(group: Row) -> list[Row]:
    """Return a streams group's members, with their tasks as Kafka writes them."""
    topology = group["topology"] or {}
    return [
        {
            "group": group["group_id"],
            "target_assignment_epoch": group["target_assignment_epoch"],
            "topology_epoch": topology.get("epoch"),
            "member": member["member_id"],
            "member_protocol": "streams",
            "member_epoch": member["member_epoch"],
            "process": member["process_id"],
            "client_id": member["client_id"],
            "assignments": _tasks(member["current_tasks"], ""),
            "target_assignments": _tasks(member["target_tasks"], "TARGET-"),
        }
        for member in group["members"]
    ]


def streams_offset_rows(group: Row) -> list[Row]:
    """Return a streams group's committed partitions and the source partitions of its tasks."""
    sources = {
        part["subtopologyId"]: part["sourceTopics"]
        for part in (group["topology"] or {}).get("subtopologies", ())
    }
    committed = {(o["topic"], o["partition"]): o for o in group["offsets"]}
    places = set(committed)
    for member in group["members"]:
        for task in member["current_tasks"]["activeTasks"]:
            topics = sources.get(task["subtopologyId"], ())
            places |= {(topic, number) for topic in topics for number in task["partitions"]}
    ordered = sorted(places, key=place_order)
    rows = []
    for place in ordered:
        row = _offset_row(group, place, committed.get(place), None)
        for name in ("consumer_id", "host", "client_id"):
            del row[name]
        rows.append(row)
    return rows


def _tasks(tasks: dict[str, list[Row]], prefix: str) -> str:
    text = ""
    for kind, name in TASK_NAMES.items():
        parts = "".join(
            f"{task['subtopologyId']}:[{','.join(map(str, task['partitions']))}]; "
            for task in tasks[kind]
        )
        text += f"{prefix}{name}: {parts}" if parts else ""
    return text


def _places(assignment: Assignment) -> Iterator[tuple[str, int]]:
    for topic in sorted(assignment, key=java_order):
        for number in assignment[topic]:
            yield topic, number


def _size(assignment: Assignment) -> int:
    return sum(map(len, assignment.values()))


VIEWS: dict[tuple[str, str], Callable[[Row], list[Row]]] = {
    ("consumer", "offsets"): offset_rows,
    ("consumer", "members"): member_rows,
    ("consumer", "state"): lambda group: [state_row(group)],
    (CONNECT, "members"): worker_rows,
    ("share", "offsets"): share_offset_rows,
    ("share", "members"): share_member_rows,
    ("share", "state"): lambda group: [share_state_row(group)],
    ("streams", "offsets"): streams_offset_rows,
    ("streams", "members"): streams_member_rows,
    ("streams", "state"): lambda group: [share_state_row(group)],
}

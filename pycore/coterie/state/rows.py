"""Rows of people's tables, from a fold: groups with members and offsets, as plain dicts.

The schema is that of ``groups.json``; bytes stay bytes, base64 is put on at the JSON edge.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Any

from coterie._core.codec.schema import decode_value
from coterie._core.codec.subscription import consumer_topics
from coterie._core.codec.text import decode_utf8
from coterie._core.fold import partial
from coterie._core.fold.fold import PartitionFold
from coterie.state.newer import newer_groups

KEY_GROUP = 2


def offset_rows(
    fold: PartitionFold, wanted: Container[str] | None = None
) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield (group id, offset) for every offset that readers see, in order of first sight.

    Of a group that is not ``wanted`` (None: all are), None stands for the offset.
    """
    for key, values in partial.offset_entries(fold):
        name, topic, partition = partial.split_key(key)
        group = decode_utf8(name)
        if wanted is None or group in wanted:
            yield group, offset_row(decode_utf8(topic), partition, values)
        else:
            yield group, None


def offset_row(topic: str, partition: int, values: tuple[Any, ...]) -> dict[str, Any]:
    """Return one offset; ``values`` as a producer's pending ones are kept."""
    position, offset, committed, expires, epoch, metadata = values
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "leader_epoch": epoch,
        "metadata": decode_utf8(metadata),
        "commit_timestamp": committed,
        "expire_timestamp": None if expires == -1 else expires,
        "appended_batch_offset": position,
    }


def pending_rows(fold: PartitionFold) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield (group id, producer id, offset) for every undecided transactional commit."""
    for producer_id, producer in fold.producers.items():
        for index, values in producer.pending.items():
            if values is not None:
                group, topic, partition = partial.split_key(partial.key_at(fold, index))
                row = offset_row(decode_utf8(topic), partition, values)
                yield decode_utf8(group), producer_id, row


def metadata_row(value: bytes) -> dict[str, Any]:
    """Return a group's own fields from its last metadata record, as a load takes them."""
    data = decode_value(KEY_GROUP, value)["data"]
    members = [
        {
            "member_id": member["memberId"],
            "group_instance_id": member.get("groupInstanceId"),
            "client_id": member["clientId"],
            "client_host": member["clientHost"],
            "session_timeout_ms": member["sessionTimeout"],
            "rebalance_timeout_ms": member.get("rebalanceTimeout", member["sessionTimeout"]),
            "subscription": member["subscription"],
            "assignment": member["assignment"],
        }
        for member in data["members"]
    ]
    timestamp = data.get("currentStateTimestamp", -1)
    protocol_type = data["protocolType"] or None
    leader = data["leader"]
    if leader is None and members:
        leader = members[0]["member_id"]
    topics = None
    if protocol_type == "consumer":
        topics = consumer_topics([m["subscription"] for m in members], data["protocol"])
    return {
        "state": "Stable" if members else "Empty",
        "protocol_type": protocol_type,
        "generation": data["generation"],
        "protocol": data["protocol"],
        "leader": leader,
        "current_state_timestamp": None if timestamp == -1 else timestamp,
        "subscribed_topics": None if topics is None else sorted(topics, key=java_order),
        "members": sorted(members, key=lambda m: java_order(m["member_id"])),
    }


def java_order(text: str) -> bytes:
    """Sort key of Java's String.compareTo: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def simple_row() -> dict[str, Any]:
    """Return the fields of a group known by its offsets alone."""
    return {
        "state": "Empty",
        "protocol_type": None,
        "generation": 0,
        "protocol": None,
        "leader": None,
        "current_state_timestamp": None,
        "subscribed_topics": None,
        "members": [],
    }


def head_rows(fold: PartitionFold, named: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return every group's own fields by id; ``named`` are those known by their offsets."""
    found: dict[str, dict[str, Any]] = {}
    classic: dict[str, int] = {}
    for raw, log in fold.groups.items():
        if log.last[2] is not None:
            name = decode_utf8(raw)
            found[name] = {"type": "classic", **metadata_row(log.last[2])}
            classic[name] = log.last[0]
    found.update(newer_groups(fold.newer, classic))
    for name in named:
        if name not in found:
            found[name] = {"type": "classic", **simple_row()}
    return found


def pending_by_group(fold: PartitionFold) -> dict[str, list[dict[str, Any]]]:
    """Return ``pending_transactional_offsets`` of each group that has any."""
    pending: dict[str, dict[int, list[dict[str, Any]]]] = {}
    for group, producer_id, row in pending_rows(fold):
        pending.setdefault(group, {}).setdefault(producer_id, []).append(row)
    return {
        group: [
            {"producer_id": producer_id, "offsets": sorted(rows, key=_place)}
            for producer_id, rows in sorted(by_producer.items())
        ]
        for group, by_producer in pending.items()
    }


def group_rows(
    number: int | None, fold: PartitionFold, offsets_of: Container[str] | None = None
) -> list[dict[str, Any]]:
    """Return every group of a partition, in no order. See ``PartialState.groups``."""
    offsets: dict[str, list[dict[str, Any]]] = {}
    pending = pending_by_group(fold)
    for group, row in offset_rows(fold, offsets_of):
        found = offsets.setdefault(group, [])
        if row is not None:
            found.append(row)
    return [
        {
            "group_id": group,
            "offsets_partition": number,
            **row,
            "offsets": sorted(offsets.get(group, ()), key=_place),
            "pending_transactional_offsets": pending.get(group, []),
        }
        for group, row in head_rows(fold, (*offsets, *pending)).items()
    ]


def _place(row: dict[str, Any]) -> tuple[bytes, int]:
    return java_order(row["topic"]), row["partition"]

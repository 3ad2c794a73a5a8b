"""Group rows of a fold: groups with members and offsets, as dicts.

The schema is that of ``groups.json``; bytes stay bytes until they are written as JSON.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Container, Iterable, Iterator
from typing import Any

from coterie._core.codec.layout import decode_utf8
from coterie._core.codec.schema import consumer_topics, read_group_value
from coterie._core.fold import fold as partial
from coterie._core.fold.fold import PartitionFold
from coterie._core.fold.fold_state import Committed
from coterie.base.ordering import java_order, place_order
from coterie.state.consumer_protocol_groups import newer_groups

KEY_GROUP = 2


def visible_offsets(
    fold: PartitionFold, groups: Container[str] | None = None
) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield (group id, offset row) for every visible offset, in order of their first commits.

    The row is None for a group that is not in ``groups`` (None: all groups have rows).
    """
    for (group, topic, partition), values in partial.offset_entries(fold):
        if groups is None or group in groups:
            yield group, offset_row(topic, partition, values)
        else:
            yield group, None


def offset_row(topic: str, partition: int, committed: Committed) -> dict[str, Any]:
    expires = committed.expire_timestamp
    topic_id = committed.topic_id
    return {
        "topic": topic,
        "partition": partition,
        "offset": committed.offset,
        "leader_epoch": committed.leader_epoch,
        "metadata": decode_utf8(committed.metadata),
        "commit_timestamp": committed.commit_timestamp,
        "expire_timestamp": None if expires == -1 else expires,
        "appended_batch_offset": committed.batch_offset,
    } | ({} if topic_id is None else {"topic_id": topic_id_text(topic_id)})


def topic_id_text(topic_id: bytes) -> str:
    """Return a topic id as Kafka prints it."""
    return urlsafe_b64encode(topic_id).decode("ascii").rstrip("=")


def topic_id_texts(ids: bytes) -> list[str]:
    """Return the texts of topic ids that stand end to end."""
    return [topic_id_text(ids[at : at + 16]) for at in range(0, len(ids), 16)]


def pending_rows(fold: PartitionFold) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield (group id, producer id, offset row) for every commit of an open transaction."""
    for producer_id, (group, topic, partition), values in partial.pending_commits(fold):
        yield group, producer_id, offset_row(topic, partition, values)


def metadata_row(value: bytes) -> dict[str, Any]:
    """Return a group's own fields from its last metadata record, as Kafka loads them."""
    group = read_group_value(value)
    # Of two members with the same id, Kafka's map retains the later one.
    members = list({member.member_id: member._asdict() for member in group.members}.values())
    timestamp = group.current_state_timestamp
    topics = None
    if group.protocol_type == "consumer":
        topics = consumer_topics([m["subscription"] for m in members], group.protocol)
    return {
        "state": "Stable" if members else "Empty",
        "protocol_type": group.protocol_type,
        "generation": group.generation,
        "protocol": group.protocol,
        "leader": group.leader,
        "current_state_timestamp": None if timestamp == -1 else timestamp,
        "subscribed_topics": None if topics is None else sorted(topics, key=java_order),
        "members": sorted(members, key=lambda m: java_order(m["member_id"])),
    }


def simple_row() -> dict[str, Any]:
    """Return the own fields of a group that has only offsets."""
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
    """Return the own fields of all groups by id; ``named`` are groups with offsets."""
    heads: dict[str, dict[str, Any]] = {}
    classic: dict[str, int] = {}
    for raw, log in fold.groups.items():
        if log.last.value is not None:
            name = decode_utf8(raw)
            heads[name] = {"type": "classic", **metadata_row(log.last.value)}
            classic[name] = log.last.log_offset
    heads.update(newer_groups(fold.newer, classic))
    for name in named:
        if name not in heads:
            heads[name] = {"type": "classic", **simple_row()}
    return heads


def pending_by_group(fold: PartitionFold) -> dict[str, list[dict[str, Any]]]:
    """Return the ``pending_transactional_offsets`` of groups that have any."""
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
    """Return the groups of a partition, unordered; see ``PartialState.groups``."""
    offsets: dict[str, list[dict[str, Any]]] = {}
    pending = pending_by_group(fold)
    for group, row in visible_offsets(fold, offsets_of):
        group_offsets = offsets.setdefault(group, [])
        if row is not None:
            group_offsets.append(row)
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
    return place_order((row["topic"], row["partition"]))

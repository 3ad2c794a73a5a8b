"""The kinds of field that operations of consumer groups have: see ``fields``."""

from __future__ import annotations

import base64
from functools import partial
from typing import Any

from coterie.base.arguments import sequence
from coterie.consumer_groups import encode_topic_id
from coterie.coordinator import fields
from coterie.coordinator.fields import Fields, Kind, entries, integer, string, topic_id
from coterie.errors import ArgumentError, shown


def names(given: Fields, name: str, default: Any) -> tuple[str, ...] | None:
    """Return a list of names; None if it is absent, which is not the same as an empty one."""
    return None if given.get(name) is None else fields.strings(given, name, ())


def owned(given: Fields, name: str, default: Any) -> dict[bytes, tuple[int, ...]] | None:
    """Return [{topic_id, partitions}] by topic id; None if it is absent."""
    if given.get(name) is None:
        return None
    return {
        topic_id(item): tuple(
            integer({"partition": number}, "partition")
            for number in sequence(item.get("partitions"), "partitions")
        )
        for item in entries(given, name)
    }


def show_owned(name: str, value: dict[bytes, tuple[int, ...]] | None) -> dict[str, Any]:
    if value is None:
        return {}
    return {
        name: [
            {"topic_id": encode_topic_id(raw), "partitions": list(numbers)}
            for raw, numbers in value.items()
        ]
    }


def brokers(given: Fields, name: str, default: Any) -> tuple[tuple[int, str | None], ...]:
    return tuple((integer(item, "id"), string(item, "rack", None)) for item in entries(given, name))


def topics(given: Fields, name: str, default: Any) -> tuple[tuple[str, bytes, list[Any]], ...]:
    """Return [{topic, topic_id, partitions, replicas}] as (name, id, replicas)."""
    return tuple(_topic(item) for item in entries(given, name))


def _topic(item: Fields) -> tuple[str, bytes, list[Any]]:
    count = integer(item, "partitions")
    if count < 0:
        raise ArgumentError(f"a topic cannot have {count} partitions")
    replicas = item.get("replicas")
    if replicas is None:
        rows = [[number % 4, (number + 1) % 4] for number in range(count)]
    else:
        rows = [
            [integer({"replica": broker}, "replica") for broker in sequence(row, "replicas")]
            for row in sequence(replicas, "replicas")
        ]
        if len(rows) != count:
            raise ArgumentError(f"replicas must name those of {count} partitions, not {len(rows)}")
    return string(item, "topic"), topic_id(item), rows


def show_brokers(name: str, value: tuple[tuple[int, str | None], ...]) -> dict[str, Any]:
    """Show brokers, and the rack of each that has one."""
    rows = [{"id": broker} | ({} if rack is None else {"rack": rack}) for broker, rack in value]
    return {name: rows} if rows else {}


def show_topics(name: str, value: tuple[tuple[str, bytes, list[Any]], ...]) -> dict[str, Any]:
    rows = [
        {
            "topic": topic,
            "topic_id": encode_topic_id(raw),
            "partitions": len(replicas),
            "replicas": replicas,
        }
        for topic, raw, replicas in value
    ]
    return {name: rows} if rows else {}


def show_raw(name: str, value: bytes | None) -> dict[str, Any]:
    """Show bytes as base64."""
    return {} if value is None else {name: base64.b64encode(value).decode("ascii")}


def group_config(given: Fields, name: str, default: Any) -> dict[str, int]:
    value = given.get(name) or {}
    known = (
        "consumer.session.timeout.ms",
        "consumer.heartbeat.interval.ms",
        "consumer.assignment.interval.ms",
    )
    for key in value:
        if key not in known:
            raise ArgumentError(f"{shown(key)} is no setting of a group; those are {known}")
    return {key: integer(value, key) for key in value if value[key] is not None}


def raw(given: Fields, name: str, default: Any) -> bytes | None:
    """Return bytes, which may be absent."""
    return None if given.get(name) is None else fields.binary(given[name], name)


def read_metadata(header: Fields) -> tuple[Any, ...]:
    """Return the brokers and topics of a trace's header, as the core takes an image."""
    return brokers(header, "brokers", ()), (), topics(header, "topics", ())


def hidden(read: Any, default: Any) -> Kind:
    """Return a kind of field that is only shown where it is not its default."""
    return Kind(read, lambda name, value: {} if value == default else {name: value})


KINDS = {
    "fetching_member": hidden(string, None),
    "member_epoch": hidden(integer, -1),
    "commit_version": hidden(partial(integer, bits=16), 9),
    "txn_version": hidden(partial(integer, bits=16), 4),
    "describe_version": hidden(partial(integer, bits=16), 5),
    "retention": hidden(partial(integer, bits=64), -1),
    "types": Kind(fields.strings, lambda name, value: {name: list(value)} if value else {}),
    "names": Kind(names, lambda name, value: {} if value is None else {name: list(value)}),
    "owned": Kind(owned, show_owned),
    "brokers": Kind(brokers, show_brokers),
    "image_topics": Kind(topics, show_topics),
    "group_config": Kind(group_config),
    "raw": Kind(raw, show_raw),
}

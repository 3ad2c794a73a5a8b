"""Check brokers, replica lists and requests of the low-level consumer.

Each function returns the value, or raises an error of one line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from coterie.arguments import integer, text, walked, whole, within
from coterie.errors import ArgumentError, shown

HIGHEST_BROKER = 2**31 - 1
LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,255}")  # of `Topic`, legalChars and maxNameLength


def topic_name(value: Any, name: str) -> str:
    """Check the name of a topic."""
    topic = text(value, name)
    if not LEGAL_TOPIC.fullmatch(topic):
        raise ArgumentError(f"{name} must be the name of a topic, not {shown(topic)}")
    return topic


def topic_names(value: Any, name: str) -> list[str]:
    """Check a list of texts; they need not name topics that exist."""
    return [text(one, name) for one in walked(value, name)]


def broker_ids(value: Any, name: str, known: Collection[int] | None = None) -> tuple[int, ...]:
    """Check different broker ids, all of them known."""
    ids = tuple(within(one, name, 0, HIGHEST_BROKER) for one in walked(value, name))
    if len({*ids}) < len(ids) or (known is not None and not {*ids} <= {*known}):
        choice = "" if known is None else f" of {shown([*known])}"
        raise ArgumentError(f"{name} must be different ids{choice}, not {shown([*ids])}")
    return ids


def broker_id(value: Any, known: Collection[int]) -> int:
    """Check the id of a known broker."""
    broker = whole(value, "broker")
    if broker not in known:
        raise ArgumentError(f"broker {shown(broker)} is not one of {shown([*known])}")
    return broker


def replica_lists(value: Any, known: Collection[int]) -> dict[str, list[tuple[int, ...]]]:
    """Check the replica lists of topics; each has at least one broker, all of them known."""
    if not isinstance(value, Mapping):
        raise ArgumentError(f"topics must be an object, not {shown(value)}")
    topics: dict[str, list[tuple[int, ...]]] = {}
    for key, lists in value.items():
        topic = topic_name(key, "a topic")
        topics[topic] = []
        for replicas in walked(lists, f"topic {topic}", "a list of replica lists"):
            ids = broker_ids(replicas, f"topic {topic}: replicas", known)
            if not ids:
                raise ArgumentError(f"topic {topic}: a partition has no replicas")
            topics[topic].append(ids)
    return topics


FIELDS: dict[str, Callable[[Any, str], Any]] = {
    "topics": topic_names,
    "topic": text,
    "group": text,
    "metadata": text,
    "partition": whole,
    "offset": whole,
    "fetch_size": whole,
    "time": whole,
    "max_offsets": whole,
    "version": integer,
}
NEEDS: dict[str, tuple[str, ...]] = {  # fields of a request besides `api` and `broker`
    "metadata": ("topics",),
    "offsets": ("topic", "partition", "time", "max_offsets"),
    "fetch": ("topic", "partition", "offset", "fetch_size"),
    "consumer_metadata": ("group",),
    "offset_commit": ("version", "group", "topic", "partition", "offset", "metadata"),
    "offset_fetch": ("version", "group", "topic", "partition"),
    "znodes": (),
}


def request_fields(api: Any, request: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Check the required fields of a request, and return only these."""
    if not isinstance(api, str) or (api := str.__str__(api)) not in known:
        raise ArgumentError(f"api {shown(api)} is not known: {', '.join(known)}")
    return {name: FIELDS[name](request.get(name), f"{api}: {name}") for name in NEEDS[api]}

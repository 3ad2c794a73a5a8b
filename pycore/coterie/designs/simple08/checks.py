"""Checks of brokers, replica lists and requests of the low-level consumer.

Each returns the value as it is used; what is wrong is said in one line.
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
    """Return a name that a topic can have."""
    found = text(value, name)
    if not LEGAL_TOPIC.fullmatch(found):
        raise ArgumentError(f"{name} must be the name of a topic, not {shown(found)}")
    return found


def topic_names(value: Any, name: str) -> list[str]:
    """Return a list of texts, each a topic's name if there is such a topic."""
    return [text(one, name) for one in walked(value, name)]


def broker_ids(value: Any, name: str, known: Collection[int] | None = None) -> tuple[int, ...]:
    """Return different broker ids, of those that are known."""
    found = tuple(within(one, name, 0, HIGHEST_BROKER) for one in walked(value, name))
    if len({*found}) < len(found) or (known is not None and not {*found} <= {*known}):
        some = "" if known is None else f" of {shown([*known])}"
        raise ArgumentError(f"{name} must be different ids{some}, not {shown([*found])}")
    return found


def broker_id(value: Any, known: Collection[int]) -> int:
    """Return the id of a broker that there is."""
    found = whole(value, "broker")
    if found not in known:
        raise ArgumentError(f"broker {shown(found)} is not one of {shown([*known])}")
    return found


def replica_lists(value: Any, known: Collection[int]) -> dict[str, list[tuple[int, ...]]]:
    """Return topics with the replicas of each of their partitions: at least one, all known."""
    if not isinstance(value, Mapping):
        raise ArgumentError(f"topics must be an object, not {shown(value)}")
    found: dict[str, list[tuple[int, ...]]] = {}
    for key, lists in value.items():
        topic = topic_name(key, "a topic")
        found[topic] = []
        for replicas in walked(lists, f"topic {topic}", "a list of replica lists"):
            ids = broker_ids(replicas, f"topic {topic}: replicas", known)
            if not ids:
                raise ArgumentError(f"topic {topic}: a partition has no replicas")
            found[topic].append(ids)
    return found


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
NEEDS: dict[str, tuple[str, ...]] = {  # what a request must have besides `api` and `broker`
    "metadata": ("topics",),
    "offsets": ("topic", "partition", "time", "max_offsets"),
    "fetch": ("topic", "partition", "offset", "fetch_size"),
    "consumer_metadata": ("group",),
    "offset_commit": ("version", "group", "topic", "partition", "offset", "metadata"),
    "offset_fetch": ("version", "group", "topic", "partition"),
    "znodes": (),
}


def request_fields(api: Any, given: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return the fields that a request of this api needs; others are left out."""
    if not isinstance(api, str) or (api := str.__str__(api)) not in known:
        raise ArgumentError(f"api {shown(api)} is not known: {', '.join(known)}")
    return {name: FIELDS[name](given.get(name), f"{api}: {name}") for name in NEEDS[api]}

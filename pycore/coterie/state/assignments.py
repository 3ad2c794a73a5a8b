"""Which partitions the members of a group hold, by the group's row."""

from __future__ import annotations

from typing import Any

from coterie.errors import CorruptData
from coterie.log.consumer_protocol import owned_partitions

Row = dict[str, Any]
Assignment = dict[str, list[int]]


def assignments(group: Row) -> dict[str, tuple[Assignment, str | None]]:
    """Return each member's partitions by topic, and why they cannot be told, if so."""
    found: dict[str, tuple[Assignment, str | None]] = {}
    for member in group["members"]:
        if group["type"] != "classic":
            found[member["member_id"]] = (by_topic(member.get("current_assignment", ())), None)
        elif group["protocol_type"] != "consumer":
            found[member["member_id"]] = ({}, None)
        else:
            try:
                found[member["member_id"]] = (owned_partitions(member["assignment"]), None)
            except CorruptData as error:
                found[member["member_id"]] = ({}, str(error))
    return found


def by_topic(partitions: Any) -> Assignment:
    """Return partitions by topic name; by topic id where the log does not tell the name."""
    found: Assignment = {}
    for topic in partitions:
        name = topic["topic_id"] if topic["topic"] is None else topic["topic"]
        found.setdefault(name, []).extend(topic["partitions"])
    return {name: sorted(numbers) for name, numbers in found.items() if numbers}

"""The partitions assigned to the members of a group."""

from __future__ import annotations

from typing import Any

from coterie.base.consumer_protocol import owned_partitions
from coterie.errors import CorruptData

Row = dict[str, Any]
Assignment = dict[str, list[int]]


def assignments(group: Row) -> dict[str, tuple[Assignment, str | None]]:
    """Return each member's partitions by topic, and the error if they cannot be read."""
    by_member: dict[str, tuple[Assignment, str | None]] = {}
    for member in group["members"]:
        if group["type"] != "classic":
            by_member[member["member_id"]] = (by_topic(member.get("current_assignment", ())), None)
        elif group["protocol_type"] != "consumer":
            by_member[member["member_id"]] = ({}, None)
        else:
            try:
                partitions = owned_partitions(member["assignment"])
                by_member[member["member_id"]] = (partitions, None)
            except CorruptData as error:
                by_member[member["member_id"]] = ({}, str(error))
    return by_member


def by_topic(partitions: Any) -> Assignment:
    """Return partitions by topic name, or by topic id if the name is unknown."""
    assigned: Assignment = {}
    for topic in partitions:
        name = topic["topic_id"] if topic["topic"] is None else topic["topic"]
        assigned.setdefault(name, []).extend(topic["partitions"])
    return {name: sorted(numbers) for name, numbers in assigned.items() if numbers}

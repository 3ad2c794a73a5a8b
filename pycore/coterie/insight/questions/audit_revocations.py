"""Members of consumer groups that do not give up partitions, for the audit.

A partition goes to its next owner when the member before has given it up. A member that does not
keeps others waiting, until the coordinator fences it after its rebalance timeout.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coterie.insight.groups.causes import client_text, counted
from coterie.insight.groups.owned_partitions import Place, Revocation
from coterie.insight.groups.protocol_switches import epochs_in
from coterie.insight.groups.topic_names import topic_names
from coterie.insight.offsets.commit_findings import AGAIN
from coterie.insight.offsets.loss_findings import end_of
from coterie.insight.records.partition_view import PartitionView
from coterie.insight.tables import duration, shortened

REVOCATION = "revocation"
NAMED = 3  # partitions in a text
Row = dict[str, Any]


def slow_revocations(view: PartitionView, limit_ms: int) -> Iterator[Row]:
    """Yield each member that did not give up its partitions within a time, or was fenced for it."""
    end_ms = end_of(view)
    for group in view.newer_by_group:
        _, timeline = epochs_in(view, group)
        for revocation in [*timeline.ended_revocations, *timeline.partitions.revoking.values()]:
            if revocation.record.time_ms is None:
                continue
            if revocation.timed_out or revocation.lasted_ms(end_ms) >= limit_ms:
                yield finding(group, revocation, end_ms, topic_names(view))


def finding(group: str, revocation: Revocation, end_ms: int, names: dict[str, str]) -> Row:
    """Return the finding of a revocation; ``names``: topic id -> name."""
    member, record = revocation.member, revocation.record
    places = sorted((names.get(topic, topic), number) for topic, number in revocation.places)
    return {
        "kind": REVOCATION,
        "always": revocation.until_ms is None,  # a state at the end, whenever it began
        "group_id": group,
        "topic": places[0][0] if len(places) == 1 else None,
        "partition": places[0][1] if len(places) == 1 else None,
        "detail": text_of(revocation, end_ms, places),
        "group_instance_id": member["group_instance_id"],
        "clients": [
            {**{name: member[name] for name in ("client_id", "client_host")}, "topics": None}
        ],
        "members": [member["member_id"]],
        "partitions": [{"topic": topic, "partition": number} for topic, number in places],
        "timestamp": record.timestamp,
        "first": record.timestamp,
        "last": end_ms if revocation.until_ms is None else revocation.until_ms,
        "log_offset": record.log_offset,
        "file": record.file,
        "position": record.position,
        "loop": AGAIN,
    }


def text_of(revocation: Revocation, end_ms: int, places: list[Place]) -> str:
    """Return what a member did with the partitions that it had to give up, as text."""
    member = revocation.member
    who = client_text(member["group_instance_id"] or member["client_id"], member["client_host"])
    some = counted(len(places), "partition")
    lasted = duration(revocation.lasted_ms(end_ms))
    if revocation.until_ms is None:
        text = f"{who} has not given up {some} for {lasted}, until the end of the log"
    elif revocation.timed_out:
        text = f"{who} did not give up {revocation.timeout_text}, and was fenced"
    elif revocation.is_gone:
        text = f"{who} had not given up {some} for {lasted}, and is gone"
    else:
        text = f"{who} gave up {some} only after {lasted}"
    named = [f"{shortened(topic)}-{number}" for topic, number in places[:NAMED]]
    named += [f"{len(places) - NAMED} more"] if len(places) > NAMED else []
    return f"{text}: {', '.join(named)}"

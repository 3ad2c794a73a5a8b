"""What changed in the metadata that members send when they join, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from coterie.base.consumer_protocol import Subscription, read_subscription
from coterie.errors import CorruptData
from coterie.log.connect_protocol import (
    CONNECT,
    ERRORS,
    NO_ERROR,
    WorkerState,
    read_assignment,
    read_state,
    tasks_text,
)

UNREADABLE = "its metadata changed, and cannot be read"
MEANING_UNKNOWN = "its metadata changed"  # of another protocol type
Row = dict[str, Any]


def changes(protocol_type: str | None, before: bytes, now: bytes) -> tuple[str, str] | None:
    """Return a cause and its text for a member's new metadata; None: nothing of note.

    The owned partitions and the generation in a consumer's subscription follow from the rebalance
    before, as does the user data of most assignors. So :func:`unexplained` gives them, for a
    rebalance without another cause.
    """
    try:
        if protocol_type == CONNECT:
            parts = list(worker_changes(read_state(before), read_state(now)))
            return ("metadata_changed", ", ".join(parts)) if parts else None
        if protocol_type == "consumer":
            return consumer_changes(read_subscription(before), read_subscription(now))
    except CorruptData:
        return "subscription_changed", UNREADABLE
    return "subscription_changed", MEANING_UNKNOWN


def consumer_changes(before: Subscription, now: Subscription) -> tuple[str, str] | None:
    old, new = set(before.topics), set(now.topics)
    topics = [f"+{topic}" for topic in sorted(new - old)]
    topics += [f"-{topic}" for topic in sorted(old - new)]
    if before.rack_id != now.rack_id:
        rack = f"rack {before.rack_id or 'none'} to {now.rack_id or 'none'}"
        topics = [*([" ".join(topics) + ","] if topics else []), rack]
        return ("subscription_changed" if old != new else "metadata_changed"), " ".join(topics)
    return ("subscription_changed", " ".join(topics)) if topics else None


def unexplained(before: Subscription, now: Subscription) -> Iterator[str]:
    """Yield what changed in a subscription whose topics and rack did not change."""
    if before.user_data == now.user_data and before.version == now.version:
        return  # the others follow from the rebalance before
    if before.user_data != now.user_data:
        yield "user data"
    if before.owned != now.owned:
        yield "owned partitions"
    if before.generation_id != now.generation_id:
        yield "generation"
    if before.version != now.version:
        yield f"version {before.version} to {now.version}"


def worker_changes(before: WorkerState, now: WorkerState) -> Iterator[str]:
    if before.config_offset != now.config_offset:
        yield f"config offset {before.config_offset} to {now.config_offset}"
    if before.url != now.url:
        yield f"URL {before.url} to {now.url}"
    if before.version != now.version:
        yield f"version {before.version} to {now.version}"
    old, new = (
        frozenset() if state.running is None else state.running.assigned for state in (before, now)
    )
    for word, work in (("started", new - old), ("stopped", old - new)):
        if work:
            yield f"{word} {tasks_text(work)}"


def leader_notes(state: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a Connect leader's assignments say of the whole group, as causes with texts."""
    if state["protocol_type"] != CONNECT:
        return
    delays: set[int] = set()
    errors: set[int] = set()
    for member in state["members"]:
        try:
            assignment = read_assignment(member["assignment"])
        except CorruptData:
            continue
        if assignment is not None:
            delays.add(assignment.delay_ms)
            errors.add(assignment.error)
    if max(delays, default=0) > 0:
        yield "work_delayed", f"{max(delays) / 1000:.1f} s"
    for error in sorted(errors - {NO_ERROR}):
        yield "assignment_failed", ERRORS.get(error, f"error {error}")

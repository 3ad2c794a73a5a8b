"""The events of a coordinator as text, a line each, for the report of a test."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coterie._core.codec.schema import decode_key
from coterie.base.consumer_protocol import read_assignment
from coterie.base.times import clock
from coterie.consumer_groups import ConsumerGroupChange, ConsumerGroupHeartbeatResponse
from coterie.errors import CoterieError
from coterie.events import (
    Append,
    Cause,
    MemberFenced,
    MemberReconciled,
    Response,
    Transition,
    Unanswered,
)
from coterie.values import (
    Error,
    HeartbeatResponse,
    JoinGroupResponse,
    OffsetCommitResponse,
    OffsetFetchResponse,
    SyncGroupResponse,
    TxnOffsetCommitResponse,
)

Requests = Mapping[int, tuple[str | None, str | None]]  # id of a request -> its group, its member
_UUID = re.compile(r"\b([0-9a-f]{4})[0-9a-f]{4}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_EPOCH_MS = 10**11  # a later time is by the wall clock: it is shown from the first event on
_MOST_LINES = 200


def event_lines(events: Iterable[Any], requests: Requests | None = None) -> list[str]:
    """Return a line for each event: its time as MINUTES:SECONDS, its group, and what happened.

    If all are about one group, the first line names it. Heartbeats that change nothing are left
    out, and so is the middle of a long timeline. A UUID in a member id is its first four digits.
    """
    rows: list[tuple[int, str, str]] = []
    for event in events:
        group_id, text = _row(event, requests or {})
        if text:
            rows.append((event.at, group_id or "", _UUID.sub(r"\1", text)))
    start_ms = rows[0][0] if rows and rows[0][0] > _EPOCH_MS else 0
    names = {group_id for _, group_id, _ in rows if group_id}
    width = max(map(len, names)) + 2 if len(names) > 1 else 0
    lines = [
        f"{clock(at_ms - start_ms):>10}  {group_id[:width]:<{width}}{text}"
        for at_ms, group_id, text in rows
    ]
    if len(lines) > _MOST_LINES:
        half = _MOST_LINES // 2
        lines[half:-half] = [f"            ... {len(lines) - _MOST_LINES} lines left out"]
    return [*(f"group {name}" for name in names if not width), *lines]


def _row(event: Any, requests: Requests) -> tuple[str | None, str]:
    """Return the group of an event, and its text; "" if it is of no interest."""
    if isinstance(event, Response | Unanswered):
        group_id, member_id = requests.get(event.id, (None, None))
        name = "".join(word.title() for word in event.op.split("_"))
        if isinstance(event, Unanswered):
            return group_id, f"{name}{_of(member_id)} is never answered: {event.why}"
        response = event.response
        outcome = _outcome(response)
        member_id = getattr(response, "member_id", None) or member_id
        return group_id, outcome and f"{name}{_of(member_id)}: {outcome}"
    tell = _TEXTS.get(type(event))
    return getattr(event, "group_id", None), str(event) if tell is None else tell(event)


def _of(member_id: str | None) -> str:
    return f" of {member_id}" if member_id else ""


def _transition(event: Transition) -> str:
    begins = event.to in ("CompletingRebalance", "Empty")
    generation = f", generation {event.generation_id}" if begins else ""
    cause = "" if event.cause is Cause.COMPLETED else f": {_words(event.cause)}"
    return f"{event.from_} -> {event.to}{generation}{cause}{_of(event.member_id)}"


def _words(cause: Cause) -> str:
    return cause.name.lower().replace("_", " ")


def _append(event: Append) -> str:
    key = decode_key(event.key)
    fields, what = key["data"], key["type"].replace("_", " ")
    if key["version"] < 2:
        what = f"offset of {fields['topic']}-{fields['partition']}"
    else:
        what += _of(fields.get("memberId"))
    if event.value is None:
        return f"removed: {what}"
    if key["version"] < 2:
        what += f", {event.decoded()['value']['offset']}"
    elif key["version"] == 2:
        value = event.decoded()["value"]
        what += f", generation {value['generation_id']}, {_members(len(value['members']))}"
    return f"written: {what}"


def _members(count: int) -> str:
    return "1 member" if count == 1 else f"{count} members"


def _change(event: ConsumerGroupChange) -> str:
    if event.state is None:
        return f"no consumer group any more: {event.type}"
    return (
        f"{event.state}, epoch {event.group_epoch}, target epoch {event.assignment_epoch}, "
        f"{_members(event.members)}"
    )


def _fenced(event: MemberFenced) -> str:
    return f"{event.member_id} is fenced: {_words(event.cause)}, epoch {event.member_epoch}"


def _reconciled(event: MemberReconciled) -> str:
    return f"{event.member_id} has its target, epoch {event.member_epoch}"


_TEXTS: dict[type, Callable[[Any], str]] = {
    Transition: _transition,
    Append: _append,
    ConsumerGroupChange: _change,
    MemberFenced: _fenced,
    MemberReconciled: _reconciled,
}


def _outcome(response: Any) -> str:
    """Return what a response says; "" for that of a heartbeat without news."""
    if response.error:
        return str(response.error.name)
    if isinstance(response, HeartbeatResponse):
        return ""
    if isinstance(response, ConsumerGroupHeartbeatResponse):
        if response.assignment is None:
            return ""
        count = sum(len(row.partitions) for row in response.assignment)
        return f"epoch {response.member_epoch}, {count} partition{'s' * (count != 1)}"
    if isinstance(response, JoinGroupResponse):
        role = "leader" if response.leader == response.member_id else "follower"
        return f"generation {response.generation_id}, {role}, {response.protocol_name}"
    if isinstance(response, SyncGroupResponse):
        return _assignment(response.assignment)
    if isinstance(response, OffsetFetchResponse):
        return _by_partition(
            response.partitions, lambda row: "none" if row.offset < 0 else str(row.offset)
        )
    if isinstance(response, OffsetCommitResponse | TxnOffsetCommitResponse):
        return _by_partition(response.partitions, lambda row: "committed")
    return Error.NONE.name


def _by_partition(rows: Iterable[Any], text: Callable[[Any], str]) -> str:
    """Return a text for each partition: its error, or else another."""
    texts = [
        f"{getattr(row, 'topic', None) or row.topic_id}-{row.partition} "
        f"{row.error.name if row.error else text(row)}"
        for row in rows
    ]
    return ", ".join(texts) or "no partitions"


def _assignment(data: bytes) -> str:
    try:
        assigned = read_assignment(data)
    except CoterieError:
        return "assigned by another protocol"
    names = [f"{topic} {' '.join(map(str, numbers))}" for topic, numbers in assigned.items()]
    return f"assigned {'; '.join(names) or 'nothing'}"

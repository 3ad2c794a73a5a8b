"""Groups of the newer protocols: their epochs as far as the log still has them.

A newer coordinator writes the epoch after what made it come, so the records of a group since the
epoch before say why: members that are new, gone or changed, topics whose metadata changed. A member
that is gone left, was fenced or failed: the records do not tell which.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coterie._core.codec.schema import decode_key, decode_value
from coterie.errors import CorruptData
from coterie.insight.causes import RECORDS, in_words
from coterie.insight.commits import GroupRecord
from coterie.state.newer import PROTOCOLS, REGULAR_EXPRESSION

EPOCH = {protocol.epoch: name for name, protocol in PROTOCOLS.items()}
MEMBER = {protocol.member for protocol in PROTOCOLS.values()}
METADATA = {protocol.partition_metadata for protocol in PROTOCOLS.values()}
Row = dict[str, Any]


def by_group(records: Iterable[GroupRecord]) -> dict[str, list[GroupRecord]]:
    """Return the records of each group, in log order."""
    found: dict[str, list[GroupRecord]] = {}
    for record in records:
        found.setdefault(record.group, []).append(record)
    return found


def timeline(records: list[GroupRecord]) -> list[Row]:
    """Return a row for each record of a group's epoch."""
    members: dict[str, Row] = {}
    rows: list[Row] = []
    previous = None
    causes: list[Row] = []  # since the last epoch
    for record in filter(is_readable, records):
        key, value = decoded(record)
        if record.version in EPOCH:
            epoch = None if value is None else value["epoch"]
            rows.append(_row(record, epoch, previous, causes, len(members)))
            previous, causes = epoch, []
        elif record.version in MEMBER:
            causes += _member_cause(members, key["data"]["memberId"], value)
        elif record.version in METADATA and value is not None:
            causes.append(_cause("topics_changed"))
        elif record.version == REGULAR_EXPRESSION and value is not None:
            causes.append(_cause("regex_resolved", detail=key["data"]["regularExpression"]))
    return rows


def empty_since(records: Iterable[GroupRecord]) -> dict[str, int]:
    """Return when the epoch came since which a group has no members, for those that have none."""
    found: dict[str, int] = {}
    for group, theirs in by_group(records).items():
        for row in timeline(theirs):
            if row["member_count"] != 0:
                found.pop(group, None)
            elif row["timestamp"] is not None:
                found.setdefault(group, row["timestamp"])
    return found


def decoded(record: GroupRecord) -> tuple[Row, Row | None]:
    """Return the key and the value's data, None of a tombstone; see `is_readable`."""
    key: Row = decode_key(record.key)
    if record.value is None:
        return key, None
    value: Row = decode_value(record.version, record.value)["data"]
    return key, value


def is_readable(record: GroupRecord) -> bool:
    """Whether a record can be decoded; a fold counts the others among the faults."""
    try:
        decoded(record)
    except CorruptData:
        return False
    return True


def _member_cause(members: dict[str, Row], member_id: str, value: Row | None) -> list[Row]:
    before = members.pop(member_id, None)
    if value is None:
        return [] if before is None else [_cause("left_or_evicted", member_id, before)]
    members[member_id] = value
    if before is None:
        return [_cause("joined", member_id, value)]
    return [_cause("subscription_changed", member_id, value)]


def _cause(
    what: str, member_id: str | None = None, value: Row | None = None, detail: str | None = None
) -> Row:
    value = value or {}
    return {
        "what": what,
        "member_id": member_id,
        "client_id": value.get("clientId"),
        "client_host": value.get("clientHost"),
        "group_instance_id": value.get("instanceId"),
        "detail": detail,
        "source": RECORDS,
    }


def _row(
    record: GroupRecord,
    epoch: int | None,
    previous: int | None,
    causes: list[Row],
    member_count: int,
) -> Row:
    words = in_words(causes) or "the records do not tell why"
    return {
        "event": "deleted" if epoch is None else "epoch",
        "timestamp": None if record.timestamp < 0 else record.timestamp,
        "log_offset": record.log_offset,
        "generation": epoch,
        "previous_generation": previous,
        "member_count": None if epoch is None else member_count,
        "protocol": EPOCH[record.version],
        "cause": "the group was deleted, or changed its protocol" if epoch is None else words,
        "causes": causes,
        "file": record.file,
        "position": record.position,
    }

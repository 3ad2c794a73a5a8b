"""Where a group changed between the classic protocol and a newer one.

The coordinator converts a group in one append: an upgrade writes the tombstone of the classic
group and the records of the newer one, a downgrade the tombstones of the newer group and the
record of the classic one. So both stand in one batch, which no deletion of a group leaves. A
group without members is dropped and made anew, in one batch too; then nobody carries on.
Source: GroupMetadataManager.convertToConsumerGroup, convertToClassicGroup, maybeDeleteEmpty*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coterie.insight.groups import epochs
from coterie.insight.groups.causes import cause, in_words
from coterie.insight.groups.epochs import EPOCH, MEMBER, cause_of, decoded, is_readable
from coterie.insight.groups.timeline import timeline
from coterie.insight.records.group_log import GroupRecord
from coterie.insight.records.partition_view import Life

UPGRADED, DOWNGRADED = "upgraded", "downgraded"
Row = dict[str, Any]


class Switch(NamedTuple):
    """A change of the protocol.

    ``epoch_offset`` is that of the newer group's first epoch record, or of its tombstone;
    ``epoch`` its number, None of a tombstone; ``members`` the newer group's, right after an
    upgrade or before a downgrade: id -> the value of the member's record.
    """

    what: str
    protocol: str
    epoch_offset: int
    epoch: int | None
    members: Mapping[str, Row]


def switches(life: Life | None, records: Sequence[GroupRecord]) -> dict[int, Switch]:
    """Return where a group changed its protocol, by number of the classic record.

    ``records``: those of the newer protocol, in log order.
    """
    if life is None or not records:
        return {}
    classic: dict[tuple[str, int], list[int]] = {}
    for index, one in enumerate(life.records):
        classic.setdefault((one.file, one.position), []).append(index)
    found: dict[int, Switch] = {}
    members: dict[str, Row] = {}
    gone: dict[str, Row] = {}  # in the batch at hand: a downgrade removes the members first
    batch = None
    for record in filter(is_readable, records):
        place = record.file, record.position
        if place != batch:
            batch, gone = place, {}
        key, value = decoded(record)
        if record.version in MEMBER:
            member_id = key["data"]["memberId"]
            before = members.pop(member_id, None)
            if value is not None:
                members[member_id] = value
            elif before is not None:
                gone[member_id] = before
        elif record.version in EPOCH:
            there = members if value is not None else {**gone, **members}
            for index in classic.get(place, ()):
                what = _what(life.records[index], record)
                if what is not None and index not in found:
                    head = what, EPOCH[record.version], record.log_offset
                    epoch_number = None if value is None else value["epoch"]
                    found[index] = Switch(*head, epoch_number, dict(there))
                    break
            if value is None:
                members = {}
    return found


def _what(classic: GroupRecord, epoch: GroupRecord) -> str | None:
    """Return what a classic record and one of an epoch say together; None: nothing."""
    if classic.log_offset < epoch.log_offset:
        return UPGRADED if classic.value is None and epoch.value is not None else None
    return DOWNGRADED if classic.value is not None and epoch.value is None else None


def timeline_of(life: Life | None, records: Sequence[GroupRecord]) -> list[Row]:
    """Return the rows of a group in order of its log, whatever its protocols were.

    See ``coterie.insight.groups.timeline`` and ``coterie.insight.groups.epochs``; ``records``: of a
    newer one.
    """
    found = switches(life, records)
    rows = epochs.timeline(records, told_epochs(found, life))
    if life is not None:
        rows += timeline(life, dict(zip(found, rows_of(life, found), strict=True)))
    return sorted(rows, key=lambda row: int(row["log_offset"]))


def told_epochs(found: Mapping[int, Switch], life: Life | None) -> set[int]:
    """Return the log offsets of epoch records that a change of the protocol tells of.

    Where nobody carried on, the first epoch after an upgrade is that of a new group.
    """
    return {
        switch.epoch_offset
        for index, switch in found.items()
        if switch.what == DOWNGRADED or (life is not None and carried_on(life, index, switch))
    }


def carried_on(life: Life, index: int, switch: Switch) -> list[str]:
    """Return the ids of members that were there before a change of the protocol and after it."""
    at = index - 1 if switch.what == UPGRADED else index
    state = life.state(at) if at >= 0 else None
    ids = [member["member_id"] for member in (state or {}).get("members", ())]
    return [member_id for member_id in ids if member_id in switch.members]


def rows_of(life: Life | None, found: Mapping[int, Switch]) -> list[Row]:
    """Return the rows of a timeline that tell of changes of the protocol."""
    return [] if life is None else [row_of(life, index, one) for index, one in found.items()]


def row_of(life: Life, index: int, switch: Switch) -> Row:
    """Return the row of a timeline that tells of a change of the protocol."""
    record = life.generations[index]
    upgraded = switch.what == UPGRADED
    classic = life.state(index if not upgraded else index - 1) if index or not upgraded else None
    name = (classic or {}).get("protocol")
    old, new = f"classic ({name})" if name else "classic", switch.protocol
    kept = carried_on(life, index, switch)
    detail = f"{old} to {new}" if upgraded else f"{new} to {old}"
    causes = [cause(life, switch.what, detail=detail)]
    causes += [cause(life, "carried_on", member) for member in kept]
    if not upgraded:
        causes += _gone(life, classic or {"members": []}, switch)
    generation = (classic or {}).get("generation")
    epoch = switch.epoch if kept else None
    return {
        "event": switch.what,
        "timestamp": record["timestamp"],
        "log_offset": record["log_offset"],
        "generation": epoch if upgraded else generation,
        "previous_generation": generation,
        "member_count": len(kept) if upgraded else record["member_count"],
        "protocol": switch.protocol if upgraded else record["protocol"],
        "leader": None if upgraded else record["leader"],
        "cause": in_words(causes) + ("" if kept else "; no members"),
        "causes": causes,
        "file": record["file"],
        "position": record["position"],
        "since": None,
    }


def _gone(life: Life, classic: Row, switch: Switch) -> list[Row]:
    """Return who did not carry on at a downgrade, and who took a static one's place."""
    new = {
        member["group_instance_id"]: member["member_id"]
        for member in classic["members"]
        if member["member_id"] not in switch.members
    }
    found = []
    for member_id, value in switch.members.items():
        if any(member["member_id"] == member_id for member in classic["members"]):
            continue
        instance = value.get("instanceId")
        if instance is not None and instance in new:
            found.append(cause(life, "replaced", new[instance], member_id))
        else:
            found.append(cause_of("left_or_evicted", member_id, value))
    return found

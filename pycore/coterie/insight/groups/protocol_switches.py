"""Where a group changed between the classic protocol and a newer one.

The coordinator converts a group in one append: an upgrade writes the tombstone of the classic
group and the records of the newer one; a downgrade writes the tombstones of the newer group and
the record of the classic one. So a switch is one batch with both, which a deletion never writes. A
group without members is deleted and created again, also in one batch; then no member carries on.
Source: GroupMetadataManager.convertToConsumerGroup, convertToClassicGroup, maybeDeleteEmpty*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coterie.insight.groups import epochs
from coterie.insight.groups.causes import cause, in_words
from coterie.insight.groups.member_changes import cause_of
from coterie.insight.groups.timeline import EMPTY, timeline
from coterie.insight.records.group_log import GroupRecord
from coterie.insight.records.group_replay import replay
from coterie.insight.records.partition_view import GroupHistory, PartitionView
from coterie.state.consumer_protocol_groups import EPOCH_KEYS, MEMBER_KEYS, TYPE_OF

UPGRADED, DOWNGRADED = "upgraded", "downgraded"
WITHOUT_MEMBERS = (EMPTY, UPGRADED, DOWNGRADED)
Row = dict[str, Any]


class ProtocolSwitch(NamedTuple):
    """A change of the protocol.

    ``epoch_offset`` is the log offset of the newer group's first epoch record, or of its tombstone.
    ``epoch`` is its number, None for a tombstone. ``members`` are the newer group's, right after
    an upgrade or before a downgrade: id -> row.
    """

    what: str
    protocol: str
    epoch_offset: int
    epoch: int | None
    members: Mapping[str, Row]


def row_in_words(row: Row) -> str:
    """Return a row's causes as text, after something was added to them."""
    text = in_words(row["causes"])
    is_empty = row["event"] in WITHOUT_MEMBERS and not row["member_count"]
    return f"{text}; no members" if is_empty else text


def switches(
    history: GroupHistory | None, records: Sequence[GroupRecord]
) -> dict[int, ProtocolSwitch]:
    """Return a group's protocol switches, by number of the classic record.

    ``records``: those of the newer protocol, in log order.
    """
    if history is None or not records:
        return {}
    classic: dict[tuple[str, int], list[int]] = {}
    for index, classic_record in enumerate(history.records):
        classic.setdefault((classic_record.file, classic_record.position), []).append(index)
    switched: dict[int, ProtocolSwitch] = {}
    members: dict[str, Row] = {}
    removed: dict[str, Row] = {}  # in the current batch: a downgrade removes the members first
    batch = None
    for record, name, group in replay(records):
        place = record.file, record.position
        if place != batch:
            batch, removed = place, {}
        if record.version in MEMBER_KEYS and name is not None:
            before = members.pop(name, None)
            if record.value is None:
                removed |= {} if before is None else {name: before}
            elif (member := group.member(record.version, name)) is not None:
                members[name] = member
        elif record.version in EPOCH_KEYS:
            is_end = record.value is None
            present = {**removed, **members} if is_end else members
            for index in classic.get(place, ()):
                what = _direction(history.records[index], record)
                if what is not None and index not in switched:
                    head = what, TYPE_OF[record.version], record.log_offset
                    epoch_number = None if is_end else group.epoch(record.version)[0]
                    switched[index] = ProtocolSwitch(*head, epoch_number, dict(present))
                    break
            if is_end:
                members = {}
    return switched


def _direction(classic: GroupRecord, epoch: GroupRecord) -> str | None:
    """Return the switch that a classic record and an epoch record of one batch show, if any."""
    if classic.log_offset < epoch.log_offset:
        return UPGRADED if classic.value is None and epoch.value is not None else None
    return DOWNGRADED if classic.value is not None and epoch.value is None else None


def timeline_of(history: GroupHistory | None, records: Sequence[GroupRecord]) -> list[Row]:
    """Return the timeline of a group in log order, over all of its protocols.

    See ``coterie.insight.groups.timeline`` and ``coterie.insight.groups.epochs``. ``records``: the
    group's records of a newer protocol.
    """
    return joined_rows(history, *epochs_of(history, records))


def joined_rows(
    history: GroupHistory | None,
    switched: Mapping[int, ProtocolSwitch],
    of_newer: epochs.EpochTimeline,
) -> list[Row]:
    """Return :func:`timeline_of` from :func:`epochs_of`, without a replay."""
    rows = list(of_newer.rows)
    if history is not None:
        rows += timeline(history, dict(zip(switched, rows_of(history, switched), strict=True)))
    return sorted(rows, key=lambda row: int(row["log_offset"]))


def epochs_of(
    history: GroupHistory | None, records: Sequence[GroupRecord]
) -> tuple[dict[int, ProtocolSwitch], epochs.EpochTimeline]:
    """Return a group's protocol switches, and the timeline of its epochs without them.

    ``records``: as of :func:`switches`.
    """
    switched = switches(history, records)
    return switched, epochs.epoch_timeline(records, switch_epochs(switched, history))


def epochs_in(
    view: PartitionView, group: str
) -> tuple[dict[int, ProtocolSwitch], epochs.EpochTimeline]:
    """Return :func:`epochs_of` of a group of a partition, whose records are replayed once."""
    history, records = view.histories.get(group), view.newer_by_group.get(group)
    if records is None:
        return epochs_of(history, ())
    if ("epochs", group) not in view.memo:
        view.memo["epochs", group] = epochs_of(history, records)
    found: tuple[dict[int, ProtocolSwitch], epochs.EpochTimeline] = view.memo["epochs", group]
    return found


def switch_epochs(switched: Mapping[int, ProtocolSwitch], history: GroupHistory | None) -> set[int]:
    """Return the log offsets of epoch records that belong to a switch's own row.

    If no member carried on, the first epoch after an upgrade belongs to a new group instead.
    """
    return {
        switch.epoch_offset
        for index, switch in switched.items()
        if switch.what == DOWNGRADED or (history is not None and carried_on(history, index, switch))
    }


def carried_on(history: GroupHistory, index: int, switch: ProtocolSwitch) -> list[str]:
    """Return the ids of members that the group had both before and after a switch."""
    at = index - 1 if switch.what == UPGRADED else index
    state = history.state(at) if at >= 0 else None
    ids = [member["member_id"] for member in (state or {}).get("members", ())]
    return [member_id for member_id in ids if member_id in switch.members]


def rows_of(history: GroupHistory | None, switched: Mapping[int, ProtocolSwitch]) -> list[Row]:
    return (
        []
        if history is None
        else [row_of(history, index, switch) for index, switch in switched.items()]
    )


def row_of(history: GroupHistory, index: int, switch: ProtocolSwitch) -> Row:
    record = history.generations[index]
    upgraded = switch.what == UPGRADED
    classic = history.state(index if not upgraded else index - 1) if index or not upgraded else None
    name = (classic or {}).get("protocol")
    old, new = f"classic ({name})" if name else "classic", switch.protocol
    staying = carried_on(history, index, switch)
    detail = f"{old} to {new}" if upgraded else f"{new} to {old}"
    causes = [cause(history, switch.what, detail=detail)]
    causes += [cause(history, "carried_on", member) for member in staying]
    if not upgraded:
        causes += _lost_members(history, classic or {"members": []}, switch)
    generation = (classic or {}).get("generation")
    epoch = switch.epoch if staying else None
    return {
        "event": switch.what,
        "timestamp": record["timestamp"],
        "log_offset": record["log_offset"],
        "generation": epoch if upgraded else generation,
        "previous_generation": generation,
        "member_count": len(staying) if upgraded else record["member_count"],
        "protocol": switch.protocol if upgraded else record["protocol"],
        "leader": None if upgraded else record["leader"],
        "cause": in_words(causes) + ("" if staying else "; no members"),
        "causes": causes,
        "file": record["file"],
        "position": record["position"],
    }


def _lost_members(history: GroupHistory, classic: Row, switch: ProtocolSwitch) -> list[Row]:
    """Return the members that a downgrade lost, and the static ones that were replaced."""
    new = {
        member["group_instance_id"]: member["member_id"]
        for member in classic["members"]
        if member["member_id"] not in switch.members
    }
    causes = []
    for member_id, row in switch.members.items():
        if any(member["member_id"] == member_id for member in classic["members"]):
            continue
        instance = row["group_instance_id"]
        if instance is not None and instance in new:
            causes.append(cause(history, "replaced", new[instance], member_id))
        else:
            causes.append(cause_of("left_or_evicted", member_id, row))
    return causes

"""Groups of the newer protocols: their epochs, and changes of members without a new epoch.

A coordinator writes an epoch after the records that caused it. So the records since the epoch
before explain it: new, lost or changed members, and topics with changed metadata. Some changes
bring no epoch: a static member leaves temporarily (member epoch -2), or another one replaces it.
Each such change is a row at the time of its own record. A lost member left, was fenced or failed:
records do not tell which.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import Any

from coterie._core.codec.schema import decode_key, decode_value
from coterie.errors import CorruptData
from coterie.insight.groups.causes import RECORDS, in_words
from coterie.insight.records.group_log import GroupRecord, GroupRecords
from coterie.state.consumer_protocol_groups import (
    LEFT_FOR_NOW,
    MEMBER_STATES,
    PROTOCOLS,
    REGULAR_EXPRESSION,
    TYPE_OF,
    settle_names,
)

EPOCH = {protocol.epoch: name for name, protocol in PROTOCOLS.items()}
MEMBER = {protocol.member for protocol in PROTOCOLS.values()}
CURRENT = {protocol.current for protocol in PROTOCOLS.values()}
TARGET = {protocol.target for protocol in PROTOCOLS.values()}
METADATA = {protocol.partition_metadata for protocol in PROTOCOLS.values()}
EPOCH_EVENT, STATIC_LEAVE, MEMBER_CHANGED = "epoch", "static_leave", "member_changed"
STATIC_REPLACEMENT, DELETED = "static_replacement", "deleted"
WORDS = {  # field of a member's record -> its name in texts
    "clientId": "client id",
    "clientHost": "host",
    "instanceId": "instance id",
    "rackId": "rack",
    "serverAssignor": "assignor",
    "rebalanceTimeoutMs": "rebalance timeout",
    "topologyEpoch": "topology epoch",
    "processId": "process id",
    "userEndpoint": "endpoint",
    "clientTags": "client tags",
}
Row = dict[str, Any]


def timeline(records: Iterable[GroupRecord], switch_offsets: Collection[int] = ()) -> list[Row]:
    """Return a row for each epoch of a group, and for each change of members without an epoch.

    ``switch_offsets``: log offsets of epoch records that belong to a change of the protocol
    (``coterie.insight.groups.protocol_switches``). They and the changes before them make no row.
    """
    builder = _EpochTimeline(switch_offsets)
    for record in records:
        with suppress(CorruptData):  # the fold reports it as a fault
            builder.take(record)
    builder.take_pending(None)
    return builder.rows


def empty_since(records: GroupRecords) -> dict[str, int]:
    """Return the start of each memberless group's time without members: its epoch record's time."""
    since: dict[str, int] = {}
    for group, of_group in records.by_group().items():
        for row in timeline(of_group):
            if row["member_count"] != 0:
                since.pop(group, None)
            elif row["timestamp"] is not None:
                since.setdefault(group, row["timestamp"])
    return since


def learn_names(records: Iterable[GroupRecord], names: dict[str, str]) -> None:
    """Derive names of topic ids from past assignments, and add them to ``names`` (id -> name).

    A target assignment has only topics that its member is subscribed to at the time.
    """
    subscribed: dict[tuple[str, str], frozenset[str]] = {}
    claims: dict[tuple[frozenset[str], frozenset[str]], None] = {}
    for record in filter(is_readable, records):
        if record.version not in MEMBER | TARGET:
            continue
        key, value = decoded(record)
        member = record.group, key["data"]["memberId"]
        if record.version in TARGET:
            ids = frozenset(topic["topicId"] for topic in (value or {}).get("topicPartitions", ()))
            if ids and subscribed.get(member):
                claims[subscribed[member], ids] = None
        elif value is None or value.get("subscribedTopicRegex"):
            subscribed.pop(member, None)
        else:
            subscribed[member] = frozenset(value.get("subscribedTopicNames") or ())
    settle_names(list(claims), names)


def decoded(record: GroupRecord) -> tuple[Row, Row | None]:
    """Return the key and the value's data (None: a tombstone); see ``is_readable``."""
    key: Row = decode_key(record.key)
    if record.value is None:
        return key, None
    value: Row = decode_value(record.version, record.value)["data"]
    return key, value


def is_readable(record: GroupRecord) -> bool:
    """Whether a record can be decoded; the fold reports other records as faults."""
    try:
        decoded(record)
    except CorruptData:
        return False
    return True


class _EpochTimeline:
    """Builds the timeline of one group; ``rows`` are not in log order."""

    def __init__(self, switch_offsets: Collection[int]) -> None:
        self.switch_offsets = switch_offsets
        self.rows: list[Row] = []
        self.unreconciled_row: Row | None = None  # of the last epoch, until all have reached it
        self.members: dict[str, Row] = {}
        self.static: dict[str, str] = {}  # instance id -> member id
        self.away: set[str] = set()  # static members that left temporarily
        self.epoch: int | None = None
        self.metadata_hash: int | None = None
        self.pending: list[tuple[GroupRecord, Row, int]] = []  # causes since the last epoch
        self.unreconciled: set[str] = set()  # members that do not have the epoch's assignment yet

    def take(self, record: GroupRecord) -> None:
        """Take the next record."""
        key, value = decoded(record)
        if record.version in EPOCH:
            self._epoch(record, value)
        elif record.version in MEMBER:
            self._member(record, key["data"]["memberId"], value)
        elif record.version in CURRENT:
            self._current(record, key["data"]["memberId"], value)
        elif record.version in METADATA and value is not None:
            self._add_cause(record, cause_of("topics_changed"))
        elif record.version == REGULAR_EXPRESSION and value is not None:
            self._add_cause(
                record, cause_of("regex_resolved", detail=key["data"]["regularExpression"])
            )

    def _add_cause(self, record: GroupRecord, cause: Row) -> None:
        self.pending.append((record, cause, len(self.members)))

    def _epoch(self, record: GroupRecord, value: Row | None) -> None:
        previous, self.epoch = self.epoch, None if value is None else value["epoch"]
        if record.log_offset in self.switch_offsets:
            self.pending.clear()
        elif value is None:
            self.pending.clear()
            row = _row(record, DELETED, None, previous, [], None)
            self.rows.append(row | {"cause": "the group was deleted, or changed its protocol"})
        else:
            causes = self.take_pending(record, previous)
            if previous is None and value["epoch"] > 1:  # the log begins here: no member is new
                first_causes = {"joined": "present"}
                causes = [
                    cause | {"what": first_causes.get(cause["what"], cause["what"])}
                    for cause in causes
                ]
            causes += self._new_metadata(value, causes)
            count = len(self.members)
            self.rows.append(_row(record, EPOCH_EVENT, self.epoch, previous, causes, count))
            self.unreconciled_row, self.unreconciled = self.rows[-1], set(self.members)
        if value is None:
            self.members, self.static, self.unreconciled_row = {}, {}, None
        self.metadata_hash = (value or {}).get("metadataHash")

    def _new_metadata(self, value: Row, causes: list[Row]) -> list[Row]:
        """Return a cause if the hash of the topics' metadata changed; since 4.1 epochs have it."""
        explained = any(cause["what"] != "member_changed" for cause in causes)
        if explained or self.metadata_hash in (None, value.get("metadataHash")):
            return []
        return [cause_of("topics_changed")]

    def take_pending(self, epoch: GroupRecord | None, generation: int | None = None) -> list[Row]:
        """Return the causes of this epoch; add rows for the changes that brought no epoch.

        A replacement brings an epoch if the new member has another subscription. Any other change
        of a member brings one only if the epoch's record follows immediately (streams groups).
        """
        generation = self.epoch if epoch is None else generation
        pending, self.pending = self.pending, []
        kinds = {(cause["what"], cause["member_id"]) for _, cause, _ in pending}
        replaced = {member for what, member in kinds if what == "replaced"}
        replaced -= {member for what, member in kinds if what == "subscription_changed"}
        latest = [cause["member_id"] for _, cause, _ in pending if cause["member_id"]][-1:]
        causes: list[Row] = []
        separate: dict[Any, list[tuple[GroupRecord, Row, int]]] = {}
        for record, cause, count in pending:
            what, member = cause["what"], cause["member_id"]
            # Only records of topic metadata or of a regular expression can lie between.
            is_adjacent = epoch is not None and epoch.log_offset - record.log_offset <= 2
            if what in ("replaced", "member_changed") and member in replaced:
                separate.setdefault(member, []).append((record, cause, count))
            elif what == "member_changed" and not (is_adjacent and [member] == latest):
                separate[record.log_offset] = [(record, cause, count)]
            else:
                causes.append(cause)
        for entries in separate.values():
            record, first, count = entries[0]
            event = STATIC_REPLACEMENT if first["what"] == "replaced" else MEMBER_CHANGED
            own_causes = [cause for _, cause, _ in entries]
            self.rows.append(_row(record, event, generation, generation, own_causes, count))
        return causes

    def _member(self, record: GroupRecord, member_id: str, value: Row | None) -> None:
        before = self.members.pop(member_id, None)
        if value is None:
            if before is not None:
                away = member_id in self.away
                detail = "had left for now, and did not come back" if away else None
                self._add_cause(record, cause_of("left_or_evicted", member_id, before, detail))
            return
        self.members[member_id] = value
        if before is not None:
            for cause in _changes(member_id, before, value):
                self._add_cause(record, cause)
            # A replacing member is first written with the old member's values, then with its own.
            for place, (entry_record, cause, count) in enumerate(self.pending):
                if cause["what"] == "replaced" and cause["member_id"] == member_id:
                    new = cause_of("replaced", member_id, value, cause["detail"])
                    self.pending[place] = entry_record, new, count
            return
        instance = value.get("instanceId")
        old = None if instance is None else self._taken_over(instance)
        if instance is not None:
            self.static[instance] = member_id
        if old in self.unreconciled:
            self.unreconciled.remove(old)
            self.unreconciled.add(member_id)
        what = "joined" if old is None else "replaced"
        self._add_cause(record, cause_of(what, member_id, value, old))

    def _taken_over(self, instance: str) -> str | None:
        """Return the member id that a static member replaces: present, or removed just before."""
        old = self.static.get(instance)
        if old is None or self.members.pop(old, None) is not None:
            return old
        for entry in self.pending:
            if entry[1]["what"] == "left_or_evicted" and entry[1]["member_id"] == old:
                self.pending.remove(entry)
                return old
        return None

    def _current(self, record: GroupRecord, member_id: str, value: Row | None) -> None:
        """Take a member's current state: it may have left temporarily, or reconciled."""
        if value is None:
            return  # the member's own record follows
        left = value.get("memberEpoch") == LEFT_FOR_NOW
        if left and member_id not in self.away:
            cause = cause_of("static_left", member_id, self.members.get(member_id))
            count = len(self.members)
            self.rows.append(_row(record, STATIC_LEAVE, self.epoch, self.epoch, [cause], count))
        (self.away.add if left else self.away.discard)(member_id)
        self._reach(record, member_id, value)

    def _reach(self, record: GroupRecord, member_id: str, value: Row) -> None:
        """Set the time at which the last member had the new assignment, in the epoch's row."""
        stable = MEMBER_STATES[TYPE_OF[record.version]].index("stable")
        if value.get("memberEpoch") == self.epoch and value.get("state", stable) == stable:
            self.unreconciled.discard(member_id)
        if not self.unreconciled and self.unreconciled_row is not None:
            self.unreconciled_row["until"] = None if record.timestamp < 0 else record.timestamp
            self.unreconciled_row = None


def _changes(member_id: str, before: Row, value: Row) -> Iterator[Row]:
    """Yield the changes in a member's record, except fields that the classic protocol renews."""
    detail = list(_topics(before, value))
    if detail:
        yield cause_of("subscription_changed", member_id, value, " ".join(detail))
    changed = [
        f"{words} {_text(before.get(name))} to {_text(value.get(name))}"
        for name, words in WORDS.items()
        if before.get(name) != value.get(name)
    ]
    if changed:
        yield cause_of("member_changed", member_id, value, ", ".join(changed))


def _topics(before: Row, value: Row) -> Iterator[str]:
    old, new = (set(data.get("subscribedTopicNames") or ()) for data in (before, value))
    yield from (f"+{topic}" for topic in sorted(new - old))
    yield from (f"-{topic}" for topic in sorted(old - new))
    old_regex, new_regex = (data.get("subscribedTopicRegex") or "" for data in (before, value))
    if old_regex != new_regex:
        yield f"regex {_text(old_regex)} to {_text(new_regex)}"


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(f"{tag['key']}={tag['value']}" for tag in value) or "none"
    if isinstance(value, dict):
        return ":".join(map(str, value.values()))
    return "none" if value in (None, "") else str(value)


def cause_of(
    what: str, member_id: str | None = None, value: Row | None = None, detail: str | None = None
) -> Row:
    """Build a cause from a newer group's records; ``value``: the value of the member's record."""
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
    event: str,
    epoch: int | None,
    previous: int | None,
    causes: list[Row],
    member_count: int | None,
) -> Row:
    return {
        "event": event,
        "timestamp": None if record.timestamp < 0 else record.timestamp,
        "log_offset": record.log_offset,
        "generation": epoch,
        "previous_generation": previous,
        "member_count": member_count,
        "protocol": TYPE_OF[record.version],
        "cause": in_words(causes) or "the records do not tell why",
        "causes": causes,
        "file": record.file,
        "position": record.position,
    }

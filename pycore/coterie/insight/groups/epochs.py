"""Groups of the newer protocols: their epochs, and what happens to members without one.

A coordinator writes the epoch after what made it come, so the records of a group since the epoch
before say why: members that are new, gone or changed, topics whose metadata changed. Not
everything brings an epoch: a static member leaves for a while (member epoch -2) and another takes
its place. Each such thing is a row at the time of its own record. A member that is gone left, was
fenced or failed: the records do not tell which.
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
WORDS = {  # field of a member's record -> how it is said
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


def timeline(records: Iterable[GroupRecord], told: Collection[int] = ()) -> list[Row]:
    """Return a row for each epoch of a group, and for what happened to members without one.

    ``told``: log offsets of epoch records that another row tells of, that of a change of the
    protocol (``coterie.insight.groups.protocol_switches``): they, and what stands before them, make
    no row.
    """
    walk = _Walk(told)
    for record in records:
        with suppress(CorruptData):  # a fold counts it among the faults
            walk.take(record)
    walk.put_alone(None)
    return walk.rows


def empty_since(records: GroupRecords) -> dict[str, int]:
    """Return when the epoch came since which a group has no members, for those that have none."""
    found: dict[str, int] = {}
    for group, theirs in records.by_group().items():
        for row in timeline(theirs):
            if row["member_count"] != 0:
                found.pop(group, None)
            elif row["timestamp"] is not None:
                found.setdefault(group, row["timestamp"])
    return found


def learn_names(records: Iterable[GroupRecord], names: dict[str, str]) -> None:
    """Add names of topic ids that assignments of the past tell.

    A target assignment holds topics that its member subscribes to at the time. ``names``: those
    that are known, id -> name.
    """
    subscribed: dict[tuple[str, str], frozenset[str]] = {}
    claims: dict[tuple[frozenset[str], frozenset[str]], None] = {}
    for record in filter(is_readable, records):
        if record.version not in MEMBER | TARGET:
            continue
        key, value = decoded(record)
        who = record.group, key["data"]["memberId"]
        if record.version in TARGET:
            ids = frozenset(one["topicId"] for one in (value or {}).get("topicPartitions", ()))
            if ids and subscribed.get(who):
                claims[subscribed[who], ids] = None
        elif value is None or value.get("subscribedTopicRegex"):
            subscribed.pop(who, None)
        else:
            subscribed[who] = frozenset(value.get("subscribedTopicNames") or ())
    settle_names(list(claims), names)


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


class _Walk:
    """Goes through the records of one group; ``rows`` are not in order of the log."""

    def __init__(self, told: Collection[int]) -> None:
        self.told = told
        self.rows: list[Row] = []
        self.waiting: Row | None = None  # the row of the last epoch, until all have reached it
        self.members: dict[str, Row] = {}
        self.static: dict[str, str] = {}  # instance id -> member id
        self.away: set[str] = set()  # static members that left for now
        self.epoch: int | None = None
        self.metadata_hash: int | None = None
        self.pending: list[tuple[GroupRecord, Row, int]] = []  # causes since the last epoch
        self.behind: set[str] = set()  # members that do not have the epoch's assignment yet

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
            self._note(record, cause_of("topics_changed"))
        elif record.version == REGULAR_EXPRESSION and value is not None:
            self._note(record, cause_of("regex_resolved", detail=key["data"]["regularExpression"]))

    def _note(self, record: GroupRecord, cause: Row) -> None:
        self.pending.append((record, cause, len(self.members)))

    def _epoch(self, record: GroupRecord, value: Row | None) -> None:
        previous, self.epoch = self.epoch, None if value is None else value["epoch"]
        if record.log_offset in self.told:
            self.pending.clear()
        elif value is None:
            self.pending.clear()
            row = _row(record, DELETED, None, previous, [], None)
            self.rows.append(row | {"cause": "the group was deleted, or changed its protocol"})
        else:
            causes = self.put_alone(record, previous)
            if previous is None and value["epoch"] > 1:  # where the log begins, nobody is new
                new = {"joined": "present"}
                causes = [one | {"what": new.get(one["what"], one["what"])} for one in causes]
            causes += self._new_metadata(value, causes)
            count = len(self.members)
            self.rows.append(_row(record, EPOCH_EVENT, self.epoch, previous, causes, count))
            self.waiting, self.behind = self.rows[-1], set(self.members)
        if value is None:
            self.members, self.static, self.waiting = {}, {}, None
        self.metadata_hash = (value or {}).get("metadataHash")

    def _new_metadata(self, value: Row, causes: list[Row]) -> list[Row]:
        """Since 4.1 a hash in the epoch's own record stands for the topics' metadata."""
        explained = any(one["what"] != "member_changed" for one in causes)
        if explained or self.metadata_hash in (None, value.get("metadataHash")):
            return []
        return [cause_of("topics_changed")]

    def put_alone(self, epoch: GroupRecord | None, generation: int | None = None) -> list[Row]:
        """Put what brought no epoch into rows of its own; return the causes of this epoch.

        A replacement brings one if the new member subscribes to something else; any other change
        of a member only where the epoch's record follows it at once (streams groups).
        """
        generation = self.epoch if epoch is None else generation
        pending, self.pending = self.pending, []
        of = {(cause["what"], cause["member_id"]) for _, cause, _ in pending}
        replaced = {who for what, who in of if what == "replaced"}
        replaced -= {who for what, who in of if what == "subscription_changed"}
        latest = [cause["member_id"] for _, cause, _ in pending if cause["member_id"]][-1:]
        causes: list[Row] = []
        alone: dict[Any, list[tuple[GroupRecord, Row, int]]] = {}
        for record, cause, count in pending:
            what, who = cause["what"], cause["member_id"]
            # Nothing stands between but metadata of topics, or a regular expression's.
            near = epoch is not None and epoch.log_offset - record.log_offset <= 2
            if what in ("replaced", "member_changed") and who in replaced:
                alone.setdefault(who, []).append((record, cause, count))
            elif what == "member_changed" and not (near and [who] == latest):
                alone[record.log_offset] = [(record, cause, count)]
            else:
                causes.append(cause)
        for theirs in alone.values():
            record, first, count = theirs[0]
            event = STATIC_REPLACEMENT if first["what"] == "replaced" else MEMBER_CHANGED
            said = [cause for _, cause, _ in theirs]
            self.rows.append(_row(record, event, generation, generation, said, count))
        return causes

    def _member(self, record: GroupRecord, member_id: str, value: Row | None) -> None:
        before = self.members.pop(member_id, None)
        if value is None:
            if before is not None:
                away = member_id in self.away
                detail = "had left for now, and did not come back" if away else None
                self._note(record, cause_of("left_or_evicted", member_id, before, detail))
            return
        self.members[member_id] = value
        if before is not None:
            for cause in _changes(member_id, before, value):
                self._note(record, cause)
            # Who takes a place has its record first as the one before had it, then as its own.
            for place, (at, cause, count) in enumerate(self.pending):
                if cause["what"] == "replaced" and cause["member_id"] == member_id:
                    new = cause_of("replaced", member_id, value, cause["detail"])
                    self.pending[place] = at, new, count
            return
        instance = value.get("instanceId")
        old = None if instance is None else self._taken_over(instance)
        if instance is not None:
            self.static[instance] = member_id
        if old in self.behind:
            self.behind.remove(old)
            self.behind.add(member_id)
        what = "joined" if old is None else "replaced"
        self._note(record, cause_of(what, member_id, value, old))

    def _taken_over(self, instance: str) -> str | None:
        """Return whose place a static member takes: one that is there, or went just before."""
        old = self.static.get(instance)
        if old is None or self.members.pop(old, None) is not None:
            return old
        for one in self.pending:
            if one[1]["what"] == "left_or_evicted" and one[1]["member_id"] == old:
                self.pending.remove(one)
                return old
        return None

    def _current(self, record: GroupRecord, member_id: str, value: Row | None) -> None:
        """Take where a member is: of interest is whether a static one has left for now."""
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
        """Note at an epoch when the last member had the assignment that it brought."""
        stable = MEMBER_STATES[TYPE_OF[record.version]].index("stable")
        if value.get("memberEpoch") == self.epoch and value.get("state", stable) == stable:
            self.behind.discard(member_id)
        if not self.behind and self.waiting is not None:
            self.waiting["until"] = None if record.timestamp < 0 else record.timestamp
            self.waiting = None


def _changes(member_id: str, before: Row, value: Row) -> Iterator[Row]:
    """Yield what changed in a member's record; what the classic protocol renews does not count."""
    detail = list(_topics(before, value))
    if detail:
        yield cause_of("subscription_changed", member_id, value, " ".join(detail))
    changed = [
        f"{words} {_told(before.get(name))} to {_told(value.get(name))}"
        for name, words in WORDS.items()
        if before.get(name) != value.get(name)
    ]
    if changed:
        yield cause_of("member_changed", member_id, value, ", ".join(changed))


def _topics(before: Row, value: Row) -> Iterator[str]:
    old, new = (set(one.get("subscribedTopicNames") or ()) for one in (before, value))
    yield from (f"+{topic}" for topic in sorted(new - old))
    yield from (f"-{topic}" for topic in sorted(old - new))
    was, now = (one.get("subscribedTopicRegex") or "" for one in (before, value))
    if was != now:
        yield f"regex {_told(was)} to {_told(now)}"


def _told(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(f"{tag['key']}={tag['value']}" for tag in value) or "none"
    if isinstance(value, dict):
        return ":".join(map(str, value.values()))
    return "none" if value in (None, "") else str(value)


def cause_of(
    what: str, member_id: str | None = None, value: Row | None = None, detail: str | None = None
) -> Row:
    """Return a cause that a newer group's records show; ``value``: of the member's record."""
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

"""Groups of the newer protocols: their epochs, and changes of members without a new epoch.

A coordinator writes an epoch after the records of the request that caused it, in one batch. So
these records explain it: new, lost or changed members, expressions with other topics. The epoch's
hash shows that the metadata of topics changed. Some changes bring no epoch: a static member leaves
temporarily (member epoch -2), or another one replaces it; a member subscribes by an expression that
is still to be resolved. Each such change is a row at the time of its own record. A lost member
left, was fenced or failed: records do not tell which. What a record makes of a consumer group is
replayed by the core (``coterie.insight.records.group_replay``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from coterie._core.codec.schema import decode_value
from coterie.insight.groups.causes import in_words
from coterie.insight.groups.member_changes import (
    Change,
    MemberChanges,
    cause_of,
    row_of,
)
from coterie.insight.groups.owned_partitions import OwnedPartitions, Place, Revocation
from coterie.insight.groups.reconciliation import Reconciliation
from coterie.insight.groups.topic_metadata import TopicMetadata
from coterie.insight.records.group_log import GroupRecord, GroupRecords
from coterie.insight.records.group_replay import GroupReplay, replay
from coterie.state.consumer_protocol_groups import (
    CURRENT_KEYS,
    EPOCH_KEYS,
    LEFT_FOR_NOW,
    MEMBER_KEYS,
    METADATA_KEYS,
    REGULAR_EXPRESSION,
    SHARE_STATE,
    TARGET_EPOCH_KEYS,
    TARGET_KEYS,
    is_consumer,
)

EPOCH_EVENT, STATIC_LEAVE, DELETED = "epoch", "static_leave", "deleted"
WORDS = {  # field of a member's row -> its name in texts
    "client_id": "client id",
    "client_host": "host",
    "group_instance_id": "instance id",
    "rack_id": "rack",
    "server_assignor": "assignor",
    "rebalance_timeout_ms": "rebalance timeout",
    "topology_epoch": "topology epoch",
    "process_id": "process id",
    "user_endpoint": "endpoint",
    "client_tags": "client tags",
}
Row = dict[str, Any]


def timeline(records: Iterable[GroupRecord], switch_offsets: Collection[int] = ()) -> list[Row]:
    """Return a row for each epoch of a group, and for each change of members without an epoch.

    ``switch_offsets``: log offsets of epoch records that belong to a change of the protocol
    (``coterie.insight.groups.protocol_switches``). They and the changes before them make no row.
    """
    return epoch_timeline(records, switch_offsets).rows


def epoch_timeline(
    records: Iterable[GroupRecord], switch_offsets: Collection[int] = ()
) -> EpochTimeline:
    """Return the timeline of a group at the end of its records; see :func:`timeline`."""
    builder = EpochTimeline(switch_offsets)
    for record, name, group in replay(records):
        builder.take(record, name, group)
    builder.end()
    return builder


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


class Gone(NamedTuple):
    """A member that is gone.

    ``record`` removes it, ``member`` is the member before, ``places`` what it still owned;
    ``joined_ms`` -1: not known; ``timed_out``: it did not give up partitions in time.
    """

    member: Row
    record: GroupRecord
    joined_ms: int
    places: frozenset[Place]
    timed_out: bool = False


class EpochTimeline:
    """Builds the timeline of one group; ``rows`` are not in log order.

    Attributes
    ----------
    rows : list of dict
        A row for each epoch, and for each change without one.
    ended_revocations : list of Revocation
        What members of a consumer group had to give up, and gave up.
    partitions : OwnedPartitions
        The partitions of a consumer group's members.
    gone : list of Gone
        The members that are gone, in log order.
    """

    def __init__(self, switch_offsets: Collection[int]) -> None:
        self.switch_offsets = switch_offsets
        self.rows: list[Row] = []
        self.ended_revocations: list[Revocation] = []
        self.gone: list[Gone] = []
        self.changes = MemberChanges(self.rows)
        self.epoch: int | None = None
        self.group: GroupReplay | None = None
        self._begin()

    def _begin_anew(self, group: GroupReplay) -> None:
        """Begin with the first record of the log, or of the group's next partition."""
        if self.group is not None:
            self.changes.settle(None, self.epoch)
            self.reconciliation.end()
            self.epoch = None
            self._begin()
        self.group = group

    def _begin(self) -> None:
        self.partitions = OwnedPartitions(self.ended_revocations)
        self.reconciliation = Reconciliation()
        self.topics = TopicMetadata()
        self.members: dict[str, Row] = {}
        self.joined_ms: dict[str, int] = {}
        self.static: dict[str, str] = {}  # instance id -> member id
        self.away: dict[str, Row] = {}  # static members that left temporarily -> that row
        self.expressions: dict[str, list[str]] = {}
        self.initialized: dict[str, frozenset[int]] = {}  # topic -> partitions of a share group
        self.assignor: str | None = None  # that members named when the last target was computed
        self.row: Row | None = None  # of the last epoch
        # Where the log begins late: the members that may have been there already -> their records.
        self.perhaps_present: dict[str, GroupRecord] = {}

    def take(self, record: GroupRecord, name: str | None, group: GroupReplay) -> None:
        """Take the next record: of member or expression ``name``; ``group``: as of the record."""
        version = record.version
        if group is not self.group:
            self._begin_anew(group)
        if self.epoch is not None:  # records before the first epoch may have lost theirs
            self.changes.before(record, name)
        if version in EPOCH_KEYS:
            self._epoch(record, group)
        elif version in METADATA_KEYS:
            self._partition_metadata(record, group)
        elif version in TARGET_EPOCH_KEYS:
            self._target_computed(record, group)
        elif version == SHARE_STATE:
            self._share_state(record)
        elif name is None:
            return
        elif version == REGULAR_EXPRESSION:
            self._expression(record, name, group)
        elif version in MEMBER_KEYS:
            is_gone = record.value is None
            self._member(record, name, None if is_gone else group.member(version, name))
        elif version in CURRENT_KEYS:
            is_gone = record.value is None
            self._current(record, name, None if is_gone else group.member(version, name))
        elif version in TARGET_KEYS and is_consumer(version):
            self.partitions.take_target(name, group.member(version, name))

    def end(self) -> None:
        self.changes.settle(None, self.epoch)
        self.reconciliation.end()

    def _add(self, record: GroupRecord, cause: Row) -> None:
        self.changes.add(Change(record, cause, len(self.members)))

    def _epoch(self, record: GroupRecord, group: GroupReplay) -> None:
        previous, self.epoch = self.epoch, None
        self.reconciliation.end()
        is_switch = record.log_offset in self.switch_offsets
        if record.value is None:
            self.changes.clear()
            if not is_switch:
                row = row_of(record, DELETED, None, previous, [], None)
                self.rows.append(row | {"cause": "the group was deleted, or changed its protocol"})
            self._begin()
            return
        self.epoch, digest = group.epoch(record.version)
        changed = self.topics.hash_changed(digest, subscribed(record, group))
        if is_switch:
            self.changes.clear()
            return
        causes = self.changes.settle(record, previous)
        if previous is None and self.epoch > 1:  # the log begins here: no member is new
            causes = [
                cause | {"what": "present" if cause["what"] == "joined" else cause["what"]}
                for cause in causes
            ]
        if changed or (changed is None and not causes):
            causes = [cause for cause in causes if cause["what"] != "topics_changed"]
            causes.append(cause_of("topics_changed"))
        self.row = row_of(record, EPOCH_EVENT, self.epoch, previous, causes, len(self.members))
        self.rows.append(self.row)
        self.reconciliation.begin(self.row, self.members)

    def _partition_metadata(self, record: GroupRecord, group: GroupReplay) -> None:
        """Take the metadata of topics that a broker before Kafka 4.1 wrote; 4.1 deletes it."""
        value = None
        if record.value is not None:
            value = decode_value(record.version, record.value)["data"]
        if self.topics.topics_changed(value, subscribed(record, group)):
            self._add(record, cause_of("topics_changed"))
        if value is None:
            self.topics.hash = None
            self._add(record, cause_of("metadata_hashed"))

    def _share_state(self, record: GroupRecord) -> None:
        """Take the partitions whose share state is initialized; new ones bring an epoch."""
        before, self.initialized = self.initialized, {}
        if record.value is not None:
            topics = decode_value(record.version, record.value)["data"]["initializedTopics"]
            self.initialized = {
                topic["topicName"]: frozenset(topic["partitions"]) for topic in topics
            }
        new = {
            topic: sorted(numbers - before.get(topic, frozenset()))
            for topic, numbers in sorted(self.initialized.items())
        }
        detail = " ".join(f"{topic}:{','.join(map(str, n))}" for topic, n in new.items() if n)
        if detail:
            self._add(record, cause_of("share_initialized", detail=detail))

    def _target_computed(self, record: GroupRecord, group: GroupReplay) -> None:
        if record.value is None:
            return
        self.reconciliation.target_computed(record)
        if not is_consumer(record.version):
            return
        self.partitions.target_computed()
        before = self.assignor
        self.assignor = group.consumer.assignor if group.consumer.votes else None
        if self.row is not None and None not in (before, self.assignor) and before != self.assignor:
            detail = f"{before} to {self.assignor}"
            self.row["causes"].append(cause_of("assignor_changed", detail=detail))
            self.row["cause"] = in_words(self.row["causes"])

    def _expression(self, record: GroupRecord, expression: str, group: GroupReplay) -> None:
        """Take a resolved expression: other topics bring an epoch."""
        before = self.expressions.pop(expression, [])
        if record.value is not None:
            topics = group.consumer.regular_expressions[expression]
            self.expressions[expression] = topics
            if topics != before:
                self._add(record, cause_of("regex_resolved", detail=expression))

    def _member(self, record: GroupRecord, member_id: str, member: Row | None) -> None:
        before = self.members.pop(member_id, None)
        if member is None:
            away = self.away.pop(member_id, None)
            if away is not None:
                away["until"] = record.time_ms
            joined_ms = self.joined_ms.pop(member_id, -1)
            if before is not None:
                places = self.partitions.left_with.pop(member_id, frozenset())
                timeout = self.partitions.timed_out(member_id) if away is None else None
                gone = Gone(before, record, joined_ms, places, timeout is not None)
                self.gone.append(gone)
                detail = None
                if away is not None:
                    detail = "had left for now, and did not come back"
                elif timeout is not None:
                    detail = f"perhaps fenced: it did not give up {timeout}"
                self._add(record, cause_of("left_or_evicted", member_id, before, detail))
            if not self.members:
                self.partitions.lost.clear()
            return
        if before is not None:
            self.members[member_id] = member
            for cause in _changes(member_id, before, member):
                self._add(record, cause)
            self.changes.renew(member_id, member)
            return
        instance = member["group_instance_id"]
        old = None if instance is None else self._taken_over(instance)
        self.members[member_id] = member
        self.joined_ms[member_id] = record.timestamp
        if self.epoch is None:
            self.perhaps_present[member_id] = record
        if instance is not None:
            self.static[instance] = member_id
        self.reconciliation.replace(old, member)
        what = "joined" if old is None else "replaced"
        self._add(record, cause_of(what, member_id, member, old))

    def _taken_over(self, instance: str) -> str | None:
        """Return the member id that a static member replaces: present, or removed just before."""
        old = self.static.get(instance)
        if old is None or self.members.pop(old, None) is not None:
            return old
        return old if self.changes.take_back("left_or_evicted", old) else None

    def _current(self, record: GroupRecord, member_id: str, member: Row | None) -> None:
        """Take a member's current assignment: it may have left temporarily, or reconciled."""
        if is_consumer(record.version):
            least_ms, most_ms = self.partitions.take(record, member_id, member)
            if self.row is not None:
                for name, ms in (("unowned_least_ms", least_ms), ("unowned_most_ms", most_ms)):
                    self.row[name] = (self.row.get(name) or 0) + ms
        if member is None:
            return  # the member's own record follows
        self._joined_after_all(record, member_id)
        left = member["member_epoch"] == LEFT_FOR_NOW
        if left and member_id not in self.away:
            cause = cause_of("static_left", member_id, self.members.get(member_id))
            head = record, STATIC_LEAVE, self.epoch, self.epoch
            self.away[member_id] = row_of(*head, [cause], len(self.members))
            self.rows.append(self.away[member_id])
            self.reconciliation.left_for_now(member)
        elif not left:
            self.away.pop(member_id, None)
        if member["member_epoch"] == self.epoch and member["member_state"] == "stable":
            self.reconciliation.reached(record, member)

    def _joined_after_all(self, record: GroupRecord, member_id: str) -> None:
        """Let a member of the first epoch have joined, if its first assignment shows it.

        Since Kafka 4.3 a group begins with epoch 2, so the epoch alone does not show that the log
        begins late. A member that joins has the epoch 0 before its first one, in the same batch.
        """
        own = self.perhaps_present.pop(member_id, None)
        if own is None or (own.file, own.position) != (record.file, record.position):
            return
        value = record.value and decode_value(record.version, record.value)["data"]
        if self.row is not None and value and value["previousMemberEpoch"] == 0:
            for cause in self.row["causes"]:
                if (cause["what"], cause["member_id"]) == ("present", member_id):
                    cause["what"] = "joined"
            self.row["cause"] = in_words(self.row["causes"])


def _changes(member_id: str, before: Row, member: Row) -> Iterator[Row]:
    """Yield the changes of a member, except fields that the classic protocol renews."""
    detail = list(_topics(before, member))
    if detail:
        yield cause_of("subscription_changed", member_id, member, " ".join(detail))
    changed = [
        f"{words} {_text(before.get(name))} to {_text(member.get(name))}"
        for name, words in WORDS.items()
        if before.get(name) != member.get(name)
    ]
    if changed:
        yield cause_of("member_changed", member_id, member, ", ".join(changed))


def _topics(before: Row, member: Row) -> Iterator[str]:
    old, new = (set(row.get("subscribed_topics") or ()) for row in (before, member))
    yield from (f"+{topic}" for topic in sorted(new - old))
    yield from (f"-{topic}" for topic in sorted(old - new))
    old_regex, new_regex = (row.get("subscribed_regex") or "" for row in (before, member))
    if old_regex != new_regex:
        yield f"regex {_text(old_regex)} to {_text(new_regex)}"


def _text(value: Any) -> str:
    if isinstance(value, dict):  # tags of a client, or its endpoint
        is_endpoint = value.keys() == {"host", "port"}
        tags = ",".join(f"{key}={tag}" for key, tag in value.items()) or "none"
        return ":".join(map(str, value.values())) if is_endpoint else tags
    return "none" if value in (None, "") else str(value)


def subscribed(record: GroupRecord, group: GroupReplay) -> frozenset[str] | None:
    """Return the topics that a consumer group subscribes to; None: a group of another type."""
    return group.consumer.subscribed_topics if is_consumer(record.version) else None

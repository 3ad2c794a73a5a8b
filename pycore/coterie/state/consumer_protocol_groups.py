"""Groups of the newer protocols (consumer, share, streams) from the last record of each key.

The core's coordinator replays the records of a consumer group; the records of share and streams
groups are read here. State that a broker has only in memory is not here: whether a streams topology
is ready, the start offsets of a share group. Records have topic ids; ``name_topics`` finds their
names if the log has them. Cost: each record is decoded once; the rest grows with the members.
Sources: ShareGroup, StreamsGroup, GroupMetadataManager.replay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie._core.codec.schema import decode_key, decode_value
from coterie.base.ordering import java_order
from coterie.consumer_groups import encode_topic_id
from coterie.errors import CorruptData

if TYPE_CHECKING:
    from coterie._core.coordinator.consumer.group import ReplayedGroup

Row = dict[str, Any]
Records = Mapping[bytes, tuple["bytes | None", int, int]]
Claims = Sequence[tuple[Set[str], Set[str]]]


class Protocol(NamedTuple):
    epoch: int
    partition_metadata: int
    member: int
    target_epoch: int
    target: int
    current: int


PROTOCOLS = {
    "consumer": Protocol(3, 4, 5, 6, 7, 8),
    "share": Protocol(11, 9, 10, 12, 13, 14),
    "streams": Protocol(17, 18, 19, 20, 21, 22),
}
SHARE_STATE, REGULAR_EXPRESSION, TOPOLOGY = 15, 16, 23
# The key versions of each kind of record, over all protocols.
EPOCH_KEYS, METADATA_KEYS, MEMBER_KEYS, TARGET_EPOCH_KEYS, TARGET_KEYS, CURRENT_KEYS = (
    frozenset(versions) for versions in zip(*PROTOCOLS.values(), strict=True)
)
LEFT_FOR_NOW = -2  # member epoch of a static member that left temporarily
TYPE_OF = {
    version: name
    for name, protocol in PROTOCOLS.items()
    for version in protocol
    if version != protocol.partition_metadata
} | {TOPOLOGY: "streams"}
MEMBER_STATES = {  # modern.MemberState, streams.MemberState
    "consumer": ("stable", "unrevoked_partitions", "unreleased_partitions"),
    "share": ("stable", "unrevoked_partitions", "unreleased_partitions"),
    "streams": ("unknown", "stable", "unrevoked_tasks", "unreleased_tasks"),
}
REPLAYED = {*PROTOCOLS["consumer"], REGULAR_EXPRESSION} - {PROTOCOLS["consumer"].partition_metadata}
ASSIGNMENTS = ("current_assignment", "pending_revocation", "target_assignment")
TASKS = ("activeTasks", "standbyTasks", "warmupTasks")
TaggedFields = Mapping[str, tuple[str, str]]  # field of a row -> record of a protocol, its field
TAGGED_OF_GROUP: TaggedFields = {
    "target_assignment_timestamp": ("target_epoch", "assignmentTimestamp"),
    "validated_topology_epoch": ("epoch", "validatedTopologyEpoch"),
}


class GroupRecords:
    """The records of one group that are in the log, and the last offset of each group type.

    Those of a consumer group stay bytes, (offset, key, value), for the core.
    """

    def __init__(self) -> None:
        self.of_consumers: list[tuple[int, bytes, bytes | None]] = []
        self.values: dict[int, Row] = {}
        self.by_member: dict[int, dict[str, Row | None]] = {}
        self.last_offset: dict[str, int] = {}

    def add(
        self, version: int, key: Row, raw_key: bytes, raw_value: bytes | None, offset: int
    ) -> None:
        """Add a record; a member's tombstone is stored, because it hides earlier records."""
        if version in REPLAYED:
            self.of_consumers.append((offset, raw_key, raw_value))
        elif raw_value is not None:
            value = decode_value(version, raw_value)["data"]
            if "memberId" in key:
                self.by_member.setdefault(version, {})[key["memberId"]] = value
            else:
                self.values[version] = value
        elif "memberId" in key:
            self.by_member.setdefault(version, {})[key["memberId"]] = None
        if raw_value is not None and version in TYPE_OF:
            name = TYPE_OF[version]
            self.last_offset[name] = max(offset, self.last_offset.get(name, offset))

    def replayed(self) -> ReplayedGroup:
        """Return the consumer group that the core makes of its records."""
        group = new_consumer_group()
        for _, key, value in sorted(self.of_consumers, key=lambda record: record[0]):
            with suppress(CorruptData):  # the fold reports it as a fault
                group.take(key, value)
        return group

    def member_ids(self, protocol: Protocol) -> list[str]:
        """Return the ids with a member record, or an assignment without a later tombstone."""
        own = self.by_member.get(protocol.member, {})
        current = self.by_member.get(protocol.current, {})
        alive = {member for member, value in {**current, **own}.items() if value is not None}
        return sorted(alive, key=java_order)

    def of_member(self, version: int, member_id: str) -> Row:
        """Return the member's value of a key version; empty if there is none."""
        return self.by_member.get(version, {}).get(member_id) or {}


def is_consumer(version: int) -> bool:
    """Whether a key version is one of a consumer group, other than its regular expressions."""
    return version in PROTOCOLS["consumer"]


def new_consumer_group() -> ReplayedGroup:
    """Return a consumer group of the core that has taken no record yet."""
    # The coordinator's modules take long to load, and most logs have no such group.
    from coterie._core.coordinator.consumer.group import ReplayedGroup

    return ReplayedGroup()


def newer_groups(records: Records, classic: Mapping[str, int] | None = None) -> dict[str, Row]:
    """Return the groups of the newer protocols by id, as group rows.

    Parameters
    ----------
    records
        Key -> (value or None for a tombstone, log offset, timestamp in ms), key versions 3 to 23.
    classic
        Offset of the metadata record of each classic group. A group has the type of its last
        record, so a group with a later classic record is omitted.

    Notes
    -----
    In addition to a classic row's fields, a row has ``group_epoch``, ``target_assignment_epoch``,
    ``topic_ids`` (names from its own records) and, in members, epochs, state and assignments.
    Assignments have topic ids until :func:`name_topics`.
    """
    groups: dict[str, GroupRecords] = {}
    for raw_key, (raw_value, offset, _) in records.items():
        key = decode_key(raw_key)
        group = groups.setdefault(key["data"]["groupId"], GroupRecords())
        group.add(key["version"], key["data"], raw_key, raw_value, offset)
    rows = {}
    for group_id, group in groups.items():
        if group.last_offset:
            offset, name = max((at, name) for name, at in group.last_offset.items())
            if offset >= (classic or {}).get(group_id, offset):
                rows[group_id] = _consumer_row(group) if name == "consumer" else _row(name, group)
    return rows


def _consumer_row(group: GroupRecords) -> Row:
    replayed = group.replayed()
    members = [consumer_member(member) for member in replayed.members()]
    expressions = replayed.regular_expressions
    topics = {topic for member in members for topic in _names(member, expressions)}
    epochs = (replayed.group_epoch, replayed.target_assignment_epoch)
    by_member, own = _tagged_values(group)
    for member in members:
        _add_assignment_epochs(member, by_member.get(member["member_id"], {}))
    return {
        **_base_row("consumer", group, replayed.state, epochs, topics, members),
        "protocol": replayed.assignor,
        "regular_expressions": expressions,
    } | _tagged(TAGGED_OF_GROUP, own, PROTOCOLS["consumer"])


def _tagged_values(group: GroupRecords) -> tuple[dict[str, Row], dict[int, Row]]:
    """Return the last current assignment by member, and the last target epoch by key version.

    The core does not hand over what Kafka 4.3 added to them.
    """
    protocol = PROTOCOLS["consumer"]
    by_member: dict[str, Row] = {}
    own: dict[int, Row] = {}
    for _, raw_key, raw_value in sorted(group.of_consumers, key=lambda record: record[0]):
        with suppress(CorruptData):
            key = decode_key(raw_key)
            value = {} if raw_value is None else decode_value(key["version"], raw_value)["data"]
            if key["version"] == protocol.current:
                by_member[key["data"]["memberId"]] = value
            elif key["version"] == protocol.target_epoch:
                own[protocol.target_epoch] = value
    return by_member, own


def _add_assignment_epochs(member: Row, current: Row) -> None:
    """Add the epochs at which a member got its partitions, where its record has them."""
    for name, field in (
        ("current_assignment", "assignedPartitions"),
        ("pending_revocation", "partitionsPendingRevocation"),
    ):
        epochs = {
            (topic["topicId"], partition): epoch
            for topic in current.get(field, ())
            for partition, epoch in zip(
                topic["partitions"], topic.get("assignmentEpochs") or (), strict=False
            )
        }
        for topic in member[name] if epochs else ():
            topic["assignment_epochs"] = [
                epochs.get((topic["topic_id"], partition)) for partition in topic["partitions"]
            ]


def consumer_member(member: Row) -> Row:
    """Return the row of a consumer group's member, of the core's."""
    return {
        **member,
        "member_state": _member_state("consumer", member["member_state"]),
        **{
            name: [
                {"topic_id": encode_topic_id(topic_id), "topic": None, "partitions": partitions}
                for topic_id, partitions in member[name]
            ]
            for name in ASSIGNMENTS
        },
    }


def unreconciled(group: Row) -> list[Row]:
    """Return the members of a consumer group's row that do not have their target yet."""
    reached = group["target_assignment_epoch"], "stable"
    return [
        member
        for member in group["members"]
        if (member["member_epoch"], member["member_state"]) != reached
    ]


def _base_row(
    name: str,
    group: GroupRecords,
    state: str,
    epochs: tuple[int, int],
    topics: Set[str],
    members: list[Row],
) -> Row:
    group_epoch, target_epoch = epochs
    return {
        "type": name,
        "state": state,
        "protocol_type": name,
        "generation": group_epoch,
        "protocol": None,
        "leader": None,
        "current_state_timestamp": None,
        "subscribed_topics": sorted(topics, key=java_order),
        "members": members,
        "group_epoch": group_epoch,
        "target_assignment_epoch": target_epoch,
        "topic_ids": dict(_pairs(name, group)),
    }


def _row(name: str, group: GroupRecords) -> Row:
    """Return the row of a share or streams group."""
    protocol = PROTOCOLS[name]
    group_epoch = group.values.get(protocol.epoch, {}).get("epoch", 0)
    target_epoch = group.values.get(protocol.target_epoch, {}).get("assignmentEpoch", 0)
    members = [other_member(name, group, member_id) for member_id in group.member_ids(protocol)]
    topics = _subscribed(name, group, members)
    state = _state(name, group, members, group_epoch, target_epoch)
    row = _base_row(name, group, state, (group_epoch, target_epoch), topics, members)
    if name == "share":
        share_state = group.values.get(SHARE_STATE, {})
        for kind in ("initializing", "initialized", "deleting"):
            row[f"{kind}_topics"] = [
                {"topic": topic["topicName"], "partitions": topic.get("partitions", [])}
                for topic in share_state.get(f"{kind}Topics", ())
            ]
    else:
        row["topology"] = group.values.get(TOPOLOGY)
    return row | _tagged(TAGGED_OF_GROUP, group.values, protocol)


def _tagged(fields: TaggedFields, records: Mapping[int, Row], protocol: Protocol) -> Row:
    """Return the tagged fields that records of Kafka 4.2 and later have, where they have them."""
    return {
        name: records[version][field]
        for name, (kind, field) in fields.items()
        if (version := getattr(protocol, kind)) in records and field in records[version]
    }


def _state(name: str, group: GroupRecords, members: list[Row], epoch: int, target: int) -> str:
    """Return the state that a broker derives after a load, by the first matching rule."""
    if not members:
        return "Empty"
    if name == "share":
        return "Stable"
    if name == "streams" and TOPOLOGY not in group.values:
        return "NotReady"
    if epoch > target:
        return "Assigning"
    if all(m["member_epoch"] == target and m["member_state"] == "stable" for m in members):
        return "Stable"
    return "Reconciling"


def _subscribed(name: str, group: GroupRecords, members: list[Row]) -> set[str]:
    if name == "streams":
        topology = group.values.get(TOPOLOGY, {})
        return {t for part in topology.get("subtopologies", ()) for t in part["sourceTopics"]}
    return {topic for member in members for topic in member["subscribed_topics"]}


def _names(member: Row, expressions: Mapping[str, list[str]]) -> set[str]:
    """Return the topics of a member's subscription, by name or by regular expression."""
    return {*member["subscribed_topics"], *expressions.get(member["subscribed_regex"], ())}


def _member_state(name: str, number: int | None) -> str:
    states = MEMBER_STATES[name]
    if number is None:
        return "stable"
    return states[number] if 0 <= number < len(states) else "unknown"


def _base_member(name: str, group: GroupRecords, member_id: str) -> tuple[Row, Row]:
    protocol = PROTOCOLS[name]
    own = group.of_member(protocol.member, member_id)
    current = group.of_member(protocol.current, member_id)
    return own, {
        "member_id": member_id,
        "group_instance_id": own.get("instanceId"),
        "client_id": own.get("clientId", ""),
        "client_host": own.get("clientHost", ""),
        "session_timeout_ms": None,
        "rebalance_timeout_ms": own.get("rebalanceTimeoutMs"),
        "subscription": None,
        "assignment": None,
        "rack_id": own.get("rackId"),
        "member_epoch": current.get("memberEpoch", 0),
        "previous_member_epoch": current.get("previousMemberEpoch", -1),
        "member_state": _member_state(name, current.get("state")),
    }


def other_member(name: str, group: GroupRecords, member_id: str) -> Row:
    """Return the row of a member of a share or streams group."""
    member = _streams_member if name == "streams" else _share_member
    return member(name, group, member_id)


def _share_member(name: str, group: GroupRecords, member_id: str) -> Row:
    protocol = PROTOCOLS[name]
    own, row = _base_member(name, group, member_id)
    current = group.of_member(protocol.current, member_id)
    return {
        **row,
        "subscribed_topics": own.get("subscribedTopicNames", []),
        "subscribed_regex": None,
        "server_assignor": None,
        "upgraded": True,
        "current_assignment": _partitions(current.get("assignedPartitions", ())),
        "pending_revocation": [],
        "target_assignment": _partitions(
            group.of_member(protocol.target, member_id).get("topicPartitions", ())
        ),
    }


def _streams_member(name: str, group: GroupRecords, member_id: str) -> Row:
    protocol = PROTOCOLS[name]
    own, row = _base_member(name, group, member_id)
    current = group.of_member(protocol.current, member_id)
    target = group.of_member(protocol.target, member_id)
    return {
        **row,
        "topology_epoch": own.get("topologyEpoch", -1),
        "process_id": own.get("processId", ""),
        "user_endpoint": own.get("userEndpoint"),
        "client_tags": {tag["key"]: tag["value"] for tag in own.get("clientTags", ())},
        "current_tasks": _tasks(current),
        "pending_revocation_tasks": _tasks(current, "PendingRevocation"),
        "target_tasks": _tasks(target),
    }


def _tasks(record: Row, suffix: str = "") -> Row:
    """Return the tasks of each kind; a record of 4.3 and later also has their epochs."""
    names = ("subtopologyId", "partitions", "assignmentEpochs")
    return {
        kind: [
            {name: task[name] for name in names if name in task}
            for task in record.get(kind + suffix, ())
        ]
        for kind in TASKS
    }


def _partitions(topics: Iterable[Row]) -> list[Row]:
    return [
        {"topic_id": t["topicId"], "topic": None, "partitions": list(t["partitions"])}
        for t in topics
    ]


def _pairs(name: str, group: GroupRecords) -> Iterator[tuple[str, str]]:
    """Yield the (topic id, name) pairs that are in records."""
    for topic in group.values.get(PROTOCOLS[name].partition_metadata, {}).get("topics", ()):
        yield topic["topicId"], topic["topicName"]
    state = group.values.get(SHARE_STATE, {}) if name == "share" else {}
    for kind in ("deletingTopics", "initializingTopics", "initializedTopics"):
        for topic in state.get(kind, ()):
            yield topic["topicId"], topic["topicName"]


def name_topics(rows: Iterable[Row]) -> None:
    """Add topic names to the assignments, where the log determines them.

    Some records have both id and name (partition metadata before 4.1, share state). Other names
    are inferred: a current target assignment has only subscribed topics, so if one name remains
    for an id, it is the id's name. An unknown name is None.
    """
    consumers = [row for row in rows if row.get("type") in ("consumer", "share")]
    names: dict[str, str] = {}
    for row in consumers:
        names.update(row["topic_ids"])
    claims = [
        (_names(m, row.get("regular_expressions", {})), {t["topic_id"] for t in ids})
        for row in consumers
        if row["group_epoch"] == row["target_assignment_epoch"]
        for m in row["members"]
        if (ids := m["target_assignment"]) and _all_names_known(m, row)
    ]
    settle_names(claims, names)
    for row in consumers:
        for member in row["members"]:
            for kind in ASSIGNMENTS:
                for topic in member[kind]:
                    topic["topic"] = names.get(topic["topic_id"])


def settle_names(claims: Claims, names: dict[str, str]) -> None:
    """Add the names of the topic ids that have only one possible name.

    A claim is a pair: the topic names that a member subscribed to, and the topic ids that were
    assigned to it for this subscription.
    """
    while new_names := dict(_settled(claims, names)):
        names.update(new_names)


def _all_names_known(member: Row, row: Row) -> bool:
    """Return whether the topics of the member's regular expression are known."""
    expression = member["subscribed_regex"]
    return expression is None or expression in row["regular_expressions"]


def _settled(claims: Claims, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the (id, name) pairs of ids with only one possible name."""
    candidates: dict[str, Set[str]] = {}
    for subscribed, ids in claims:
        free = subscribed - {names[i] for i in ids if i in names}
        for topic_id in ids:
            if topic_id not in names:
                candidates[topic_id] = candidates.get(topic_id, free) & free
    yield from ((topic_id, min(free)) for topic_id, free in candidates.items() if len(free) == 1)

"""Plain values: Kafka's error codes, responses, batches. Frozen, comparable, printable.

Names are Kafka's in snake_case; times are int milliseconds. Each response is followed by the
function that makes it from an error and the core's payload, which is None for a request that failed
as a whole. The table of operations (``coterie.base.operations``) names these functions.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any

__all__ = [
    "Batch",
    "DeleteGroupsResponse",
    "DescribeGroupResponse",
    "Error",
    "GroupOverview",
    "GroupSummary",
    "HeartbeatResponse",
    "IdentifiedPartitionError",
    "JoinGroupResponse",
    "LeaveGroupResponse",
    "ListGroupsResponse",
    "MemberSummary",
    "OffsetAndMetadata",
    "OffsetCommitResponse",
    "OffsetDeleteResponse",
    "OffsetFetchResponse",
    "SyncGroupResponse",
    "TxnOffsetCommitResponse",
    "TypedGroupOverview",
]


class Error(IntEnum):
    """Kafka's error codes (``Errors.java``)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133
    GROUP_DELETION_FAILED = 134
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135
    CONTROLLER_ID_NOT_REGISTERED = 136


_ERRORS = {int(error): error for error in Error}


def encode_topic_id(raw: bytes) -> str:
    """Return the text of a topic id of 16 bytes."""
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def plain(value: Any) -> Any:
    """Return the JSON form of a value: error names, base64, objects and lists."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Error):
        return value.name
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__match_args__}
    return value


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed offset. ``leader_epoch`` -1: none; ``commit_timestamp`` None: set at commit."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int | None = None
    expire_timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class MemberSummary:
    """A member as DescribeGroups shows it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A group as DescribeGroups shows it; protocol, metadata, assignments only when Stable."""

    state: str
    protocol_type: str
    protocol_name: str
    members: tuple[MemberSummary, ...]


@dataclass(frozen=True, slots=True)
class GroupOverview:
    """A group as ListGroups shows it."""

    group_id: str
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True)
class TypedGroupOverview(GroupOverview):
    """The same with the group's type, ``"classic"`` or ``"consumer"``: since Kafka 4.1."""

    type: str


@dataclass(frozen=True, slots=True)
class JoinMember:
    """A member in the leader's JoinGroup response."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinGroupResponse:
    """Answer to JoinGroup; ``members`` is empty for followers."""

    error: Error
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    member_id: str
    skip_assignment: bool
    members: tuple[JoinMember, ...]


def joined(error: Error, payload: Any) -> JoinGroupResponse:
    """Make the response to JoinGroup; if it failed, the payload is the member id."""
    if payload is None or type(payload) is str:
        return JoinGroupResponse(error, -1, None, None, "", payload or "", False, ())
    generation, kind, name, leader, member_id, skip, members = payload
    entries = tuple([JoinMember(*entry) for entry in members])
    return JoinGroupResponse(error, generation, kind, name, leader, member_id, skip, entries)


@dataclass(frozen=True, slots=True)
class SyncGroupResponse:
    """Answer to SyncGroup."""

    error: Error
    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes


def synced(error: Error, payload: Any) -> SyncGroupResponse:
    """Make the response to SyncGroup."""
    return SyncGroupResponse(error, *(payload or (None, None, b"")))


@dataclass(frozen=True, slots=True)
class HeartbeatResponse:
    """Answer to Heartbeat."""

    error: Error


def beaten(error: Error, payload: Any) -> HeartbeatResponse:
    """Make the response to Heartbeat."""
    return HeartbeatResponse(error)


@dataclass(frozen=True, slots=True)
class LeaveMember:
    """One entry of a LeaveGroup response."""

    member_id: str
    group_instance_id: str | None
    error: Error


@dataclass(frozen=True, slots=True)
class LeaveGroupResponse:
    """Answer to LeaveGroup: one entry per entry of the request."""

    error: Error
    members: tuple[LeaveMember, ...]


def left(error: Error, payload: Any) -> LeaveGroupResponse:
    """Make the response to LeaveGroup; a payload row without an error is a success."""
    members = [
        LeaveMember(row[0], row[1], _ERRORS[row[2]] if len(row) > 2 else Error.NONE)
        for row in payload or ()
    ]
    return LeaveGroupResponse(error, tuple(members))


@dataclass(frozen=True, slots=True)
class PartitionError:
    """The error of one partition."""

    topic: str
    partition: int
    error: Error


@dataclass(frozen=True, slots=True)
class IdentifiedPartitionError(PartitionError):
    """The same with the topic's id, if the request has it: since Kafka 4.1."""

    topic_id: str


def _partitions(payload: Iterable[tuple[Any, ...]] | None) -> tuple[PartitionError, ...]:
    """Make the errors from rows of ((topic, partition), number) and the topic's id if there is one.

    A longer row is one of the request, and a success.
    """
    return tuple([_of_row(row) for row in payload or ()])


def _of_row(row: tuple[Any, ...]) -> PartitionError:
    if len(row) != 3:
        return _of_partition(*row[0], row[1] if len(row) == 2 else 0)
    (topic, partition), code, raw = row
    return IdentifiedPartitionError(topic, partition, _ERRORS[code], encode_topic_id(raw))


@lru_cache(maxsize=1024)  # a member commits the same partitions again and again
def _of_partition(topic: str, partition: int, error: int) -> PartitionError:
    return PartitionError(topic, partition, _ERRORS[error])


@dataclass(frozen=True, slots=True)
class OffsetCommitResponse:
    """Answer to OffsetCommit; ``error`` is always NONE; each partition has its own."""

    error: Error
    partitions: tuple[PartitionError, ...]


def committed(error: Error, payload: Any) -> OffsetCommitResponse:
    """Make the response to OffsetCommit."""
    return OffsetCommitResponse(error, _partitions(payload))


@dataclass(frozen=True, slots=True)
class TxnOffsetCommitResponse:
    """Answer to TxnOffsetCommit; ``error`` is always NONE; each partition has its own."""

    error: Error
    partitions: tuple[PartitionError, ...]


def txn_committed(error: Error, payload: Any) -> TxnOffsetCommitResponse:
    """Make the response to TxnOffsetCommit."""
    return TxnOffsetCommitResponse(error, _partitions(payload))


@dataclass(frozen=True, slots=True)
class FetchedOffset:
    """One partition of an OffsetFetch response; offset -1: none is committed."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    error: Error


@dataclass(frozen=True, slots=True)
class OffsetFetchResponse:
    """Answer to OffsetFetch."""

    error: Error
    partitions: tuple[FetchedOffset, ...]

    def __getitem__(self, key: tuple[str, int]) -> FetchedOffset:
        for entry in self.partitions:
            if (entry.topic, entry.partition) == tuple(key):
                return entry
        raise KeyError(key)


@dataclass(frozen=True, slots=True, match_args=False)
class RefusedOffsetFetch(OffsetFetchResponse):
    """An error of the group or the member: since Kafka 4.1 a trace's line has no partitions."""

    __match_args__ = ("error",)


def fetched(error: Error, payload: Any) -> OffsetFetchResponse:
    """Make the response to OffsetFetch."""
    if payload is False:
        return RefusedOffsetFetch(error, ())
    offsets = [
        FetchedOffset(topic, partition, offset, epoch, metadata, _ERRORS[code])
        for topic, partition, offset, epoch, metadata, code in payload or ()
    ]
    return OffsetFetchResponse(error, tuple(offsets))


@dataclass(frozen=True, slots=True)
class OffsetDeleteResponse:
    """Answer to OffsetDelete."""

    error: Error
    partitions: tuple[PartitionError, ...]


def offsets_deleted(error: Error, payload: Any) -> OffsetDeleteResponse:
    """Make the response to OffsetDelete."""
    return OffsetDeleteResponse(error, _partitions(payload))


@dataclass(frozen=True, slots=True)
class DescribeGroupResponse:
    """Answer to DescribeGroups for one group."""

    error: Error
    state: str
    protocol_type: str
    protocol_name: str
    members: tuple[MemberSummary, ...]


def described(error: Error, payload: Any) -> DescribeGroupResponse:
    """Make the response to DescribeGroups, of one group."""
    if payload is None:
        return DescribeGroupResponse(error, "", "", "", ())
    return DescribeGroupResponse(
        error, payload.state, payload.protocol_type, payload.protocol_name, payload.members
    )


@dataclass(frozen=True, slots=True)
class ListGroupsResponse:
    """Answer to ListGroups."""

    error: Error
    groups: tuple[GroupOverview, ...]


def listed(error: Error, payload: Any) -> ListGroupsResponse:
    """Make the response to ListGroups."""
    groups = [
        TypedGroupOverview(*row) if len(row) > 3 else GroupOverview(*row) for row in payload or ()
    ]
    return ListGroupsResponse(error, tuple(groups))


@dataclass(frozen=True, slots=True)
class DeletedGroup:
    """One entry of a DeleteGroups response."""

    group_id: str
    error: Error


@dataclass(frozen=True, slots=True)
class DeleteGroupsResponse:
    """Answer to DeleteGroups; ``error`` is always NONE, each group has its own."""

    error: Error
    groups: tuple[DeletedGroup, ...]


def groups_deleted(error: Error, payload: Any) -> DeleteGroupsResponse:
    """Make the response to DeleteGroups."""
    groups = [DeletedGroup(group_id, _ERRORS[code]) for group_id, code in payload or ()]
    return DeleteGroupsResponse(error, tuple(groups))


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of the coordinator's log: one append, or a marker."""

    base_offset: int
    producer_id: int = -1
    producer_epoch: int = -1
    transactional: bool = False
    control: bool = False
    records: tuple[tuple[bytes | None, bytes | None], ...] = ()

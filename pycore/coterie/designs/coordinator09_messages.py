"""The messages of the 0.9 design, with its error codes.

Fields as in the document (and in the schemas that ``kafka-clients`` 0.8.2.2 has for versions 0 of
JoinGroup, Heartbeat and ConsumerMetadata). ``LeaveGroup`` is not in the document: the code of 2015
had it, for a consumer that closes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Code(Enum):
    """Error codes, by the document's names; the last four are from the code of 2015."""

    NONE = "None"
    ILLEGAL_GENERATION = "IllegalGeneration"
    NOT_COORDINATOR_FOR_GROUP = "NotCoordinatorForGroup"
    COORDINATOR_STARTUP_NOT_COMPLETE = "CoordinatorStartupNotComplete"
    COORDINATOR_NOT_AVAILABLE = "ConsumerCoordinatorNotAvailable"
    UNKNOWN_CONSUMER_ID = "UnknownConsumerId"
    INCONSISTENT_STRATEGY = "InconsistentPartitionAssignmentStrategy"
    UNKNOWN_STRATEGY = "UnknownPartitionAssignmentStrategy"


@dataclass(frozen=True, slots=True)
class ConsumerMetadataRequest:
    group_id: str


@dataclass(frozen=True, slots=True)
class ConsumerMetadataResponse:
    error: Code
    coordinator: int | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    group_id: str
    generation_id: int
    consumer_id: str


@dataclass(frozen=True, slots=True)
class HeartbeatResponse:
    """An error if the generation has changed."""

    error: Code


@dataclass(frozen=True, slots=True)
class JoinGroupRequest:
    """A request for a share of these topics; the id is empty at first."""

    group_id: str
    session_timeout_ms: int
    topics: tuple[str, ...]
    consumer_id: str
    strategy: str


@dataclass(frozen=True, slots=True)
class JoinGroupResponse:
    error: Code
    generation_id: int = 0
    consumer_id: str = ""
    partitions: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class LeaveGroupRequest:
    """A closing consumer leaves; there is no response."""

    group_id: str
    consumer_id: str


GroupRequest = ConsumerMetadataRequest | HeartbeatRequest | JoinGroupRequest | LeaveGroupRequest
GroupResponse = ConsumerMetadataResponse | HeartbeatResponse | JoinGroupResponse

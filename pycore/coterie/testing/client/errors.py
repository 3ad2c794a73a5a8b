"""Exceptions of clients, by Kafka's names; which error of a broker raises which.

Source: ``Errors.java`` and the classes of ``org.apache.kafka.common.errors`` (retriable are those
below RetriableException).
"""

from __future__ import annotations

from collections.abc import Sequence

from coterie.errors import CoterieError
from coterie.values import Error


class KafkaError(CoterieError):
    """Base of what clients raise, as KafkaException.

    Attributes
    ----------
    error : Error or None
        The broker's error, if one was the cause.
    """

    error: Error | None = None


class IllegalStateError(KafkaError):
    """The consumer is closed, or not in a state for this call."""


class RetriableError(KafkaError):
    """The same request may succeed later."""


class DisconnectError(RetriableError):
    """The connection broke; what became of the request is unknown."""


class KafkaTimeoutError(RetriableError):
    """The time of a call is over, as TimeoutException."""


class CommitFailedError(KafkaError):
    """The consumer is no longer a member with these partitions."""

    def __init__(self, what: str | None = None) -> None:
        super().__init__(
            what
            or "the offset commit cannot be completed, because the group has rebalanced and "
            "assigned the partitions to another member: the time between calls of poll() was "
            "longer than max.poll.interval.ms, or the session ended"
        )


class RebalanceInProgressError(KafkaError):
    """The group rebalances; poll, then commit again."""

    error = Error.REBALANCE_IN_PROGRESS


class RetriableCommitFailedError(RetriableError):
    """An asynchronous commit failed, and may succeed when it is repeated."""


class FencedInstanceIdError(KafkaError):
    """Another consumer has the same ``group.instance.id``."""

    error = Error.FENCED_INSTANCE_ID


class UnknownMemberIdError(KafkaError):
    """The coordinator does not know the member."""

    error = Error.UNKNOWN_MEMBER_ID


class IllegalGenerationError(KafkaError):
    """The generation is over."""

    error = Error.ILLEGAL_GENERATION


class FencedMemberEpochError(KafkaError):
    """The member was fenced by the coordinator (consumer protocol)."""

    error = Error.FENCED_MEMBER_EPOCH


class UnreleasedInstanceIdError(KafkaError):
    """Another member of the group has the same ``group.instance.id`` (consumer protocol)."""

    error = Error.UNRELEASED_INSTANCE_ID


class StaleMemberEpochError(KafkaError):
    """The member's epoch is old (consumer protocol)."""

    error = Error.STALE_MEMBER_EPOCH


class GroupMaxSizeReachedError(KafkaError):
    """The group has as many members as it may have."""

    error = Error.GROUP_MAX_SIZE_REACHED


class InvalidRegularExpressionError(KafkaError):
    """The coordinator cannot read the expression of a subscription (consumer protocol)."""

    error = Error.INVALID_REGULAR_EXPRESSION


class InvalidGroupIdError(KafkaError):
    """The call needs a ``group.id``."""

    error = Error.INVALID_GROUP_ID


class ProducerFencedError(KafkaError):
    """Another producer has the same ``transactional.id``."""

    error = Error.PRODUCER_FENCED


class OffsetOutOfRangeError(KafkaError):
    """A position is outside of the log, and ``auto.offset.reset`` is none.

    Attributes
    ----------
    partitions : dict
        The position of each such partition.
    """

    error = Error.OFFSET_OUT_OF_RANGE

    def __init__(self, partitions: dict[tuple[str, int], int]) -> None:
        self.partitions = partitions
        super().__init__(f"fetch positions are out of range: {_shown(partitions)}")


class NoOffsetForPartitionError(KafkaError):
    """A partition has no committed offset, and ``auto.offset.reset`` is none.

    Attributes
    ----------
    partitions : list
        Those without an offset.
    """

    def __init__(self, partitions: Sequence[tuple[str, int]]) -> None:
        self.partitions = list(partitions)
        names = ", ".join(f"{topic}-{number}" for topic, number in partitions)
        super().__init__(f"no committed offset, and no auto.offset.reset, for {names}")


class WakeupError(KafkaError):
    """``wakeup()`` has ended a call that waits."""


def _shown(partitions: dict[tuple[str, int], int]) -> str:
    return ", ".join(f"{topic}-{n}: {offset}" for (topic, n), offset in partitions.items())


_CLASSES: dict[Error, type[KafkaError]] = {
    kind.error: kind for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, KafkaError) and kind.error is not None
    and kind is not OffsetOutOfRangeError
}  # fmt: skip
_RETRIABLE = {
    Error.COORDINATOR_LOAD_IN_PROGRESS,
    Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_COORDINATOR,
    Error.REQUEST_TIMED_OUT,
    Error.UNKNOWN_TOPIC_OR_PARTITION,
    Error.UNSTABLE_OFFSET_COMMIT,
    Error.LEADER_NOT_AVAILABLE,
    Error.NOT_LEADER_OR_FOLLOWER,
    Error.NETWORK_EXCEPTION,
    Error.NOT_ENOUGH_REPLICAS,
    Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Error.KAFKA_STORAGE_ERROR,
    Error.CONCURRENT_TRANSACTIONS,
}


def error_of(error: Error, what: str) -> KafkaError:
    """Return the exception for a broker's error; ``what``: what it refused."""
    known = _CLASSES.get(error)
    if known is CommitFailedError:
        return CommitFailedError()
    kind = known or (RetriableError if error in _RETRIABLE else KafkaError)
    raised = kind(f"{what}: {error.name}")
    raised.error = error
    return raised

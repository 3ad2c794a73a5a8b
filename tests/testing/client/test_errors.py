"""Which error of a broker a client raises as what: Errors.java and its exceptions (Kafka 3.9)."""

import pytest

from coterie import Error
from coterie.testing.client import errors
from coterie.testing.client.errors import KafkaError, RetriableError, error_of

CLASSES = {  # those that an application may want to catch
    "REBALANCE_IN_PROGRESS": errors.RebalanceInProgressError,
    "FENCED_INSTANCE_ID": errors.FencedInstanceIdError,
    "UNKNOWN_MEMBER_ID": errors.UnknownMemberIdError,
    "ILLEGAL_GENERATION": errors.IllegalGenerationError,
    "FENCED_MEMBER_EPOCH": errors.FencedMemberEpochError,
    "UNRELEASED_INSTANCE_ID": errors.UnreleasedInstanceIdError,
    "STALE_MEMBER_EPOCH": errors.StaleMemberEpochError,
    "GROUP_MAX_SIZE_REACHED": errors.GroupMaxSizeReachedError,
    "INVALID_REGULAR_EXPRESSION": errors.InvalidRegularExpressionError,
    "INVALID_GROUP_ID": errors.InvalidGroupIdError,
    "PRODUCER_FENCED": errors.ProducerFencedError,
}
RETRIABLE = {  # subclasses of RetriableException, of those that this cluster's clients may get
    "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR",
    "REQUEST_TIMED_OUT", "UNKNOWN_TOPIC_OR_PARTITION", "UNSTABLE_OFFSET_COMMIT",
    "LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER", "NETWORK_EXCEPTION", "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "KAFKA_STORAGE_ERROR", "CONCURRENT_TRANSACTIONS",
}  # fmt: skip
FINAL = {"OFFSET_METADATA_TOO_LARGE", "INVALID_PRODUCER_EPOCH", "TRANSACTION_ABORTABLE",
         "UNSUPPORTED_ASSIGNOR", "INVALID_COMMIT_OFFSET_SIZE",
         "UNKNOWN_SERVER_ERROR", "OFFSET_OUT_OF_RANGE"}  # fmt: skip


@pytest.mark.parametrize("name", sorted({*CLASSES, *RETRIABLE, *FINAL}))
def test_an_error_of_a_broker_is_raised_as_kafkas_client_does(name):
    raised = error_of(Error[name], "Heartbeat")
    assert type(raised) is CLASSES.get(name, RetriableError if name in RETRIABLE else KafkaError)
    assert raised.error is Error[name]
    assert str(raised) == f"Heartbeat: {name}"


def test_what_has_no_error_of_a_broker_is_retriable_or_not():
    kinds = {
        errors.DisconnectError: True, errors.KafkaTimeoutError: True,
        errors.RetriableCommitFailedError: True, errors.CommitFailedError: False,
        errors.IllegalStateError: False, errors.WakeupError: False,
    }  # fmt: skip
    for kind, retriable in kinds.items():
        assert issubclass(kind, RetriableError) == retriable
        assert issubclass(kind, KafkaError)
        assert kind.error is None


def test_errors_of_positions_name_the_partitions():
    positions = {("orders", 1): 7, ("more", 0): 9}
    raised = errors.OffsetOutOfRangeError(positions)
    assert raised.partitions == positions
    assert str(raised) == "fetch positions are out of range: orders-1: 7, more-0: 9"
    assert raised.error is Error.OFFSET_OUT_OF_RANGE
    raised = errors.NoOffsetForPartitionError(list(positions))
    assert raised.partitions == list(positions)
    assert str(raised).endswith("for orders-1, more-0")
    assert "max.poll.interval.ms" in str(errors.CommitFailedError())
    assert str(errors.CommitFailedError("why")) == "why"

"""Plain values: their JSON form, and responses that are made from an error alone."""

import pytest

from coterie import values
from coterie.values import Error

ERRORS = """
    UNKNOWN_SERVER_ERROR NONE OFFSET_OUT_OF_RANGE CORRUPT_MESSAGE UNKNOWN_TOPIC_OR_PARTITION
    INVALID_FETCH_SIZE LEADER_NOT_AVAILABLE NOT_LEADER_OR_FOLLOWER REQUEST_TIMED_OUT
    BROKER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE MESSAGE_TOO_LARGE STALE_CONTROLLER_EPOCH
    OFFSET_METADATA_TOO_LARGE NETWORK_EXCEPTION COORDINATOR_LOAD_IN_PROGRESS
    COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR INVALID_TOPIC_EXCEPTION RECORD_LIST_TOO_LARGE
    NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND INVALID_REQUIRED_ACKS
    ILLEGAL_GENERATION INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID UNKNOWN_MEMBER_ID
    INVALID_SESSION_TIMEOUT REBALANCE_IN_PROGRESS INVALID_COMMIT_OFFSET_SIZE
    TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED
    INVALID_TIMESTAMP UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE UNSUPPORTED_VERSION
    TOPIC_ALREADY_EXISTS INVALID_PARTITIONS INVALID_REPLICATION_FACTOR
    INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG NOT_CONTROLLER INVALID_REQUEST
    UNSUPPORTED_FOR_MESSAGE_FORMAT POLICY_VIOLATION OUT_OF_ORDER_SEQUENCE_NUMBER
    DUPLICATE_SEQUENCE_NUMBER INVALID_PRODUCER_EPOCH INVALID_TXN_STATE
    INVALID_PRODUCER_ID_MAPPING INVALID_TRANSACTION_TIMEOUT CONCURRENT_TRANSACTIONS
    TRANSACTION_COORDINATOR_FENCED TRANSACTIONAL_ID_AUTHORIZATION_FAILED SECURITY_DISABLED
    OPERATION_NOT_ATTEMPTED KAFKA_STORAGE_ERROR LOG_DIR_NOT_FOUND SASL_AUTHENTICATION_FAILED
    UNKNOWN_PRODUCER_ID REASSIGNMENT_IN_PROGRESS DELEGATION_TOKEN_AUTH_DISABLED
    DELEGATION_TOKEN_NOT_FOUND DELEGATION_TOKEN_OWNER_MISMATCH
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED DELEGATION_TOKEN_AUTHORIZATION_FAILED
    DELEGATION_TOKEN_EXPIRED INVALID_PRINCIPAL_TYPE NON_EMPTY_GROUP GROUP_ID_NOT_FOUND
    FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH LISTENER_NOT_FOUND
    TOPIC_DELETION_DISABLED FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH
    UNSUPPORTED_COMPRESSION_TYPE STALE_BROKER_EPOCH OFFSET_NOT_AVAILABLE MEMBER_ID_REQUIRED
    PREFERRED_LEADER_NOT_AVAILABLE GROUP_MAX_SIZE_REACHED FENCED_INSTANCE_ID
    ELIGIBLE_LEADERS_NOT_AVAILABLE ELECTION_NOT_NEEDED NO_REASSIGNMENT_IN_PROGRESS
    GROUP_SUBSCRIBED_TO_TOPIC INVALID_RECORD UNSTABLE_OFFSET_COMMIT THROTTLING_QUOTA_EXCEEDED
    PRODUCER_FENCED RESOURCE_NOT_FOUND DUPLICATE_RESOURCE UNACCEPTABLE_CREDENTIAL
    INCONSISTENT_VOTER_SET INVALID_UPDATE_VERSION FEATURE_UPDATE_FAILED
    PRINCIPAL_DESERIALIZATION_FAILURE SNAPSHOT_NOT_FOUND POSITION_OUT_OF_RANGE UNKNOWN_TOPIC_ID
    DUPLICATE_BROKER_REGISTRATION BROKER_ID_NOT_REGISTERED INCONSISTENT_TOPIC_ID
    INCONSISTENT_CLUSTER_ID TRANSACTIONAL_ID_NOT_FOUND FETCH_SESSION_TOPIC_ID_ERROR
    INELIGIBLE_REPLICA NEW_LEADER_ELECTED OFFSET_MOVED_TO_TIERED_STORAGE FENCED_MEMBER_EPOCH
    UNRELEASED_INSTANCE_ID UNSUPPORTED_ASSIGNOR STALE_MEMBER_EPOCH MISMATCHED_ENDPOINT_TYPE
    UNSUPPORTED_ENDPOINT_TYPE UNKNOWN_CONTROLLER_ID UNKNOWN_SUBSCRIPTION_ID TELEMETRY_TOO_LARGE
    INVALID_REGISTRATION TRANSACTION_ABORTABLE INVALID_RECORD_STATE SHARE_SESSION_NOT_FOUND
    INVALID_SHARE_SESSION_EPOCH FENCED_STATE_EPOCH INVALID_VOTER_KEY DUPLICATE_VOTER
    VOTER_NOT_FOUND INVALID_REGULAR_EXPRESSION REBOOTSTRAP_REQUIRED STREAMS_INVALID_TOPOLOGY
    STREAMS_INVALID_TOPOLOGY_EPOCH STREAMS_TOPOLOGY_FENCED SHARE_SESSION_LIMIT_REACHED
    GROUP_DELETION_FAILED STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
    CONTROLLER_ID_NOT_REGISTERED
"""  # of Errors.java of Kafka 4.4.0, from -1 on


def test_errors_have_the_numbers_of_kafka():
    numbers = {name: number for number, name in enumerate(ERRORS.split(), -1)}
    assert {name: error.value for name, error in Error.__members__.items()} == numbers


def test_a_value_has_its_form_in_json():
    member = values.MemberSummary("m", None, "c", "/h", b"\x00\xff", b"")
    summary = values.GroupSummary("Stable", "consumer", "range", (member,))
    shown = {"member_id": "m", "group_instance_id": None, "client_id": "c", "client_host": "/h",
             "metadata": "AP8=", "assignment": ""}  # fmt: skip
    group = {"state": "Stable", "protocol_type": "consumer", "protocol_name": "range"}
    for value, expected in (
        (b"\xfb\xef", "++8="),  # base64 with + and /, not that of URLs
        (Error.NOT_COORDINATOR, "NOT_COORDINATOR"),
        (16, 16),
        (None, None),
        (True, True),
        ((b"a", (Error.NONE, 1), ()), ["YQ==", ["NONE", 1], []]),
        (summary, group | {"members": [shown]}),
        (values.HeartbeatResponse(Error.NONE), {"error": "NONE"}),
        (values.RefusedOffsetFetch(Error.STALE_MEMBER_EPOCH, ()), {"error": "STALE_MEMBER_EPOCH"}),
    ):
        assert values.plain(value) == expected, value


def test_a_join_that_failed_has_no_generation_and_the_id_to_join_with():
    for payload, member_id in ((None, ""), ("", ""), ("m-1", "m-1")):
        response = values.joined(Error.MEMBER_ID_REQUIRED, payload)
        assert response == values.JoinGroupResponse(
            Error.MEMBER_ID_REQUIRED, -1, None, None, "", member_id, skip_assignment=False,
            members=(),
        )  # fmt: skip
    rows = [("m-1", "i", b"1"), ("m-2", None, b"2")]
    payload = (7, "consumer", "range", "m-1", "m-2", True, rows)
    assert values.joined(Error.NONE, payload) == values.JoinGroupResponse(
        Error.NONE, 7, "consumer", "range", "m-1", "m-2", skip_assignment=True,
        members=(values.JoinMember("m-1", "i", b"1"), values.JoinMember("m-2", None, b"2")),
    )  # fmt: skip


def test_a_sync_that_failed_has_no_assignment():
    failed = values.SyncGroupResponse(Error.UNKNOWN_MEMBER_ID, None, None, b"")
    assert values.synced(Error.UNKNOWN_MEMBER_ID, None) == failed
    ended = values.SyncGroupResponse(Error.NONE, "consumer", "range", b"a")
    assert values.synced(Error.NONE, ("consumer", "range", b"a")) == ended


def test_each_partition_has_its_own_error_and_a_row_of_the_request_has_none():
    rows = [(("t", 1), 16), (("u", 2), 5, -1, "", None, -1), (("v", 3), 113, bytes(16))]
    expected = (
        values.PartitionError("t", 1, Error.NOT_COORDINATOR),
        values.PartitionError("u", 2, Error.NONE),
        values.IdentifiedPartitionError("v", 3, Error.STALE_MEMBER_EPOCH, "A" * 22),
    )
    for make in (values.committed, values.txn_committed, values.offsets_deleted):
        response = make(Error.NONE, rows)
        assert (response.error, response.partitions) == (Error.NONE, expected)
        assert make(Error.NOT_COORDINATOR, None).partitions == ()


def test_a_fetched_offset_is_found_by_its_topic_and_partition():
    rows = [("t", 1, 5, 2, "x", 0), ("t", 2, -1, -1, "", 88), ("u", 1, 9, -1, "", 0)]
    response = values.fetched(Error.NONE, rows)
    assert response["t", 1] == values.FetchedOffset("t", 1, 5, 2, "x", Error.NONE)
    assert response["t", 2].error is Error.UNSTABLE_OFFSET_COMMIT
    assert response["u", 1].offset == 9
    with pytest.raises(KeyError, match=r"\('u', 2\)"):
        response["u", 2]
    assert values.fetched(Error.NONE, None).partitions == ()
    refused = values.fetched(Error.UNKNOWN_MEMBER_ID, False)
    assert type(refused) is values.RefusedOffsetFetch
    assert refused.partitions == ()


def test_a_group_that_is_not_there_is_described_by_empty_texts():
    response = values.described(Error.GROUP_ID_NOT_FOUND, None)
    assert response == values.DescribeGroupResponse(Error.GROUP_ID_NOT_FOUND, "", "", "", ())
    member = values.MemberSummary("m", None, "c", "/h", b"", b"")
    summary = values.GroupSummary("Stable", "consumer", "range", (member,))
    assert values.described(Error.NONE, summary) == values.DescribeGroupResponse(
        Error.NONE, "Stable", "consumer", "range", (member,)
    )


def test_each_deleted_group_has_its_own_error():
    response = values.groups_deleted(Error.NONE, [("g", 0), ("h", 68)])
    assert response.groups == (
        values.DeletedGroup("g", Error.NONE), values.DeletedGroup("h", Error.NON_EMPTY_GROUP),
    )  # fmt: skip
    assert values.groups_deleted(Error.NONE, None).groups == ()

"""What a logged request asks of the coordinator, and what its response tells: field by field.

Requests and responses are in the form of RequestConvertToJson; no two values are alike.
"""

import pytest

from coterie.wire.apis import READERS, name_of
from coterie.wire.exchanges import Exchange, by_the_table


def read(api, version, request, response, groups=None):
    """The steps of one exchange."""
    exchange = Exchange(
        line=77, came_ms=1.0, handled_ms=2.0, answered_ms=3.0, sent_ms=4.0, local_ms=5.0, api=api,
        version=version, client_id="c", client_host="/h", request=request, response=response,
    )  # fmt: skip
    by_the_table(exchange)
    return list(READERS[api](exchange, {} if groups is None else groups))


PROTOCOLS = [{"name": "range", "metadata": "AA=="}, {"name": "sticky", "metadata": "AQ=="}]
JOIN = {"groupId": "g", "sessionTimeoutMs": 7001, "rebalanceTimeoutMs": 8002, "memberId": "m",
        "groupInstanceId": "i", "protocolType": "consumer", "protocols": PROTOCOLS,
        "reason": "why"}  # fmt: skip
JOINED = {"errorCode": 0, "generationId": 4, "protocolType": "of-answer", "protocolName": "sticky",
          "leader": "l", "memberId": "m2", "skipAssignment": True,
          "members": [{"memberId": "m3", "groupInstanceId": "i3", "metadata": "AQ=="}]}  # fmt: skip


def test_a_join_is_read_with_all_its_fields():
    groups = {}
    ((event, answer),) = read("JOIN_GROUP", 9, JOIN, JOINED, groups)
    assert event == {
        "op": "join_group", "group_id": "g", "member_id": "m", "group_instance_id": "i",
        "client_id": "c", "client_host": "/h", "session_timeout_ms": 7001,
        "rebalance_timeout_ms": 8002, "protocol_type": "consumer", "protocols": PROTOCOLS,
        "require_known_member_id": False, "supports_skipping_assignment": True, "reason": "why",
    }  # fmt: skip
    assert answer == {
        "error": "NONE", "generation_id": 4, "protocol_type": "of-answer",
        "protocol_name": "sticky", "leader": "l", "member_id": "m2", "skip_assignment": True,
        "members": [{"member_id": "m3", "group_instance_id": "i3", "metadata": "AQ=="}],
    }  # fmt: skip
    assert groups == {"g": {"type": "consumer", "name": "sticky"}}


def without(entry, *names):
    return {key: value for key, value in entry.items() if key not in names}


@pytest.mark.parametrize("instance", [None, "i"])
@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_member_without_an_id_comes_again_since_version_4_unless_it_is_static(version, instance):
    request = {**without(JOIN, "reason"), "groupInstanceId": instance}
    if version < 5:
        request = without(request, "groupInstanceId")
    response = without(JOINED, "protocolType", "skipAssignment")
    response["members"] = [{"memberId": "m3", "metadata": "AQ=="}]
    ((event, answer),) = read("JOIN_GROUP", version, request, response)
    dynamic = instance is None or version < 5
    assert event["require_known_member_id"] is (version >= 4 and dynamic)
    assert event["supports_skipping_assignment"] is False
    assert (answer["protocol_type"], answer["skip_assignment"]) == ("consumer", False)


def test_version_0_of_a_join_has_one_time_out_for_both():
    request = without(JOIN, "reason", "groupInstanceId", "rebalanceTimeoutMs")
    response = {**without(JOINED, "protocolType", "skipAssignment"), "errorCode": 25, "members": []}
    groups = {}
    ((event, answer),) = read("JOIN_GROUP", 0, request, response, groups)
    assert (event["session_timeout_ms"], event["rebalance_timeout_ms"]) == (7001, 7001)
    assert (answer["error"], answer["protocol_type"]) == ("UNKNOWN_MEMBER_ID", None)
    assert groups == {}


SYNC = {"groupId": "g", "generationId": 4, "memberId": "m", "groupInstanceId": "i",
        "protocolType": "t", "protocolName": "p",
        "assignments": [{"memberId": "m2", "assignment": "AA=="}]}  # fmt: skip


@pytest.mark.parametrize("code", [0, 27])
@pytest.mark.parametrize("version", [4, 5])
def test_a_sync_before_version_5_tells_the_protocol_of_the_generation(version, code):
    of_protocol = ("protocolType", "protocolName")
    answer = {"errorCode": code, "protocolType": "t2", "protocolName": "p2", "assignment": "AQ=="}
    request, response = (SYNC, answer) if version == 5 else (
        without(SYNC, *of_protocol), without(answer, *of_protocol)
    )  # fmt: skip
    groups = {"g": {"type": "consumer", "name": "sticky"}, "h": {"type": "x", "name": "y"}}
    ((event, answer),) = read("SYNC_GROUP", version, request, response, groups)
    assert event == {
        "op": "sync_group", "group_id": "g", "generation_id": 4, "member_id": "m",
        "group_instance_id": "i", "assignments": [{"member_id": "m2", "assignment": "AA=="}],
    } | ({"protocol_type": "t", "protocol_name": "p"} if version == 5 else {})  # fmt: skip
    protocol = ("t2", "p2") if version == 5 else (None, None) if code else ("consumer", "sticky")
    assert answer == {
        "error": "REBALANCE_IN_PROGRESS" if code else "NONE", "protocol_type": protocol[0],
        "protocol_name": protocol[1], "assignment": "AQ==",
    }  # fmt: skip


def test_a_heartbeat_is_read_with_all_its_fields():
    request = {"groupId": "g", "generationId": 4, "memberId": "m", "groupInstanceId": "i"}
    assert read("HEARTBEAT", 4, request, {"errorCode": 22}) == [
        (
            {"op": "heartbeat", "group_id": "g", "generation_id": 4, "member_id": "m",
             "group_instance_id": "i"},
            {"error": "ILLEGAL_GENERATION"},
        )
    ]  # fmt: skip


def test_members_leave_together_since_version_3():
    leaving = [{"memberId": "m", "groupInstanceId": "i"}, {"memberId": "n"}]
    left = [{"memberId": "m", "groupInstanceId": "i", "errorCode": 0},
            {"memberId": "n", "groupInstanceId": None, "errorCode": 25}]  # fmt: skip
    leaving[1]["groupInstanceId"] = None
    request, response = {"groupId": "g", "members": leaving}, {"errorCode": 16, "members": left}
    assert read("LEAVE_GROUP", 3, request, response) == [
        (
            {"op": "leave_group", "group_id": "g",
             "members": [{"member_id": "m", "group_instance_id": "i"}, {"member_id": "n"}]},
            {"error": "NOT_COORDINATOR", "members": [
                {"member_id": "m", "group_instance_id": "i", "error": "NONE"},
                {"member_id": "n", "group_instance_id": None, "error": "UNKNOWN_MEMBER_ID"},
            ]},
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "error", "own"),
    [(0, "NONE", True), (25, "UNKNOWN_MEMBER_ID", True), (82, "FENCED_INSTANCE_ID", True),
     (16, "NOT_COORDINATOR", False)],
)  # fmt: skip
def test_the_error_of_one_member_that_leaves_is_its_own_or_that_of_the_request(code, error, own):
    request = {"groupId": "g", "memberId": "m"}
    ((event, answer),) = read("LEAVE_GROUP", 2, request, {"errorCode": code})
    assert event == {"op": "leave_group", "group_id": "g", "members": [{"member_id": "m"}]}
    entry = {"member_id": "m", "group_instance_id": None, "error": error}
    assert answer == {"error": "NONE" if own else error, "members": [entry] if own else []}


def offsets_of(**more):
    return [{"name": "t", "partitions": [{"partitionIndex": 3, "committedOffset": 44,
                                          "committedMetadata": "meta", **more}]}]  # fmt: skip


ERRORS = [{"name": "t", "partitions": [{"partitionIndex": 3, "errorCode": 22}]}]
REFUSED_ROW = {"topic": "t", "partition": 3, "error": "ILLEGAL_GENERATION"}
REFUSED = {"error": "NONE", "partitions": [REFUSED_ROW]}
COMMIT = {"groupId": "g", "generationIdOrMemberEpoch": 4, "memberId": "m"}
COMMITTED = {"op": "offset_commit", "group_id": "g", "generation_id": 4, "member_id": "m"}
OFFSET = {"topic": "t", "partition": 3, "offset": 44, "metadata": "meta"}


@pytest.mark.parametrize(
    ("retention_ms", "expires"), [(-1, {}), (0, {"expire_timestamp": 0}),
                                  (5004, {"expire_timestamp": 5004})],
)  # fmt: skip
def test_a_commit_has_a_retention_of_its_own_up_to_version_4(retention_ms, expires):
    request = {**COMMIT, "retentionTimeMs": retention_ms, "topics": offsets_of()}
    ((event, answer),) = read("OFFSET_COMMIT", 4, request, {"topics": ERRORS})
    assert event == {**COMMITTED, "version": 4, "retention_time_ms": retention_ms,
                     "offsets": [OFFSET | expires]}  # fmt: skip
    assert answer == REFUSED


def test_a_commit_has_an_instance_and_a_leader_epoch_since_version_7():
    request = {**COMMIT, "groupInstanceId": "i", "topics": offsets_of(committedLeaderEpoch=6)}
    ((event, answer),) = read("OFFSET_COMMIT", 8, request, {"topics": ERRORS})
    assert event == {**COMMITTED, "group_instance_id": "i", "version": 8, "retention_time_ms": -1,
                     "offsets": [{**OFFSET, "leader_epoch": 6}]}  # fmt: skip
    assert answer == REFUSED


def test_a_commit_in_a_transaction_names_its_producer():
    request = {"transactionalId": "x", "groupId": "g", "producerId": 71, "producerEpoch": 5,
               "generationId": 4, "memberId": "m", "groupInstanceId": "i",
               "topics": offsets_of(committedLeaderEpoch=6)}  # fmt: skip
    ((event, answer),) = read("TXN_OFFSET_COMMIT", 3, request, {"topics": ERRORS})
    assert event == {
        **COMMITTED, "op": "txn_offset_commit", "group_instance_id": "i", "producer_id": 71,
        "producer_epoch": 5, "offsets": [{**OFFSET, "leader_epoch": 6}],
    }  # fmt: skip
    assert answer == REFUSED


def test_markers_count_where_they_were_written_to_the_offsets():
    def marked(producer_id, topic, code):
        partitions = [{"partitionIndex": 0, "errorCode": code}]
        return {"producerId": producer_id, "topics": [{"name": topic, "partitions": partitions}]}

    offsets = "__consumer_offsets"
    rows = [marked(71, offsets, 0), marked(72, offsets, 3), marked(73, "t", 0)]
    request = {"markers": [
        {"producerId": number, "producerEpoch": 5, "coordinatorEpoch": 6,
         "transactionResult": number == 71, "topics": []} for number in (73, 72, 71)
    ]}  # fmt: skip
    assert read("WRITE_TXN_MARKERS", 1, request, {"markers": rows}) == [
        ({"op": "end_txn", "producer_id": 71, "committed": True}, None)
    ]


@pytest.mark.parametrize("committed", [False, True])
def test_the_end_of_a_transaction_counts_if_it_is_accepted(committed):
    request = {"transactionalId": "x", "producerId": 71, "producerEpoch": 5, "committed": committed}
    event = {"op": "end_txn", "producer_id": 71, "committed": committed}
    assert read("END_TXN", 3, request, {"errorCode": 0}) == [(event, None)]
    assert read("END_TXN", 3, request, {"errorCode": 47}) == []


def fetched(**more):
    row = {"partitionIndex": 3, "committedOffset": 44, "metadata": "meta", "errorCode": 88, **more}
    return [{"name": "t", "partitions": [row]}]


FETCHED = {"topic": "t", "partition": 3, "offset": 44, "metadata": "meta",
           "error": "UNSTABLE_OFFSET_COMMIT"}  # fmt: skip


def test_a_fetch_of_offsets_is_of_one_group_up_to_version_7():
    request = {"groupId": "g", "topics": [{"name": "t", "partitionIndexes": [3, 4]}],
               "requireStable": True}  # fmt: skip
    response = {"errorCode": 16, "topics": fetched(committedLeaderEpoch=6)}
    assert read("OFFSET_FETCH", 7, request, response) == [
        (
            {"op": "offset_fetch", "group_id": "g", "require_stable": True,
             "topics": [{"topic": "t", "partitions": [3, 4]}]},
            {"error": "NOT_COORDINATOR", "partitions": [{**FETCHED, "leader_epoch": 6}]},
        )
    ]  # fmt: skip
    request = {"groupId": "g", "topics": None}
    ((event, answer),) = read("OFFSET_FETCH", 2, request, {"topics": fetched(metadata=None),
                                                           "errorCode": 0})  # fmt: skip
    assert event == {"op": "offset_fetch", "group_id": "g"}
    assert answer == {"error": "NONE", "partitions": [{**FETCHED, "metadata": ""}]}


def test_a_fetch_of_offsets_is_of_several_groups_since_version_8():
    groups = [{"groupId": "g", "memberId": "m", "memberEpoch": 4, "topics": None},
              {"groupId": "h", "memberId": None, "memberEpoch": -1,
               "topics": [{"name": "t", "partitionIndexes": [3]}]}]  # fmt: skip
    request = {"groups": groups, "requireStable": False}
    topics = fetched(committedLeaderEpoch=6)
    answers = [{"groupId": "g", "topics": [], "errorCode": 25},
               {"groupId": "h", "topics": topics, "errorCode": 0}]  # fmt: skip
    assert read("OFFSET_FETCH", 9, request, {"groups": answers}) == [
        (
            {"op": "offset_fetch", "group_id": "g", "require_stable": False, "member_id": "m",
             "member_epoch": 4},
            {"error": "UNKNOWN_MEMBER_ID", "partitions": []},
        ),
        (
            {"op": "offset_fetch", "group_id": "h", "require_stable": False, "member_epoch": -1,
             "topics": [{"topic": "t", "partitions": [3]}]},
            {"error": "NONE", "partitions": [{**FETCHED, "leader_epoch": 6}]},
        ),
    ]  # fmt: skip


@pytest.mark.parametrize("missing", ["groupId", "topics"])
def test_a_fetch_of_offsets_without_its_group_is_not_as_kafka_logs_it(missing):
    request = without({"groupId": "g", "topics": None}, missing)
    response = without({"errorCode": 0, "topics": []}, missing)
    with pytest.raises(KeyError):
        read("OFFSET_FETCH", 7, request, response)


def test_deletions_are_read_with_what_was_deleted():
    topics = [{"name": "t", "partitions": [{"partitionIndex": 3}]}]
    response = {"errorCode": 69, "topics": ERRORS}
    assert read("OFFSET_DELETE", 0, {"groupId": "g", "topics": topics}, response) == [
        (
            {"op": "offset_delete", "group_id": "g",
             "partitions": [{"topic": "t", "partition": 3}]},
            {**REFUSED, "error": "GROUP_ID_NOT_FOUND"},
        )
    ]  # fmt: skip
    results = [{"groupId": "g", "errorCode": 68}, {"groupId": "h", "errorCode": 0}]
    assert read("DELETE_GROUPS", 2, {"groupsNames": ["g", "h"]}, {"results": results}) == [
        (
            {"op": "delete_groups", "group_ids": ["g", "h"]},
            {"error": "NONE", "groups": [{"group_id": "g", "error": "NON_EMPTY_GROUP"},
                                         {"group_id": "h", "error": "NONE"}]},
        )
    ]  # fmt: skip
    for codes, deleted in (((0, 3), ["t"]), ((0, 0), ["t", "u"]), ((3, 3), None)):
        rows = [{"name": n, "errorCode": c} for n, c in zip("tu", codes, strict=True)]
        steps = read("DELETE_TOPICS", 5, {"topicNames": ["t", "u"]}, {"responses": rows})
        event = {"op": "delete_partitions", "topics": deleted}
        assert steps == ([] if deleted is None else [(event, None)])


MEMBER = {"memberId": "m", "groupInstanceId": "i", "clientId": "c2", "clientHost": "/h2",
          "memberMetadata": "AA==", "memberAssignment": "AQ=="}  # fmt: skip


@pytest.mark.parametrize(("version", "code", "error"), [
    (5, 69, "GROUP_ID_NOT_FOUND"), (6, 69, "NONE"), (6, 16, "NOT_COORDINATOR"), (5, 0, "NONE"),
])  # fmt: skip
def test_a_group_is_described_with_its_members(version, code, error):
    group = {"errorCode": code, "groupId": "g", "groupState": "Stable", "protocolType": "consumer",
             "protocolData": "range", "members": [MEMBER],
             "authorizedOperations": -(2**31)}  # fmt: skip
    if version == 6:
        group["errorMessage"] = None
    assert read("DESCRIBE_GROUPS", version, {"groups": ["g"]}, {"groups": [group]}) == [
        (
            {"op": "describe_group", "group_id": "g", "version": version},
            {"error": error, "state": "Stable", "protocol_type": "consumer",
             "protocol_name": "range", "members": [{
                 "member_id": "m", "group_instance_id": "i", "client_id": "c2",
                 "client_host": "/h2", "metadata": "AA==", "assignment": "AQ=="}]},
        )
    ]  # fmt: skip


def test_groups_are_listed_by_state_and_type_where_the_version_has_them():
    rows = [{"groupId": "g", "protocolType": "consumer", "groupState": "Stable",
             "groupType": "Classic"}]  # fmt: skip
    request = {"statesFilter": ["Stable"], "typesFilter": ["classic"]}
    ((event, answer),) = read("LIST_GROUPS", 5, request, {"errorCode": 14, "groups": rows})
    assert event == {"op": "list_groups", "states": ["Stable"], "types": ["classic"]}
    listed = {"group_id": "g", "protocol_type": "consumer", "state": "Stable", "type": "classic"}
    assert answer == {"error": "COORDINATOR_LOAD_IN_PROGRESS", "groups": [listed]}
    rows = [{"groupId": "g", "protocolType": "consumer"}]
    ((event, answer),) = read("LIST_GROUPS", 2, {}, {"errorCode": 0, "groups": rows})
    assert event == {"op": "list_groups", "states": [], "types": []}
    assert answer["groups"] == [{**listed, "state": None, "type": None}]


OWNED = [{"topicId": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [3, 4]}]
OWNED_AS_READ = [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [3, 4]}]


@pytest.mark.parametrize("owned", [None, OWNED])
def test_a_heartbeat_of_the_consumer_protocol_is_read_with_all_its_fields(owned):
    request = {"groupId": "g", "memberId": "m", "memberEpoch": 4, "instanceId": "i",
               "rackId": "r", "rebalanceTimeoutMs": 8002, "subscribedTopicNames": ["t"],
               "subscribedTopicRegex": "t.*", "serverAssignor": "uniform",
               "topicPartitions": owned}  # fmt: skip
    response = {"errorCode": 110, "errorMessage": "no", "memberId": "m2", "memberEpoch": 5,
                "heartbeatIntervalMs": 3003,
                "assignment": owned and {"topicPartitions": owned}}  # fmt: skip
    ((event, answer),) = read("CONSUMER_GROUP_HEARTBEAT", 1, request, response)
    assert event == {
        "op": "consumer_group_heartbeat", "group_id": "g", "member_id": "m", "member_epoch": 4,
        "instance_id": "i", "rack_id": "r", "rebalance_timeout_ms": 8002,
        "subscribed_topic_names": ["t"], "subscribed_topic_regex": "t.*",
        "server_assignor": "uniform", "client_id": "c", "client_host": "/h", "version": 1,
    } | ({} if owned is None else {"topic_partitions": OWNED_AS_READ})  # fmt: skip
    assert answer == {
        "error": "FENCED_MEMBER_EPOCH", "member_id": "m2", "member_epoch": 5,
        "heartbeat_interval_ms": 3003, "assignment": None if owned is None else OWNED_AS_READ,
    }  # fmt: skip


@pytest.mark.parametrize("version", [0, 1])
def test_a_consumer_group_is_described_with_its_members(version):
    def assigned(number):
        return {"topicPartitions": [{"topicId": f"{'A' * 20}A{number}", "topicName": f"t{number}",
                                     "partitions": [number]}]}  # fmt: skip

    def as_answered(number):
        return [{"topic_id": f"{'A' * 20}A{number}", "topic": f"t{number}", "partitions": [number]}]

    member = {"memberId": "m", "instanceId": "i", "rackId": "r", "memberEpoch": 4, "clientId": "c2",
              "clientHost": "/h2", "subscribedTopicNames": ["t"], "subscribedTopicRegex": "t.*",
              "assignment": assigned(1), "targetAssignment": assigned(2)}  # fmt: skip
    if version == 1:
        member["memberType"] = 0
    group = {"errorCode": 16, "errorMessage": None, "groupId": "g", "groupState": "Reconciling",
             "groupEpoch": 6, "assignmentEpoch": 5, "assignorName": "uniform",
             "members": [member], "authorizedOperations": -(2**31)}  # fmt: skip
    request = {"groupIds": ["g", "h"], "includeAuthorizedOperations": False}
    steps = read("CONSUMER_GROUP_DESCRIBE", version, request, {"groups": [group]})
    as_read = {
        "member_id": "m", "instance_id": "i", "rack_id": "r", "member_epoch": 4, "client_id": "c2",
        "client_host": "/h2", "subscribed_topic_names": ["t"], "subscribed_topic_regex": "t.*",
        "assignment": as_answered(1), "target_assignment": as_answered(2),
        **({"member_type": 0} if version == 1 else {}),
    }  # fmt: skip
    assert steps == [
        (
            {"op": "consumer_group_describe", "group_ids": ["g", "h"]},
            {"error": "NONE", "groups": [{
                "group_id": "g", "error": "NOT_COORDINATOR", "state": "Reconciling",
                "group_epoch": 6, "assignment_epoch": 5, "assignor_name": "uniform",
                "members": [as_read]}]},
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "name"),
    [(None, "NONE"), (0, "NONE"), (27, "REBALANCE_IN_PROGRESS"), (-1, "UNKNOWN_SERVER_ERROR"),
     (9999, "UNKNOWN_SERVER_ERROR"), (130, "STREAMS_INVALID_TOPOLOGY"),
     (131, "STREAMS_INVALID_TOPOLOGY_EPOCH"), (132, "STREAMS_TOPOLOGY_FENCED")],
)  # fmt: skip
def test_an_error_is_shown_by_its_name(code, name):
    assert name_of(code) == name

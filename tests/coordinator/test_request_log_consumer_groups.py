"""Consumer groups in a request log: a trace of version 2, with the topics of the cluster."""

import json
import re

import pytest

from coterie import CoterieError, run_trace
from coterie.consumer_groups import encode_topic_id
from coterie.coordinator.consumer_requests import derived_topic_id
from coterie.coordinator.requestlog import import_request_log
from coterie.coordinator.trace_diff import compare_responses
from support.request_lines import events, line

ORDERS, BILLS = "v2a9MwCnRyK5LBCMWNSeCg", "29vbFs24SeS-MleFOqzQ1A"
MADE = "AAAAAAAAQACAAAAAAAAAAQ"  # the first id that a coordinator of a trace makes
ERRORS = {"FENCED_MEMBER_EPOCH": 110, "UNKNOWN_TOPIC": 3, "UNKNOWN_TOPIC_ID": 100}


def assigned(topics):
    return {"topicPartitions": [{"topicId": topic, "partitions": p} for topic, p in topics.items()]}


def beat(ms, epoch, answered, *, member="m", sent="m", names=None, topics=None, code=0, version=1):
    request = {
        "groupId": "g", "memberId": sent, "memberEpoch": epoch, "instanceId": None, "rackId": None,
        "rebalanceTimeoutMs": -1 if epoch else 60_000, "subscribedTopicNames": names,
        "serverAssignor": None, "topicPartitions": None if epoch else [],
    }  # fmt: skip
    answer = {
        "errorCode": code, "errorMessage": None, "memberId": None if code else member,
        "memberEpoch": answered, "heartbeatIntervalMs": 0 if code or epoch < 0 else 5000,
        "assignment": None if topics is None else assigned(topics),
    }  # fmt: skip
    if version:
        request["subscribedTopicRegex"] = None
    return line("CONSUMER_GROUP_HEARTBEAT", version, request, answer, ms)


def joined(ms, topics, names=("orders",), **more):
    return beat(ms, 0, 1, names=list(names), topics=topics, **more)


def metadata(ms, **topics):
    """Topics with their id and brokers of each partition; None: unknown."""
    rows = [
        {
            "errorCode": 0 if known else ERRORS["UNKNOWN_TOPIC"], "name": name,
            "topicId": known[0] if known else None, "isInternal": False,
            "partitions": [{"errorCode": 0, "partitionIndex": n, "replicaNodes": brokers}
                           for n, brokers in enumerate(known[1] if known else ())][::-1],
        }
        for name, known in topics.items()
    ]  # fmt: skip
    brokers = [{"nodeId": n, "host": "h", "port": 1, "rack": f"rack-{n}"} for n in (1, 2)]
    return line("METADATA", 13, {"topics": []}, {"brokers": brokers, "topics": rows}, ms)


def created(ms, name, topic_id, partitions, code=0, *, validate_only=False):
    row = {"name": name, "topicId": topic_id, "errorCode": code}
    if partitions is not None:  # since version 5
        row["numPartitions"] = partitions
    request = {"topics": [], "validateOnly": validate_only}
    return line("CREATE_TOPICS", 7, request, {"topics": [row]}, ms)


def grown_to(ms, name, count, code=0, *, validate_only=False):
    topics = [{"name": name, "count": count, "assignments": None}]
    request = {"topics": topics, "timeoutMs": 1, "validateOnly": validate_only}
    answer = {"results": [{"name": name, "errorCode": code, "errorMessage": None}]}
    return line("CREATE_PARTITIONS", 3, request, answer, ms)


def deleted(ms, name, code=0):
    request = {"topics": [{"name": name, "topicId": "AAAAAAAAAAAAAAAAAAAAAA"}], "timeoutMs": 1}
    answer = {"responses": [{"name": name, "topicId": ORDERS, "errorCode": code}]}
    return line("DELETE_TOPICS", 6, request, answer, ms)


def imported(*lines, **settings):
    made = import_request_log(lines, settings or None)
    assert list(compare_responses(made.expected, run_trace(made.trace))) == []
    return made


def changes(made):
    return [
        {key: value for key, value in event.items() if key != "op"}
        for event in made.trace
        if event.get("op") == "metadata"
    ]


def test_topics_that_a_log_shows_first_as_they_are_were_there_at_the_start():
    made = imported(
        joined(1, {ORDERS: [0, 1]}), metadata(20, orders=(ORDERS, [[1], [2]])), beat(5000, 1, 1)
    )
    header = made.trace[0]
    assert (header["version"], header["config"]) == (2, {"coterie.behaviour": "4.1"})
    assert header["brokers"] == [{"id": 1, "rack": "rack-1"}, {"id": 2, "rack": "rack-2"}]
    assert header["topics"] == [
        {"topic": "orders", "topic_id": ORDERS, "partitions": 2, "replicas": [[1], [2]]}
    ]
    assert changes(made) == []


def test_topics_that_come_grow_and_go_do_so_in_the_trace():
    made = imported(
        metadata(1, orders=None),
        joined(5, {}),
        created(10, "orders", ORDERS, 2),
        beat(20, 1, 2, topics={ORDERS: [0, 1]}),
        metadata(30, orders=(ORDERS, [[1], [1], [2]])),
        beat(40, 2, 3, topics={ORDERS: [0, 1, 2]}),
        deleted(50, "orders"),
        beat(60, 3, 3, topics={}),  # it has to give them up first
        beat(70, 1, 0, code=ERRORS["FENCED_MEMBER_EPOCH"]),
    )
    assert "topics" not in made.trace[0]
    first, grown, gone = changes(made)
    assert first["topics"] == [{"topic": "orders", "topic_id": ORDERS, "partitions": 2}]
    assert grown["topics"][0]["partitions"] == 3
    assert gone["delete_topics"] == ["orders"]
    assert first["at"] < grown["at"] < gone["at"]


@pytest.mark.parametrize(
    "request_line",
    [
        created(10, "bills", BILLS, 2, validate_only=True),
        created(10, "bills", BILLS, 2, code=36),  # TOPIC_ALREADY_EXISTS
        created(10, "bills", BILLS, None),  # before version 5 the response has no number
        created(10, "bills", BILLS, -1),  # not authorized to describe it
        grown_to(10, "orders", 5, validate_only=True),
        grown_to(10, "orders", 5, code=37),  # INVALID_PARTITIONS
        grown_to(10, "orders", 2),
        deleted(10, "orders", code=29),  # TOPIC_AUTHORIZATION_FAILED
        deleted(10, "bills"),
    ],
    ids=range(9),
)
def test_a_request_that_makes_no_topic_other_changes_none_in_the_trace(request_line):
    shown = metadata(1, orders=(ORDERS, [[1], [2]]))
    lines = [shown, joined(5, {ORDERS: [0, 1]}), request_line, beat(20, 1, 1)]
    made = import_request_log(lines)
    assert changes(made) == []
    assert [row["topic"] for row in made.trace[0]["topics"]] == ["orders"]


def test_partitions_that_are_created_are_those_of_the_topic_from_then_on():
    shown = metadata(1, orders=(ORDERS, [[1], [2]]))
    made = import_request_log([shown, joined(5, {ORDERS: [0, 1]}), grown_to(10, "orders", 3),
                               beat(20, 1, 1)])  # fmt: skip
    (grown,) = changes(made)
    assert grown["topics"] == [{"topic": "orders", "topic_id": ORDERS, "partitions": 3}]


def test_a_change_of_the_topics_stands_where_the_broker_handled_the_request():
    """That is 4 ms after the request came, and 5 ms before its response was sent."""
    times = {"totalTimeMs": 9.0, "requestQueueTimeMs": 4.0, "sendTimeMs": 2.0}
    slow = [
        re.sub(r'"totalTimeMs": 0.5, "requestQueueTimeMs": 0.1', json.dumps(times)[1:-1], logged)
        for logged in (
            created(20, "orders", ORDERS, 2),
            metadata(30, orders=(ORDERS, [[1]] * 3)),
            grown_to(40, "orders", 4),
            deleted(50, "orders"),
        )
    ]
    made = import_request_log([metadata(1, orders=None), joined(10, {}), *slow, beat(60, 1, 1)])
    assert "topics" not in made.trace[0]  # the first response says that it was not there
    # 2 ms before the first heartbeat, at 9.6; a deletion is done when its response is sent.
    start_ms = 7
    at = [change["at"] + start_ms for change in changes(made)]
    assert at == [15, 25, 35, 50]
    assert changes(made)[-1]["delete_topics"] == ["orders"]


def test_a_topic_that_a_response_says_is_not_there_is_not_at_the_start():
    shown = metadata(20, orders=(ORDERS, [[1]]))
    made = imported(
        metadata(1, orders=None), joined(10, {}), shown, beat(30, 1, 2, topics={ORDERS: [0]})
    )
    assert "topics" not in made.trace[0]
    assert [change["topics"][0]["partitions"] for change in changes(made)] == [1]


def test_a_topic_that_was_deleted_and_is_shown_again_begins_again_with_its_newer_id():
    shown = metadata(1, orders=(ORDERS, [[1]])), metadata(20, orders=(BILLS, [[1]]))
    made = import_request_log([
        shown[0], joined(5, {ORDERS: [0]}), deleted(10, "orders"), shown[1],
        grown_to(30, "orders", 2), beat(40, 1, 1),
    ])  # fmt: skip
    assert made.trace[0]["topics"][0]["topic_id"] == ORDERS
    gone, again, grown = changes(made)
    assert gone["delete_topics"] == ["orders"]
    rows = [(row["topic_id"], row["partitions"]) for row in again["topics"] + grown["topics"]]
    assert rows == [(BILLS, 1), (BILLS, 2)]


def test_of_a_topic_without_an_id_the_trace_has_the_one_that_its_name_gives():
    made = import_request_log([
        created(1, "orders", ORDERS, 1), deleted(2, "orders"), created(3, "orders", None, 1),
        created(4, "bills", None, 1), created(5, "__consumer_offsets", BILLS, 50),
        joined(9, {ORDERS: [0]}),
    ])  # fmt: skip
    again, other = [change for change in changes(made) if "topics" in change][1:]
    assert again["topics"][0]["topic_id"] == ORDERS
    assert other["topics"][0]["topic_id"] == encode_topic_id(derived_topic_id("bills"))


def test_without_metadata_the_groups_show_the_topics():
    """Of two topics of a member, the one is known by another member."""
    made = imported(
        joined(1, {ORDERS: [0, 1, 2]}, member="a", sent="a"),
        beat(5, 1, 1, sent="a", member="a"),
        beat(9, -1, -1, sent="a", member="a"),
        beat(10, 0, 3, names=["bills", "orders"], topics={ORDERS: [0, 1, 2], BILLS: [0]}),
    )
    assert made.trace[0]["topics"] == [
        {"topic": "orders", "topic_id": ORDERS, "partitions": 3},
        {"topic": "bills", "topic_id": BILLS, "partitions": 1},
    ]


def test_an_id_that_the_broker_made_is_that_of_the_trace():
    uuid = "YBzTp-DyQiim0hKPhZyKPw"
    made = imported(
        joined(1, {ORDERS: [0]}, sent="", member=uuid, version=0),
        beat(5, 1, 1, sent=uuid, member=uuid, version=0),
    )
    assert [event["member_id"] for event in events(made)] == ["", MADE]


def test_answers_that_only_another_release_gives_name_it():
    """From 4.3 on the first epoch is 2, and a second member waits for the next target."""
    metadata_line = metadata(1, orders=(ORDERS, [[1], [2]]))
    log = [
        metadata_line,
        beat(2, 0, 2, names=["orders"], topics={ORDERS: [0, 1]}),
        beat(500, 0, 2, names=["orders"], topics={}, member="n", sent="n"),
        beat(900, 2, 2),
    ]
    made = import_request_log(log)
    assert {one.name: one.value for one in made.shown} == {"coterie.behaviour": "4.3"}
    assert "(or with 4.3.1, 4.4)" in str(*made.shown)
    imported(*log, **{"coterie.behaviour": "4.4"})
    log[2] = beat(500, 0, 3, names=["orders"], topics={}, member="n", sent="n")
    shown = import_request_log(log[:3], {"coterie.behaviour": "4.4"}).shown
    assert {one.name: one.value for one in shown} == {"group.consumer.assignment.interval.ms": 0}


def described(ms, version):
    topics = {"topicPartitions": [{"topicId": ORDERS, "topicName": "orders", "partitions": [0]}]}
    member = {
        "memberId": "m", "instanceId": None, "rackId": None, "memberEpoch": 1, "clientId": "c",
        "clientHost": "/10.0.0.2", "subscribedTopicNames": ["orders"], "subscribedTopicRegex": "",
        "assignment": topics, "targetAssignment": topics,
    }  # fmt: skip
    member |= {"memberType": 1} if version else {}
    group = {
        "errorCode": 0, "errorMessage": None, "groupId": "g", "groupState": "Stable",
        "groupEpoch": 1, "assignmentEpoch": 1, "assignorName": "uniform", "members": [member],
        "authorizedOperations": 0,
    }  # fmt: skip
    return line("CONSUMER_GROUP_DESCRIBE", version, {"groupIds": ["g"]}, {"groups": [group]}, ms)


@pytest.mark.parametrize("version", [0, 1])
def test_a_described_group_is_that_of_the_trace(version):
    made = imported(joined(1, {ORDERS: [0]}), described(9, version))
    assert [event["op"] for event in events(made)] == [
        "consumer_group_heartbeat", "consumer_group_describe",
    ]  # fmt: skip


def committed(ms, version, code=0, *, topic_id=ORDERS, number=0, **fields):
    topic = {"name": "orders"} if version < 10 else {"topicId": topic_id}
    rows = [{"partitionIndex": number, "committedOffset": 7, "committedLeaderEpoch": 0,
             "committedMetadata": ""}]  # fmt: skip
    request = {"groupId": "g", "topics": [topic | {"partitions": rows}], **fields}
    results = [{"partitionIndex": number, "errorCode": code}]
    answer = {"topics": [topic | {"partitions": results}]}
    return line("OFFSET_COMMIT", version, request, answer, ms)


def fetched(ms, version, offset):
    topic = {"name": "orders"} if version < 10 else {"topicId": ORDERS}
    rows = [{"partitionIndex": 0, "committedOffset": offset, "committedLeaderEpoch": 0,
             "metadata": "", "errorCode": 0}]  # fmt: skip
    asked = {"groupId": "g", "memberId": "m", "memberEpoch": 1,
             "topics": [topic | {"partitionIndexes": [0]}]}  # fmt: skip
    found = {"groupId": "g", "errorCode": 0, "topics": [topic | {"partitions": rows}]}
    answer = {"groups": [found]}
    return line("OFFSET_FETCH", version, {"groups": [asked], "requireStable": True}, answer, ms)


@pytest.mark.parametrize("version", [9, 10])
def test_commits_and_fetches_by_topic_id_name_the_topic(version):
    made = imported(
        joined(1, {ORDERS: [0]}),
        metadata(2, orders=(ORDERS, [[1]])),
        committed(5, version, generationIdOrMemberEpoch=1, memberId="m"),
        fetched(9, version, 7),
    )
    commit, fetch = events(made)[1:]
    assert commit["offsets"][0]["topic"] == fetch["topics"][0]["topic"] == "orders"
    assert fetch["member_epoch"] == 1


def test_a_topic_id_that_the_broker_did_not_know_is_no_part_of_the_commit():
    unknown = committed(5, 10, ERRORS["UNKNOWN_TOPIC_ID"], memberId="m")
    made = imported(joined(1, {ORDERS: [0]}), unknown)
    assert made.left_out == {"OFFSET_COMMIT: refused before the coordinator": 1}


@pytest.mark.parametrize("version", [9, 10])
def test_a_commit_shows_the_least_number_of_partitions_of_its_topic(version):
    commit = committed(5, version, number=5, generationIdOrMemberEpoch=1, memberId="m")
    made = import_request_log([joined(1, {ORDERS: [0]}), commit])
    assert made.trace[0]["topics"] == [{"topic": "orders", "topic_id": ORDERS, "partitions": 6}]


def test_a_commit_by_an_id_without_a_known_name_shows_no_topic():
    commit = committed(5, 10, topic_id=BILLS, generationIdOrMemberEpoch=1, memberId="m")
    made = imported(joined(1, {ORDERS: [0]}), commit)
    assert [topic["topic"] for topic in made.trace[0]["topics"]] == ["orders"]
    assert made.trace[2]["offsets"][0]["topic"] == BILLS


@pytest.mark.parametrize("field", ["partitionIndex", "replicaNodes"])
def test_a_response_to_metadata_without_a_field_is_named_by_its_line(field):
    shown = metadata(20, orders=(ORDERS, [[1]]))
    with pytest.raises(CoterieError, match="line 2: METADATA version 13 is not as Kafka logs it"):
        import_request_log([joined(1, {ORDERS: [0]}), shown.replace(f'"{field}"', '"other"')])


def test_a_change_of_the_topics_before_the_first_request_of_a_group_is_at_the_start():
    made = imported(
        metadata(1, orders=None), created(3, "orders", ORDERS, 1), joined(10, {ORDERS: [0]})
    )
    assert [change["at"] for change in changes(made)] == [0]


@pytest.mark.parametrize(("behaviour", "version"), [("3.9", 1), ("4.1", 2)])
def test_fields_that_came_with_version_2_are_in_no_trace_of_version_1(behaviour, version):
    fields = {
        "offset_commit": {"version", "retention_time_ms"},
        "offset_fetch": {"member_id", "member_epoch"},
        "describe_group": {"version"},
        "list_groups": {"types"},
    }
    described = {"groupId": "g", "groupState": "Dead", "protocolType": "", "protocolData": "",
                 "members": [], "errorCode": 0}  # fmt: skip
    lines = [
        committed(1, 4, retentionTimeMs=60),
        fetched(5, 9, 7),
        line("DESCRIBE_GROUPS", 5, {"groups": ["g"]}, {"groups": [described]}, 6),
        line("LIST_GROUPS", 5, {"typesFilter": ["classic"]}, {"errorCode": 0, "groups": []}, 7),
    ]
    made = import_request_log(lines, {"coterie.behaviour": behaviour})
    assert [event["op"] for event in events(made)] == list(fields)
    for event in events(made):
        there = fields[event["op"]] & event.keys()
        assert there == (set() if version == 1 else fields[event["op"]])
    # when the commit expires: at a time in version 1, and so long after it in version 2
    assert ("expire_timestamp" in made.trace[1]["offsets"][0]) == (version == 1)


def test_under_a_behaviour_without_consumer_groups_they_are_left_out():
    lines = [joined(1, {ORDERS: [0]}), line("HEARTBEAT", 4, {
        "groupId": "h", "generationId": 1, "memberId": "x", "groupInstanceId": None,
    }, {"errorCode": 25}, 5)]  # fmt: skip
    made = imported(*lines, **{"coterie.behaviour": "3.9"})
    assert made.trace[0]["version"] == 1
    assert made.left_out == {"group 'g': of a newer protocol": 1}


@pytest.mark.parametrize(("code", "number"), [(26, 1), (23, 2)])
def test_a_classic_join_that_a_consumer_group_refuses_takes_an_id_unless_the_timeout_is_wrong(
    code, number
):
    """A consumer group checks the session timeout before it makes an id, and the protocol after."""
    request = {
        "groupId": "g", "memberId": "", "sessionTimeoutMs": 1 if code == 26 else 10_000,
        "rebalanceTimeoutMs": 5, "protocolType": "consumer" if code == 26 else "connect",
        "protocols": [{"name": "range", "metadata": ""}],
    }  # fmt: skip
    answer = {
        "errorCode": code, "generationId": -1, "protocolName": None, "leader": "", "members": [],
        "memberId": "",
    }  # fmt: skip
    made = imported(
        metadata(1, orders=(ORDERS, [[1], [2]])),
        joined(5, {ORDERS: [0, 1]}),
        line("JOIN_GROUP", 3, request, answer, 10),
        beat(20, 0, 2, sent="", member=BILLS, names=["orders"], topics={}, version=0),
        beat(30, 2, 2, sent=BILLS, member=BILLS, version=0),
    )  # fmt: skip
    assert events(made)[-1]["member_id"] == f"{MADE[:-2]}{'AQ' if number == 1 else 'Ag'}"


def test_a_group_that_is_classic_again_makes_no_id_for_a_join_that_it_refuses():
    def join(ms, code, member_id):
        request = {
            "groupId": "g", "memberId": "", "sessionTimeoutMs": 10_000, "rebalanceTimeoutMs": 5,
            "protocolType": "consumer", "protocols": [{"name": "range", "metadata": ""}],
        }  # fmt: skip
        answer = {"errorCode": code, "generationId": -1, "protocolName": None, "leader": "",
                  "members": [], "memberId": member_id}  # fmt: skip
        return line("JOIN_GROUP", 4, request, answer, ms)

    made = import_request_log([
        joined(1, {}), beat(5, -1, -1), join(10, 79, "c-1"), join(20, 23, ""), join(30, 79, "c-2"),
    ])  # fmt: skip
    assert [answer["member_id"] for answer in made.expected[2:]] == [
        "c-00000001", "", "c-00000002",
    ]  # fmt: skip

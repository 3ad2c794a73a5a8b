"""Items of a request that a broker answered itself, and did not pass to its coordinator."""

import pytest

from coterie import run_trace
from coterie.coordinator.requestlog import import_request_log
from coterie.coordinator.trace_diff import compare_responses
from support.request_lines import commit, events, line, member_joins

# As a broker answers for the topics of this test, partition by partition: it has no right to ``u``.
ASKED = {"t": {0: 0, 1: 3}, "u": {0: 29}}


def topics_of(row_of):
    return [
        {"name": topic, "partitions": [row_of(number, code) for number, code in rows.items()]}
        for topic, rows in ASKED.items()
    ]


def committed():
    def sent(number, code):
        return {"partitionIndex": number, "committedOffset": 10, "committedMetadata": ""}

    answer = topics_of(lambda number, code: {"partitionIndex": number, "errorCode": code})
    request = {"groupId": "g", "topics": topics_of(sent)}
    return line("OFFSET_COMMIT", 8, request, {"topics": answer}, 5)


def fetched():
    def found(number, code):
        return {"partitionIndex": number, "committedOffset": -1 if code else 10, "metadata": "",
                "committedLeaderEpoch": -1, "errorCode": code}  # fmt: skip

    topics = [{"name": topic, "partitionIndexes": list(rows)} for topic, rows in ASKED.items()]
    answer = {"errorCode": 0, "topics": topics_of(found)}
    return line("OFFSET_FETCH", 6, {"groupId": "g", "topics": topics}, answer, 5)


def deleted():
    request = {"groupId": "g", "topics": topics_of(lambda number, _: {"partitionIndex": number})}
    answer = topics_of(lambda number, code: {"partitionIndex": number, "errorCode": code})
    return line("OFFSET_DELETE", 0, request, {"errorCode": 0, "topics": answer}, 5)


@pytest.mark.parametrize(
    ("request_line", "field", "passed_on"),
    [
        (committed(), "offsets", [("t", 0)]),
        (deleted(), "partitions", [("t", 0)]),
        (fetched(), "topics", [("t", [0]), ("u", [])]),
    ],
    ids=["commit", "deletion", "fetch"],
)
def test_partitions_that_the_broker_refused_are_no_part_of_a_request(
    request_line, field, passed_on
):
    made = import_request_log([commit(0), request_line])
    rows = [(row["topic"], row.get("partition", row.get("partitions")))
            for row in made.trace[2][field]]  # fmt: skip
    assert rows == passed_on
    assert len(made.expected[1]["partitions"]) == 1
    assert list(compare_responses(made.expected, run_trace(made.trace))) == []


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (14, "the coordinator was not ready"),  # COORDINATOR_LOAD_IN_PROGRESS
        (15, "the coordinator was not ready"),  # COORDINATOR_NOT_AVAILABLE
        (16, "the coordinator was not ready"),  # NOT_COORDINATOR
        (3, "refused before the coordinator"),  # UNKNOWN_TOPIC_OR_PARTITION
        (29, "refused before the coordinator"),  # TOPIC_AUTHORIZATION_FAILED
        (30, "refused before the coordinator"),  # GROUP_AUTHORIZATION_FAILED
        (35, "refused before the coordinator"),  # UNSUPPORTED_VERSION
        (53, "refused before the coordinator"),  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        (100, "refused before the coordinator"),  # UNKNOWN_TOPIC_ID
    ],
)
def test_a_request_that_no_coordinator_got_is_left_out(code, why):
    made = import_request_log([commit(0), commit(code, ms=2)])
    assert made.left_out == {f"OFFSET_COMMIT: {why}": 1}
    assert len(events(made)) == 1


def test_of_the_words_that_equal_a_member_id_only_the_member_ids_and_the_leader_are_replaced():
    """A trace has ids of its own making; names of groups, topics and instances are the user's."""
    name = "a-1"  # as the broker made it for the first member
    lines = [
        member_joins(0, "a", 1, 10, members="a"),
        commit(0, ms=20, group=name, topic=name, memberId=name, generationIdOrMemberEpoch=1,
               groupInstanceId=name),
        line("DESCRIBE_GROUPS", 5, {"groups": [name]}, {"groups": [
            {"groupId": name, "errorCode": 0, "groupState": "Empty", "protocolType": name,
             "protocolData": name, "members": []}]}, 30),
    ]  # fmt: skip
    made = import_request_log(lines, {"group.initial.rebalance.delay.ms": 0})
    assert (made.expected[0]["leader"], made.expected[0]["member_id"]) == ("a-00000001",) * 2
    commits = made.trace[2]
    assert (commits["member_id"], commits["group_instance_id"]) == ("a-00000001", name)
    assert (commits["group_id"], commits["offsets"][0]["topic"]) == (name, name)
    assert made.expected[1]["partitions"][0]["topic"] == name
    described = made.expected[2]
    assert (described["protocol_type"], described["protocol_name"]) == (name, name)

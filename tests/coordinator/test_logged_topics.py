"""What a request log shows of a cluster's topics and brokers."""

import pytest

from coterie.consumer_groups import encode_topic_id
from coterie.coordinator.consumer_requests import derived_topic_id
from coterie.coordinator.trace_topics import LoggedTopics
from coterie.wire.exchanges import Exchange

A, B, C = (encode_topic_id(bytes([n] * 16)) for n in (7, 8, 9))
UNKNOWN = 3


def exchange(at_ms, api, request, response, version=10):
    return Exchange(1, at_ms - 4, at_ms, at_ms + 2, at_ms + 3, 0.0, api, version, "c", "/h",
                    request, response)  # fmt: skip


def shown(name, topic_id, replicas, code=0):
    """A topic of a response to Metadata, its last partition first."""
    rows = [{"partitionIndex": n, "replicaNodes": each} for n, each in enumerate(replicas)]
    return {"name": name, "topicId": topic_id, "errorCode": code, "partitions": rows[::-1]}


def metadata(at_ms, *topics, racks=()):
    brokers = [{"nodeId": node} | ({"rack": rack} if rack else {}) for node, rack in racks]
    return exchange(at_ms, "METADATA", {}, {"brokers": brokers, "topics": list(topics)})


def create(at_ms, name, topic_id, count, code=0, *, only_validate=False):
    row = {"name": name, "topicId": topic_id, "numPartitions": count, "errorCode": code}
    return exchange(at_ms, "CREATE_TOPICS", {"validateOnly": only_validate}, {"topics": [row]})


def unnumbered(at_ms, name):
    """Return a creation as an answer below version 5 shows it."""
    answer = {"topics": [{"name": name, "errorCode": 0}]}
    return exchange(at_ms, "CREATE_TOPICS", {"validateOnly": False}, answer, 4)


def grow(at_ms, name, count, code=0, *, only_validate=False):
    return exchange(
        at_ms,
        "CREATE_PARTITIONS",
        {"validateOnly": only_validate, "topics": [{"name": name, "count": count}]},
        {"results": [{"name": name, "errorCode": code}]},
    )


def delete(at_ms, *names, code=0):
    rows = [{"name": name, "errorCode": code} for name in names]
    return exchange(at_ms, "DELETE_TOPICS", {}, {"responses": rows})


def answered_commit(at_ms, name, code):
    rows = [{"partitionIndex": 0, "errorCode": code}]
    request, answer = ({"topics": [{"name": name, "partitions": rows}]} for _ in range(2))
    return exchange(at_ms, "OFFSET_COMMIT", request, answer, 8)


def is_there(name, topic_id, count, **more):
    return {"topic": name, "topic_id": topic_id, "partitions": count} | more


def change(at_ms, *topics):
    return at_ms, {"op": "metadata", "topics": list(topics)}


def gone(at_ms, *names):
    return at_ms, {"op": "metadata", "delete_topics": list(names)}


TWO = shown("a", A, [[1], [1]])
IS_TWO = is_there("a", A, 2)


@pytest.mark.parametrize(
    ("log", "start", "changes"),
    [
        ([metadata(50, TWO)], [IS_TWO], []),
        ([metadata(50, TWO), metadata(60, TWO)], [IS_TWO], []),
        ([metadata(50, shown("a", A, [[1]]))], [is_there("a", A, 1)], []),
        ([metadata(50, TWO | {"errorCode": 5})], [], []),  # its leader is not there
        ([metadata(50, shown("__consumer_offsets", A, [[1]]))], [], []),
        ([create(50, "__transaction_state", A, 50)], [], []),
        ([metadata(50, shown("a", None, [[1]]))],
         [is_there("a", encode_topic_id(derived_topic_id("a")), 1)], []),
        # absent at first
        ([metadata(50, shown("a", A, [], UNKNOWN)), metadata(60, TWO)], [], [change(60, IS_TWO)]),
        ([create(50, "a", A, 2)], [], [change(50, IS_TWO)]),
        ([create(50, "a", A, 1)], [], [change(50, is_there("a", A, 1))]),
        ([create(50, "a", A, 2), metadata(60, TWO)], [], [change(50, IS_TWO)]),
        ([create(50, "a", A, 2, 36), metadata(60, TWO)], [IS_TWO], []),  # it exists already
        ([create(50, "a", A, 2, only_validate=True), metadata(60, TWO)], [IS_TWO], []),
        ([create(50, "a", A, -1), metadata(60, TWO)], [IS_TWO], []),  # an old answer has no number
        ([unnumbered(50, "a"), metadata(60, TWO)], [IS_TWO], []),
        # more partitions
        ([metadata(50, TWO), grow(70, "a", 3)], [IS_TWO], [change(70, is_there("a", A, 3))]),
        ([metadata(50, TWO), grow(70, "a", 3, 37)], [IS_TWO], []),
        ([metadata(50, TWO), grow(70, "a", 3, only_validate=True)], [IS_TWO], []),
        ([metadata(50, TWO), metadata(70, shown("a", A, [[1]]))], [IS_TWO], []),  # an old image
        # deleted
        ([metadata(50, TWO), delete(80, "a", "b")], [IS_TWO], [gone(80, "a")]),
        ([metadata(50, TWO), delete(80, "a", code=29)], [IS_TWO], []),
        ([metadata(50, TWO), delete(80, "b")], [IS_TWO], []),
        ([metadata(50, TWO), delete(80, "a"), metadata(90, shown("a", B, [[1]]))],
         [IS_TWO], [gone(80, "a"), change(90, is_there("a", B, 1))]),
        ([metadata(50, TWO), delete(80, "a"), create(90, "a", B, 1), grow(95, "a", 2)],
         [IS_TWO], [gone(80, "a"), change(90, is_there("a", B, 1)),
                    change(95, is_there("a", B, 2))]),
        ([metadata(50, TWO), metadata(70, shown("a", B, [[1]])), metadata(71, TWO)],
         [IS_TWO], [gone(70, "a"), change(70, is_there("a", B, 1))]),  # then an old image
        ([create(50, "a", None, 2), metadata(60, TWO)],  # an old answer has no id
         [], [change(50, is_there("a", encode_topic_id(derived_topic_id("a")), 2))]),
    ],
)  # fmt: skip
def test_a_topic_begins_grows_and_ends_as_the_log_shows(log, start, changes):
    logged = LoggedTopics(log)
    assert logged.header == ({"topics": start} if start else {})
    assert logged.changes == changes


@pytest.mark.parametrize(
    ("log", "absent_ms"),
    [
        ([metadata(50, shown("a", A, [], UNKNOWN))], {"a": 50}),
        ([create(50, "a", A, 2), create(60, "b", B, 2, 36)], {"a": 50}),
        ([metadata(50, TWO), delete(80, "a", "b")], {"a": 80, "b": 80}),
        ([metadata(50, TWO), metadata(70, shown("a", B, [[1]]))], {"a": 70}),
        ([answered_commit(50, "a", 0), answered_commit(60, "b", UNKNOWN)], {"b": 60}),
    ],
)
def test_a_log_shows_when_a_topic_is_absent(log, absent_ms):
    assert LoggedTopics(log).absent_ms == absent_ms


def test_replicas_and_brokers_are_there_if_a_broker_has_a_rack():
    topics = shown("a", A, [[3, 1], [1, 2]]), shown("b", B, [[2]])
    racks = (3, "x"), (1, "y"), (2, None)
    logged = LoggedTopics([metadata(50, *topics, racks=racks)])
    assert logged.header == {
        "brokers": [{"id": 1, "rack": "y"}, {"id": 2}, {"id": 3, "rack": "x"}],
        "topics": [is_there("a", A, 2, replicas=[[3, 1], [1, 2]]),
                   is_there("b", B, 1, replicas=[[2]])],
    }  # fmt: skip
    without = LoggedTopics([metadata(50, *topics, racks=((3, None), (1, None)))])
    assert without.header == {"topics": [is_there("a", A, 2), is_there("b", B, 1)]}


def beat(at_ms, member, names=None, assigned=(), code=0, group="g"):
    rows = [{"topicId": topic_id, "partitions": list(rows)} for topic_id, rows in assigned]
    return exchange(
        at_ms,
        "CONSUMER_GROUP_HEARTBEAT",
        {"groupId": group, "subscribedTopicNames": names},
        {"errorCode": code, "memberId": member,
         "assignment": {"topicPartitions": rows} if rows else None},
        0,
    )  # fmt: skip


def unanswered(at_ms):
    return exchange(at_ms, "CONSUMER_GROUP_HEARTBEAT", {"groupId": "g"}, None, 0)


def committed(at_ms, name, topic_id, *partitions):
    rows = [{"partitionIndex": partition} for partition in partitions]
    topic = {"name": name, "topicId": topic_id, "partitions": rows}
    return exchange(at_ms, "OFFSET_COMMIT", {"topics": [topic]}, {"topics": []})


@pytest.mark.parametrize(
    ("log", "topics"),
    [
        ([beat(5, "m", ["a"]), beat(6, "m", None, [(A, [0, 3])])], [is_there("a", A, 4)]),
        ([beat(6, "m", ["a"], [(A, [0])])], [is_there("a", A, 1)]),
        ([beat(6, "m", ["a", "b"], [(A, [0])])], []),  # one of two, and no one knows which
        ([beat(6, "m", ["a", "b"], [(A, [0])]), beat(7, "n", ["a", "c"], [(A, [1])])],
         [is_there("a", A, 2)]),  # both subscribe to it
        ([beat(6, "m", ["a"], [(A, [0])]), beat(7, "n", ["a", "b"], [(B, [5])])],
         [is_there("a", A, 1), is_there("b", B, 6)]),  # the other one is known
        ([beat(6, "m", ["a"]), beat(7, "m", None, [(A, [0])], group="h")], []),
        ([beat(6, "m", ["a"]), beat(7, "m", None, [(A, [0])], code=110)], []),
        ([unanswered(5), beat(6, "m", ["a"], [(A, [0])])], [is_there("a", A, 1)]),
        ([committed(5, "a", A, 2, 1)], [is_there("a", A, 3)]),
        ([committed(5, "a", None, 2)], []),  # a commit without an id shows no topic
        ([committed(5, "a", None, 6), beat(6, "m", ["a"], [(A, [2])])], [is_there("a", A, 7)]),
        ([committed(5, "a", None, 2), beat(6, "m", ["a"], [(A, [6])])], [is_there("a", A, 7)]),
        ([committed(5, "a", A)], []),  # of no partition
        ([metadata(5, TWO), committed(6, "a", A, 7)], [IS_TWO]),  # metadata say how many
        ([metadata(5, TWO), committed(6, "a", B, 7)], [IS_TWO]),  # that of later is not shown
        ([metadata(5, TWO), beat(6, "m", ["a", "c"], [(A, [0]), (C, [4])])],
         [IS_TWO, is_there("c", C, 5)]),
    ],
)  # fmt: skip
def test_without_metadata_groups_show_topics_by_what_they_are_assigned_and_commit(log, topics):
    logged = LoggedTopics(log)
    assert logged.header.get("topics", []) == topics
    assert logged.changes == []


def test_a_topic_that_the_log_created_was_not_there_at_the_start_though_groups_use_it():
    logged = LoggedTopics([create(50, "a", A, 2), committed(60, "a", A, 1)])
    assert (logged.header, logged.changes) == ({}, [change(50, IS_TWO)])


@pytest.mark.parametrize("shows", [metadata(50, TWO), beat(50, "m", ["a"], [(A, [0])])],
                         ids=["metadata", "assignment"])  # fmt: skip
@pytest.mark.parametrize("api", ["OFFSET_COMMIT", "OFFSET_FETCH"])
@pytest.mark.parametrize(("version", "named"), [(9, False), (10, True), (11, True)])
def test_ids_stand_for_names_since_version_10(shows, api, version, named):
    logged = LoggedTopics([shows])
    request = {"topics": [{"topicId": A}, {"topicId": C}]}
    response = {"groups": [{"topics": [{"topicId": A}]}, {"topics": None}]}
    logged.name(exchange(60, api, request, response, version))
    names = [each.get("name") for each in (*request["topics"], *response["groups"][0]["topics"])]
    assert names == (["a", C, "a"] if named else [None] * 3)

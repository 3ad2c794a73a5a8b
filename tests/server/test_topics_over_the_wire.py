"""Topics: made, shown, changed and deleted; errors and messages are those of Kafka 3.9."""

import pytest

from support.server.asking import ask
from support.server.playing import Server
from support.server.writing import batch

NO_ID = "A" * 22


@pytest.fixture
def server():
    return Server({"num.partitions": 3, "offsets.topic.num.partitions": 4})


@pytest.fixture
def peer(server):
    return server.connect()


def make(peer, *topics, version=7, **fields):
    filled = [{"numPartitions": 1, "replicationFactor": 1, **topic} for topic in topics]
    body = {"topics": filled, "timeoutMs": 1000, **fields}
    return ask(peer, "CreateTopics", version, body)["topics"]


def error(found):
    return found["errorCode"], found["errorMessage"]


def names(peer):
    topics = ask(peer, "Metadata", 12, {"topics": None})["topics"]
    return {each["name"]: len(each["partitions"]) for each in topics}


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        ({"name": ""}, 17, "Topic name is invalid: the empty string is not allowed"),
        ({"name": ".."}, 17, "Topic name is invalid: '..' is not allowed"),
        ({"name": "a b"}, 17,
         "Topic name is invalid: 'a b' contains one or more characters other than ASCII "
         "alphanumerics, '.', '_' and '-'"),
        ({"name": "x" * 250}, 17,
         f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed "
         "length 249"),
        ({"name": "there"}, 36, "Topic 'there' already exists."),
        ({"name": "a_b"}, 17, "Topic 'a_b' collides with existing topic: a.b"),
        ({"name": "t", "numPartitions": 0}, 37,
         "Number of partitions was set to an invalid non-positive value."),
        ({"name": "t", "replicationFactor": 0}, 38,
         "Replication factor must be larger than 0, or -1 to use the default value."),
        ({"name": "t", "replicationFactor": 2}, 38,
         "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot "
         "be reached because only 1 broker(s) are registered."),
        ({"name": "t", "configs": [{"name": "no.such", "value": "1"}]}, 40,
         "Unknown topic config name: no.such"),
        ({"name": "t", "configs": [{"name": "retention.ms", "value": "-2"}]}, 40,
         "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ({"name": "t", "configs": [{"name": "retention.ms", "value": "x"}]}, 40,
         "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ({"name": "t", "configs": [{"name": "retention.ms", "value": None}]}, 40,
         "Null value not supported for topic configs: retention.ms"),
        ({"name": "t", "numPartitions": -1, "replicationFactor": -1,
          "assignments": [{"partitionIndex": 0, "brokerIds": [9]}]}, 39,
         "The manual partition assignment includes broker 9, but no such broker is registered."),
        ({"name": "t", "numPartitions": 2, "replicationFactor": -1,
          "assignments": [{"partitionIndex": 0, "brokerIds": [1]}]}, 42,
         "A manual partition assignment was specified, but numPartitions was not set to -1."),
    ],
)  # fmt: skip
def test_a_topic_that_cannot_be_is_refused_with_kafkas_words(server, peer, topic, code, message):
    make(peer, {"name": "there"}, {"name": "a.b"})
    (found,) = make(peer, topic)
    assert error(found) == (code, message)
    assert sorted(names(peer)) == ["a.b", "there"]


def test_a_topic_is_made_as_it_was_asked_for_or_by_default(server, peer):
    found = make(
        peer,
        {"name": "a", "numPartitions": 2},
        {"name": "b", "numPartitions": -1, "replicationFactor": -1},
        {"name": "c", "numPartitions": -1, "replicationFactor": -1,
         "assignments": [{"partitionIndex": n, "brokerIds": [1]} for n in (1, 0)]},
    )  # fmt: skip
    assert [error(each) for each in found] == [(0, None)] * 3
    assert [each["numPartitions"] for each in found] == [2, 3, 2]
    assert names(peer) == {"a": 2, "b": 3, "c": 2}


def test_a_topic_named_twice_is_not_made_and_what_is_only_validated_neither(server, peer):
    found = make(peer, {"name": "a"}, {"name": "a"}, {"name": "b"})
    assert [(each["name"], *error(each)) for each in found] == [
        ("b", 0, None), ("a", 42, "Duplicate topic name."),
    ]  # fmt: skip
    assert error(make(peer, {"name": "c"}, validateOnly=True)[0]) == (0, None)
    assert names(peer) == {"b": 1}


def test_asking_for_a_topic_makes_it_where_both_sides_allow_that(server, peer):
    def asked(name, version=12, **fields):
        body = ask(peer, "Metadata", version, {"topics": [{"name": name}], **fields})
        return [each["errorCode"] for each in body["topics"]]

    assert asked("new", allowAutoTopicCreation=False) == asked("new", allowAutoTopicCreation=False)
    assert asked("new") == [3]  # the next response has it
    assert asked("new") == [0]
    assert asked("of-old", version=3) == [3]
    assert asked("__consumer_offsets") == [3]
    assert names(peer) == {"new": 3, "of-old": 3, "__consumer_offsets": 4}
    closed = Server({"auto.create.topics.enable": False}).connect()
    assert [ask(closed, "Metadata", 12, {"topics": [{"name": "x"}]})["topics"][0]["errorCode"]
            for _ in range(2)] == [3, 3]  # fmt: skip


def test_topics_are_deleted_by_name_or_id_and_their_data_with_them(server, peer):
    made = make(peer, {"name": "a"}, {"name": "b"}, {"name": "c"})
    server.cluster.topics.partition("a", 0).produce(batch(b"v"))
    by_name = ask(peer, "DeleteTopics", 5, {"topicNames": ["a", "x", "c", "c"]})["responses"]
    assert [(each["name"], each["errorCode"]) for each in by_name] == [
        ("x", 3), ("c", 42), ("a", 0),
    ]  # fmt: skip
    topics = [
        {"name": None, "topicId": made[1]["topicId"]},
        {"name": None, "topicId": "MTIzNDU2Nzg5MDEyMzQ1Ng"},
        {"name": "c", "topicId": made[2]["topicId"]},
    ]
    by_id = ask(peer, "DeleteTopics", 6, {"topics": topics})["responses"]
    assert sorted((each["errorCode"], each["name"] or "") for each in by_id) == [
        (0, "b"), (42, "c"), (100, ""),
    ]  # fmt: skip
    assert names(peer) == {"c": 1}
    (again,) = make(peer, {"name": "a"})
    assert again["topicId"] != made[0]["topicId"]
    assert server.cluster.topics.partition("a", 0).high_watermark == 0


def test_partitions_are_added_and_never_taken_away(server, peer):
    make(peer, {"name": "a", "numPartitions": 2})

    def grown(**fields):
        body = {"topics": [{"name": "a", "assignments": None, **fields}]}
        (found,) = ask(peer, "CreatePartitions", 3, body)["results"]
        return error(found)

    assert grown(count=4) == (0, None)
    assert grown(count=4) == (37, "Topic already has 4 partition(s).")
    assert grown(count=1) == (
        37, "The topic a currently has 4 partition(s); 1 would not be an increase.",
    )  # fmt: skip
    assert grown(count=5, assignments=[{"brokerIds": [2]}])[0] == 39
    assert names(peer) == {"a": 4}


@pytest.mark.parametrize("given", [1, 2, 3, 6])
def test_each_new_partition_needs_an_assignment_and_no_other_has_one(peer, given):
    """Source: ReplicationControlManager.createPartitions."""
    make(peer, {"name": "a", "numPartitions": 2})
    topic = {"name": "a", "count": 4, "assignments": [{"brokerIds": [1]}] * given}
    (found,) = ask(peer, "CreatePartitions", 3, {"topics": [topic]})["results"]
    if given == 2:
        assert error(found) == (0, None)
    else:
        assert error(found) == (
            39,
            "Attempted to add 2 additional partition(s), but only "
            f"{given} assignment(s) were specified.",
        )
    assert names(peer) == {"a": 4 if given == 2 else 2}


def configs(peer, name, **how):
    resource = {"resourceType": 2, "resourceName": name, "configurationKeys": None}
    body = {"resources": [resource], "includeSynonyms": True, **how}
    (found,) = ask(peer, "DescribeConfigs", 4, body)["results"]
    return {each["name"]: each for each in found["configs"]}


def change(peer, *changes, name="a", version=1, **fields):
    listed = [dict(zip(("name", "configOperation", "value"), each, strict=True))
              for each in changes]  # fmt: skip
    body = {"resources": [{"resourceType": 2, "resourceName": name, "configs": listed}], **fields}
    (found,) = ask(peer, "IncrementalAlterConfigs", version, body)["responses"]
    return error(found)


SET, DELETE, APPEND, SUBTRACT = range(4)


def test_settings_are_told_with_where_they_come_from():
    peer = Server({"log.retention.ms": 5000}).connect()
    make(peer, {"name": "a", "configs": [{"name": "max.message.bytes", "value": "900"}]})
    found = configs(peer, "a")
    response = {
        name: (
            found[name]["value"],
            found[name]["configSource"],
            [(s["name"], s["value"], s["source"]) for s in found[name]["synonyms"]],
        )
        for name in ("max.message.bytes", "retention.ms", "segment.ms", "cleanup.policy")
    }
    assert response == {
        "max.message.bytes": ("900", 1, [("max.message.bytes", "900", 1),
                                         ("message.max.bytes", "1048588", 5)]),
        "retention.ms": ("5000", 4, [("log.retention.ms", "5000", 4),
                                     ("log.retention.hours", "168", 5)]),
        "segment.ms": ("604800000", 5, []),
        "cleanup.policy": ("delete", 5, [("log.cleanup.policy", "delete", 5)]),
    }  # fmt: skip
    short = configs(peer, "a", includeSynonyms=False)
    assert short == {name: row | {"synonyms": []} for name, row in found.items()}


def test_what_gives_a_default_is_told_only_behind_the_setting_that_it_is_for():
    # DescribeConfigs of a broker 3.9.1, without and with log.retention.ms=5000.
    hours, here = ("log.retention.hours", "168", 5), ("log.retention.ms", "5000", 4)
    names = ["log.retention.ms", "log.retention.hours"]
    broker = {"resourceType": 4, "resourceName": "1", "configurationKeys": names}
    topic = {"resourceType": 2, "resourceName": "a", "configurationKeys": ["retention.ms"]}
    response = []
    for config in ({"log.retention.ms": 604800000}, {"log.retention.ms": 5000}):
        peer = Server(config).connect()
        make(peer, {"name": "a"})
        body = {"resources": [broker, topic], "includeSynonyms": True}
        for found in ask(peer, "DescribeConfigs", 4, body)["results"]:
            response += [
                (each["name"], each["value"], [tuple(s.values()) for s in each["synonyms"]])
                for each in found["configs"]
            ]
    assert response == [
        ("log.retention.hours", "168", [hours]), ("log.retention.ms", None, []),
        ("retention.ms", "604800000", []),
        ("log.retention.hours", "168", [hours]), ("log.retention.ms", "5000", [here, hours]),
        ("retention.ms", "5000", [here, hours]),
    ]  # fmt: skip


def test_single_settings_are_changed_and_have_their_effect(server, peer):
    make(peer, {"name": "a"})
    log = server.cluster.topics.partition("a", 0)
    assert change(peer, ("max.message.bytes", SET, "70"), ("retention.ms", SET, "7")) == (0, None)
    assert (log.settings.max_message_bytes, log.settings.retention_ms) == (70, 7)
    assert change(peer, ("retention.ms", DELETE, None)) == (0, None)
    assert log.settings.retention_ms == 604800000
    assert change(peer, ("cleanup.policy", APPEND, "compact")) == (0, None)
    assert (log.settings.compacted, log.settings.deleted) == (True, True)
    assert change(peer, ("cleanup.policy", SUBTRACT, "delete")) == (0, None)
    assert (log.settings.compacted, log.settings.deleted) == (True, False)
    assert change(peer, ("cleanup.policy", SUBTRACT, "compact")) == (0, None)  # ValidList: empty
    assert (log.settings.compacted, log.settings.deleted) == (False, False)
    assert configs(peer, "a")["cleanup.policy"]["value"] == ""
    before = dict(server.cluster.topics.get("a").configs)
    assert change(peer, ("retention.ms", APPEND, "7")) == (
        40, "Can't APPEND to key retention.ms because its type is not LIST.",
    )  # fmt: skip
    assert change(peer, ("cleanup.policy", SET, "x")) == (
        40, "Invalid value x for configuration cleanup.policy: String must be one of: "
        "compact, delete",
    )  # fmt: skip
    assert change(peer, ("retention.ms", SET, "9"), validateOnly=True) == (0, None)
    assert change(peer, ("retention.ms", SET, "9"), name="no")[0] == 3
    assert server.cluster.topics.get("a").configs == before


def test_altering_all_settings_puts_the_others_back(server, peer):
    make(peer, {"name": "a", "configs": [{"name": "retention.ms", "value": "7"}]})
    resource = {"resourceType": 2, "resourceName": "a",
                "configs": [{"name": "segment.bytes", "value": "100"}]}  # fmt: skip
    (found,) = ask(peer, "AlterConfigs", 2, {"resources": [resource]})["responses"]
    assert error(found) == (0, None)
    assert server.cluster.topics.get("a").configs == {"segment.bytes": "100"}


def test_a_running_brokers_settings_are_told_and_stay_as_they_are(peer):
    resource = {"resourceType": 4, "resourceName": "1", "configurationKeys": ["num.partitions"]}
    (found,) = ask(peer, "DescribeConfigs", 4, {"resources": [resource]})["results"]
    (response,) = found["configs"]
    assert (response["value"], response["configSource"], response["readOnly"]) == ("3", 4, True)
    changed = {
        "resourceType": 4,
        "resourceName": "1",
        "configs": [{"name": "num.partitions", "configOperation": 0, "value": "9"}],
    }
    (found,) = ask(peer, "IncrementalAlterConfigs", 1, {"resources": [changed]})["responses"]
    assert error(found) == (42, "Cannot update these configs dynamically: Set(num.partitions)")


def test_topics_are_described_page_by_page(peer):
    make(peer, {"name": "b", "numPartitions": 3}, {"name": "a", "numPartitions": 2})
    pages, cursor = [], None
    while True:
        body = {"topics": [], "responsePartitionLimit": 2, "cursor": cursor}
        found = ask(peer, "DescribeTopicPartitions", 0, body)
        pages.append([(each["name"], [p["partitionIndex"] for p in each["partitions"]])
                      for each in found["topics"]])  # fmt: skip
        cursor = found["nextCursor"]
        if cursor is None:
            break
    assert pages == [[("a", [0, 1])], [("b", [0, 1])], [("b", [2])]]


def test_what_there_is_not_is_answered_as_by_a_broker_without_it(peer):
    found = ask(peer, "DescribeAcls", 3, {"resourceTypeFilter": 1, "patternTypeFilter": 1,
                                          "operation": 1, "permissionType": 1})  # fmt: skip
    assert error(found) == (54, "No Authorizer is configured on the broker")
    assert ask(peer, "DescribeClientQuotas", 1, {"components": []})["entries"] == []
    make(peer, {"name": "a"})
    (place,) = ask(peer, "DescribeLogDirs", 4, {"topics": None})["results"]
    assert [each["name"] for each in place["topics"]] == ["a"]


def test_a_topic_to_delete_has_a_name_or_an_id(peer):
    (made,) = make(peer, {"name": "c"})
    topics = [{"name": None, "topicId": "A" * 22}, {"name": "c", "topicId": made["topicId"]}]
    found = ask(peer, "DeleteTopics", 6, {"topics": topics})["responses"]
    assert [(row["errorCode"], row["errorMessage"]) for row in found] == [
        (42, "Neither topic name nor id were specified."),
        (42, "You may not specify both topic name and topic id."),
    ]
    assert names(peer) == {"c": 1}


def test_a_name_collides_with_no_topic_that_was_deleted(peer):
    for name, alike in (("a.b", "a_b"), ("a_b", "a.b")):
        assert make(peer, {"name": name})[0]["errorCode"] == 0
        assert make(peer, {"name": alike})[0]["errorCode"] == 17
        deleted = ask(peer, "DeleteTopics", 5, {"topicNames": [name]})["responses"]
        assert [row["errorCode"] for row in deleted] == [0]


def test_a_topic_that_was_deleted_has_no_name_and_no_id(server, peer):
    make(peer, {"name": "a"})
    topic_id = server.cluster.topics.get("a").topic_id
    assert server.cluster.topics.by_id(topic_id).name == "a"
    ask(peer, "DeleteTopics", 6, {"topics": [{"name": None, "topicId": topic_id}]})
    assert server.cluster.topics.by_id(topic_id) is None
    (again,) = ask(peer, "DeleteTopics", 6, {"topics": [{"name": None, "topicId": topic_id}]})[
        "responses"
    ]
    assert again["errorCode"] == 100  # UNKNOWN_TOPIC_ID

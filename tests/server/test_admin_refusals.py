"""What admin requests are refused for, with Kafka's errors and words, and what they leave alone.

Sources: ConfigHelper, ConfigAdminManager, ReplicationControlManager, ConfigurationControlManager of
Kafka 3.9.
"""

import pytest

from support.server.asking import ask
from support.server.playing import Server

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND = 0, 1, 2
NO_ID = "A" * 22
UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC, INVALID_TOPIC = -1, 3, 17
INVALID_PARTITIONS, INVALID_REPLICATION, INVALID_ASSIGNMENT = 37, 38, 39
INVALID_CONFIG, INVALID_REQUEST, UNKNOWN_ID = 40, 42, 100
MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)
MIN_ISR = "min.insync.replicas"


def connected(kafka="3.9"):
    server = Server({"offsets.topic.num.partitions": 3}, kafka=kafka)
    server.cluster.topics.create("t", 2)
    server.cluster.topics.create("other", 3)
    return server.connect()


def outcome(row):
    return row["errorCode"], row["errorMessage"]


def describe(peer, *resources, **fields):
    rows = [{"resourceType": kind, "resourceName": name, "configurationKeys": None}
            for kind, name in resources]  # fmt: skip
    return ask(peer, "DescribeConfigs", 4, {"resources": rows, **fields})["results"]


def entry(name, value, operation=SET):
    return {"name": name, "value": value, "configOperation": operation}


def alter(peer, *resources, api="IncrementalAlterConfigs", version=1, **fields):
    """Change settings, each resource with its type, its name and its entries."""
    rows = [
        {"resourceType": kind, "resourceName": name, "configs": list(entries)}
        for kind, name, *entries in resources
    ]
    if api == "AlterConfigs":
        for row in rows:
            row["configs"] = [{"name": e["name"], "value": e["value"]} for e in row["configs"]]
    return ask(peer, api, version, {"resources": rows, **fields})["responses"]


@pytest.mark.parametrize(
    ("kafka", "kind", "name", "error"),
    [
        ("3.9", TOPIC, "", (INVALID_TOPIC, "Topic name is invalid: the empty string is not "
                            "allowed")),
        ("3.9", TOPIC, "none", (UNKNOWN_TOPIC, "")),
        ("3.9", BROKER, "2", (INVALID_REQUEST, "Unexpected broker id, expected 1 or empty string, "
                              "but received 2")),
        ("3.9", BROKER, "x", (INVALID_REQUEST, "Broker id must be an integer, but it is: x")),
        ("3.9", LOGGER, "", (INVALID_REQUEST, "Broker id must not be empty")),
        ("3.9", LOGGER, "2", (INVALID_REQUEST, "Unexpected broker id, expected 1 but received 2")),
        ("3.9", LOGGER, "x", (INVALID_REQUEST, "Broker id must be an integer, but it is: x")),
        ("3.9", METRICS, "", (INVALID_REQUEST,
                              "Client metrics subscription name must not be empty")),
        ("4.1", GROUP, "", (INVALID_REQUEST, "Group name must not be empty")),
    ],
)  # fmt: skip
def test_settings_of_what_there_is_not_are_not_described(kafka, kind, name, error):
    refused, described = describe(connected(kafka), (kind, name), (TOPIC, "t"))
    assert (refused["resourceType"], refused["resourceName"]) == (kind, name)
    assert outcome(refused) == error
    assert refused["configs"] == []
    assert described["errorCode"] == 0
    assert described["configs"]


@pytest.mark.parametrize(("kind", "name"), [(LOGGER, "1"), (METRICS, "any")])
def test_loggers_and_metrics_have_no_settings(kind, name):
    (described,) = describe(connected(), (kind, name))
    assert (described["errorCode"], described["configs"]) == (0, [])


@pytest.mark.parametrize("kind", [0, 1, 3, GROUP])
def test_one_unknown_type_of_resource_refuses_all(kind):
    found = describe(connected(), (TOPIC, "t"), (kind, "t"))
    assert [outcome(row) for row in found] == [(INVALID_REQUEST, MALFORMED)] * 2
    assert [row["configs"] for row in found] == [[], []]


def test_only_the_named_settings_are_described_with_synonyms_on_request():
    peer = connected()
    keys = ["index.interval.bytes", "segment.bytes"]
    row = {"resourceType": TOPIC, "resourceName": "t", "configurationKeys": [*keys[::-1], "none"]}
    for with_synonyms in (False, True):
        body = {"resources": [row], "includeSynonyms": with_synonyms}
        (described,) = ask(peer, "DescribeConfigs", 4, body)["results"]
        assert [each["name"] for each in described["configs"]] == [
            "index.interval.bytes",
            "segment.bytes",
        ]
        assert [bool(each["synonyms"]) for each in described["configs"]] == [with_synonyms] * 2
        assert [each["configType"] for each in described["configs"]] == [3, 3]
        flags = [(each["readOnly"], each["isSensitive"]) for each in described["configs"]]
        assert flags == [(False, False)] * 2


REFUSED_CHANGES = [
    ("3.9", (TOPIC, "", entry("segment.bytes", "99")),
     (INVALID_REQUEST, "Default topic resources are not allowed.")),
    ("3.9", (TOPIC, "none", entry("segment.bytes", "99")),
     (UNKNOWN_TOPIC, "The topic 'none' does not exist.")),
    ("3.9", (TOPIC, "t", entry("a", "1"), entry("b", "1"), entry("a", "2")),
     (INVALID_REQUEST, "Error due to duplicate config keys")),
    ("3.9", (TOPIC, "t", entry("a", None), entry("b", "1"), entry("c", None)),
     (INVALID_REQUEST, "Null value not supported for : a, c")),
    ("3.9", (TOPIC, "t", entry("none", "1")),
     (INVALID_CONFIG, "Unknown topic config name: none")),
    ("3.9", (TOPIC, "t", entry("segment.bytes", "99", APPEND)),
     (INVALID_CONFIG, "Can't APPEND to key segment.bytes because its type is not LIST.")),
    ("3.9", (TOPIC, "t", entry("segment.bytes", "99", 3)),
     (INVALID_CONFIG, "Can't SUBTRACT to key segment.bytes because its type is not LIST.")),
    ("3.9", (LOGGER + 1, "t", entry("a", "1")), (INVALID_REQUEST, "Unknown resource type 9")),
    ("3.9", (GROUP, "g", entry("a", "1")), (INVALID_REQUEST, "Unknown resource type 32")),
    ("4.1", (GROUP, "", entry("a", "1")),
     (INVALID_REQUEST, "Default group resources are not allowed.")),
    ("4.1", (BROKER, "1", entry(MIN_ISR, "1")),
     (INVALID_CONFIG, f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled.")),
    ("4.1", (BROKER, "", entry(MIN_ISR, "", DELETE)),
     (INVALID_CONFIG, f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled.")),
]  # fmt: skip


@pytest.mark.parametrize(("kafka", "change", "error"), REFUSED_CHANGES)
def test_a_change_that_is_refused_changes_nothing_and_stops_no_other(kafka, change, error):
    peer = connected(kafka)
    kept = describe(peer, (TOPIC, "t"), (BROKER, ""))
    good = (TOPIC, "other", entry("retention.ms", "77"))
    refused, done = alter(peer, change, good)
    assert (refused["resourceType"], refused["resourceName"]) == change[:2]
    assert outcome(refused) == error
    assert outcome(done) == (0, None)
    assert describe(peer, (TOPIC, "t"), (BROKER, "")) == kept
    assert shown(peer, "other", "retention.ms") == "77"


def shown(peer, topic, name):
    (described,) = describe(peer, (TOPIC, topic))
    return {row["name"]: row["value"] for row in described["configs"]}[name]


def test_a_deletion_needs_no_value():
    peer = connected()
    alter(peer, (TOPIC, "t", entry("segment.bytes", "9999")))
    assert shown(peer, "t", "segment.bytes") == "9999"
    (deleted,) = alter(peer, (TOPIC, "t", entry("segment.bytes", None, DELETE)))
    assert outcome(deleted) == (0, None)
    assert shown(peer, "t", "segment.bytes") == str(2**30)


@pytest.mark.parametrize("api", ["AlterConfigs", "IncrementalAlterConfigs"])
def test_a_resource_appears_once(api):
    peer = connected()
    version = 2 if api == "AlterConfigs" else 1
    change = (TOPIC, "t", entry("retention.ms", "5"))
    found = alter(peer, change, change, (TOPIC, "other", change[2]), api=api, version=version)
    once = (INVALID_REQUEST, "Each resource must appear at most once.")
    assert [outcome(row) for row in found] == [once, once, (0, None)]
    assert shown(peer, "t", "retention.ms") == "604800000"


@pytest.mark.parametrize("api", ["AlterConfigs", "IncrementalAlterConfigs"])
@pytest.mark.parametrize(
    ("kind", "name", "setting"),
    [(TOPIC, "t", "retention.ms"), (BROKER, "1", "log.retention.ms"),
     (GROUP, "g", "consumer.session.timeout.ms")],
)  # fmt: skip
def test_what_is_only_validated_is_not_changed(api, kind, name, setting):
    peer = connected("4.1")
    version = 2 if api == "AlterConfigs" else 1
    before = describe(peer, (kind, name))
    for value in ("50000", "-50"):
        (found,) = alter(peer, (kind, name, entry(setting, value)), api=api, version=version,
                         validateOnly=True)  # fmt: skip
        assert (found["errorCode"] == 0) == (value == "50000")
        assert describe(peer, (kind, name)) == before
    alter(peer, (kind, name, entry(setting, "50000")), api=api, version=version)
    assert describe(peer, (kind, name)) != before


def test_a_replacement_of_all_brokers_settings_keeps_the_least_replicas_of_kafka_4():
    peer = connected("4.1")
    error = (INVALID_CONFIG, f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled.")
    replaced = [entry("log.retention.ms", "7")]
    for changes, with_synonyms in (
        (replaced, error),
        ([*replaced, entry(MIN_ISR, "1")], (0, None)),
    ):
        (found,) = alter(peer, (BROKER, "", *changes), api="AlterConfigs", version=2)
        assert outcome(found) == with_synonyms


def topic(name="new", partitions=1, replicas=1, assigned=()):
    rows = [{"partitionIndex": number, "brokerIds": brokers} for number, brokers in assigned]
    return {"name": name, "numPartitions": partitions, "replicationFactor": replicas,
            "assignments": rows}  # fmt: skip


MANUAL = "A manual partition assignment was specified, but "
CONSECUTIVE = "partitions should be a consecutive 0-based integer sequence"


@pytest.mark.parametrize(
    ("with_synonyms", "error"),
    [
        (topic("__cluster_metadata"),
         (INVALID_REQUEST, "Creation of internal topic __cluster_metadata is prohibited.")),
        (topic(partitions=-1, replicas=1, assigned=[(0, [1])]),
         (INVALID_REQUEST, f"{MANUAL}replication factor was not set to -1.")),
        (topic(partitions=1, replicas=-1, assigned=[(0, [1])]),
         (INVALID_REQUEST, f"{MANUAL}numPartitions was not set to -1.")),
        (topic(partitions=-1, replicas=-1, assigned=[(0, [1]), (0, [1])]),
         (INVALID_ASSIGNMENT, "Found multiple manual partition assignments for partition 0")),
        (topic(partitions=-1, replicas=-1, assigned=[(0, [1]), (2, [1])]),
         (INVALID_ASSIGNMENT, CONSECUTIVE)),
        (topic(partitions=-1, replicas=-1, assigned=[(1, [1]), (2, [1])]),
         (INVALID_ASSIGNMENT, CONSECUTIVE)),
        (topic(partitions=-1, replicas=-1, assigned=[(0, [])]),
         (INVALID_ASSIGNMENT,
          "The manual partition assignment includes an empty replica list.")),
        (topic(partitions=-1, replicas=-1, assigned=[(0, [1, 1])]),
         (INVALID_ASSIGNMENT,
          "The manual partition assignment includes the broker 1 more than once.")),
        (topic(partitions=-1, replicas=-1, assigned=[(0, [9, 1, 9, 1])]),
         (INVALID_ASSIGNMENT,
          "The manual partition assignment includes the broker 1 more than once.")),
        (topic(partitions=-1, replicas=-1, assigned=[(0, [9, 9])]),
         (INVALID_ASSIGNMENT, "The manual partition assignment includes broker 9, but no such "
          "broker is registered.")),
        (topic(partitions=-1, replicas=-1, assigned=[(0, [1, 1, 0])]),
         (INVALID_ASSIGNMENT, "The manual partition assignment includes broker 0, but no such "
          "broker is registered.")),
        (topic(partitions=-1, replicas=-1, assigned=[(0, [1, 9, 7])]),
         (INVALID_ASSIGNMENT, "The manual partition assignment includes broker 7, but no such "
          "broker is registered.")),
        (topic(partitions=-2), (INVALID_PARTITIONS,
                                "Number of partitions was set to an invalid non-positive value.")),
        (topic(replicas=-2), (INVALID_REPLICATION, "Replication factor must be larger than 0, or "
                              "-1 to use the default value.")),
    ],
)  # fmt: skip
def test_a_topic_that_cannot_be_made_stops_no_other(with_synonyms, error):
    peer = connected()
    body = {"topics": [with_synonyms, topic("good")], "timeoutMs": 1000, "validateOnly": False}
    rows = {row["name"]: outcome(row) for row in ask(peer, "CreateTopics", 7, body)["topics"]}
    assert rows == {with_synonyms["name"]: error, "good": (0, None)}


@pytest.mark.parametrize(("partitions", "error"), [(10_000, 0), (10_001, 44)])
def test_a_request_makes_ten_thousand_partitions_at_most(partitions, error):
    # ReplicationControlManager: MAX_PARTITIONS_PER_BATCH, POLICY_VIOLATION
    body = {"topics": [topic(partitions=partitions)], "timeoutMs": 1000, "validateOnly": True}
    (row,) = ask(connected(), "CreateTopics", 7, body)["topics"]
    assert row["errorCode"] == error


def test_an_assignment_in_any_order_makes_as_many_partitions():
    peer = connected()
    assigned = topic(partitions=-1, replicas=-1, assigned=[(2, [1]), (0, [1]), (1, [1])])
    body = {"topics": [assigned], "timeoutMs": 1000, "validateOnly": False}
    (row,) = ask(peer, "CreateTopics", 7, body)["topics"]
    assert (row["errorCode"], row["numPartitions"], row["replicationFactor"]) == (0, 3, 1)


def test_topics_that_are_named_twice_or_by_name_and_id_are_not_deleted():
    peer = connected()
    rows = ask(peer, "Metadata", 12, {"topics": None})["topics"]
    ids = {row["name"]: row["topicId"] for row in rows}
    unknown = "B" * 21 + "A"
    by_id, by_name = [ids["t"], unknown, unknown, ids["other"]], ["none", "none", "gone", "t"]
    topics = [{"name": None, "topicId": each} for each in by_id]
    topics += [{"name": each, "topicId": NO_ID} for each in by_name]
    found = ask(peer, "DeleteTopics", 6, {"topics": topics})["responses"]
    described = [(row["name"], row["topicId"], *outcome(row)) for row in found]
    assert sorted(described, key=str) == sorted(
        [
            (None, unknown, INVALID_REQUEST, "Duplicate topic id."),
            ("none", NO_ID, INVALID_REQUEST, "Duplicate topic name."),
            ("gone", NO_ID, UNKNOWN_TOPIC, "This server does not host this topic-partition."),
            ("t", NO_ID, INVALID_REQUEST,
             "The provided topic name maps to an ID that was already supplied."),
            ("other", ids["other"], 0, None),
        ],
        key=str,
    )  # fmt: skip
    left = ask(peer, "Metadata", 12, {"topics": None})["topics"]
    assert [row["name"] for row in left] == ["t"]


def test_an_id_that_is_unknown_deletes_nothing():
    unknown = "B" * 21 + "A"
    body = {"topics": [{"name": None, "topicId": unknown}]}
    (found,) = ask(connected(), "DeleteTopics", 6, body)["responses"]
    assert (found["topicId"], *outcome(found)) == (
        unknown, UNKNOWN_ID, "This server does not host this topic ID.",
    )  # fmt: skip


def test_partitions_are_added_once_and_never_too_many():
    peer = connected()
    rows = [("t", 3, None), ("t", 4, None), ("other", 10_004, None), ("none", 1, None)]
    topics = [{"name": name, "count": count, "assignments": a} for name, count, a in rows]
    found = ask(peer, "CreatePartitions", 3, {"topics": topics, "timeoutMs": 1000})["results"]
    assert {row["name"]: outcome(row) for row in found} == {
        "t": (INVALID_REQUEST, "Duplicate topic name."),
        "other": (UNKNOWN_SERVER_ERROR, None),
        "none": (UNKNOWN_TOPIC, None),
    }
    topics = [{"name": "other", "count": 10_003, "assignments": None}]
    body = {"topics": topics, "timeoutMs": 1000, "validateOnly": True}
    (found,) = ask(peer, "CreatePartitions", 3, body)["results"]
    assert outcome(found) == (0, None)


def test_a_leader_is_not_elected_where_one_leads_or_nothing_is():
    topics = [{"topic": "t", "partitions": [1, 2]}, {"topic": "none", "partitions": [0]}]
    body = {"electionType": 0, "topicPartitions": topics, "timeoutMs": 1000}
    found = ask(connected(), "ElectLeaders", 2, body)
    assert found["errorCode"] == 0
    results = {
        (row["topic"], each["partitionId"]): (each["errorCode"], each["errorMessage"])
        for row in found["replicaElectionResults"]
        for each in row["partitionResult"]
    }
    assert results == {
        ("t", 1): (84, "Leader election not needed for topic partition."),
        ("t", 2): (UNKNOWN_TOPIC, "No such partition as t-2"),
        ("none", 0): (UNKNOWN_TOPIC, "No such topic as none"),
    }


def test_what_this_broker_does_not_have_is_answered_without_an_error():
    peer = connected()
    for api, version, body in (
        ("DescribeClientQuotas", 1, {"components": []}),
        ("ListPartitionReassignments", 0, {"topics": None, "timeoutMs": 1000}),
        ("ElectLeaders", 2, {"electionType": 0, "topicPartitions": None, "timeoutMs": 1000}),
        ("DescribeLogDirs", 4, {"topics": None}),
    ):
        assert ask(peer, api, version, body)["errorCode"] == 0, api


def test_the_sizes_of_the_requested_partitions_are_described():
    server = Server({})
    server.cluster.topics.create("t", 3)
    log = server.cluster.topics.partition("t", 2)
    log.append_records([(1, b"k", b"v")])
    peer = server.connect()
    for topics, with_synonyms in (
        (None, {0: 0, 1: 0, 2: log.size}),
        ([{"topic": "t", "partitions": [1, 2, 3]}], {1: 0, 2: log.size}),
        ([{"topic": "t", "partitions": [3]}, {"topic": "none", "partitions": [0]}], {}),
    ):
        (place,) = ask(peer, "DescribeLogDirs", 4, {"topics": topics})["results"]
        assert (place["errorCode"], place["totalBytes"], place["usableBytes"]) == (0, -1, -1)
        found = {
            (row["name"], each["partitionIndex"]): each["partitionSize"]
            for row in place["topics"]
            for each in row["partitions"]
        }
        assert found == {("t", number): size for number, size in with_synonyms.items()}


@pytest.mark.parametrize(
    ("offset", "found"),
    [(-1, (3, 0)), (2, (2, 0)), (3, (3, 0)), (4, (-1, 1)), (-2, (-1, 1)), (0, (0, 0))],
)
def test_records_are_deleted_below_an_offset_of_the_log(offset, found):
    server = Server({})
    server.cluster.topics.create("t", 1)
    server.cluster.topics.partition("t", 0).append_records([(1, b"k", b"v")] * 3)
    assert deleted(server, "t", 0, offset) == found
    assert deleted(server, "t", 1, offset) == (-1, UNKNOWN_TOPIC)


def test_no_records_of_a_topic_of_kafkas_own_or_a_compacted_one_are_deleted():
    server = Server({})
    server.cluster.topics.internal("__consumer_offsets")
    server.cluster.topics.create("compacted", 1, {"cleanup.policy": "compact"})
    assert deleted(server, "__consumer_offsets", 0, 0) == (-1, INVALID_TOPIC)
    assert deleted(server, "compacted", 0, 0) == (-1, 44)


def deleted(server, name, number, offset):
    rows = [{"partitionIndex": number, "offset": offset}]
    body = {"topics": [{"name": name, "partitions": rows}], "timeoutMs": 1000}
    (row,) = ask(server.connect(), "DeleteRecords", 2, body)["topics"]
    (found,) = row["partitions"]
    return found["lowWatermark"], found["errorCode"]


def test_records_of_several_partitions_are_deleted_and_a_topic_without_any_is_left_out():
    server = Server({})
    for name in ("t", "u"):
        for log in server.cluster.topics.create(name, 2).partitions:
            log.append_records([(1, b"k", b"v")] * 3)
    offsets = {"t": [(1, 2), (0, 1)], "u": [], "none": [(0, 1)]}
    topics = [
        {"name": name, "partitions": [{"partitionIndex": n, "offset": at} for n, at in rows]}
        for name, rows in offsets.items()
    ]
    body = {"topics": topics, "timeoutMs": 1000}
    found = ask(server.connect(), "DeleteRecords", 2, body)["topics"]
    names = ("partitionIndex", "lowWatermark", "errorCode")
    assert {topic["name"]: [tuple(row[name] for name in names) for row in topic["partitions"]]
            for topic in found} == {"t": [(1, 2, 0), (0, 1, 0)], "none": [(0, -1, 3)]}  # fmt: skip
    starts = [log.log_start_offset for log in server.cluster.topics.get("t").partitions]
    assert starts == [1, 2]


def test_without_an_authorizer_each_entry_about_acls_is_refused():
    # AclApis: SecurityDisabledException
    peer = connected()
    creation = {"resourceType": TOPIC, "resourceName": "t", "resourcePatternType": 3, "host": "*",
                "principal": "User:a", "operation": 3, "permissionType": 3}  # fmt: skip
    of_filter = {"resourceTypeFilter": TOPIC, "patternTypeFilter": 3, "operation": 3,
                 "permissionType": 3}  # fmt: skip
    refused = [(54, "No Authorizer is configured.")] * 2
    found = ask(peer, "CreateAcls", 3, {"creations": [creation] * 2})["results"]
    assert [outcome(row) for row in found] == refused
    found = ask(peer, "DeleteAcls", 3, {"filters": [of_filter] * 2})["filterResults"]
    assert [outcome(row) for row in found] == refused
    assert [row["matchingAcls"] for row in found] == [[], []]


def test_an_election_for_all_partitions_names_each_topic_and_no_partition():
    # ReplicationControlManager.electLeaders leaves out partitions that need none
    body = {"electionType": 0, "topicPartitions": None, "timeoutMs": 1000}
    found = ask(connected(), "ElectLeaders", 2, body)["replicaElectionResults"]
    assert sorted((row["topic"], row["partitionResult"]) for row in found) == [
        ("other", []),
        ("t", []),
    ]


def test_a_partition_in_its_directory_is_a_current_one_without_lag():
    (place,) = ask(connected(), "DescribeLogDirs", 4, {"topics": None})["results"]
    rows = [row for topic in place["topics"] for row in topic["partitions"]]
    assert [(row["offsetLag"], row["isFutureKey"]) for row in rows] == [(0, False)] * 5

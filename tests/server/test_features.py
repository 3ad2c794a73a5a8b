"""Features: what ApiVersions reports, and UpdateFeatures; DescribeQuorum of a single node."""

import pytest

from coterie.server.cluster import Node
from support.server.asking import ask
from support.server.playing import Server

INVALID_UPDATE = 95
UPGRADE, SAFE, UNSAFE = 1, 2, 3
NO_ID = "A" * 22


@pytest.fixture
def peer():
    return Server({}).connect()


def features(peer, version):
    body = {"clientSoftwareName": "tests", "clientSoftwareVersion": "1"}
    found = ask(peer, "ApiVersions", version, body)
    supported = {f["name"]: (f["minVersion"], f["maxVersion"]) for f in found["supportedFeatures"]}
    finalized = {f["name"]: f["maxVersionLevel"] for f in found["finalizedFeatures"]}
    return supported, finalized


def update(peer, name, level, kind=UPGRADE, **fields):
    row = {"feature": name, "maxVersionLevel": level, "upgradeType": kind}
    found = ask(peer, "UpdateFeatures", 1, {"featureUpdates": [row], **fields})
    assert (found["errorCode"], found["errorMessage"]) == (0, "")
    (result,) = found["results"]
    assert result["feature"] == name
    return result["errorCode"], result["errorMessage"]


def test_kraft_version_is_reported_from_version_4_on_only(peer):
    metadata = {"metadata.version": (1, 21)}
    assert features(peer, 3) == (metadata, {"metadata.version": 21})
    assert features(peer, 4) == ({**metadata, "kraft.version": (0, 1)}, {"metadata.version": 21})


@pytest.mark.parametrize(
    ("software", "error"),
    [("a", 0), ("A-1.b", 0), ("1", 0), ("", 42), ("-a", 42), ("a-", 42), (".", 42), ("a b", 42),
     ("a_b", 42), ("é", 42), ("a\n", 42)],
)  # fmt: skip
def test_name_and_version_of_a_client_are_well_formed_since_version_3(peer, software, error):
    for name, version in ((software, "1"), ("tests", software)):
        body = {"clientSoftwareName": name, "clientSoftwareVersion": version}
        assert ask(peer, "ApiVersions", 3, body)["errorCode"] == error


# The valid versions of Kafka's message definitions (*Request.json) without unstable ones: the last
# of 3.9, whose first is 0, and the first and last of 4.1 where they differ (KIP-896).
LAST_OF_3_9 = {
    0: 11, 1: 17, 2: 9, 3: 12, 8: 9, 9: 9, 10: 6, 11: 9, 12: 4, 13: 5, 14: 5, 15: 5, 16: 5, 17: 1,
    18: 4, 19: 7, 20: 6, 21: 2, 22: 5, 23: 4, 24: 5, 25: 4, 26: 4, 27: 1, 28: 4, 29: 3, 30: 3,
    31: 3, 32: 4, 33: 2, 35: 4, 36: 2, 37: 3, 42: 2, 43: 2, 44: 1, 46: 0, 47: 0, 48: 1, 50: 0,
    51: 0, 55: 2, 57: 1, 60: 1, 61: 0, 65: 0, 66: 1, 68: 0, 69: 0, 74: 0, 75: 0,
}  # fmt: skip
OTHERS_OF_4_1 = {
    0: (0, 13), 1: (4, 18), 2: (1, 10), 3: (0, 13), 8: (2, 9), 9: (1, 9), 15: (0, 6), 19: (2, 7),
    20: (1, 6), 23: (2, 4), 26: (0, 5), 27: (1, 1), 28: (0, 5), 29: (1, 3), 30: (1, 3), 31: (1, 3),
    32: (1, 4), 35: (1, 4), 57: (0, 2), 60: (0, 2), 66: (0, 2), 68: (0, 1), 69: (0, 1), 74: (0, 1),
    76: (1, 1), 77: (1, 1),
}  # fmt: skip


@pytest.mark.parametrize(("kafka", "others"), [("3.9", {}), ("4.1", OTHERS_OF_4_1)])
def test_each_api_is_listed_with_the_versions_of_its_release(kafka, others):
    rows = ask(Server({}, kafka=kafka).connect(), "ApiVersions", 0, {})["apiKeys"]
    assert {row["apiKey"]: (row["minVersion"], row["maxVersion"]) for row in rows} == {
        **{key: (0, last) for key, last in LAST_OF_3_9.items()}, **others,
    }  # fmt: skip


@pytest.mark.parametrize(("kafka", "first"), [("3.9", 0), ("4.1", 0)])
def test_produce_is_listed_from_version_0_on_for_librdkafka(kafka, first):
    keys = ask(Server({}, kafka=kafka).connect(), "ApiVersions", 0, {})["apiKeys"]
    rows = {row["apiKey"]: (row["minVersion"], row["maxVersion"]) for row in keys}
    assert rows[0][0] == first
    assert rows[18][0] == 0
    assert rows[1][0] == (4 if kafka == "4.1" else 0)  # Fetch, which is listed as it is served


def test_a_feature_is_finalized_by_an_update_and_only_validated_on_request(peer):
    assert update(peer, "kraft.version", 1, validateOnly=True) == (0, None)
    assert features(peer, 4)[1] == {"metadata.version": 21}
    assert update(peer, "kraft.version", 1) == (0, None)
    assert features(peer, 4)[1] == {"metadata.version": 21, "kraft.version": 1}


def test_an_update_to_the_present_level_changes_nothing(peer):
    assert update(peer, "metadata.version", 21) == (0, None)
    assert features(peer, 4)[1] == {"metadata.version": 21}


def test_a_safe_downgrade_to_a_version_of_the_same_metadata_format_is_made(peer):
    assert update(peer, "metadata.version", 17, SAFE) == (0, None)
    assert features(peer, 4)[1] == {"metadata.version": 17}


@pytest.mark.parametrize(
    ("name", "level", "kind", "message"),
    [
        ("metadata.version", 22, UPGRADE, "Invalid update version 22 for feature metadata.version."
         " Local controller 1 only supports versions 1-21"),
        ("metadata.version", 20, UPGRADE, "Invalid update version 20 for feature metadata.version."
         " Can't downgrade the version of this feature without setting the upgrade type to either "
         "safe or unsafe downgrade."),
        ("metadata.version", 16, SAFE, "Invalid metadata.version 16. Refusing to perform the "
         "requested downgrade because it might delete metadata information."),
        ("metadata.version", 16, UNSAFE, "Invalid metadata.version 16. Unsafe metadata downgrade "
         "is not supported in this version."),
        ("metadata.version", 4, SAFE, "Invalid metadata.version 4. Refusing to perform the "
         "requested downgrade because it might delete metadata information."),
        ("metadata.version", 3, SAFE, "Invalid metadata.version 3. Unable to set a "
         "metadata.version less than 3.3-IV0"),
        ("kraft.version", 1, SAFE, "Invalid update version 1 for feature kraft.version. "
         "Can't downgrade to a newer version."),
        ("kraft.version", -1, UPGRADE, "Invalid update version -1 for feature kraft.version. "
         "A feature version cannot be less than 0."),
        ("other", 1, UPGRADE, "Invalid update version 1 for feature other. Local controller 1 "
         "does not support this feature."),
        ("kraft.version", 1, 0, "Invalid update version 1 for feature kraft.version. The "
         "controller does not support the given upgrade type."),
    ],
)  # fmt: skip
def test_an_update_that_the_controller_refuses_has_kafka_s_message(
    peer, name, level, kind, message
):
    assert update(peer, name, level, kind) == (INVALID_UPDATE, message)
    assert features(peer, 4)[1] == {"metadata.version": 21}


def test_level_0_of_a_feature_that_is_off_or_unknown_changes_nothing(peer):
    # FeatureControlManager.updateFeature: the current level is 0 by default
    for name in ("kraft.version", "other.version"):
        assert update(peer, name, 0)[0] == 0
    assert features(peer, 4)[1] == {"metadata.version": 21}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum_is_the_one_node(version):
    server = Server({})
    topics = [{"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}]}]
    found = ask(server.connect(), "DescribeQuorum", version, {"topics": topics})
    (topic,) = found["topics"]
    (partition,) = topic["partitions"]
    assert (found["errorCode"], partition["errorCode"]) == (0, 0)
    assert (partition["leaderId"], partition["leaderEpoch"]) == (1, 1)
    (voter,) = partition["currentVoters"]
    assert voter["replicaId"] == 1
    assert voter["logEndOffset"] == partition["highWatermark"]
    assert partition["observers"] == []
    if version >= 1:
        now_ms = server.cluster.now_ms
        assert voter["lastFetchTimestamp"] == voter["lastCaughtUpTimestamp"] == now_ms
    if version >= 2:
        assert voter["replicaDirectoryId"] == NO_ID
        assert found["errorMessage"] == partition["errorMessage"] == ""
        assert [node["nodeId"] for node in found["nodes"]] == [1]


def test_the_quorum_of_another_topic_is_unknown_in_each_partition(peer):
    topics = [{"topicName": "t", "partitions": [{"partitionIndex": 0}, {"partitionIndex": 1}]}]
    found = ask(peer, "DescribeQuorum", 2, {"topics": topics})
    assert found["errorCode"] == 0
    errors = [
        (each["errorCode"], each["errorMessage"]) for each in found["topics"][0]["partitions"]
    ]
    assert errors == [(3, "This server does not host this topic-partition.")] * 2


def test_there_are_no_client_metrics_resources(peer):
    found = ask(peer, "ListClientMetricsResources", 0, {})
    assert (found["errorCode"], found["configResources"]) == (0, [])


def test_all_answers_name_the_same_controller_of_several_brokers():
    server = Server({})
    for number in (3, 2):
        server.cluster.nodes[number] = Node(number, dict(server.node.addresses))
    peer = server.connect()
    controllers = {
        ask(peer, "Metadata", 9, {"topics": []})["controllerId"],
        ask(peer, "DescribeCluster", 0, {})["controllerId"],
    }
    assert controllers == {1}


def test_results_are_in_the_order_of_names_and_a_refused_update_leaves_the_others(peer):
    """FeatureControlManager of Kafka 3.9 collects them in a TreeMap."""
    rows = [
        {"feature": name, "maxVersionLevel": level, "upgradeType": kind}
        for name, level, kind in (
            ("other", 1, UPGRADE), ("metadata.version", 16, SAFE), ("kraft.version", 1, UPGRADE),
        )
    ]  # fmt: skip
    found = ask(peer, "UpdateFeatures", 1, {"featureUpdates": rows})
    assert [(each["feature"], each["errorCode"]) for each in found["results"]] == [
        ("kraft.version", 0), ("metadata.version", INVALID_UPDATE), ("other", INVALID_UPDATE),
    ]  # fmt: skip
    assert features(peer, 4)[1] == {"metadata.version": 21, "kraft.version": 1}


def test_the_controller_of_several_brokers_leads_the_quorum_and_checks_updates():
    server = Server({})
    for number in (3, 2):
        server.cluster.nodes[number] = Node(number, dict(server.node.addresses))
    peer = server.connect()
    topics = [{"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}]}]
    found = ask(peer, "DescribeQuorum", 2, {"topics": topics})
    (partition,) = found["topics"][0]["partitions"]
    assert partition["leaderId"] == 1
    assert [each["replicaId"] for each in partition["currentVoters"]] == [1]
    assert sorted(each["replicaId"] for each in partition["observers"]) == [2, 3]
    assert "Local controller 1 only" in update(peer, "metadata.version", 22)[1]

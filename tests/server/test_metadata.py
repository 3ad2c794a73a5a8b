"""Metadata, DescribeCluster and DescribeTopicPartitions: every field, page and refusal."""

from dataclasses import replace

import pytest

from support.server.asking import ask, request
from support.server.playing import ADDRESSES, Server

NO_ID, UNKNOWN_ID = "A" * 22, "B" * 21 + "A"
INT32_LEAST = -(2**31)
OF_CLUSTER, OF_TOPIC = 8096, 3576  # sets of operations, as bits: what an authorizer would allow


def served(**config):
    server = Server({"broker.rack": "r7", "num.partitions": 3, **config})
    server.cluster.topics.create("t", 2)
    server.cluster.topics.create("other", 1)
    return server


@pytest.fixture
def server():
    return served()


@pytest.fixture
def peer(server):
    return server.connect()


def metadata(peer, version, topics, **fields):
    return ask(peer, "Metadata", version, {"topics": topics, **fields})


def partition(number, **more):
    return {"errorCode": 0, "partitionIndex": number, "leaderId": 1, "leaderEpoch": 0,
            "replicaNodes": [1], "isrNodes": [1], "offlineReplicas": [], **more}  # fmt: skip


def test_a_topic_and_the_broker_are_described_with_all_their_fields(server, peer):
    response = metadata(peer, 12, [{"topicId": NO_ID, "name": "t"}])
    topic_id = server.cluster.topics.get("t").topic_id
    assert response == {
        "throttleTimeMs": 0,
        "brokers": [{"nodeId": 1, "host": ADDRESSES["plain"][0], "port": ADDRESSES["plain"][1],
                     "rack": "r7"}],
        "clusterId": server.cluster.cluster_id,
        "controllerId": 1,
        "topics": [{"errorCode": 0, "name": "t", "topicId": topic_id, "isInternal": False,
                    "partitions": [partition(0), partition(1)],
                    "topicAuthorizedOperations": INT32_LEAST}],
    }  # fmt: skip


@pytest.mark.parametrize("included", [False, True])
@pytest.mark.parametrize("version", [8, 10, 11, 12])
def test_operations_are_told_on_request_those_of_the_cluster_until_version_10(
    peer, version, included
):
    fields = {"includeTopicAuthorizedOperations": included}
    if version <= 10:
        fields["includeClusterAuthorizedOperations"] = included
    response = metadata(peer, version, [{"name": "t"}, {"name": "a b"}], **fields)
    of_topics = [topic["topicAuthorizedOperations"] for topic in response["topics"]]
    assert of_topics == [OF_TOPIC if included else INT32_LEAST] * 2
    of_cluster = OF_CLUSTER if included else INT32_LEAST
    assert response.get("clusterAuthorizedOperations") == (of_cluster if version <= 10 else None)


@pytest.mark.parametrize(("version", "included"), [(0, {"t", "other"}), (1, set())])
def test_an_empty_list_stands_for_all_topics_in_version_0_only(peer, version, included):
    assert {topic["name"] for topic in metadata(peer, version, [])["topics"]} == included


def test_topics_are_found_by_their_ids_since_version_12(server, peer):
    topic_id = server.cluster.topics.get("other").topic_id
    names = [{"topicId": topic_id, "name": None}, {"topicId": UNKNOWN_ID, "name": None}]
    fields = {"includeTopicAuthorizedOperations": True}
    known, unknown = metadata(peer, 12, names, **fields)["topics"]
    assert (known["errorCode"], known["name"], known["topicId"]) == (0, "other", topic_id)
    assert known["topicAuthorizedOperations"] == OF_TOPIC
    assert unknown == {
        "errorCode": 100, "name": None, "topicId": UNKNOWN_ID, "isInternal": False,
        "partitions": [], "topicAuthorizedOperations": INT32_LEAST,
    }  # fmt: skip
    for version in (10, 11):
        refused = metadata(peer, version, [{"topicId": topic_id, "name": "t"}])["topics"]
        assert [topic["errorCode"] for topic in refused] == [42]


def test_a_topic_of_neither_name_nor_id_is_an_error_of_the_server(peer):
    names = [{"topicId": NO_ID, "name": "t"}, {"topicId": NO_ID, "name": None}]
    (found,) = metadata(peer, 12, names)["topics"]
    assert (found["errorCode"], found["name"]) == (-1, "")


def test_each_topic_is_told_once(peer):
    names = [{"name": name} for name in ("t", "other", "t")]
    assert [topic["name"] for topic in metadata(peer, 9, names)["topics"]] == ["t", "other"]


@pytest.mark.parametrize(
    ("name", "allowed", "error", "made"),
    [("new", True, 3, 3), ("new", False, 3, None), ("a b", True, 17, None),
     ("o.t", True, 17, None), ("__consumer_offsets", True, 3, 50),
     ("__transaction_state", True, 3, 50)],
)  # fmt: skip
def test_a_topic_that_is_asked_for_is_made_for_the_next_request(
    server, peer, name, allowed, error, made
):
    server.cluster.topics.create("o_t", 1)
    names = [{"name": name}]
    (found,) = metadata(peer, 9, names, allowAutoTopicCreation=allowed)["topics"]
    internal = name.startswith("__")
    assert (found["errorCode"], found["partitions"], found["isInternal"]) == (error, [], internal)
    topic = server.cluster.topics.get(name)
    assert (None if topic is None else len(topic.partitions)) == made


def test_more_than_ten_thousand_names_are_read_in_slices(server, peer):
    names = [{"name": f"n{number}"} for number in range(10_000)] + [{"name": "t"}]
    response = metadata(peer, 9, names, allowAutoTopicCreation=False)["topics"]
    assert [(topic["name"], topic["errorCode"]) for topic in response[-2:]] == [
        ("n9999", 3),
        ("t", 0),
    ]
    assert len(response) == 10_001
    waiting = []
    server.dispatcher.call_soon = waiting.append
    peer.send(request("Metadata", 9, {"topics": names[-10_000:], "allowAutoTopicCreation": False}))
    within = len(waiting)
    other = server.connect()
    other.send(request("Metadata", 9, {"topics": names, "allowAutoTopicCreation": False}))
    assert (within, len(waiting)) == (1, 1)  # both wait, the second behind the first
    while waiting:
        waiting.pop(0)()
    assert peer.whole()
    assert other.whole()


def test_a_cluster_is_described_with_all_its_fields(server, peer):
    brokers = [{"brokerId": 1, "host": ADDRESSES["plain"][0], "port": ADDRESSES["plain"][1],
                "rack": "r7"}]  # fmt: skip
    for included, operations in ((False, INT32_LEAST), (True, OF_CLUSTER)):
        body = {"includeClusterAuthorizedOperations": included, "endpointType": 1}
        assert ask(peer, "DescribeCluster", 1, body) == {
            "throttleTimeMs": 0, "errorCode": 0, "errorMessage": None, "endpointType": 1,
            "clusterId": server.cluster.cluster_id, "controllerId": 1, "brokers": brokers,
            "clusterAuthorizedOperations": operations,
        }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (2, (114, "The request was sent to an endpoint of type BROKER, but we wanted an endpoint "
             "of type CONTROLLER")),
        (3, (115, "Unsupported endpoint type 3")),
        (0, (115, "Unsupported endpoint type 0")),
    ],
)  # fmt: skip
def test_only_brokers_are_described(peer, kind, error):
    body = {"includeClusterAuthorizedOperations": False, "endpointType": kind}
    response = ask(peer, "DescribeCluster", 1, body)
    assert (response["errorCode"], response["errorMessage"]) == error
    assert response["brokers"] == []


def pages(peer, names, limit, cursor=None):
    """Each page as its topics with their partitions, until there is no next one."""
    while True:
        body = {"topics": [{"name": name} for name in names], "responsePartitionLimit": limit,
                "cursor": cursor}  # fmt: skip
        response = ask(peer, "DescribeTopicPartitions", 0, body)
        yield [(topic["name"], [each["partitionIndex"] for each in topic["partitions"]])
               for topic in response["topics"]]  # fmt: skip
        cursor = response["nextCursor"]
        if cursor is None:
            return


@pytest.mark.parametrize(
    ("limit", "found"),
    [
        (1, [[("other", [0])], [("t", [0])], [("t", [1])]]),
        (0, [[("other", [0])], [("t", [0])], [("t", [1])]]),
        (2, [[("other", [0]), ("t", [0])], [("t", [1])]]),
        (3, [[("other", [0]), ("t", [0, 1])]]),
        (2001, [[("other", [0]), ("t", [0, 1])]]),
    ],
)
def test_topics_are_described_page_by_page_in_the_order_of_their_names(peer, limit, found):
    assert list(pages(peer, [], limit)) == found
    assert list(pages(peer, ["t", "other", "t"], limit)) == found


def test_a_page_has_at_most_2000_partitions(server, peer):
    server.cluster.topics.create("wide", 2001)
    numbers = [list(range(2000)), [2000]]
    assert list(pages(peer, ["wide"], 5000)) == [[("wide", page)] for page in numbers]


def test_a_page_begins_at_its_cursor(peer):
    assert list(pages(peer, [], 9, {"topicName": "t", "partitionIndex": 1})) == [[("t", [1])]]
    for name, number in (("p", 1), ("t", 0)):
        cursor = {"topicName": name, "partitionIndex": number}
        assert list(pages(peer, [], 9, cursor)) == [[("t", [0, 1])]]
    for names, cursor in ((["t"], ("other", 0)), ([], ("t", -1)), (["t"], ("t", -1))):
        name, number = cursor
        body = {"topics": [{"name": each} for each in names], "responsePartitionLimit": 9,
                "cursor": {"topicName": name, "partitionIndex": number}}  # fmt: skip
        response = ask(peer, "DescribeTopicPartitions", 0, body)
        assert {topic["errorCode"] for topic in response["topics"]} <= {42}
        assert not any(topic["partitions"] for topic in response["topics"])


def test_a_described_topic_has_all_its_fields_and_a_missing_one_its_error(server, peer):
    names = ("t", "a b", "none")
    body = {"topics": [{"name": name} for name in names], "responsePartitionLimit": 1000,
            "cursor": None}  # fmt: skip
    response = ask(peer, "DescribeTopicPartitions", 0, body)
    none = {"topicId": NO_ID, "isInternal": False, "partitions": [],
            "topicAuthorizedOperations": OF_TOPIC}  # fmt: skip
    shown = [partition(number, eligibleLeaderReplicas=[], lastKnownElr=[]) for number in range(2)]
    topic_id = server.cluster.topics.get("t").topic_id
    assert response["topics"] == [
        {"errorCode": 17, "name": "a b", **none},
        {"errorCode": 3, "name": "none", **none},
        {**none, "errorCode": 0, "name": "t", "topicId": topic_id, "partitions": shown},
    ]
    assert response["nextCursor"] is None


def test_of_several_brokers_the_one_with_the_least_id_leads_everything(server, peer):
    for node_id in (7, 0):
        server.cluster.nodes[node_id] = replace(server.node, id=node_id)
    response = metadata(peer, 12, [{"name": "t"}])
    assert [broker["nodeId"] for broker in response["brokers"]] == [1, 7, 0]
    assert response["controllerId"] == 0
    (topic,) = response["topics"]
    assert [each["leaderId"] for each in topic["partitions"]] == [0, 0]
    body = {"includeClusterAuthorizedOperations": False, "endpointType": 1}
    assert ask(peer, "DescribeCluster", 1, body)["controllerId"] == 0
    for key_type in (0, 1):
        found = ask(peer, "FindCoordinator", 3, {"key": "x", "keyType": key_type})
        assert (found["errorCode"], found["nodeId"]) == (0, 0)
    quorum = {"topics": [{"topicName": "__cluster_metadata",
                          "partitions": [{"partitionIndex": 0}]}]}  # fmt: skip
    (topic,) = ask(peer, "DescribeQuorum", 1, quorum)["topics"]
    (part,) = topic["partitions"]
    assert part["leaderId"] == 0
    assert [voter["replicaId"] for voter in part["currentVoters"]] == [0]
    assert [observer["replicaId"] for observer in part["observers"]] == [1, 7]
    update = {"feature": "none", "maxVersionLevel": 1, "upgradeType": 1}
    body = {"featureUpdates": [update], "timeoutMs": 1000}
    (row,) = ask(peer, "UpdateFeatures", 1, body)["results"]
    assert "Local controller 0 does not" in row["errorMessage"]

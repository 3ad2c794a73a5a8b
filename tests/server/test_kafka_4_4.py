"""What a broker 4.4.0 answers otherwise than 4.1; all expected values are those of a real one."""

import pytest

from coterie.base import schemas
from coterie.messages import LogReader, decode_key, decode_value
from coterie.server.api.table import SERVED_BY
from support.server.asking import ask, commit, request
from support.server.playing import BROKER, Server
from support.server.writing import of_producer

UNSUPPORTED, UNKNOWN_PARTITION, UNKNOWN_ID, INVALID_PRODUCER_EPOCH = 35, 3, 100, 47
NAMED = {"clientSoftwareName": "tests", "clientSoftwareVersion": "1"}
NO_ID, NOBODYS_ID = "A" * 22, "A" * 21 + "Q"
# Of a node that is broker and controller; of these keys are those that are not served here: of
# delegation tokens, log directories, reassignments, quotas, telemetry and KRaft.
VERSIONS = """
0 0-13, 1 4-18, 2 1-11, 3 0-13, 8 2-10, 9 1-10, 10 0-6, 11 0-9, 12 0-4, 13 0-5, 14 0-5, 15 0-6,
16 0-5, 17 0-1, 18 0-5, 19 2-7, 20 1-6, 21 0-2, 22 0-5, 23 2-4, 24 0-5, 25 0-4, 26 0-5, 27 1-2,
28 0-6, 29 1-3, 30 1-3, 31 1-3, 32 1-4, 33 0-2, 34 1-2, 35 1-5, 36 0-2, 37 0-3, 38 1-3, 39 1-2,
40 1-2, 41 1-3, 42 0-3, 43 0-2, 44 0-1, 45 0-1, 46 0-0, 47 0-0, 48 0-1, 49 0-1, 50 0-0, 51 0-0,
55 0-2, 57 0-2, 60 0-2, 61 0-0, 64 0-0, 65 0-0, 66 0-2, 68 0-1, 69 0-1, 74 0-1, 75 0-0, 76 1-1,
77 1-1, 78 1-2, 79 1-2, 80 0-1, 81 0-0, 83 0-0, 84 0-0, 85 0-1, 86 0-0, 87 0-1, 88 0-1, 89 0-1,
90 0-1, 91 0-0, 92 0-0, 93 0-0, 94 0-0"""
NOT_SERVED = {34, 38, 39, 40, 41, 45, 49, 64, 80, 81, 94}


@pytest.fixture
def server():
    server = Server(BROKER, kafka="4.4")
    server.cluster.topics.create("t", 2)
    server.cluster.topics.create("u", 2)
    return server


@pytest.fixture
def peer(server):
    return server.connect()


def test_the_versions_are_those_of_a_broker_4_4(peer):
    found = ask(peer, "ApiVersions", 5, NAMED)["apiKeys"]
    expected = (row.replace("-", " ").split() for row in VERSIONS.split(","))
    assert [(row["apiKey"], row["minVersion"], row["maxVersion"]) for row in found] == [
        (int(key), int(first), int(last))
        for key, first, last in expected
        if int(key) not in NOT_SERVED
    ]


def test_the_features_are_those_of_a_broker_without_share_and_streams_groups(peer):
    found = ask(peer, "ApiVersions", 5, NAMED)
    assert {
        row["name"]: (row["minVersion"], row["maxVersion"]) for row in found["supportedFeatures"]
    } == {
        "group.version": (0, 1),
        "transaction.version": (0, 2),
        "eligible.leader.replicas.version": (0, 1),
        "kraft.version": (0, 1),
        "metadata.version": (7, 33),
        "share.version": (0, 2),
        "streams.version": (0, 1),
    }
    assert {row["name"]: row["maxVersionLevel"] for row in found["finalizedFeatures"]} == {
        "group.version": 1,
        "transaction.version": 2,
        "eligible.leader.replicas.version": 1,
        "metadata.version": 33,
    }


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, 0), (None, 1, 42), (None, 2, 42), (None, -2, 42), ("own", -1, 42), ("own", 1, 0),
        ("own", 2, 129), ("own", -2, 129), ("wrong", -1, 42), ("wrong", 1, 129), ("", -1, 42),
        ("", 1, 129),
    ],
)  # fmt: skip
def test_a_client_that_means_another_node_is_sent_to_its_bootstrap_servers(
    server, peer, cluster_id, node_id, error
):
    cluster_id = server.cluster.cluster_id if cluster_id == "own" else cluster_id
    found = ask(peer, "ApiVersions", 5, NAMED | {"clusterId": cluster_id, "nodeId": node_id})
    assert (found["errorCode"], bool(found["apiKeys"])) == (error, not error)


@pytest.mark.parametrize(("version", "error"), [(1, 0), (2, INVALID_PRODUCER_EPOCH)])
def test_a_marker_of_version_2_needs_a_higher_epoch_than_its_open_transaction(
    server, peer, version, error
):
    server.cluster.topics.partition("t", 0).produce(of_producer(0, epoch=5, transactional=True))
    topics = [{"name": "t", "partitionIndexes": [0]}]
    marker = {"producerId": 7, "producerEpoch": 5, "coordinatorEpoch": 0, "topics": topics}
    markers = [marker | {"transactionResult": True, "transactionVersion": version}]
    (found,) = ask(peer, "WriteTxnMarkers", version, {"markers": markers})["markers"]
    assert found["topics"][0]["partitions"][0]["errorCode"] == error


# Share and streams groups: by a broker whose features share.version and streams.version are 0


def filled(fields, version):
    """A body with one element in each list."""
    body = {}
    for name, kind, first, last, *_, tag, _, below in fields:
        if first <= version <= last and tag < 0:
            if kind == "[]struct":
                body[name] = [filled(below, version)]
            elif kind in ("string", "uuid", "[]string"):
                body[name] = {"string": "g", "uuid": NOBODYS_ID, "[]string": ["g"]}[kind]
    return body


def refusals():
    """The APIs of share and streams groups, in each version, with what a broker answers."""
    whole = {"errorCode": UNSUPPORTED, "errorMessage": None}
    version = {"errorCode": UNSUPPORTED, "errorMessage": "The version of API is not supported."}
    group = {"groups": [whole | {"groupId": "g"}]}

    def state(what):
        message = f"Unable to {what}: This is not the correct coordinator."
        row = {"partition": 0, "errorCode": 16, "errorMessage": message}
        return {"results": [{"topicId": NOBODYS_ID, "partitions": [row]}]}

    answers = {
        76: whole, 77: group, 78: whole | {"responses": []}, 79: whole | {"responses": []},
        83: state("initialize share group state"), 84: state("read share group state"),
        85: state("write share group state"), 86: state("delete share group state"),
        87: state("read share group state summary"), 88: whole | {"status": []}, 89: group,
        90: group, 91: version | {"responses": []}, 92: version | {"responses": []}, 93: whole,
    }  # fmt: skip
    for key, expected in answers.items():
        row = SERVED_BY["4.4"][key]
        for version in range(row.first, row.last + 1):
            yield pytest.param(row.name, version, expected, id=f"{row.name}-{version}")


def assert_within(expected, found):
    """Each field of the expected structs is in those that were found."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert_within(value, found[name])
    elif isinstance(expected, list):
        for one, other in zip(expected, found, strict=True):
            assert_within(one, other)
    else:
        assert found == expected


@pytest.mark.parametrize(("api", "version", "expected"), list(refusals()))
def test_share_and_streams_groups_are_refused_and_a_line_says_so(
    server, peer, api, version, expected
):
    body = filled(schemas.SECTIONS[api].fields("request"), version)
    assert_within(expected, ask(peer, api, version, body))
    kind = "streams" if api.startswith("Streams") else "share"
    (line,) = server.log_lines
    assert f"{api} {version} of client 'tests' is refused: this server has no {kind} groups" in line


def test_early_versions_of_share_groups_close_the_connection(peer):
    peer.send(request("ShareGroupHeartbeat", 0, {}))
    assert peer.connection.closing


# Topics by their ids


def commits(*topics):
    return [
        {"topicId": topic_id, "partitions": [
            {"partitionIndex": number, "committedOffset": number + 5} for number in numbers
        ]}
        for topic_id, *numbers in topics
    ]  # fmt: skip


def ids_of(server):
    return [server.cluster.topics.get(name).topic_id for name in "tu"]


def errors(found):
    return [
        (topic["topicId"], *((row["partitionIndex"], row["errorCode"])
                             for row in topic["partitions"]))
        for topic in found["topics"]
    ]  # fmt: skip


def fetched(peer, topics, group="g"):
    body = {"groups": [{"groupId": group, "topics": topics}]}
    (found,) = ask(peer, "OffsetFetch", 10, body)["groups"]
    assert found["errorCode"] == 0
    return [
        (topic["topicId"], *((row["partitionIndex"], row["committedOffset"], row["errorCode"])
                             for row in topic["partitions"]))
        for topic in found["topics"]
    ]  # fmt: skip


MIXED = [
    (0, (0, 5)), (NOBODYS_ID, (0,)), (1, (1,)), (NO_ID, (0,)), (NOBODYS_ID, ()), (1, (0,)),
]  # fmt: skip


def mixed(server):
    """Known topics, which MIXED numbers, and unknown ones; some come twice."""
    ids = ids_of(server)
    return commits(
        *((ids[topic] if isinstance(topic, int) else topic, *numbers) for topic, numbers in MIXED)
    )


def test_offset_commit_and_fetch_10_name_topics_by_their_ids(server, peer):
    t, u = ids_of(server)
    found = ask(peer, "OffsetCommit", 10, {"groupId": "g", "topics": mixed(server)})
    assert sorted(errors(found)) == sorted(
        [
            (t, (5, UNKNOWN_PARTITION), (0, 0)),
            (NOBODYS_ID, (0, UNKNOWN_ID)),
            (NO_ID, (0, UNKNOWN_ID)),
            (u, (1, 0), (0, 0)),
        ]
    )
    assert sorted(fetched(peer, None)) == sorted([(t, (0, 5, 0)), (u, (0, 5, 0), (1, 6, 0))])
    requested = ((NOBODYS_ID, 0, 0), (t, 0, 5, 0), (NO_ID, 3), (u,), (NOBODYS_ID,), (t, 1))
    topics = [
        {"topicId": topic_id, "partitionIndexes": numbers} for topic_id, *numbers in requested
    ]
    assert fetched(peer, topics) == [
        (t, (0, 5, 0), (5, -1, 0), (0, 5, 0)),
        (u,),
        (t, (1, -1, 0)),
        (NOBODYS_ID, (0, -1, UNKNOWN_ID), (0, -1, UNKNOWN_ID)),
        (NO_ID, (3, -1, UNKNOWN_ID)),
        (NOBODYS_ID,),
    ]


def test_a_commit_of_unknown_topics_alone_changes_nothing(server, peer):
    t, _ = ids_of(server)
    topics = commits((NOBODYS_ID, 0), (t, 7))
    found = ask(peer, "OffsetCommit", 10, {"groupId": "g", "topics": topics})
    assert errors(found) == [(NOBODYS_ID, (0, UNKNOWN_ID)), (t, (7, UNKNOWN_PARTITION))]
    assert fetched(peer, None) == []


@pytest.fixture
def producing(peer):
    """A producer's fields of a transactional commit."""
    ask(peer, "FindCoordinator", 3, {"key": "x", "keyType": 1})
    ask(peer, "FindCoordinator", 3, {"key": "g", "keyType": 0})
    body = {"transactionalId": "x", "transactionTimeoutMs": 60_000}
    found = ask(peer, "InitProducerId", 5, body)
    return {
        "transactionalId": "x",
        "producerId": found["producerId"],
        "producerEpoch": found["producerEpoch"],
    }


def test_txn_offset_commit_6_names_topics_by_their_ids(server, peer, producing):
    t, u = ids_of(server)
    body = producing | {"groupId": "g", "topics": mixed(server)}
    assert sorted(errors(ask(peer, "TxnOffsetCommit", 6, body))) == sorted(
        [
            (t, (5, UNKNOWN_PARTITION), (0, 0)),
            (NOBODYS_ID, (0, UNKNOWN_ID)),
            (NO_ID, (0, UNKNOWN_ID)),
            (u, (1, 0), (0, 0)),
        ]
    )
    assert ask(peer, "EndTxn", 5, producing | {"committed": True})["errorCode"] == 0
    assert sorted(fetched(peer, None)) == sorted([(t, (0, 5, 0)), (u, (0, 5, 0), (1, 6, 0))])


def test_txn_offset_commit_6_of_an_empty_group_id(server, peer, producing):
    t, _ = ids_of(server)
    body = producing | {"groupId": "", "topics": commits((t, 0))}
    assert errors(ask(peer, "TxnOffsetCommit", 6, body)) == [(t, (0, 24))]


# Other newer versions


def test_delete_groups_3_has_no_message(peer):
    (found,) = ask(peer, "DeleteGroups", 3, {"groupsNames": ["no"]})["results"]
    assert found == {"groupId": "no", "errorCode": 69, "errorMessage": None}


@pytest.mark.parametrize(
    ("version", "timestamp", "error"), [(10, -6, 35), (11, -6, 0), (11, -7, 35)]
)
def test_list_offsets_11_knows_the_first_offset_that_is_to_be_uploaded(
    peer, version, timestamp, error
):
    partition = {"partitionIndex": 0, "timestamp": timestamp}
    body = {"replicaId": -1, "topics": [{"name": "t", "partitions": [partition]}]}
    (topic,) = ask(peer, "ListOffsets", version, body)["topics"]
    (row,) = topic["partitions"]
    assert (row["errorCode"], row["timestamp"], row["offset"], row["leaderEpoch"]) == (
        *(error, -1, -1, -1),
    )  # there is no tiered storage


def test_no_log_directory_is_cordoned(peer):
    (found,) = ask(peer, "DescribeLogDirs", 5, {"topics": None})["results"]
    assert found["isCordoned"] is False


def test_topics_have_the_settings_of_4_4(peer):
    body = {"resources": [{"resourceType": 2, "resourceName": "t", "configurationKeys": None}]}
    (found,) = ask(peer, "DescribeConfigs", 4, body)["results"]
    values = {row["name"]: row["value"] for row in found["configs"]}
    assert values["max.decompressed.message.bytes"] == "2147483639"
    assert (values["remote.copy.lag.bytes"], values["remote.copy.lag.ms"]) == ("-1", "0")
    assert values["errors.deadletterqueue.group.enable"] == "false"


def test_commits_have_the_topic_s_id_in_the_log_whatever_names_it(server, peer):
    t, _ = ids_of(server)
    ask(peer, "OffsetCommit", 9, commit("g", "t", {0: 5}))
    ask(peer, "OffsetCommit", 10, {"groupId": "g", "topics": commits((t, 1))})
    values = [
        decode_value(decode_key(record.key)["version"], record.value)["data"]
        for log in server.cluster.topics.get("__consumer_offsets").partitions
        for each in LogReader(log.data())
        for record in each.records
    ]
    assert [(value["offset"], value["topicId"]) for value in values] == [(5, t), (6, t)]


@pytest.mark.parametrize(
    ("version", "field", "error"), [(5, "generationId", 22), (6, "generationIdOrMemberEpoch", 69)]
)
def test_a_generation_of_an_unknown_group_has_its_own_error_since_txn_offset_commit_6(
    server, peer, producing, version, field, error
):
    t, _ = ids_of(server)
    (topic,) = commits((t, 0))
    body = producing | {"groupId": "no", "memberId": "m", field: 3}
    found = ask(peer, "TxnOffsetCommit", version, body | {"topics": [topic | {"name": "t"}]})
    assert found["topics"][0]["partitions"] == [{"partitionIndex": 0, "errorCode": error}]


@pytest.mark.parametrize(("kafka", "count"), [("3.9", 0), ("4.1", 0), ("4.4", 3)])
def test_the_interval_between_assignments_is_a_setting_of_4_4(kafka, count):
    peer = Server(BROKER, kafka=kafka).connect()
    body = {"resources": [{"resourceType": 4, "resourceName": "1", "configurationKeys": None}]}
    (found,) = ask(peer, "DescribeConfigs", 4, body)["results"]
    names = [row["name"] for row in found["configs"]]
    assert sum(name.endswith("assignment.interval.ms") for name in names) == count

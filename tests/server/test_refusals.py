"""The answer that refuses a whole request, for every request that Kafka's own classes wrote."""

import base64
import gzip
import json

import pytest

from coterie import wire
from coterie.server.api.table import SERVED_BY, refusal
from support.golden_data import shared
from support.server.asking import KEY
from support.server.playing import play


def requests(key):
    path = shared("wire") / "frames/frames.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["key"] == key and row["direction"] == "request":
                yield row


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=f"{release}-{row.name}")
        for release, rows in SERVED_BY.items()
        for row in rows.values()
    ],
)
def test_a_refusal_of_a_golden_request_has_its_error_in_each_place(row):
    seen = 0
    found = list(requests(row.key))
    if not found:
        pytest.skip(f"there is no golden frame of {row.name}")
    for golden in found:
        if not row.first <= golden["version"] <= row.last:
            continue
        frame = base64.b64decode(golden["frame"])
        body = wire.decode_request(frame, fill=True).body
        response = refusal(row.key, golden["version"], body, 27)
        if row.name == "Produce" and body["acks"] == 0:
            assert response is None  # no request waits for an answer
            continue
        answer = wire.encode_response(row.key, golden["version"], response)
        body = wire.decode_response(row.key, golden["version"], answer).body
        codes = set(play().codes(body)) | set(partition_codes(body))
        assert codes <= {27}
        seen += bool(codes)
    assert seen


ERROR = 27
MESSAGE = "REBALANCE_IN_PROGRESS"
NO_ID, ID = "A" * 22, "B" * 21 + "A"
NAMES = ("t", "u")
NO_NODE = {"errorCode": ERROR, "errorMessage": MESSAGE, "nodeId": -1, "host": "", "port": -1}


def refused(api, version, body):
    """The response that refuses a request; fields of no version are left out."""
    answered = wire.encode_response(KEY[api], version, refusal(KEY[api], version, body, ERROR))
    return wire.decode_response(KEY[api], version, answered).body


def of_topics(field, numbers, **of_topic):
    return [{"name": name, field: numbers, **of_topic} for name in NAMES]


def each_partition(**fields):
    """The refused partitions 3 and 4 of two topics."""
    rows = [{"partitionIndex": number, "errorCode": ERROR, **fields} for number in (3, 4)]
    return [{"name": name, "partitions": rows} for name in NAMES]


ROWS = [{"partitionIndex": 3}, {"partitionIndex": 4}]
ACKS = {"topicData": [{"name": name, "partitionData": [{"index": 3}, {"index": 4}]}
                      for name in NAMES] + [{"name": "none", "partitionData": []}]}  # fmt: skip
PRODUCED = [
    {"name": name, "partitionResponses": [
        {"index": number, "errorCode": ERROR, "errorMessage": MESSAGE, "baseOffset": -1,
         "logAppendTimeMs": -1, "logStartOffset": -1, "recordErrors": []} for number in (3, 4)
    ]} for name in NAMES
]  # fmt: skip
FETCHING = {"sessionId": 7, "topics": [
    {"topic": name, "topicId": ID, "partitions": [{"partition": 3}, {"partition": 4}]}
    for name in NAMES
]}  # fmt: skip
ADDED = [{"name": name, "resultsByPartition": [
    {"partitionIndex": number, "partitionErrorCode": ERROR} for number in (3, 4)
]} for name in NAMES]  # fmt: skip


@pytest.mark.parametrize(
    ("api", "version", "body", "found"),
    [
        ("Produce", 8, {"acks": 1, **ACKS}, {"responses": PRODUCED}),
        ("ListOffsets", 5, {"topics": of_topics("partitions", ROWS)},
         {"topics": each_partition(timestamp=-1, offset=-1, leaderEpoch=-1)}),
        ("OffsetCommit", 8, {"topics": of_topics("partitions", ROWS)},
         {"topics": each_partition()}),
        ("DeleteRecords", 2, {"topics": of_topics("partitions", ROWS)},
         {"topics": each_partition(lowWatermark=-1)}),
        ("OffsetFetch", 1, {"topics": [*of_topics("partitionIndexes", [3, 4]),
                                       {"name": "u", "partitionIndexes": [4, 3]},
                                       {"name": "none", "partitionIndexes": []}]},
         {"topics": each_partition(committedOffset=-1, metadata="")}),
        ("OffsetFetch", 2, {"topics": of_topics("partitionIndexes", [3])},
         {"topics": [], "errorCode": ERROR}),
        ("OffsetFetch", 7, {"topics": None}, {"topics": [], "errorCode": ERROR}),
        ("OffsetFetch", 8, {"groups": [{"groupId": "g"}, {"groupId": "h"}]},
         {"groups": [{"groupId": g, "topics": [], "errorCode": ERROR} for g in "gh"]}),
        ("FindCoordinator", 3, {}, NO_NODE),
        ("FindCoordinator", 4, {"coordinatorKeys": ["a", "b"]},
         {"coordinators": [{"key": key, **NO_NODE} for key in "ab"]}),
        ("JoinGroup", 6, {}, {"errorCode": ERROR, "generationId": -1, "protocolName": "",
                              "leader": "", "memberId": "", "members": []}),
        ("JoinGroup", 7, {}, {"protocolName": None}),
        ("InitProducerId", 4, {}, {"errorCode": ERROR, "producerId": -1, "producerEpoch": -1}),
        ("OffsetForLeaderEpoch", 3, {"topics": [
            {"topic": name, "partitions": [{"partition": 3}, {"partition": 4}]} for name in NAMES]},
         {"topics": [{"topic": name, "partitions": [
             {"partition": number, "errorCode": ERROR, "leaderEpoch": -1, "endOffset": -1}
             for number in (3, 4)]} for name in NAMES]}),
        ("AddPartitionsToTxn", 3, {"v3AndBelowTopics": of_topics("partitions", [3, 4])},
         {"resultsByTopicV3AndBelow": ADDED}),
        ("AddPartitionsToTxn", 4, {"transactions": []},
         {"errorCode": ERROR, "resultsByTransaction": []}),
        ("WriteTxnMarkers", 1, {"markers": [
            {"producerId": 71, "topics": of_topics("partitionIndexes", [3, 4])}]},
         {"markers": [{"producerId": 71, "topics": each_partition()}]}),
        ("DeleteTopics", 5, {"topicNames": list(NAMES)},
         {"responses": [{"name": name, "errorCode": ERROR, "errorMessage": MESSAGE}
                        for name in NAMES]}),
        ("DeleteTopics", 6, {"topics": [{"name": "t", "topicId": NO_ID},
                                        {"name": None, "topicId": ID}]},
         {"responses": [{"name": name, "topicId": topic_id, "errorCode": ERROR,
                         "errorMessage": MESSAGE} for name, topic_id in (("t", NO_ID),
                                                                         (None, ID))]}),
        ("AlterUserScramCredentials", 0,
         {"deletions": [{"name": "a"}, {"name": "b"}],
          "upsertions": [{"name": "c"}, {"name": "a"}]},
         {"results": [{"user": user, "errorCode": ERROR, "errorMessage": MESSAGE}
                      for user in "abc"]}),
        ("DescribeConfigs", 4, {"resources": [{"resourceType": 2, "resourceName": "t"}]},
         {"results": [{"resourceType": 2, "resourceName": "t", "errorCode": ERROR,
                       "errorMessage": MESSAGE, "configs": []}]}),
        ("DescribeTransactions", 0, {"transactionalIds": ["x"]},
         {"transactionStates": [{"transactionalId": "x", "errorCode": ERROR}]}),
        ("DeleteGroups", 2, {"groupsNames": ["g", "h"]},
         {"results": [{"groupId": group, "errorCode": ERROR} for group in "gh"]}),
    ],
)  # fmt: skip
def test_a_refusal_names_what_was_asked_for_and_has_no_values(api, version, body, found):
    assert has(refused(api, version, body), found)


def has(whole, part):
    """Whether an answer has these fields, and lists of the same length."""
    if isinstance(part, dict):
        return all(name in whole and has(whole[name], value) for name, value in part.items())
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(has, whole, part))
    return whole == part


@pytest.mark.parametrize("version", [12, 13])
def test_a_refused_fetch_has_its_partitions_up_to_version_12(version):
    found = refused("Fetch", version, FETCHING)
    assert (found["errorCode"], found["sessionId"]) == (ERROR, 7)
    rows = [(topic["topic"], row["partitionIndex"], row["errorCode"], row["highWatermark"])
            for topic in found["responses"] for row in topic["partitions"]]  # fmt: skip
    each = [(name, number, ERROR, -1) for name in NAMES for number in (3, 4)]
    assert rows == (each if version == 12 else [])


@pytest.mark.parametrize("version", [11, 12])
def test_a_refused_topic_by_id_has_no_name(version):
    topics = [{"name": "t", "topicId": NO_ID}, {"name": None, "topicId": ID}]
    found = refused("Metadata", version, {"topics": topics})
    rows = [(row["name"], row["topicId"], row["errorCode"]) for row in found["topics"]]
    assert rows == [("t", NO_ID, ERROR), ("", ID, ERROR)]
    assert refused("Metadata", version, {"topics": None})["topics"] == []


def partition_codes(found):
    """The errors of AddPartitionsToTxn, which have a name of their own."""
    if isinstance(found, dict):
        for name, value in found.items():
            if name == "partitionErrorCode":
                yield value
            else:
                yield from partition_codes(value)
    elif isinstance(found, list):
        for value in found:
            yield from partition_codes(value)

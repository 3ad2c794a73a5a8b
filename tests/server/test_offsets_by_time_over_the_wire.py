"""ListOffsets, DeleteRecords and OffsetForLeaderEpoch; what a broker 3.9.1 says to the same."""

import pytest

from support.server.asking import ask
from support.server.playing import Server
from support.server.writing import batch, of_producer

SINCE = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9}


@pytest.fixture
def server():
    made = Server({"log.retention.ms": -1})
    topic = made.cluster.topics.create("t", 1, {"segment.bytes": "200"})
    for number in range(4):
        topic.partitions[0].produce(batch(b"x" * 60, time_ms=1000 * number))
    return made


def asked(server, version, timestamp, **fields):
    part = {"partitionIndex": 0, "currentLeaderEpoch": -1, "timestamp": timestamp,
            "maxNumOffsets": 10}  # fmt: skip
    body = {"replicaId": -1, "topics": [{"name": "t", "partitions": [part]}], **fields}
    (topic,) = ask(server.connect(), "ListOffsets", version, body)["topics"]
    return topic["partitions"][0]


def deleted(server, offset):
    body = {"topics": [{"name": "t", "partitions": [{"partitionIndex": 0, "offset": offset}]}]}
    (topic,) = ask(server.connect(), "DeleteRecords", 2, body)["topics"]
    (part,) = topic["partitions"]
    return part["errorCode"], part["lowWatermark"]


@pytest.mark.parametrize("version", range(1, 10))
def test_times_with_a_meaning_of_their_own_are_known_since_their_version(server, version):
    for timestamp, since in SINCE.items():
        assert asked(server, version, timestamp)["errorCode"] == (0 if version >= since else 35)
    assert asked(server, version, -6)["errorCode"] == 35


def test_offsets_are_the_ends_or_those_of_a_time(server):
    found = {ts: asked(server, 9, ts) for ts in (-1, -2, -3, -5, 0, 1001, 9999)}
    response = {ts: (each["timestamp"], each["offset"]) for ts, each in found.items()}
    assert response == {
        -1: (-1, 4), -2: (-1, 0), -3: (3000, 3), -5: (-1, -1), 0: (0, 0), 1001: (2000, 2),
        9999: (-1, -1),
    }  # fmt: skip


def test_who_reads_committed_records_is_told_the_end_of_those(server):
    log = server.cluster.topics.partition("t", 0)
    log.produce(of_producer(0, transactional=True, time_ms=9000))
    assert asked(server, 5, -1, isolationLevel=1)["offset"] == 4
    assert asked(server, 5, 5000, isolationLevel=1)["offset"] == -1
    assert asked(server, 5, 5000)["offset"] == 4


def test_segments_below_deleted_records_are_there_until_retention_looks(server):
    assert asked(server, 0, -1)["oldStyleOffsets"] == [4, 3, 2, 1, 0]
    assert deleted(server, 2) == (0, 2)
    assert asked(server, 0, -1)["oldStyleOffsets"] == [4, 3, 2, 2, 2]
    server.run(300_000)
    assert asked(server, 0, -1)["oldStyleOffsets"] == [4, 3, 2]
    assert [deleted(server, offset) for offset in (5, -2, 1)] == [(1, -1), (1, -1), (0, 2)]


@pytest.mark.parametrize(
    ("kafka", "version"), [*(("3.9", n) for n in range(5)), *(("4.1", n) for n in range(2, 5))]
)
def test_the_end_of_the_epoch_is_the_end_of_the_log(kafka, version):
    part = {"partition": 0, "currentLeaderEpoch": -1, "leaderEpoch": 0}
    body = {"replicaId": -1, "topics": [{"topic": "t", "partitions": [part]}]}
    server = Server(kafka=kafka)
    log = server.cluster.topics.create("t", 1).partitions[0]
    for _ in range(4):
        log.produce(batch(b"x"))
    (topic,) = ask(server.connect(), "OffsetForLeaderEpoch", version, body)["topics"]
    assert (topic["partitions"][0]["errorCode"], topic["partitions"][0]["endOffset"]) == (0, 4)


@pytest.mark.parametrize(("version", "error"), [(0, 0), (1, 42), (9, 42)])
def test_a_partition_that_is_named_twice_is_refused_since_version_1(server, version, error):
    part = {"partitionIndex": 0, "currentLeaderEpoch": -1, "timestamp": -1, "maxNumOffsets": 1}
    topics = [{"name": "t", "partitions": [part]}, {"name": "t", "partitions": [part]}]
    body = {"replicaId": -1, "topics": topics}
    found = ask(server.connect(), "ListOffsets", version, body)["topics"]
    errors = [row["errorCode"] for topic in found for row in topic["partitions"]]
    assert errors == [error, error]


@pytest.mark.parametrize(("epoch", "error"), [(-1, 0), (2, 74), (3, 0), (4, 75)])
def test_a_client_of_another_leader_epoch_is_told_so(server, epoch, error):
    server.cluster.topics.partition("t", 0).leader_epochs.append((3, 4))
    part = {"partitionIndex": 0, "currentLeaderEpoch": epoch, "timestamp": -2}
    body = {"replicaId": -1, "topics": [{"name": "t", "partitions": [part]}]}
    (topic,) = ask(server.connect(), "ListOffsets", 9, body)["topics"]
    (found,) = topic["partitions"]
    offset = 0 if error == 0 else -1
    assert (found["errorCode"], found["offset"]) == (error, offset)


def test_the_ends_of_a_log_have_their_leader_epochs(server):
    """The first epoch is that of the earliest offset if it began there or before.

    Source: fetchOffsetByTimestamp of UnifiedLog.
    """
    log = server.cluster.topics.partition("t", 0)
    log.leader_epochs[:] = [(2, 2), (5, 3)]
    for start, epoch in ((1, -1), (2, 2), (3, 2)):
        deleted(server, start)
        found = asked(server, 9, -2)
        assert (found["timestamp"], found["offset"], found["leaderEpoch"]) == (-1, start, epoch)
    found = asked(server, 9, -1)
    assert (found["timestamp"], found["offset"], found["leaderEpoch"]) == (-1, 4, 5)


def test_version_0_lists_the_segments_that_were_last_written_before_a_time(server):
    """The newest first, at most as many as asked for; the end counts as written now."""
    server.run(1000)
    log = server.cluster.topics.partition("t", 0)
    log.produce(batch(b"x" * 60, time_ms=4000))
    now_ms = server.cluster.now_ms

    def listed(timestamp, most=10):
        part = {"partitionIndex": 0, "timestamp": timestamp, "maxNumOffsets": most}
        body = {"replicaId": -1, "topics": [{"name": "t", "partitions": [part]}]}
        (topic,) = ask(server.connect(), "ListOffsets", 0, body)["topics"]
        return topic["partitions"][0]["errorCode"], topic["partitions"][0]["oldStyleOffsets"]

    assert listed(-1) == (0, [5, 4, 3, 2, 1, 0])
    assert listed(-1, 2) == (0, [5, 4])
    assert listed(-1, 0) == listed(-1, -1) == (0, [])
    assert listed(-2) == (0, [0])
    assert listed(-3) == (35, [])
    assert listed(now_ms) == (0, [5, 4, 3, 2, 1, 0])
    assert listed(now_ms - 1) == (0, [3, 2, 1, 0])
    assert listed(now_ms - 1000) == (0, [3, 2, 1, 0])
    assert listed(now_ms - 1001) == (0, [])

"""DescribeProducers: the producers and open transactions of partitions, as KIP-664 has them."""

from support.server.asking import ask
from support.server.playing import Server
from support.server.writing import of_producer

UNKNOWN = 3


def described(server, *topics):
    """(topic, partition) -> the row of each requested partition."""
    requested = [{"name": name, "partitionIndexes": numbers} for name, numbers in topics]
    found = ask(server.connect(), "DescribeProducers", 0, {"topics": requested})["topics"]
    return {
        (topic["name"], row["partitionIndex"]): row
        for topic in found
        for row in topic["partitions"]
    }


def test_a_producer_is_described_by_what_it_wrote_last_and_where_its_transaction_began():
    server = Server()
    log = server.cluster.topics.create("t", 2).partitions[1]
    log.append_records([(1, b"k", b"v")] * 4)
    log.produce(of_producer(0, producer_id=21, epoch=3, count=5, time_ms=6000))
    for sequence, time_ms in ((0, 7000), (2, 7500)):  # the first batch is at offset 9
        log.produce(of_producer(sequence, producer_id=22, epoch=4, count=2, transactional=True,
                                time_ms=time_ms))  # fmt: skip
    log.produce(of_producer(0, producer_id=23, epoch=5, transactional=True, time_ms=8000))
    log.append_marker(23, 5, 8, True, 9000)
    found = described(server, ("t", [1, 0]))
    names = ("producerId", "producerEpoch", "lastSequence", "lastTimestamp", "coordinatorEpoch",
             "currentTxnStartOffset")  # fmt: skip
    producers = [[row[name] for name in names] for row in found["t", 1]["activeProducers"]]
    assert sorted(producers) == [
        [21, 3, 4, 6004, -1, -1],
        [22, 4, 3, 7501, -1, 9],
        [23, 5, 0, 9000, 8, -1],  # the marker is the last that was written
    ]
    assert [(row["errorCode"], row["errorMessage"]) for row in found.values()] == [(0, None)] * 2
    assert found["t", 0]["activeProducers"] == []


def test_an_unknown_partition_has_an_error_and_an_unknown_topic_a_message_too():
    server = Server()
    server.cluster.topics.create("t", 2)
    found = described(server, ("none", [0, 7]), ("t", [2, 1]))
    message = "This server does not host this topic-partition."
    assert {key: (row["errorCode"], row["errorMessage"]) for key, row in found.items()} == {
        ("none", 0): (UNKNOWN, message),
        ("none", 7): (UNKNOWN, message),
        ("t", 2): (UNKNOWN, None),
        ("t", 1): (0, None),
    }

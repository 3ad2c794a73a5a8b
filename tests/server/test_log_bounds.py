"""Where the limits of a log are: each at its value, one below and one above.

Sources: LogSegment.shouldRoll, UnifiedLog, LeaderEpochFileCache, DefaultRecordBatch, MemoryRecords.
"""

import struct

import pytest

from coterie.server.services.batch_checks import Refused
from coterie.server.services.batches import Corrupt, batches_of
from coterie.server.services.segment import Segment
from coterie.server.topic_settings import LogSettings
from coterie.values import Error
from support.server.asking import ask, commit
from support.server.playing import Server
from support.server.writing import (
    Clock,
    batch,
    edited,
    everything,
    log,
    of_producer,
    offsets,
    refusal,
)

SIZE = len(batch(b"v"))


def filled(first_offset=100, made_ms=5000):
    """A segment with one batch of 70 bytes and of time 1000."""
    segment = Segment(first_offset, made_ms)
    segment.append(b"x" * 70, first_offset, first_offset, 1000, 0, 4096, made_ms)
    return segment


@pytest.mark.parametrize(
    ("size", "offset", "timestamp", "is_full"),
    [
        (30, 101, 1000, False),
        (31, 101, 1000, True),  # beyond segment.bytes
        (9, 100 + 2**31 - 1, 1000, False),
        (9, 100 + 2**31, 1000, True),  # beyond an index entry's relative offset
        (9, 101, 1077, False),
        (9, 101, 1078, True),  # over segment.ms after the first record
    ],
)
def test_a_segment_is_full_beyond_its_size_its_offsets_or_its_time(
    size, offset, timestamp, is_full
):
    settings = LogSettings(segment_bytes=100, segment_ms=77)
    assert filled().is_full_for(size, offset, timestamp, settings, 10**9) is is_full
    assert not Segment(100, 0).is_full_for(10**6, 2**40, 10**9, settings, 10**9)


@pytest.mark.parametrize(("now_ms", "is_full"), [(5077, False), (5078, True)])
def test_without_a_time_of_a_record_a_segment_ages_from_its_making(now_ms, is_full):
    segment = Segment(0, 5000)
    segment.append(b"x", 0, 0, -1, 0, 4096, 5001)
    assert segment.is_full_for(1, 1, 10**9, LogSettings(segment_ms=77), now_ms) is is_full
    segment.append(b"x", 1, 1, 0, 0, 4096, 5002)  # time 0 is a time
    assert segment.is_full_for(1, 2, 78, LogSettings(segment_ms=77), 0)
    assert not segment.is_full_for(1, 2, 77, LogSettings(segment_ms=77), 10**9)


def test_the_index_has_an_entry_once_more_bytes_than_its_interval_came():
    segment = Segment(0, 0)
    indexed = [segment.append(b"x" * 50, n, n, 0, 0, 100, 0).indexed for n in range(8)]
    assert indexed == [False, False, False, True, False, False, True, False]
    assert [segment.bound_behind(position) for position in (0, 150, 151, 300, 301)] == [
        3, 3, 6, 6, None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("index_bytes", "ascending", "entries"),
    [
        (31, False, 3),  # 8 bytes an entry of the offset index
        (32, False, 4),
        (47, True, 2),  # 12 an entry of the time index, whose last one stays free
        (48, True, 3),
        (23, True, 0),
    ],
)
def test_a_segment_is_full_once_one_of_its_indexes_is(index_bytes, ascending, entries):
    """Sources: OffsetIndex and TimeIndex (isFull); a time that is not later has no entry."""
    settings, segment, indexed = LogSettings(), Segment(0, 0, index_bytes), 0
    for n in range(entries + 1):
        assert segment.is_full_for(1, n, 0, settings, 0) is (n > 0 and indexed >= entries)
        indexed += segment.append(b"x", n, n, n if ascending else -1, 0, 0, 0).indexed
    assert (indexed, segment.is_full_for(1, entries + 1, 0, settings, 0)) == (entries, True)


def test_a_segment_keeps_the_size_of_its_indexes_and_the_next_one_has_that_of_its_time():
    """Source: LogSegment.open; a change of the topic is for segments that begin later."""
    partition = log(segment_index_bytes=24, index_interval_bytes=0)
    for most in (24, 40, 40, 40):
        partition.settings.segment_index_bytes = most
        for _ in range(3):
            partition.produce(batch(b"v", time_ms=-1))
    assert [segment.base_offset for segment in partition._segments] == [0, 4, 10]


def test_a_read_of_sizes_ends_with_the_batch_that_begins_below_the_end():
    segment = Segment(0, 0)
    for first, last in ((0, 4), (5, 5), (6, 9)):
        segment.append(b"x" * (10 + last), first, last, 0, 0, 100, 0)
    sizes = {(0, 5): 14, (0, 6): 29, (4, 6): 29, (5, 6): 15, (5, 7): 34, (0, 10): 48,
             (9, 10): 19, (5, 5): 0, (10, 10): 0}  # fmt: skip
    assert {ends: segment.size_between(*ends) for ends in sizes} == sizes
    assert [segment.index_of(offset) for offset in (0, 4, 5, 6, 9, 10)] == [0, 0, 1, 2, 2, 3]


@pytest.mark.parametrize(("age_ms", "retained"), [(500, 1), (501, 0)])
def test_a_segment_goes_when_it_is_over_its_age(age_ms, retained):
    clock = Clock(1000)
    partition = log(clock, retention_ms=500)
    partition.produce(batch(b"v", time_ms=1000))
    clock.now_ms = 1000 + age_ms
    partition.retain()
    assert partition.size == retained * SIZE
    assert partition.log_start_offset == 1 - retained
    assert everything(partition, 1) is not None


@pytest.mark.parametrize(
    ("settings", "retained"),
    [({"retention_ms": -1}, 3), ({"retention_ms": 0}, 0), ({"retention_bytes": 0}, 0),
     ({"retention_bytes": SIZE}, 1), ({"retention_bytes": SIZE + 1}, 2),
     ({"retention_bytes": 2 * SIZE}, 2), ({"retention_bytes": 3 * SIZE}, 3),
     ({"retention_ms": 0, "deleted": False, "compacted": True}, 3)],
)  # fmt: skip
def test_retention_keeps_what_is_within_both_limits(settings, retained):
    clock = Clock(1000)
    partition = log(clock, segment_bytes=SIZE, **{"retention_ms": -1, **settings})
    for _ in range(3):
        partition.produce(batch(b"v", time_ms=1000))
    clock.now_ms = 1001
    partition.retain()
    assert (partition.size, partition.log_start_offset) == (retained * SIZE, 3 - retained)
    assert partition.log_end_offset == 3


def test_a_topic_that_is_only_compacted_deletes_no_records():
    partition = log(deleted=False, compacted=True)
    with pytest.raises(Refused) as caught:
        partition.delete_below(0)
    assert caught.value.error is Error.POLICY_VIOLATION


def test_epochs_are_compared_with_the_present_one():
    partition = log()
    partition.leader_epochs[:] = [(0, 0), (2, 5), (3, 9)]
    partition.append_records([(0, b"k", b"v")] * 12)
    errors = [partition.epoch_refusal(epoch) for epoch in (-1, 0, 2, 3, 4)]
    fenced, unknown = Error.FENCED_LEADER_EPOCH, Error.UNKNOWN_LEADER_EPOCH
    assert errors == [Error.NONE, fenced, fenced, Error.NONE, unknown]
    ends = {epoch: partition.end_of_epoch(epoch) for epoch in range(-1, 5)}
    assert ends == {-1: (-1, -1), 0: (0, 5), 1: (0, 5), 2: (2, 9), 3: (3, 12), 4: (-1, -1)}
    partition.leader_epochs[:] = [(2, 5), (3, 9)]
    assert [partition.end_of_epoch(epoch) for epoch in (0, 1)] == [(0, 5), (1, 5)]


def test_a_read_begins_with_the_batch_of_its_offset_in_any_segment():
    partition = log(segment_bytes=2 * SIZE)
    for _ in range(7):
        partition.produce(batch(b"v"))
    assert len(partition.segment_starts()) == 4 + 1  # the last one is the end
    for start in (0, 3):
        partition.delete_below(start)
        partition.retain()
        for offset in range(start, 7):
            assert offsets(bytes(everything(partition, offset).records))[0] == offset


def test_aborted_transactions_are_those_with_records_between_two_offsets():
    partition = log()
    for producer_id in (0, 9):
        partition.produce(of_producer(0, producer_id=producer_id, transactional=True))
        partition.produce(batch(b"v"))
        partition.append_marker(producer_id, 0, 0, False, 1000)
    reads = {(0, 1): [0], (0, 3): [0], (2, 3): [0], (3, 3): [], (2, 4): [0, 9], (3, 4): [9],
             (5, 9): [9], (6, 9): []}  # fmt: skip
    for (offset, behind), expected in reads.items():
        assert [each.producer_id for each in partition.aborted(offset, behind)] == expected
    assert partition.producers.aborted == [(0, 0, 2), (9, 3, 5)]


def test_the_producer_of_id_0_is_a_producer():
    partition = log()
    assert partition.produce(of_producer(0, producer_id=0)).base_offset == 0
    assert partition.produce(of_producer(0, producer_id=0)).base_offset == 0  # a duplicate
    assert partition.log_end_offset == 1
    assert refusal(partition, of_producer(5, producer_id=0)) == (45, True)
    assert refusal(log(), of_producer(-1, producer_id=0)) == (87, True)
    assert log().produce(of_producer(0, producer_id=0, count=3)).base_offset == 0


def test_an_offset_by_time_is_the_first_at_or_after_it():
    partition = log(segment_bytes=2 * SIZE, retention_ms=-1)
    for time_ms in (1000, 3000, 2000, 3000):
        partition.produce(batch(b"v", time_ms=time_ms))
    found = {time: partition.offset_at(time) for time in (0, 1000, 1001, 2001, 3000, 3001)}
    assert found == {0: (1000, 0, 0), 1000: (1000, 0, 0), 1001: (3000, 1, 0), 2001: (3000, 1, 0),
                     3000: (3000, 1, 0), 3001: None}  # fmt: skip
    assert partition.latest() == (3000, 1, 0)
    same = log()
    same.append_records([(time_ms, b"k", b"v") for time_ms in (1000, 3000, 2000, 3000)])
    assert same.latest() == (3000, 1, 0)  # the first of those of the latest time
    partition.delete_below(2)
    # Kafka looks into the first segment with such a time only, which retention has not removed yet.
    assert partition.offset_at(0) is None
    partition.retain()
    assert partition.offset_at(0) == (2000, 2, 0)
    assert partition.offset_at(2001) == (3000, 3, 0)


def sized(size, magic=2, length=None):
    """Bytes with the size and the magic of a batch."""
    data = struct.pack(">qiiB", 0, size, 0, magic & 0xFF)
    return data.ljust(12 + size if length is None else length, b"\0")[:length]


@pytest.mark.parametrize(
    ("data", "lengths"),
    [
        (b"", []),
        (sized(14), [26]),
        (sized(14) + sized(20), [26, 32]),
        (sized(20) + sized(20)[:31], [32]),
        (sized(14) + sized(20)[:16], [26]),
        (sized(14) + sized(20)[:11], [26]),
        (sized(1 << 20, length=26), []),
        (sized(14, magic=0), [26]),
        (sized(14, magic=1), [26]),
        (sized(13)[:11], []),
    ],
)
def test_whole_batches_are_found_and_the_rest_is_left(data, lengths):
    assert [len(each) for each in batches_of(data)] == lengths


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (sized(13), "Record size 13 is less than the minimum record overhead (14)"),
        (sized(13)[:12], "Record size 13 is less than the minimum record overhead (14)"),
        (sized(-1, length=26), "Record size -1 is less than the minimum record overhead (14)"),
        (sized(14, magic=3), "Invalid magic found in record: 3"),
        (sized(14, magic=127), "Invalid magic found in record: 127"),
        (sized(14, magic=-128), "Invalid magic found in record: -128"),
        (sized(14, magic=-1), "Invalid magic found in record: -1"),
        (sized(1 << 20, magic=3, length=17), "Invalid magic found in record: 3"),
    ],
)
def test_a_size_or_a_magic_that_cannot_be_is_corrupt(data, message):
    with pytest.raises(Corrupt) as caught:
        list(batches_of(data))
    assert str(caught.value) == message


@pytest.mark.parametrize("codec", [4, 5])
def test_there_are_four_compressions(codec):
    data = edited(batch(b"v" * 50, codec=4), 22, ">b", codec)
    if codec == 4:
        assert log().produce(data).base_offset == 0
    else:
        assert refusal(log(), data) == (-1, True)


@pytest.mark.parametrize(("number", "error"), [(-1, 3), (0, 0), (2, 0), (3, 3)])
def test_offsets_are_of_the_partitions_that_a_topic_has(number, error):
    server = Server({"offsets.topic.num.partitions": 1})
    server.cluster.topics.create("t", 3)
    peer = server.connect()
    for key, key_type in (("x", 1), ("g", 0)):
        ask(peer, "FindCoordinator", 3, {"key": key, "keyType": key_type})

    def first(body):
        return body["topics"][0]["partitions"][0]["errorCode"]

    ask(peer, "OffsetCommit", 7, commit("g", "t", {1: 5}))
    assert first(ask(peer, "OffsetCommit", 7, commit("g", "t", {number: 5}))) == error
    rows = [{"name": "t", "partitions": [{"partitionIndex": number}]}]
    assert first(ask(peer, "OffsetDelete", 0, {"groupId": "g", "topics": rows})) == error
    body = {"transactionalId": "x", "transactionTimeoutMs": 60_000}
    producer_id = ask(peer, "InitProducerId", 4, body)["producerId"]
    producer = {"transactionalId": "x", "producerId": producer_id, "producerEpoch": 0}
    assert ask(peer, "AddOffsetsToTxn", 3, {**producer, "groupId": "g"})["errorCode"] == 0
    body = {**commit("g", "t", {number: 6}), **producer}
    assert first(ask(peer, "TxnOffsetCommit", 3, {**body, "generationId": -1})) == error

"""A partition's log: what a write stores, what a read returns, and what retention deletes."""

import pytest

from coterie._core.codec.batch import encode_message_set
from coterie.messages import LogReader
from coterie.server.services.batch_checks import Refused
from coterie.server.topic_settings import LogSettings
from support.server import playing
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

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_a_batch_is_kept_as_it_was_sent_but_for_offset_and_leader_epoch(codec):
    partition = log()
    partition.append_own(batch(b"before"))
    sent = batch(*[b"some value"] * 20, codec=codec, leader_epoch=-1)
    assert partition.produce(sent) == (1, -1, 0)
    kept = partition.data()[len(batch(b"before")) :]
    assert kept[12:16] == b"\0\0\0\0"
    assert kept[8:12] + kept[16:] == sent[8:12] + sent[16:]
    assert offsets(kept) == list(range(1, 21))


def test_a_topic_of_append_times_puts_its_own_under_a_right_checksum():
    partition = log(Clock(5_000_000), append_time=True)
    assert partition.produce(batch(b"a", b"b")) == (0, 5_000_000, 0)
    (found,) = LogReader(partition.data())
    assert found.append_time
    assert [record.timestamp for record in found.records] == [5_000_000, 5_000_000]


def test_a_greatest_time_that_is_not_the_records_is_put_right():
    partition = log()
    partition.produce(edited(batch(b"a", b"b"), 35, ">q", 99))
    (found,) = LogReader(partition.data())
    assert found.max_timestamp == 1001


def test_what_kafka_refuses_is_refused_with_its_error():
    good = batch(b"a", b"b")
    several = edited(batch(*[b"v"] * 3), 57, ">i", 9)
    for data, wanted in (
        (edited(good, 60, ">b", 7, right=False), (2, False)),  # the checksum
        (edited(good, 57, ">i", 3), (87, True)),  # more records than there are
        (edited(good, 57, ">i", 1), (87, True)),
        (several, (87, True)),
        (edited(good, 0, ">q", 5), (87, True)),  # a base offset
        (edited(good, 21, ">h", 7), (-1, True)),  # a compression that does not exist
        (batch(b"a", control=True), (87, True)),
        (of_producer(-1), (87, True)),  # a producer without a sequence
        (good + good, (87, True)),
        (b"\0" * 8 + b"\0\0\0\5" + b"\0" * 20, (2, False)),  # a size below the least
    ):
        assert refusal(log(), data) == wanted


def test_a_batch_may_be_as_large_as_the_topic_allows_and_no_larger():
    data = batch(b"x" * 100)
    assert refusal(log(max_message_bytes=len(data) - 1), data) == (10, False)
    assert log(max_message_bytes=len(data)).produce(data).base_offset == 0


@pytest.mark.parametrize("codec", [0, 1])
def test_a_compacted_topic_takes_no_record_without_a_key(codec):
    partition = log(compacted=True)
    with pytest.raises(Refused) as caught:
        partition.produce(batch((b"k", b"v"), (None, b"w"), codec=codec))
    refused = caught.value
    assert (refused.error, [each.number for each in refused.records]) == (87, [1])
    assert refused.records[0].message == (
        "Compacted topic cannot accept message without key in topic partition t-0"
    )
    assert partition.produce(batch((b"k", None), codec=codec)).base_offset == 0


def test_times_too_far_from_now_are_refused_where_the_topic_has_limits():
    partition = log(Clock(10_000), timestamp_before_max_ms=500, timestamp_after_max_ms=100)
    for time_ms, wanted in ((9_499, 32), (10_101, 32)):
        assert refusal(partition, batch(b"v", time_ms=time_ms)) == (wanted, True)
    for time_ms in (9_500, 10_100):
        partition.produce(batch(b"v", time_ms=time_ms))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", range(4), ids=CODECS[:4])
def test_old_messages_become_one_batch_with_the_same_records(magic, codec):
    partition = log()
    records = [(n, 500 + n, b"k%d" % n, b"v" * n) for n in range(5)]
    partition.produce(encode_message_set(records, magic, codec=codec))
    (found,) = LogReader(partition.data())
    assert (found.magic, found.compression) == (2, CODECS[codec])
    times = [500 + n if magic else -1 for n in range(5)]
    assert [r[:4] for r in found.records] == [
        (n, time, key, value) for (n, _, key, value), time in zip(records, times, strict=True)
    ]


def test_a_read_begins_with_the_batch_that_holds_the_offset_and_is_cut_at_its_limit():
    partition = log()
    batches = [batch(b"a", b"b", b"c"), batch(b"d"), batch(b"e", b"f")]
    for data in batches:
        partition.produce(data)
    data = partition.data()
    sizes = [len(each) for each in batches]
    assert everything(partition, 2).records == data
    assert everything(partition, 3).records == data[sizes[0] :]
    assert everything(partition, 0, sizes[0] + 5).records == data[: sizes[0] + 5]
    assert everything(partition, 6).records == b""
    assert everything(partition, 7) is None
    assert everything(partition, 0, 1).records == data[: sizes[0]]
    small = partition.read(0, 1, partition.high_watermark, whole_first=False)
    assert (small.records, small.cut) == (data[:1], True)


def test_a_read_reaches_to_the_entry_of_the_offset_index_behind_it():
    """Sources: ``LogSegment.append`` and ``OffsetIndex.fetchUpperBoundOffset``."""
    size = len(batch(b"v"))
    partition = log(index_interval_bytes=2 * size)  # an entry after more bytes: 3 batches
    for _ in range(11):
        partition.produce(batch(b"v"))
    (segment,) = partition._segments
    assert [stored.base_offset for stored in segment.batches if stored.indexed] == [3, 6, 9]
    partition.producers.aborted.append((7, 0, 1))  # else nobody needs to know
    for offset, batches, behind in ((0, 1, 3), (0, 3, 3), (0, 4, 6), (4, 1, 6), (7, 3, 11)):
        found = partition.read(offset, batches * size, 11, whole_first=True)
        assert (offsets(found.records)[0], found.behind) == (offset, behind)


def test_a_read_behind_the_last_entry_reaches_to_the_next_segment_or_to_the_end_of_the_log():
    """Source: ``LocalLog.addAbortedTransactions``."""
    partition = log(segment_bytes=2 * len(batch(b"v")))  # too small for entries of the index
    for _ in range(6):
        partition.produce(batch(b"v"))
    partition.producers.aborted.append((7, 0, 1))
    found = [partition.read(offset, 1, 6, whole_first=True).behind for offset in range(6)]
    assert found == [2, 2, 4, 4, 6, 6]


def test_segments_go_when_all_their_records_are_too_old():
    clock = Clock(1000)
    partition = log(clock, segment_ms=100, retention_ms=500)
    for time_ms in (1000, 1050, 1200, 1400):
        partition.produce(batch(b"v", time_ms=time_ms))
    for now_ms, start in ((1550, 0), (1551, 2), (1700, 2), (1701, 3), (1900, 3), (1901, 4)):
        clock.now_ms = now_ms
        partition.retain()
        assert partition.log_start_offset == start
    assert partition.produce(batch(b"v", time_ms=1901)).base_offset == 4
    assert offsets(everything(partition, 4).records) == [4]


def test_a_segment_of_records_without_a_time_is_closed_by_its_age():
    """Source: ``LogSegment.timeWaitedForRoll``."""
    clock = Clock(1000)
    partition = log(clock, segment_ms=100, retention_bytes=1)
    for now_ms, start in ((1000, 0), (1100, 0), (1101, 2)):
        clock.now_ms = now_ms
        partition.produce(batch(b"v", time_ms=-1))
        partition.retain()
        assert partition.log_start_offset == start


def test_segments_go_while_what_stays_is_at_least_the_size_to_keep():
    size = len(batch(b"v"))
    partition = log(segment_bytes=2 * size, retention_bytes=3 * size)
    for _ in range(6):
        partition.produce(batch(b"v"))
    partition.retain()
    assert (partition.log_start_offset, partition.size) == (2, 4 * size)


def test_deleted_records_are_out_of_reach_and_the_end_stays():
    partition = log()
    partition.produce(batch(b"a", b"b", b"c"))
    assert partition.delete_below(0) == 0
    with pytest.raises(Refused):
        partition.delete_below(-2)
    assert partition.delete_below(2) == 2
    assert partition.delete_below(1) == 2
    assert everything(partition, 1) is None
    assert offsets(everything(partition, 2).records) == [0, 1, 2]  # a batch is never split
    with pytest.raises(Refused):
        partition.delete_below(4)
    assert partition.delete_below(-1) == 3 == partition.high_watermark


def test_offsets_are_found_by_time_and_the_first_of_the_latest_time():
    partition = log()
    partition.produce(batch(b"a", b"b", time_ms=100))
    partition.produce(batch(b"c", b"d", time_ms=300, codec=1))
    partition.produce(batch(b"e", time_ms=200))
    found = [partition.offset_at(time) for time in (0, 100, 101, 102, 301, 302)]
    assert found == [(100, 0, 0), (100, 0, 0), (101, 1, 0), (300, 2, 0), (301, 3, 0), None]
    assert partition.latest() == (301, 3, 0)
    partition.delete_below(3)
    assert partition.offset_at(0) == (301, 3, 0)


def test_the_end_of_an_epoch_is_where_the_next_begins():
    partition = log()
    partition.produce(batch(b"a", b"b"))
    partition.leader_epochs.append((3, 2))
    partition.produce(batch(b"c"))
    ends = [partition.end_of_epoch(epoch) for epoch in (-1, 0, 1, 2, 3, 4)]
    assert ends == [(-1, -1), (0, 2), (0, 2), (0, 2), (3, 3), (-1, -1)]
    assert [int(partition.epoch_refusal(epoch)) for epoch in (-1, 2, 3, 4)] == [0, 74, 0, 75]


def test_a_middle_epoch_ends_where_the_next_one_begins_not_the_last():
    """Source: LeaderEpochFileCache.endOffsetFor."""
    partition = log()
    partition.produce(batch(b"a", b"b"))
    for epoch in (3, 5, 9):
        partition.leader_epochs.append((epoch, partition.log_end_offset))
        partition.produce(batch(b"c"))
    ends = [partition.end_of_epoch(epoch) for epoch in (0, 2, 3, 4, 5, 8, 9)]
    assert ends == [(0, 2), (0, 2), (3, 3), (3, 3), (5, 4), (5, 4), (9, 5)]


def test_every_write_wakes_who_waits_and_what_waits_may_leave():
    partition = log()
    woken = []
    partition.waiters["a"] = lambda: (woken.append("a"), partition.waiters.pop("a"))
    partition.waiters["b"] = lambda: woken.append("b")
    partition.produce(batch(b"v"))
    partition.append_marker(7, 0, 0, True, 1000)
    assert woken == ["a", "b", "b"]


def test_a_log_that_was_deleted_holds_no_data_though_somebody_holds_it():
    partition = log()
    partition.produce(batch(b"some value"))
    partition.delete()
    assert (partition.size, partition.data()) == (0, b"")


def test_records_of_time_0_age_from_then_and_those_without_a_time_from_their_write():
    """Source: LogSegment.largestTimestamp."""
    for time_ms, start in ((0, 1), (-1, 0)):
        clock = Clock(1000)
        partition = log(clock, retention_ms=500)
        partition.produce(batch(b"v", time_ms=time_ms))
        clock.now_ms = 1500
        partition.retain()
        assert partition.log_start_offset == start
    clock.now_ms = 1501
    partition.retain()
    assert partition.log_start_offset == 1


def test_a_log_has_the_settings_of_segments_of_a_topic_of_kafka():
    """Source: TopicConfig and LogConfig of Kafka: the default values."""
    topic = playing.Server(None).cluster.topics.create("t", 1)
    for settings in (LogSettings(), topic.settings):
        assert settings.segment_bytes == 1 << 30
        assert settings.segment_ms == 7 * 24 * 3_600_000
        assert settings.segment_index_bytes == 10 << 20
        assert settings.index_interval_bytes == 4096
        assert settings.max_message_bytes == (1 << 20) + 12
        assert settings.retention_bytes == -1
        assert (settings.deleted, settings.compacted, settings.append_time) == (True, False, False)
        limits = (settings.timestamp_before_max_ms, settings.timestamp_after_max_ms)
        assert limits == (2**63 - 1, 2**63 - 1)
    assert topic.settings.retention_ms == 7 * 24 * 3_600_000
    assert LogSettings().retention_ms == -1  # without a topic nothing expires


def test_a_segment_ends_with_the_first_record_that_is_a_week_later():
    partition = log(Clock(1000))
    week_ms = 7 * 24 * 3_600_000
    for time_ms, count in ((1000, 1), (1000 + week_ms, 1), (1001 + week_ms, 2)):
        partition.produce(batch(b"v", time_ms=time_ms))
        assert len(partition.segment_starts()) - 1 == count  # the last one is the end


def test_retention_is_checked_every_five_minutes():
    """log.retention.check.interval.ms of Kafka."""
    server = playing.Server(None)
    topic = server.cluster.topics.create("t", 1, {"retention.ms": "1"})
    (partition,) = topic.partitions
    for number in range(2):
        partition.append_records([(server.cluster.now_ms, b"k", b"v")])
        server.run(299_999)
        assert (partition.log_start_offset, partition.size > 0) == (number, True)
        server.run(1)
        assert (partition.log_start_offset, partition.size) == (number + 1, 0)


def test_producers_are_forgotten_a_day_after_their_last_record_at_the_next_check():
    """producer.id.expiration.ms, and its check every ten minutes."""
    server = playing.Server(None)
    (partition,) = server.cluster.topics.create("t", 1).partitions
    day_ms, check_ms = 86_400_000, 600_000
    first_ms, second_ms = server.cluster.now_ms, server.cluster.now_ms + 1
    partition.produce(of_producer(0, producer_id=2, time_ms=first_ms))
    partition.produce(of_producer(0, producer_id=3, time_ms=second_ms))
    server.run(day_ms - 1)
    assert partition.producers.known.keys() == {2, 3}
    server.run(1)
    assert partition.producers.known.keys() == {3}
    server.run(check_ms - 1)
    assert partition.producers.known.keys() == {3}
    server.run(1)
    assert not partition.producers.known

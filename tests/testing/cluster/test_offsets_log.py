"""The compacted offsets topic of a cluster keeps what Kafka's cleaner would keep."""

from coterie.testing.topic_log import OffsetsLog
from coterie.values import Batch

COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"  # keys of markers: version 0, type


def write(log, *records, producer_id=-1, epoch=-1, control=False):
    batch = Batch(0, producer_id, epoch, producer_id >= 0, control, tuple(records))
    return log.append(batch)


def read(log):
    return [(b.base_offset, b.records, b.producer_id, b.transactional) for b in log.read()]


def plain(offset, key, value):
    return offset, ((key, value),), -1, False


def test_the_last_record_of_each_key_is_retained_in_the_order_of_offsets():
    log = OffsetsLog()
    assert write(log, (b"a", b"1"), (b"b", b"2")) == 0
    assert write(log, (b"c", b"3")) == 2
    assert write(log, (b"a", b"4"), (b"d", b"5"), (b"d", b"6")) == 3
    assert read(log) == [
        plain(1, b"b", b"2"), plain(2, b"c", b"3"), plain(3, b"a", b"4"), plain(5, b"d", b"6"),
    ]  # fmt: skip
    assert len(log) == 4


def test_a_tombstone_removes_its_key():
    log = OffsetsLog()
    write(log, (b"a", b"1"), (b"b", b"2"))
    assert write(log, (b"a", None)) == 2
    assert read(log) == [plain(1, b"b", b"2")]
    assert write(log, (b"a", b"3")) == 3


def test_what_is_retained_has_no_producer_and_is_no_marker():
    log = OffsetsLog()
    write(log, (b"a", b"1"), producer_id=5, epoch=2)
    write(log, (COMMIT, b""), producer_id=5, epoch=2, control=True)
    (batch,) = log.read()
    assert (batch.producer_id, batch.producer_epoch) == (-1, -1)
    assert (batch.transactional, batch.control) == (False, False)


def test_records_of_an_open_transaction_wait_in_their_batches():
    log = OffsetsLog()
    assert write(log, (b"a", b"1"), producer_id=5, epoch=2) == 0
    assert write(log, (b"b", b"2")) == 1
    assert write(log, (b"c", b"3"), (b"d", b"4"), producer_id=6, epoch=7) == 2
    assert write(log, (b"e", b"5"), producer_id=5, epoch=2) == 4
    assert read(log) == [
        (0, ((b"a", b"1"),), 5, True),
        plain(1, b"b", b"2"),
        (2, ((b"c", b"3"), (b"d", b"4")), 6, True),
        (4, ((b"e", b"5"),), 5, True),
    ]
    assert [b.producer_epoch for b in log.read()] == [2, -1, 7, 2]
    assert len(log) == 1


def test_a_marker_keeps_or_drops_what_its_producer_wrote():
    for marker, retained in ((COMMIT, [plain(0, b"a", b"1"), plain(2, b"c", b"3")]), (ABORT, [])):
        log = OffsetsLog()
        write(log, (b"a", b"1"), producer_id=5)
        other = write(log, (b"b", b"2"), producer_id=6)
        write(log, (b"c", b"3"), producer_id=5)
        assert write(log, (marker, b""), producer_id=5, control=True) == 3
        assert read(log) == sorted([*retained, (other, ((b"b", b"2"),), 6, True)])
        assert write(log, (b"d", b"4")) == 4  # the marker has an offset


def test_a_commit_outside_of_the_transaction_that_came_after_it_stays():
    log = OffsetsLog()
    write(log, (b"a", b"old"), (b"b", b"old"))
    write(log, (b"a", b"in"), (b"b", b"in"), producer_id=5)  # 2, 3
    write(log, (b"a", b"after"))  # 4
    write(log, (COMMIT, b""), producer_id=5, control=True)
    assert read(log) == [plain(3, b"b", b"in"), plain(4, b"a", b"after")]

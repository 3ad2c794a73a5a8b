"""What is written: Kafka's own bytes again, and what three readers make of it."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie import ScanOptions, scan
from coterie._core.codec.batch import (
    CODECS,
    LogReader,
    encode_batch,
    encode_marker,
    encode_message_set,
    encode_sized,
)
from coterie.errors import CorruptData, CoterieError
from support import golden_data
from support.examples import examples

INT64 = st.integers(-(1 << 62), 1 << 62)
DATA = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=5).map(str.encode), DATA), max_size=2).map(tuple)
MAGIC_AND_CODEC = [(m, c) for m in range(3) for c in range(5) if c < 4 or m == 2]


@st.composite
def record_lists(draw, magic, min_size=1):
    """Records in order of offset, with gaps, as compaction leaves them."""
    offset, found = draw(st.integers(0, 1 << 40)), []
    for _ in range(draw(st.integers(min_size, 5))):
        time_ms = -1 if magic == 0 else draw(st.integers(0, 1 << 45))
        headers = draw(HEADERS) if magic == 2 else ()
        found.append((offset, time_ms, draw(DATA), draw(DATA), headers))
        offset += draw(st.integers(1, 1000))
    return found


def read_one(data):
    reader = LogReader(data)
    batches = list(reader)
    assert reader.faults == []
    return batches


def sized(pairs):
    """Keys and values as a coordinator has them: the sizes of both, then both."""
    lengths = [[-1 if part is None else len(part) for part in pair] for pair in pairs]
    return b"".join(
        struct.pack(">ii", *of) + (key or b"") + (value or b"")
        for of, (key, value) in zip(lengths, pairs, strict=True)
    )


@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=200), DATA), min_size=1, max_size=70),
    st.integers(0, 1 << 60),
    st.integers(0, 1 << 60),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.just((-1, -1, False)) | st.tuples(st.integers(0, 1 << 62), st.integers(0, 9), st.booleans()),
)
def test_sized_records_are_written_as_records_of_one_time(pairs, base, time_ms, epoch, producer):
    records = [(base + n, time_ms, key, value) for n, (key, value) in enumerate(pairs)]
    of = dict(zip(("producer_id", "producer_epoch", "transactional"), producer, strict=True))
    whole = encode_batch(records, base, leader_epoch=epoch, **of)
    written = encode_sized(sized(pairs), len(pairs), base, time_ms, leader_epoch=epoch, **of)
    assert written == whole


ONE = sized([(b"k", b"v")])


@pytest.mark.parametrize(
    ("records", "count", "base_offset", "time_ms"),
    [(b"", 0, 0, 0), (b"", 1, 0, 0), (ONE, 2, 0, 0), (ONE + ONE, 1, 0, 0), (ONE[:-1], 1, 0, 0),
     (ONE[:7], 1, 0, 0), (ONE, -1, 0, 0), (ONE, 1, -1, 0), (ONE, 1, 0, -1), (None, 1, 0, 0),
     ("k", 1, 0, 0), (struct.pack(">ii", -2, 0), 1, 0, 0), (struct.pack(">ii", 0, -2), 1, 0, 0),
     (struct.pack(">ii", 0x7FFFFFFF, 0x7FFFFFFF), 1, 0, 0), (ONE, 1 << 31, 0, 0)],
)  # fmt: skip
def test_what_are_no_sized_records_is_refused(records, count, base_offset, time_ms):
    with pytest.raises(CoterieError):
        encode_sized(records, count, base_offset, time_ms)


def test_an_offset_commit_batch_of_the_specification():
    header = """0000000000000000 0000003a ffffffff 02 54783d9f 0000 00000000 00000000000003e8
        00000000000003e8 ffffffffffffffff ffff 00000000 00000001"""
    written = encode_batch([(0, 1000, b"k", b"v")], base_sequence=0)
    assert written == bytes.fromhex(header) + bytes.fromhex("10 00 00 00 02 6b 02 76 00")


def test_a_tombstone_of_the_specification():
    written = encode_batch([(0, 1000, b"k", None)])
    assert written[61:] == bytes.fromhex("0e 00 00 00 02 6b 01 00")


def test_a_commit_marker_of_the_specification():
    written = encode_marker(True, 77, 4, timestamp_ms=1000, coordinator_epoch=9)
    assert written == bytes.fromhex(
        """0000000000000000 00000042 ffffffff 02 9345eb69 0030 00000000 00000000000003e8
        00000000000003e8 000000000000004d 0004 ffffffff 00000001
        20 00 00 00 08 0000 0001 0c 0000 00000009 00"""
    )


@pytest.mark.parametrize(
    ("magic", "head"),
    [
        (1, "000000000000000a 00000031 bcda9797 01 00 00000000000003e8 00000001 6b 0000001a"),
        (0, "000000000000000a 00000029 9a0795ba 00 00 00000001 6b 0000001a"),
    ],
)
def test_message_sets_of_the_specification(magic, head):
    written = encode_message_set([(10, 1000, b"k", b"v" * 26)], magic)
    assert written == bytes.fromhex(head) + b"v" * 26


def test_a_cleaned_batch_of_the_specification():
    written = encode_batch(
        [(11, 1001, b"b", None)],
        10,
        producer_id=77,
        transactional=True,
        delete_horizon_ms=51000,
        last_offset_delta=2,
    )
    assert written[21:23].hex() == "0050"
    assert struct.unpack_from(">i", written, 23) == (2,)
    assert struct.unpack_from(">qq", written, 27) == (0xC738, 1001)
    assert written[57:] == bytes.fromhex("00000001 12 00 9d8d06 02 02 62 01 00")


def rewritten(batch):
    """The batch from what the reader says of it."""
    if batch.magic < 2:
        time = batch.max_timestamp if batch.append_time else None
        codec = CODECS.index(batch.compression)
        return encode_message_set(batch.records, batch.magic, codec=codec, append_time_ms=time)
    return encode_batch(
        batch.records,
        batch.base_offset,
        codec=CODECS.index(batch.compression),
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
        control=batch.is_control,
        append_time_ms=batch.max_timestamp if batch.append_time else None,
        delete_horizon_ms=batch.delete_horizon,
        base_timestamp_ms=batch.base_timestamp,
        max_timestamp_ms=batch.max_timestamp,
        last_offset_delta=batch.last_offset - batch.base_offset,
        leader_epoch=batch.leader_epoch,
    )


def content(batch):
    """All but what compression may change: the bytes of the stream are not reproducible."""
    return batch._replace(position=0, size=0, crc=0)


@pytest.mark.parametrize("case", golden_data.cases())
def test_batches_of_the_golden_logs_are_written_again_as_kafka_wrote_them(case):
    for segment in golden_data.segments(case):
        data = segment.read_bytes()
        for batch in LogReader(data):
            written = rewritten(batch)
            if batch.compression == "none":
                assert written == data[batch.position : batch.position + batch.size]
            else:
                (again,) = read_one(written)
                assert content(again) == content(batch)


@pytest.mark.parametrize(("magic", "codec"), MAGIC_AND_CODEC)
@settings(max_examples=examples(30))
@given(data=st.data())
def test_what_is_written_is_read_again(magic, codec, data):
    records = data.draw(record_lists(magic))
    if magic == 2:
        base = records[0][0] - data.draw(st.integers(0, min(9, records[0][0])))
        written = encode_batch(records, base, codec=codec)
    else:
        written = encode_message_set(records, magic, codec=codec)
    found = [record for batch in read_one(written) for record in batch.records]
    assert [tuple(record)[:5] for record in found] == records


@given(record_lists(2), INT64, st.integers(-(2**15), 2**15 - 1), st.booleans(), INT64)
def test_the_header_of_a_batch_is_read_again(records, producer, epoch, transactional, time_ms):
    written = encode_batch(
        records,
        records[0][0],
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=7,
        transactional=transactional,
        append_time_ms=time_ms,
        leader_epoch=3,
    )
    (batch,) = read_one(written)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (producer, epoch, 7)
    assert (batch.is_transactional, batch.is_control) == (transactional, False)
    assert (batch.leader_epoch, batch.max_timestamp) == (3, time_ms)
    assert {record.timestamp for record in batch.records} == {time_ms}
    assert all(record.append_time for record in batch.records)
    (plain,) = read_one(encode_batch(records, records[0][0], transactional=transactional))
    assert not any(record.append_time for record in plain.records)


def test_the_empty_batch_that_compaction_leaves_is_61_bytes():
    written = encode_batch(
        [], 40, codec=3, producer_id=5, producer_epoch=1, last_offset_delta=2, max_timestamp_ms=99
    )
    (batch,) = read_one(written)
    assert len(written) == 61
    assert (batch.base_offset, batch.last_offset, batch.compression) == (40, 42, "none")
    assert (batch.base_timestamp, batch.max_timestamp, batch.records) == (-1, 99, [])


@pytest.mark.parametrize("commit", [True, False])
def test_markers_are_read_again(commit):
    written = encode_marker(commit, 9, 2, timestamp_ms=5, base_offset=70, leader_epoch=1)
    (batch,) = read_one(written)
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.base_offset, batch.base_sequence, batch.producer_id) == (70, -1, 9)
    assert batch.records[0].key == bytes((0, 0, 0, commit))


RECORDS = [
    (100, 1000, b"k1", b"v1", ()),
    (101, 1003, b"k2", None, ((b"h", b"x"), (b"n", None))),
    (107, 1001, b"k3", b"v" * 5000, ()),
]
OLD_RECORDS = [(*record[:4], ()) for record in RECORDS]


def written_for_peers(magic, codec):
    if magic == 2:
        return encode_batch(RECORDS, 100, codec=codec)
    return encode_message_set(OLD_RECORDS, magic, codec=codec)


def from_peer(batches, magic):
    return [
        (r.offset, r.timestamp if magic else -1, r.key, r.value, tuple(r.headers))
        for batch in batches
        for r in batch
    ]


def expected_of_peer(magic):
    if magic == 2:
        headers = [tuple((name.decode(), value) for name, value in r[4]) for r in RECORDS]
        return [(*r[:4], h) for r, h in zip(RECORDS, headers, strict=True)]
    return [(r[0], r[1] if magic else -1, *r[2:4], ()) for r in OLD_RECORDS]


PEER_CODECS = [(m, c) for m, c in MAGIC_AND_CODEC if c < 2]


@pytest.mark.parametrize(("magic", "codec"), PEER_CODECS)
def test_kafka_python_reads_what_is_written(magic, codec):
    peer = pytest.importorskip("kafka.record", reason="kafka-python is not installed")
    memory, batches = peer.MemoryRecords(written_for_peers(magic, codec)), []
    while memory.has_next():
        batch = memory.next_batch()
        assert batch.validate_crc()
        batches.append(batch)
    assert from_peer(batches, magic) == expected_of_peer(magic)


@pytest.mark.parametrize(("magic", "codec"), PEER_CODECS)
def test_aiokafka_reads_what_is_written(magic, codec):
    peer = pytest.importorskip("aiokafka.record.memory_records", reason="no aiokafka installed")
    memory, batches = peer.MemoryRecords(written_for_peers(magic, codec)), []
    while memory.has_next():
        batch = memory.next_batch()
        assert batch.validate_crc()
        batches.append(batch)
    assert from_peer(batches, magic) == expected_of_peer(magic)


@pytest.mark.parametrize(
    ("records", "base"),
    [
        ([(1 << 31, 0, b"k", b"v")], 0),  # an offset too far from the base
        ([(0, 0, b"k", b"v")], 1 << 31),
        ([(0, 0, b"k", b"v"), (1, 1 << 64, b"k", b"v")], 0),
    ],
)
def test_numbers_that_do_not_fit_are_refused(records, base):
    if base:
        records = [(0, 0, b"k", b"v"), *records]
    with pytest.raises(CoterieError, match="does not fit"):
        encode_batch(records, base - (1 << 32) if base else 0)


def test_offsets_and_times_past_the_end_of_a_long_wrap_as_java_adds():
    """Under the sanitizers an overflow of C's signed numbers would end the process here."""
    top = (1 << 63) - 1
    batch = bytearray(encode_batch([(5, 5, b"k", b"v")], 0, base_timestamp_ms=0))
    for at in (0, 27):  # base offset, base timestamp
        batch[at : at + 8] = top.to_bytes(8, "big")
    (found,) = LogReader(batch + batch[:30], check_crc=False)
    assert (found.last_offset, found.records[0].offset) == (-(1 << 63) + 4,) * 2
    assert found.records[0].timestamp == -(1 << 63) + 4
    scan(bytes(batch + batch[:30]), options=ScanOptions(on_fault="load"))


def test_old_message_sets_refuse_what_they_cannot_hold():
    with pytest.raises(CoterieError, match="headers"):
        encode_message_set(RECORDS, 1)
    with pytest.raises(CoterieError, match="magic 0 or 1"):
        encode_message_set(OLD_RECORDS, 2)
    with pytest.raises(CoterieError, match="at least one record"):
        encode_message_set([], 1, codec=1)
    with pytest.raises(CorruptData, match="zstd"):
        encode_message_set(OLD_RECORDS, 1, codec=4)
    assert encode_message_set([], 1) == b""


PAIR = [(3, 1_234_567, b"k", b"v"), (5, 1_230_001, b"k", b"v")]  # the second one is earlier


@pytest.mark.parametrize(
    ("options", "attributes", "base_ms", "max_ms", "last_offset_delta"),
    [
        ({}, 0, 1_234_567, 1_234_567, 2),
        ({"append_time_ms": 9_876_543}, 1 << 3, 1_234_567, 9_876_543, 2),
        ({"delete_horizon_ms": 9_876_543}, 1 << 6, 9_876_543, 1_234_567, 2),
        ({"base_timestamp_ms": 1_200_001}, 0, 1_200_001, 1_234_567, 2),
        ({"max_timestamp_ms": 9_876_543}, 0, 1_234_567, 9_876_543, 2),
        ({"last_offset_delta": 7}, 0, 1_234_567, 1_234_567, 7),
        ({"transactional": True, "control": True}, 1 << 4 | 1 << 5, 1_234_567, 1_234_567, 2),
    ],
)
def test_a_header_has_the_times_and_attributes_that_are_given(
    options, attributes, base_ms, max_ms, last_offset_delta
):
    """Source: DefaultRecordBatch, its schema and its attributes."""
    data = encode_batch(PAIR, 3, **options)
    assert struct.unpack_from(">qiib", data) == (3, len(data) - 12, -1, 2)
    head = (attributes, last_offset_delta, base_ms, max_ms, -1, -1, -1, 2)
    assert struct.unpack_from(">hiqqqhii", data, 21) == head
    (batch,) = read_one(data)
    appended = options.get("append_time_ms")
    times = [time_ms if appended is None else appended for _, time_ms, _, _ in PAIR]
    assert [record.timestamp for record in batch.records] == times
    assert batch.delete_horizon == options.get("delete_horizon_ms")


def test_what_is_not_given_is_written_as_none():
    marker = encode_marker(False, 77, 4, timestamp_ms=1_234_567)
    (batch,) = read_one(marker)
    assert (batch.base_offset, batch.leader_epoch, batch.base_timestamp) == (0, -1, 1_234_567)
    (record,) = batch.records
    assert (record.timestamp, record.key, record.value) == (1_234_567, bytes(4), bytes(6))
    marker = encode_marker(
        True, 77, 4, timestamp_ms=5, coordinator_epoch=6, base_offset=8, leader_epoch=9
    )
    (batch,) = read_one(marker)
    assert (batch.base_offset, batch.leader_epoch, batch.records[0].value[2:]) == (
        8,
        9,
        b"\0\0\0\6",
    )
    plain = encode_sized(sized([(b"k", b"v")]), 1, 3, 1_234_567)
    assert plain == encode_batch([(3, 1_234_567, b"k", b"v")], 3)
    for magic, record in ((0, (3, -1, b"k", b"v")), (1, PAIR[0])):
        assert encode_message_set([record], magic) == encode_message_set([record], magic, codec=0)
        assert [batch.compression for batch in read_one(encode_message_set([record], magic))] == [
            "none"
        ]


def test_a_wrapper_has_the_greatest_time_or_that_of_its_append():
    """Source: LegacyRecord: the attributes follow the magic, the time follows them."""
    for options, attributes, time_ms in (
        ({}, 1, 1_234_567),
        ({"append_time_ms": 9_876_543}, 1 | 1 << 3, 9_876_543),
    ):
        data = encode_message_set(PAIR, 1, codec=1, **options)
        assert struct.unpack_from(">bbq", data, 16) == (1, attributes, time_ms)
        entries = encode_message_set(PAIR, 1, **options)
        size = len(entries) // 2
        for at, (offset, own_ms, _, _) in enumerate(PAIR):
            assert struct.unpack_from(">q", entries, at * size) == (offset,)
            head = (1, attributes & ~1, options.get("append_time_ms", own_ms))
            assert struct.unpack_from(">bbq", entries, at * size + 16) == head

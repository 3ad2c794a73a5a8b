"""Bytes read and written right at their bounds."""

import gzip
import hashlib
import struct
import zlib

import pytest

from coterie._core.codec.batch import LogReader, encode_batch, encode_message_set, encode_sized
from coterie._core.codec.compression import compress, crc32c, decompress, partition_for, xxh32
from coterie._core.codec.schema import decode_value, encode_value
from coterie._core.fold.columns import decode_columns
from coterie._core.fold.fold import PartitionFold
from coterie.errors import ArgumentError, CorruptData
from coterie.log.folders import cut_points
from support import golden_data
from support.log_writer import batch, commit, varint

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def records_of(data):
    reader = LogReader(data)
    found = [record for log_batch in reader for record in log_batch.records]
    return found, reader.faults


def test_inner_offsets_stand_as_they_are_where_a_producer_left_the_wrappers_0():
    data = encode_message_set([(0, 5, b"k", b"v"), (1, 6, b"l", b"w")], 1, codec=GZIP)
    found, faults = records_of(bytes(8) + data[8:])  # the checksum leaves the offset out
    assert [record.offset for record in found] == [0, 1]
    assert faults == []


@pytest.mark.parametrize(
    ("base_offset", "base"), [(0, None), (1, 1), (7, 7), (2**31, 2**31), (1 + 2**31, None)]
)
def test_a_base_offset_before_a_wrong_length_counts_if_it_goes_on_from_the_batch_before(
    base_offset, base
):
    data = batch(0, [(5, b"k", b"v")]) + batch(base_offset, [(6, b"k", b"v")])[:-1]
    found, (fault,) = records_of(data)
    assert len(found) == 1
    assert (fault.kind, fault.base_offset) == ("length", base)


@pytest.mark.parametrize("pair", [(None, b"v"), (b"k", None), (b"", b""), (None, None)])
def test_null_and_empty_are_two_things_in_a_key_and_a_value(pair):
    ((record,), _) = records_of(batch(0, [(5, *pair)]))
    assert (record.key, record.value) == pair


@pytest.mark.parametrize("step", [0, 1, -1, 63, -63, 64, -64, 65, -65, 8191, -8192, 8192, -8193])
def test_a_batch_is_written_as_one_that_is_put_together_by_hand(step):
    records = [(10_000, b"k", b"v"), (10_000 + step, b"x" * abs(step), None)]
    rows = [(offset, *record) for offset, record in enumerate(records)]
    assert encode_batch(rows, producer_epoch=0, leader_epoch=0) == batch(0, records)


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 128, 16_382, 16_383])
def test_a_compact_length_takes_as_few_bytes_as_it_can(size):
    left, length = size + 1, b""
    while left > 127:
        length, left = length + bytes([left & 127 | 128]), left >> 7
    length += bytes([left])
    data = {"offset": 1, "leaderEpoch": 2, "metadata": "x" * size, "commitTimestamp": 3}
    written = encode_value(0, {"version": 4, "data": data})
    head = b"\0\4" + struct.pack(">qi", 1, 2)
    assert written == head + length + b"x" * size + struct.pack(">q", 3) + b"\0"


@pytest.mark.parametrize("port", [0, 32_767, 32_768, 65_535])
def test_a_port_is_not_negative(port):
    data = {
        **{"instanceId": None, "rackId": None, "clientId": "c", "clientHost": "/h"},
        **{"rebalanceTimeoutMs": 1, "topologyEpoch": 2, "processId": "p", "clientTags": []},
        "userEndpoint": {"host": "h", "port": port},
    }
    read = decode_value(19, encode_value(19, {"version": 0, "data": data}))["data"]
    assert read["userEndpoint"]["port"] == port


def noise(size):
    """Bytes that nothing makes shorter."""
    blocks = (hashlib.sha256(b"%d" % n).digest() for n in range(size // 32 + 1))
    return b"".join(blocks)[:size]


def test_as_many_bytes_behind_a_gzip_member_are_forgiven_as_java_forgives():
    # GZIPInputStream.readTrailer: another member is looked for from 19 bytes on.
    member = gzip.compress(b"abc", mtime=0)
    header = b"\x1f\x8b\x08"
    assert decompress(GZIP, member + header + bytes(15)) == b"abc"
    with pytest.raises(CorruptData):
        decompress(GZIP, member + header + bytes(16))


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537])
def test_an_lz4_block_may_be_as_large_as_its_frame_allows(size):
    assert decompress(LZ4, compress(LZ4, noise(size))) == noise(size)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, 4])
def test_as_many_bytes_may_come_out_as_are_allowed(codec):
    packed = compress(codec, b"x" * 1000)
    assert decompress(codec, packed, max_size=1000) == b"x" * 1000
    with pytest.raises(CorruptData):
        decompress(codec, packed, max_size=999)


def test_a_piece_may_have_exactly_as_many_bytes_as_it_may():
    data = b"".join(path.read_bytes() for path in golden_data.segments("transactions"))
    starts = [log_batch.position for log_batch in LogReader(data)]
    assert cut_points(data, starts[3])[1] == starts[3]
    assert cut_points(data, starts[3] - 1)[1] == starts[2]


@pytest.mark.parametrize("wrong", ["nothing", "checksum", "records", "magic"])
def test_a_wrong_length_is_in_one_piece_with_the_readable_batch_before_it(wrong):
    """That batch decides which base offset the fault may have."""
    first, middle = batch(0, [(5, b"k", b"v")]), batch(1, [(6, b"k", b"v")])
    if wrong == "checksum":
        middle = middle[:-1] + b"?"
    elif wrong == "records":
        middle = with_sum(middle, b"\xff" * 10)
    elif wrong == "magic":
        middle = middle[:16] + b"\x07" + middle[17:]
    data = first + middle + batch(2, [(7, b"k", b"v")])[:-1]
    starts = [len(first)] if wrong == "nothing" else []
    ends = [len(data)]
    assert cut_points(data, len(first)) == [0, *starts, *ends]


def test_a_message_of_an_old_format_has_no_field_that_only_new_batches_have():
    """Whatever the batch before it had."""
    new = encode_batch(
        [(5 + n, 7_000 + n, b"k", b"v") for n in range(4)], 5, producer_id=7, producer_epoch=3,
        base_sequence=9, transactional=True, control=True, leader_epoch=11,
        delete_horizon_ms=6_000,
    )  # fmt: skip
    old = encode_message_set([(9, 8_000, b"k", b"v")], 1) + encode_message_set(
        [(10, -1, b"k", b"v")], 0
    )
    reader = LogReader(new + old + batch(11, [(5, b"k", b"v")])[:-1])
    first, *others = reader
    assert (first.producer_id, first.base_sequence, first.last_offset) == (7, 9, 8)
    for found, offset, ms in zip(others, (9, 10), (8_000, -1), strict=True):
        assert found[2:4] == (offset, offset)
        assert (found.leader_epoch, found.producer_id, found.producer_epoch) == (-1, -1, -1)
        assert (found.base_sequence, found.delete_horizon) == (-1, None)
        assert (found.is_transactional, found.is_control) == (False, False)
        assert (found.base_timestamp, found.max_timestamp) == (ms, ms)
    (fault,) = reader.faults
    assert (fault.kind, fault.base_offset) == ("length", 11)  # it goes on from offset 10


def test_a_log_goes_on_behind_an_old_message_whatever_a_damaged_batch_before_it_says():
    """A batch of magic 2 claims many offsets, and its checksum does not hold."""
    damaged = bytearray(batch(5, [(5, b"k", b"v")]))
    struct.pack_into(">i", damaged, 23, 1_000_000)
    old = encode_message_set([(6, 5, b"k", b"v")], 1)
    found, faults = records_of(damaged + old + batch(7, [(5, b"k", b"v")])[:-1])
    assert [record.offset for record in found] == [6]
    assert [(fault.kind, fault.base_offset) for fault in faults] == [("crc", 5), ("length", 7)]


@pytest.mark.parametrize("size", range(1, 19))
def test_bytes_behind_the_last_batch_have_no_base_offset(size):
    """Not even if they repeat the beginning of a batch that could follow."""
    reader = LogReader(batch(4, [(5, b"k", b"v")]) + batch(5, [(5, b"k", b"v")])[:size])
    assert len(list(reader)) == 1
    (fault,) = reader.faults
    kind = "tail" if size < 17 else "length"  # up to the magic
    assert (fault.kind, fault.base_offset) == (kind, 5 if size >= 8 else None)


def with_sum(data, at):
    """The batch with the bytes of its last record replaced, and the checksum for them."""
    head, body = data[:61], at
    head = head[:8] + struct.pack(">i", 49 + len(body)) + head[12:]
    return head[:17] + struct.pack(">I", crc32c(head[21:] + body)) + head[21:] + body


@pytest.mark.parametrize("length", [-1, -2, -64, -65, -(2**31)])
def test_any_length_below_0_is_null(length):
    """Sources: DefaultRecord.readFrom, LegacyRecord.key and value."""
    size = varint(length)
    inner = bytes(3) + size + size + b"\0"  # attributes, no deltas; key, value, no headers
    new = with_sum(batch(0, [(5, None, None)]), varint(len(inner)) + inner)
    old = bytearray(encode_message_set([(1, 5, None, None)], 1))
    struct.pack_into(">ii", old, len(old) - 8, length, length)
    struct.pack_into(">I", old, 12, zlib.crc32(old[16:]))
    columns = decode_columns(new + old, raw=True)
    assert columns["key_size"].tolist() == columns["value_size"].tolist() == [-1, -1]
    (found, faults) = records_of(new + old)
    assert ([record[2:4] for record in found], faults) == ([(None, None)] * 2, [])


def test_a_record_ends_with_its_batch_whatever_the_next_one_begins_with():
    """Its last byte, 0 headers, is missing; the base offset of the next batch begins with a 0."""
    whole = batch(0, [(5, b"k", b"v")])
    found, (fault,) = records_of(with_sum(whole, whole[61:-1]) + batch(1, [(6, b"l", b"w")]))
    assert [record.key for record in found] == [b"l"]
    assert (fault.kind, fault.detail) == ("records", "record 0 of 1 does not fill its length")


def test_a_message_of_an_old_format_has_any_offset_and_time():
    for offset, ms in ((-(2**63), -(2**63)), (-5, -1), (2**63 - 1, 2**63 - 1)):
        ((record,), faults) = records_of(encode_message_set([(offset, ms, b"k", b"v")], 1))
        assert (record.offset, record.timestamp, faults) == (offset, ms, [])


def test_metadata_that_follows_a_small_compressed_batch_is_whole():
    """Room is made for each batch by its own size."""
    small = encode_batch([(0, *commit(5))], 0, codec=GZIP)
    ms, key, value = commit(6, metadata=b"m" * 20_000, partition=1)
    for magic in (1, 2):
        for codec in (0, GZIP):
            rows = [(1, ms, key, value)]
            if magic == 2:
                data = encode_batch(rows, 1, codec=codec)
            else:
                data = encode_message_set(rows, 1, codec=codec)
            for raw in (False, True):
                columns = decode_columns(small + data, raw=raw)
                assert columns["metadata"].tobytes() == b"m" * 20_000
                assert columns["metadata_end"].tolist() == [0, 20_000]
                if raw:
                    assert columns["bytes"].tobytes().endswith(key + value)


MEMBER = {
    **dict.fromkeys(("instanceId", "rackId", "subscribedTopicRegex", "serverAssignor")),
    **{"clientId": "c", "clientHost": "h", "subscribedTopicNames": [], "rebalanceTimeoutMs": 7},
}


def test_a_tagged_field_of_a_record_is_held_to_the_rules_of_records():
    """Nothing may be missing, and what is no UTF-8 is "?", as Java writes it."""
    protocols = [{"name": "a\ud800", "metadata": b"m"}]
    classic = {"sessionTimeoutMs": 9, "supportedProtocols": protocols}
    raw = encode_value(5, {"version": 0, "data": {**MEMBER, "classicMemberMetadata": classic}})
    read = decode_value(5, raw)["data"]["classicMemberMetadata"]["supportedProtocols"]
    assert read == [{"name": "a?", "metadata": b"m"}]
    for missing in classic:
        data = {**MEMBER, "classicMemberMetadata": {**classic}}
        del data["classicMemberMetadata"][missing]
        with pytest.raises(ArgumentError, match=f"{missing} is missing"):
            encode_value(5, {"version": 0, "data": data})


def test_codecs_take_new_batches_and_any_size_by_default():
    noisy = noise(100_000)
    for codec in (GZIP, SNAPPY, LZ4, 4):
        assert compress(codec, noisy)[:64] == compress(codec, noisy, 2)[:64]
        assert decompress(codec, compress(codec, noisy, 2)) == noisy
    assert compress(LZ4, noisy)[6] != compress(LZ4, noisy, 0)[6]  # its wrong checksum
    assert xxh32(b"abc") == xxh32(b"abc", 0) == 0x32D153FF  # the specification's own vector
    assert xxh32(b"abc", 1) != xxh32(b"abc")


def test_a_message_of_magic_0_has_no_append_time_whatever_its_attributes_say():
    """Source: LegacyRecord.timestampType."""
    for magic, appended in ((0, False), (1, True)):
        data = bytearray(encode_message_set([(0, -1, b"k", b"v")], magic))
        data[17] |= 8
        struct.pack_into(">I", data, 12, zlib.crc32(data[16:]))
        (found,) = LogReader(data)
        assert (found.append_time, found.records[0].append_time) == (appended, appended)


@pytest.mark.parametrize(("base_offset", "base"), [(0, 0), (5, 5), (-1, None), (2**40, 2**40)])
def test_any_base_offset_from_0_on_may_begin_a_log(base_offset, base):
    _, (fault,) = records_of(batch(base_offset, [(6, b"k", b"v")])[:-1])
    assert (fault.kind, fault.base_offset) == ("length", base)


ONE = batch(0, [(5, b"k", b"v")])


@pytest.mark.parametrize(
    ("size", "length", "magic", "kind"),
    [
        (11, 0, 0, None), (12, 0, 0, "tail"), (12, 13, 0, "tail"), (12, 14, 0, None),
        (16, 13, 0, "tail"), (16, 14, 0, None), (16, 50, 3, None), (17, 50, 2, None),
        (17, 14, 0, None), (17, 14, 3, "magic"), (17, 50, 3, "magic"), (17, 50, -1, "magic"),
        (17, 13, 3, "length"), (25, 14, 0, None), (25, -1, 2, "length"),
        (25, 2**31 - 13, 2, None), (25, 2**31 - 12, 2, "length"),
    ],
)  # fmt: skip
def test_the_loader_takes_a_cut_batch_for_the_end_and_no_wrong_one(size, length, magic, kind):
    """ByteBufferLogInputStream.nextBatchSize: with the 12 bytes before it, a size is an int."""
    data = struct.pack(">qiib", 1, length, 0, magic) + bytes(8)
    fold = PartitionFold(on_fault="load")
    fold.scan(batch(0, [commit(5)]) + data[:size])
    assert [fault.kind for fault in fold.faults] == [kind] * (kind is not None)
    assert fold.failed is (kind is not None)


def test_recovery_checks_a_batch_of_another_magic_by_its_checksum():
    """LogSegment.recover: above 2 as 2, which has at least a header; below 0 as 0 or 1."""
    for data, cut in (
        (encode_batch([], 1), False),
        (encode_batch([(1, 5, b"k", b"v")], 1), False),
        (encode_message_set([(1, -1, None, None)], 0), True),  # no room for that header
    ):
        fold = PartitionFold(on_fault="recover")
        fold.scan(data[:16] + b"\3" + data[17:] + batch(2, [commit(5)]))
        assert (fold.cut, fold.failed) == (cut, not cut)  # what is not cut off, the loader refuses


@pytest.mark.parametrize(
    ("rest", "fits"), [(b"", True), (bytes(11), True), (bytes(12), False), (b"x" * 9, True)]
)
def test_what_follows_the_messages_of_a_set_is_dropped_unless_it_has_a_wrong_size(rest, fits):
    """Source: DataLogInputStream.nextBatch."""
    for magic in (0, 1):
        inner = encode_message_set([(0, -1, None, None)], magic)
        outer = encode_message_set([(0, -1, None, gzip.compress(inner + rest))], magic)
        data = bytearray(outer)
        data[17] |= GZIP
        struct.pack_into(">I", data, 12, zlib.crc32(data[16:]))
        found, faults = records_of(data)
        assert (len(found), [fault.kind for fault in faults]) == (
            (1, []) if fits else (0, ["records"])
        )


def test_a_number_of_more_bytes_than_its_type_can_have_is_broken():
    """Source: ByteUtils.readVarint and readVarlong: at most five and ten bytes."""
    five, ten = b"\x80" * 4 + b"\0", b"\x80" * 9 + b"\0"  # 0, in as many bytes as there may be
    for ms, delta, key, fits in (
        (ten, five, five, True), (b"\x80" + ten, five, five, False),
        (ten, b"\x80" + five, five, False), (ten, five, b"\x80" + five, False),
    ):  # fmt: skip
        inner = b"\0" + ms + delta + key + varint(-1) + b"\0"
        found, faults = records_of(with_sum(ONE, varint(len(inner)) + inner))
        assert (len(found), len(faults)) == ((1, 0) if fits else (0, 1))


@pytest.mark.parametrize("size", [0, 1, 31, 32, 63, 64, 65, 127, 128, 8191, 8192, 8193])
def test_records_are_read_and_written_whatever_bytes_their_sizes_take(size):
    """A size is twice as large as a number of bits: 64 takes two bytes, 8192 three."""
    records = [(5 + size, b"k" * size, b"v"), (6, b"k", b"v" * size), (7, None, b"v" * size)]
    records += [(7, b"k" * size, None), (8, b"k" * size, b"")]
    found, faults = records_of(batch(0, records))
    assert [(record.timestamp, record.key, record.value) for record in found] == records
    assert faults == []
    rows = [(n, 9, *record[1:]) for n, record in enumerate(records)]
    sized = b"".join(
        struct.pack(">ii", *(-1 if part is None else len(part) for part in pair))
        + b"".join(part or b"" for part in pair)
        for _, *pair in records
    )
    assert encode_sized(sized, len(rows), 0, 9) == encode_batch(rows, 0)


def test_streams_end_right_where_their_last_part_does():
    header = compress(SNAPPY, b"")
    assert decompress(SNAPPY, compress(SNAPPY, b"abc") + header) == b"abc"
    packed = compress(4, b"abc")
    skipped = struct.pack("<II", 0x184D2A50, 0)
    assert decompress(4, packed + skipped) == decompress(4, skipped + packed) == b"abc"
    for codec in (GZIP, SNAPPY, LZ4, 4):
        assert decompress(codec, compress(codec, b""), max_size=0) == b""
    assert decompress(0, b"x" * 1000, max_size=1000) == b"x" * 1000
    with pytest.raises(CorruptData):
        decompress(0, b"x" * 1000, max_size=999)


def test_a_group_id_has_a_partition_of_at_least_one():
    assert partition_for("a group", 1) == 0
    assert partition_for("a group") == partition_for("a group", 50)
    for count in (0, -1):
        with pytest.raises(ArgumentError, match="at least one partition"):
            partition_for("a group", count)


def test_an_unknown_key_version_says_the_version_of_its_value_if_it_has_one():
    for value, version, error in (
        (b"\0\5", 5, "unknown version"),
        (b"\0", None, "shorter than a version"),
    ):
        assert decode_value(99, value) == {"version": version, "raw": value, "error": error}


def compressed(codec, packed, count):
    """A batch of a codec with a right checksum."""
    rest = struct.pack(">hiqqqhii", codec, count - 1, 7, 7, -1, -1, -1, count) + packed
    return struct.pack(">qiibI", 0, 9 + len(rest), 0, 2, crc32c(rest)) + rest


def test_a_batch_has_a_million_records_at_most_and_256_mib_of_them():
    """20 kB that were made for it took 8 GB."""
    count, smallest = (1 << 20) + 1, bytes([12, 0, 0, 0, 1, 1, 0])
    reader = LogReader(compressed(ZSTD, compress(ZSTD, smallest * count), count))
    assert list(reader) == []
    assert reader.faults[0].detail == "a batch of more than 1048576 records"
    claim_of_256_mib_and_a_byte = bytes([0x81, 0x80, 0x80, 0x80, 0x01])
    reader = LogReader(compressed(SNAPPY, claim_of_256_mib_and_a_byte + bytes(13 << 20), 1))
    assert list(reader) == []
    assert "only 268435456 are allowed" in reader.faults[0].detail

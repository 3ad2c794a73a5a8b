"""Bytes read and written right at their bounds."""

import gzip
import hashlib
import struct

import pytest

from coterie._core.codec.compress import compress, decompress
from coterie._core.codec.reader import LogReader
from coterie._core.codec.schema import decode_value, encode_value
from coterie._core.codec.writer import encode_batch, encode_message_set
from coterie.errors import CorruptData
from coterie.log.folders import cut_points
from support import golden_data
from support.log_writer import batch

GZIP, SNAPPY, LZ4 = 1, 2, 3


def records_of(data):
    reader = LogReader(data)
    found = [record for log_batch in reader for record in log_batch.records]
    return found, reader.faults


def test_inner_offsets_stand_as_they_are_where_a_producer_left_the_wrappers_0():
    data = encode_message_set([(0, 5, b"k", b"v"), (1, 6, b"l", b"w")], 1, codec=GZIP)
    found, faults = records_of(bytes(8) + data[8:])  # the checksum leaves the offset out
    assert [record.offset for record in found] == [0, 1]
    assert faults == []


@pytest.mark.parametrize(("base_offset", "base"), [(0, None), (1, 1), (7, 7), (1 + 2**31, None)])
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

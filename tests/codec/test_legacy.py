"""Wrappers of the old formats at the edges of their offsets, built by hand."""

import gzip
import struct
import zlib

import pytest

from coterie import scan
from coterie._core.codec.batch import LogReader, encode_batch
from coterie._core.fold.columns import decode_columns

LOWEST, HIGHEST = -(2**63), 2**63 - 1


def entry(offset, attributes, value, timestamp=1000):
    """A message of magic 1 without a key."""
    body = struct.pack(">bbqii", 1, attributes, timestamp, -1, len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def wrapper(offset, inner):
    messages = b"".join(entry(number, 0, b"v") for number in inner)
    return entry(offset, 1, gzip.compress(messages))


@pytest.mark.parametrize(
    ("offset", "inner", "absolute"),
    [
        (2, [0, 2], [0, 2]),
        (12, [0, 2], [10, 12]),
        (0, [0, 2], [0, 2]),  # some producers leave it 0
        (LOWEST, [LOWEST], [LOWEST]),
        (HIGHEST, [0, 2], [HIGHEST - 2, HIGHEST]),
        # The distance is beyond an int64 and wraps, there and back, as in Java.
        (HIGHEST, [-2, -1], [HIGHEST - 1, HIGHEST]),
        (5, [LOWEST, LOWEST + 4], [1, 5]),
    ],
)
def test_offsets_of_a_wrapper_count_back_from_its_own(offset, inner, absolute):
    reader = LogReader(wrapper(offset, inner))
    assert [record.offset for batch in reader for record in batch.records] == absolute
    assert reader.faults == []


@pytest.mark.parametrize(("append_time", "times"), [(8, [5000] * 3), (0, [10, 30, 20])])
def test_the_append_time_of_a_wrapper_is_that_of_each_of_its_records(append_time, times):
    """Source: AbstractLegacyRecordBatch.DeepRecordsIterator."""
    inner = zip(range(3), [10, 30, 20], strict=True)
    messages = b"".join(entry(number, 0, b"v", timestamp) for number, timestamp in inner)
    (found,) = LogReader(entry(2, 1 | append_time, gzip.compress(messages), 5000))
    assert [record.timestamp for record in found.records] == times
    assert [record.append_time for record in found.records] == [append_time > 0] * 3


@pytest.mark.parametrize(
    ("offset", "inner"),
    [(1, [0, 2]), (-1, [0, 2]), (LOWEST, [0, 2]), (LOWEST, [HIGHEST]), (LOWEST, [LOWEST + 1])],
)
def test_a_wrapper_below_its_last_inner_offset_is_a_fault(offset, inner):
    """AbstractLegacyRecordBatch compares the two; their difference may wrap."""
    data = wrapper(offset, inner)
    reader = LogReader(data)
    assert list(reader) == []
    assert [(fault.kind, fault.position) for fault in reader.faults] == [("records", 0)]
    (fold,) = scan(data).partitions.values()
    assert [fault[1:4] for fault in fold.faults] == [(0, offset, "records")]


@pytest.mark.parametrize("flag", ["transactional", "control"])
def test_a_message_set_has_nothing_of_a_batch_before_it(flag):
    """No producer, sequence, epochs, flags, and no offset but its own."""
    newer = encode_batch(
        [(0, 5, bytes(4), bytes(6))], producer_id=7, producer_epoch=3, base_sequence=9,
        delete_horizon_ms=51_000, leader_epoch=5, last_offset_delta=4, **{flag: True},
    )  # fmt: skip
    rows = decode_columns(newer + entry(10, 0, b"v"))["batches"]
    for name, before in [
        ("producer_id", 7), ("producer_epoch", 3), ("base_sequence", 9), ("leader_epoch", 5),
    ]:  # fmt: skip
        assert rows[name].tolist() == [before, -1], name
    for name in (flag, "delete_horizon"):
        assert rows[name].tolist() == [True, False], name
    reader = LogReader(newer + entry(10, 0, b"v"))
    *_, old = reader
    assert (old.base_offset, old.last_offset, old.base_timestamp) == (10, 10, 1000)
    assert (old.is_transactional, old.is_control, old.delete_horizon) == (False, False, None)


@pytest.mark.parametrize("key", [struct.pack(">i", -1), struct.pack(">i", 2) + b"kk"])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_without_a_value_is_a_fault(magic, key):
    body = struct.pack(">bb", magic, 1) + bytes(8 * magic) + key + struct.pack(">i", -1)
    data = struct.pack(">qiI", 5, 4 + len(body), zlib.crc32(body)) + body
    reader = LogReader(wrapper(2, [0, 2]) + data)
    assert [record.offset for batch in reader for record in batch.records] == [0, 2]
    assert [(fault.kind, fault.base_offset) for fault in reader.faults] == [("records", 5)]

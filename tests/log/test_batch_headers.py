"""Bytes behind the last whole batch: the beginning of another one, or damage."""

import struct

import pytest

from coterie._core.codec.batch import encode_batch, encode_message_set
from coterie.log import batch_headers
from coterie.log.batch_headers import (
    check_of_ends,
    last_headers,
    may_become_batch,
    whole_batches_end,
)
from support import log_writer as write


def test_each_beginning_of_a_batch_may_become_one():
    data = write.batch(7, [write.commit(7, 7)])
    assert all(may_become_batch(data[:end]) for end in range(len(data) + 1))
    assert may_become_batch(bytes(1000))  # a preallocated file


@pytest.mark.parametrize(
    ("magic", "least"),
    # DefaultRecordBatch.RECORD_BATCH_OVERHEAD; LegacyRecord.RECORD_OVERHEAD_V0 and 12 before it
    [(2, 61), (0, 26)],
)
def test_a_batch_has_at_least_the_bytes_of_an_empty_one(magic, least):
    for size, fits in ((least, True), (least - 1, False), (-1, False)):
        head = struct.pack(">qiib", 5, size - 12, 0, magic)
        assert may_become_batch(head) is fits


@pytest.mark.parametrize("magic", [3, 127, -1])
def test_a_batch_of_another_magic_is_none(magic):
    assert not may_become_batch(struct.pack(">qiib", 5, 500, 0, magic))


LOG = [write.batch(at, [write.commit(at)] * (at + 1), leader_epoch=at + 3) for at in range(4)]
SIZES = [len(data) for data in LOG]


@pytest.mark.parametrize("least", [1, SIZES[0] + 1, 1 << 16])  # bytes of a run of batches
@pytest.mark.parametrize("tail", [b"", LOG[0][:-1], b"\0" * 100])
def test_the_last_whole_batch_ends_where_it_says_whatever_follows(monkeypatch, least, tail):
    monkeypatch.setattr(batch_headers, "LAST_BYTES", least)
    data = b"".join(LOG) + tail
    whole = sum(SIZES)
    assert whole_batches_end(data) == whole
    assert whole_batches_end(data, SIZES[0]) == whole
    assert whole_batches_end(data, whole) == whole
    assert whole_batches_end(tail) == 0
    last = last_headers(data)[-1]
    assert (last["position"], last["size"]) == (whole - SIZES[3], SIZES[3])
    assert len(last_headers(tail)) == 0


def test_a_header_says_what_its_batch_was_written_with():
    headers = batch_headers.batch_headers(b"".join(LOG))
    names = ("base_offset", "last_offset", "position", "size", "leader_epoch", "records", "magic")
    assert [tuple(int(row[name]) for name in names) for row in headers] == [
        (at, 2 * at, sum(SIZES[:at]), SIZES[at], at + 3, at + 1, 2) for at in range(4)
    ]
    assert [int(row["crc"]) for row in headers] == [
        int.from_bytes(data[17:21], "big") for data in LOG
    ]


def test_the_shortest_batch_of_each_magic_has_a_header():
    shortest = [
        encode_message_set([(3, -1, None, None)], 0),
        encode_message_set([(4, 9, None, None)], 1),
        encode_batch([], 5),
    ]
    headers = batch_headers.batch_headers(b"".join(shortest))
    assert [int(size) for size in headers["size"]] == [26, 34, 61] == list(map(len, shortest))
    assert [int(magic) for magic in headers["magic"]] == [0, 1, 2]
    assert [int(epoch) for epoch in headers["leader_epoch"]] == [-1, -1, -1]
    assert [int(offset) for offset in headers["base_offset"]] == [3, 4, 5]
    for data, crc_at in zip(shortest, (12, 12, 17), strict=True):
        (header,) = batch_headers.batch_headers(data)
        assert int(header["crc"]) == int.from_bytes(data[crc_at : crc_at + 4], "big")
        assert len(batch_headers.batch_headers(data[:-1])) == 0


@pytest.mark.parametrize("size", [1, 4, 61])
def test_the_check_of_a_piece_is_of_so_many_bytes_at_either_end(size):
    data = bytes(at & 255 for at in range(200))
    check = check_of_ends(memoryview(data), size)
    for at in (0, size - 1, size, 100, 199 - size, 200 - size, 199):
        other = memoryview(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        is_within = at < size or at >= 200 - size
        assert (check_of_ends(other, size) != check) == is_within, at
    assert check_of_ends(memoryview(data)) == check_of_ends(memoryview(data), 61)  # a header

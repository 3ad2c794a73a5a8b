"""Bytes behind the last whole batch: the beginning of another one, or damage."""

import struct

import pytest

from coterie.log.batch_headers import may_become_batch
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

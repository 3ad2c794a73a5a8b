"""Record batches as clients send them, and partitions to write them to."""

import struct

from coterie._core.codec.batch import encode_batch
from coterie._core.codec.compression import crc32c
from coterie.messages import LogReader
from coterie.server.services.batch_checks import Refused
from coterie.server.services.partition import PartitionLog
from coterie.server.topic_settings import LogSettings


class Clock:
    def __init__(self, now_ms=1_000_000):
        self.now_ms = now_ms

    def __call__(self):
        return self.now_ms


def batch(*values, time_ms=1000, **how):
    """A batch of these values, one ms apart; a pair is key and value."""
    pairs = [value if isinstance(value, tuple) else (b"k", value) for value in values]
    return encode_batch(
        [(number, time_ms + number, key, value) for number, (key, value) in enumerate(pairs)], **how
    )


def of_producer(sequence, *, producer_id=7, epoch=0, count=1, transactional=False, time_ms=1000):
    return batch(
        *[b"v"] * count,
        time_ms=time_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def edited(data, at, form, value, *, right=True):
    """A batch with a field of its header changed, under a right checksum or the one before."""
    out = bytearray(data)
    struct.pack_into(form, out, at, value)
    if right:
        struct.pack_into(">I", out, 17, crc32c(bytes(out[21:])))
    return bytes(out)


def log(clock=None, **settings):
    return PartitionLog("t", 0, LogSettings(**settings), Clock() if clock is None else clock)


def offsets(data):
    return [record.offset for each in LogReader(data) for record in each.records]


def refusal(partition, data):
    """The error of a refused write, and whether the response has the log's start."""
    before = partition.data()
    try:
        partition.produce(data)
    except Refused as refused:
        assert partition.data() == before
        return int(refused.error), refused.reports_log_start
    raise AssertionError("it was written")


def everything(partition, offset=0, max_bytes=1 << 20, *, committed=False):
    end = partition.last_stable_offset if committed else partition.high_watermark
    return partition.read(offset, max_bytes, end, whole_first=True)

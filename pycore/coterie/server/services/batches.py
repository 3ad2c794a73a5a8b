"""Record batches as bytes: their headers, and the fields that a log writes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from coterie._core.codec.batch import CODECS, LogReader, encode_batch
from coterie._core.codec.compression import crc32c
from coterie.errors import CoterieError

_HEADER = struct.Struct(">qiibIhiqqqhii")
_SIZE = struct.Struct(">i")
_OFFSET = struct.Struct(">q")
_MAX_TIMESTAMP = struct.Struct(">q")
_LOG_OVERHEAD = 12
_UP_TO_MAGIC = 17
_LEAST_SIZE = 14  # of a message of magic 0, without the overhead
_CRC_AT, _CRC_FROM, _MAX_TIMESTAMP_AT = 17, 21, 35
_ATTRIBUTES_AT = 22  # the lower byte, which has all flags in use
ZSTD = CODECS.index("zstd")
_CODEC, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 7, 8, 16, 32


class Corrupt(CoterieError):
    """Bytes that are not a batch; the message is Kafka's."""


class Header(NamedTuple):
    """The header of a batch of magic 2."""

    base_offset: int
    size: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int

    @property
    def codec(self) -> int:
        return self.attributes & _CODEC

    @property
    def append_time(self) -> bool:
        return self.attributes & _APPEND_TIME != 0

    @property
    def transactional(self) -> bool:
        return self.attributes & _TRANSACTIONAL != 0

    @property
    def control(self) -> bool:
        """Whether it is a control batch, such as a transaction marker."""
        return self.attributes & _CONTROL != 0

    @property
    def last_sequence(self) -> int:
        """The sequence of its last record; sequences wrap from 2**31 - 1 to 0."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def header(batch: bytes) -> Header:
    """Read the header of a batch of magic 2."""
    return Header._make(_HEADER.unpack_from(batch))


def batches_of(data: bytes) -> Iterator[bytes]:
    """Yield the complete batches of any magic; as in Kafka, an incomplete last one is skipped."""
    at = 0
    while len(data) - at >= _LOG_OVERHEAD:
        (size,) = _SIZE.unpack_from(data, at + 8)
        if size < _LEAST_SIZE:
            raise Corrupt(
                f"Record size {size} is less than the minimum record overhead ({_LEAST_SIZE})"
            )
        if len(data) - at < _UP_TO_MAGIC:
            return
        magic = data[at + _UP_TO_MAGIC - 1]
        if magic > 2:
            signed_magic = magic - 256 if magic > 127 else magic
            raise Corrupt(f"Invalid magic found in record: {signed_magic}")
        if len(data) - at < size + _LOG_OVERHEAD:
            return
        yield data[at : at + size + _LOG_OVERHEAD]
        at += size + _LOG_OVERHEAD


def is_one(data: bytes) -> bool:
    """Whether the bytes are exactly one batch of magic 2, as current clients send it."""
    return (
        len(data) >= _HEADER.size
        and data[_UP_TO_MAGIC - 1] == 2
        and int.from_bytes(data[8:_LOG_OVERHEAD], "big") == len(data) - _LOG_OVERHEAD
    )


def is_plain(data: bytes) -> bool:
    """Whether the bytes are exactly one batch of magic 2 outside a transaction."""
    return is_one(data) and not data[_ATTRIBUTES_AT] & _TRANSACTIONAL


def compressed(batch: bytes) -> int:
    """Return the compression type of a batch of any magic."""
    magic = batch[_UP_TO_MAGIC - 1]
    if magic == 2:
        return batch[22] & _CODEC
    return batch[_UP_TO_MAGIC] & (_CODEC if magic else 3) if len(batch) > _UP_TO_MAGIC else 0


def whole(batch: bytes) -> bool:
    """Whether a batch of magic 2 is long enough for its header and its checksum holds."""
    if len(batch) < _HEADER.size:
        return False
    return crc32c(memoryview(batch)[_CRC_FROM:]) == header(batch).crc


def stamped(
    batch: bytes,
    base_offset: int,
    leader_epoch: int,
    *,
    append_time_ms: int | None = None,
    max_timestamp: int | None = None,
) -> bytes:
    """Return a batch of magic 2 with the fields that a log writes.

    The checksum covers the timestamp but neither offset nor leader epoch. It is recomputed only for
    a new timestamp.
    """
    out = bytearray(batch)
    _OFFSET.pack_into(out, 0, base_offset)
    _SIZE.pack_into(out, 12, leader_epoch)
    timestamp = max_timestamp if append_time_ms is None else append_time_ms
    if timestamp is not None:
        if append_time_ms is None:
            out[22] &= ~_APPEND_TIME
        else:
            out[22] |= _APPEND_TIME
        _MAX_TIMESTAMP.pack_into(out, _MAX_TIMESTAMP_AT, timestamp)
        out[_CRC_AT:_CRC_FROM] = crc32c(memoryview(out)[_CRC_FROM:]).to_bytes(4, "big")
    return bytes(out)


def converted(data: bytes) -> bytes:
    """Convert message sets of magic 0 and 1 to one batch of magic 2 of the same compression."""
    reader = LogReader(data)
    batches = list(reader)
    if reader.faults:
        raise Corrupt(reader.faults[0].detail)
    records = [record for batch in batches for record in batch.records]
    codec = max(CODECS.index(batch.compression) for batch in batches)
    return encode_batch(
        [(n, r.timestamp, r.key, r.value) for n, r in enumerate(records)], codec=codec
    )

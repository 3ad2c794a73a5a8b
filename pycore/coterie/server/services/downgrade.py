"""Down-conversion of records for Fetch below version 4, whose clients lack magic 2."""

from __future__ import annotations

from coterie._core.codec.batch import CODECS, LogBatch, LogReader, encode_message_set
from coterie.server.services.batches import ZSTD

_CHUNK = 128 * 1024
_LEAST_FILL = 12
_BATCH_OVERHEAD = 61


class CannotDowngrade(Exception):
    """The compression type does not exist in the older format."""


def downgraded(data: bytes, magic: int, first_offset: int) -> bytes:
    """Convert batches to message sets of magic 0 or 1; headers and markers are dropped.

    Of uncompressed batches, only records from ``first_offset`` on are returned. The result is as
    long as the input, or as long as the first batch needs. Remaining space, also that of zstd
    batches, is filled with an incomplete message, which clients skip.
    """
    batches = list(LogReader(data, check_crc=False))
    out, following = b"", 0
    while not out and following < len(batches):
        out = _message_set(batches[following], magic, first_offset)
        following += 1
    if not out:
        return bytes(_LEAST_FILL) if batches else b""
    size = max(len(data), len(out))
    while len(out) < size and following < len(batches):
        chunk, following = _chunk(batches, following)
        try:
            out += b"".join(_message_set(batch, magic, first_offset) for batch in chunk)
        except CannotDowngrade:
            break
    if len(out) < size:
        missing = size - len(out)
        fill = b"\xff" * 8 + max(missing + 1, _BATCH_OVERHEAD).to_bytes(4, "big")
        out += fill.ljust(missing, b"\0")
    return out[:size]


def _chunk(batches: list[LogBatch], at: int) -> tuple[list[LogBatch], int]:
    """Return the batches to convert together, and the index of the next one."""
    end, size = at + 1, batches[at].size
    while end < len(batches) and size + batches[end].size <= _CHUNK:
        size += batches[end].size
        end += 1
    return batches[at:end], end


def _message_set(batch: LogBatch, magic: int, first_offset: int) -> bytes:
    if batch.is_control:
        return b""
    codec = CODECS.index(batch.compression)
    if codec == ZSTD:
        raise CannotDowngrade
    records = [r for r in batch.records if codec or r.offset >= first_offset]
    if not records:
        return b""
    return encode_message_set(
        [(r.offset, r.timestamp, r.key, r.value) for r in records],
        magic,
        codec=codec,
        append_time_ms=batch.max_timestamp if batch.append_time and magic else None,
    )

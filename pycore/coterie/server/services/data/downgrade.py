"""Records for clients that know no batches of magic 2: Fetch below version 4."""

from __future__ import annotations

from coterie._core.codec.reader import CODECS, LogBatch, LogReader
from coterie._core.codec.writer import encode_message_set

__all__ = ["CannotDowngrade", "downgraded"]

_ZSTD = 4
_CHUNK = 128 * 1024
_LEAST_FILL = 12
_BATCH_OVERHEAD = 61


class CannotDowngrade(Exception):
    """The compression did not exist then."""


def downgraded(data: bytes, magic: int, first_offset: int) -> bytes:
    """Return batches as message sets of magic 0 or 1; headers and markers are lost.

    Of what is not compressed, only records from ``first_offset`` on. There are as many bytes as
    before, or as the first batch needs: what is left over is filled with the head of a batch that
    is longer than what follows, which clients leave out, and so do batches of zstd.
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
            out += b"".join(_message_set(each, magic, first_offset) for each in chunk)
        except CannotDowngrade:
            break
    if len(out) < size:
        left = size - len(out)
        fill = b"\xff" * 8 + max(left + 1, _BATCH_OVERHEAD).to_bytes(4, "big")
        out += fill.ljust(left, b"\0")
    return out[:size]


def _chunk(batches: list[LogBatch], at: int) -> tuple[list[LogBatch], int]:
    """Return the batches that are converted together, and where the next begin."""
    end, size = at + 1, batches[at].size
    while end < len(batches) and size + batches[end].size <= _CHUNK:
        size += batches[end].size
        end += 1
    return batches[at:end], end


def _message_set(batch: LogBatch, magic: int, first_offset: int) -> bytes:
    if batch.is_control:
        return b""
    codec = CODECS.index(batch.compression)
    if codec == _ZSTD:
        raise CannotDowngrade
    records = [r for r in batch.records if codec or r.offset >= first_offset]
    if not records:
        return b""
    return encode_message_set(
        [(r.offset, r.timestamp, r.key, r.value) for r in records],
        magic,
        codec=codec,
        append_time_ms=records[0].timestamp if batch.append_time and magic else None,
    )

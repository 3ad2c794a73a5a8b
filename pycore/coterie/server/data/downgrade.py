"""Records for clients that know no batches of magic 2: Fetch below version 4."""

from __future__ import annotations

from coterie._core.codec.reader import CODECS, LogReader
from coterie._core.codec.writer import encode_message_set

__all__ = ["CannotDowngrade", "downgraded"]

_ZSTD = 4


class CannotDowngrade(Exception):
    """The compression did not exist then."""


def downgraded(data: bytes, magic: int, first_offset: int) -> bytes:
    """Return batches as message sets of magic 0 or 1; headers and markers are lost.

    Of what is not compressed, only records from ``first_offset`` on.
    """
    out = []
    for batch in LogReader(data, check_crc=False):
        if batch.is_control:
            continue
        codec = CODECS.index(batch.compression)
        if codec == _ZSTD:
            raise CannotDowngrade
        records = [r for r in batch.records if codec or r.offset >= first_offset]
        if records:
            append_time = records[0].timestamp if batch.append_time and magic else None
            out.append(
                encode_message_set(
                    [(r.offset, r.timestamp, r.key, r.value) for r in records],
                    magic,
                    codec=codec,
                    append_time_ms=append_time,
                )
            )
    return b"".join(out)

"""The headers of a segment's batches, as arrays: what tells two copies of a batch apart.

No record is read, and only ``sound_headers`` checks checksums. A segment of 100 MiB with small
batches takes about 0.3 s and 44 bytes for each batch.
Source: RecordBatch, DefaultRecordBatch, LegacyRecord.
Rules: docs/rules/log-format.md#record-batches, #message-sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from coterie._core.codec.batch import batch_boundaries
from coterie._core.codec.compression import crc32, crc32c

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer

HEADER_DTYPE = np.dtype(
    [
        ("base_offset", np.int64),
        ("last_offset", np.int64),
        ("position", np.int64),
        ("size", np.int32),
        ("leader_epoch", np.int32),
        ("crc", np.uint32),
        ("segment", np.int32),
        ("records", np.int32),
        ("magic", np.int8),
    ]
)
LEAST_BYTES = 26  # of a message of magic 0
V2_BYTES = 61  # of a header of magic 2
LENGTH_AT, EPOCH_AT, MAGIC_AT, V2_CRC_AT, CRC_FROM, DELTA_AT, COUNT_AT = 8, 12, 16, 17, 21, 23, 57
NO_EPOCH = -1
LAST_BYTES = 64 << 10
ROWS = 10_000  # that become Python objects at a time


def batch_headers(data: Buffer) -> NDArray[Any]:
    """Return the headers of a segment's bytes, in the order of the file.

    A batch of magic 0 or 1 has one offset, that of its last record, no epoch, and counts as one
    record. What is no whole batch of magic 0 to 2 is left out; ``segment`` is 0.
    """
    view: NDArray[np.uint8] = np.frombuffer(memoryview(data), np.uint8)
    cuts = np.array(batch_boundaries(data, 1), np.int64)
    at = cuts[:-1][np.diff(cuts) >= LEAST_BYTES]
    size = _number(view, at + LENGTH_AT, 4) + EPOCH_AT
    magic = view[at + MAGIC_AT].astype(np.int8)
    least = np.where(magic == 2, V2_BYTES, LEAST_BYTES)
    whole = (size >= least) & (at + size <= len(view)) & (magic >= 0) & (magic <= 2)
    at, size, magic = at[whole], size[whole], magic[whole]
    is_v2 = magic == 2
    headers = np.zeros(len(at), HEADER_DTYPE)
    headers["base_offset"] = headers["last_offset"] = _number(view, at, 8)
    headers["last_offset"][is_v2] += _number(view, at[is_v2] + DELTA_AT, 4)
    headers["records"] = 1
    headers["records"][is_v2] = _number(view, at[is_v2] + COUNT_AT, 4)
    headers["position"], headers["size"], headers["magic"] = at, size, magic
    headers["leader_epoch"] = np.where(is_v2, _number(view, at + EPOCH_AT, 4), NO_EPOCH)
    headers["crc"] = _number(view, at + np.where(is_v2, V2_CRC_AT, EPOCH_AT), 4).astype(np.uint32)
    return headers


def sound_headers(data: Buffer, *, is_response: bool = False) -> NDArray[Any]:
    """Return the headers of the batches before the first damage.

    Sound batches follow each other without a hole, their checksums hold, and their offsets rise. A
    gap of offsets is compaction; an overlap or a step back is damage, of either batch: no checksum
    covers where a batch begins. ``is_response``: bytes behind the last whole batch are the
    beginning of the next one, as far as a Fetch response had space.
    """
    headers, view = batch_headers(data), memoryview(data)
    end, offset = 0, -1
    fields = ("position", "size", "base_offset", "last_offset", "crc", "magic")
    pieces = (headers[list(fields)][at : at + ROWS] for at in range(0, len(headers), ROWS))
    rows = (row for piece in pieces for row in piece.tolist())
    for count, (position, size, base, last, crc, magic) in enumerate(rows):
        if 0 <= base <= offset:
            return headers[: max(count - 1, 0)]
        if position != end or not 0 <= base <= last:
            return headers[:count]
        end, offset = position + size, last
        covered = view[position + (CRC_FROM if magic == 2 else MAGIC_AT) : end]
        if (crc32c if magic == 2 else crc32)(covered) != crc:
            return headers[:count]
    following = bytes(view[end : end + LENGTH_AT]) if is_response else b""
    if len(following) == LENGTH_AT and int.from_bytes(following, "big") <= offset:
        return headers[:-1]
    return headers


def whole_batches_end(data: Buffer, start: int = 0) -> int:
    """Return where the last whole batch ends, from a batch boundary on."""
    headers = last_headers(memoryview(data)[start:])
    return start + int(headers["position"][-1] + headers["size"][-1]) if len(headers) else start


def may_become_batch(data: Buffer) -> bool:
    """Whether bytes behind the last whole batch may be the beginning of one, or preallocated."""
    head = bytes(memoryview(data)[: MAGIC_AT + 1])
    if len(head) <= MAGIC_AT or not any(head):
        return True
    size = int.from_bytes(head[LENGTH_AT:EPOCH_AT], "big", signed=True) + EPOCH_AT
    least = V2_BYTES if head[MAGIC_AT] == 2 else LEAST_BYTES
    return size >= least and head[MAGIC_AT] <= 2


def last_headers(data: Buffer) -> NDArray[Any]:
    """Return the headers of the last whole batches, none if there is no whole batch.

    Only the headers of the last 64 KiB are read, and lengths before them.
    """
    cuts = batch_boundaries(data, LAST_BYTES)
    for begin, end in zip(reversed(cuts[:-1]), reversed(cuts), strict=False):
        headers = batch_headers(memoryview(data)[begin:end])
        if len(headers):
            headers["position"] += begin
            return headers
    return np.zeros(0, HEADER_DTYPE)


def check_of_ends(data: memoryview, size: int = V2_BYTES) -> int:
    """Return the checksum of the first and the last bytes: another segment has others."""
    return crc32c(bytes(data[:size]) + bytes(data[-size:]))


def _number(view: NDArray[np.uint8], at: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return big-endian signed numbers of ``size`` bytes."""
    value = view[at].astype(np.int8).astype(np.int64)
    for place in range(1, size):
        value = (value << 8) | view[at + place]
    return value

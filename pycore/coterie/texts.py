"""Texts out of bytes that lie end to end, as Arrow columns: no Python object a row.

Keys are those of offset commits without their version: int16 length and group id, int16 length
and topic, int32 partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie._core.codec.text import decode_utf8

if TYPE_CHECKING:
    import pyarrow as pa


def slices(data: np.ndarray[Any, Any], bounds: np.ndarray[Any, Any]) -> pa.Array:
    """Cut bytes at ``bounds`` (rising): element i is [bounds[i], bounds[i + 1])."""
    import pyarrow as pa

    ends = np.ascontiguousarray(bounds, dtype=np.int64)
    return pa.Array.from_buffers(
        pa.large_binary(), len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(data)]
    )


def to_text(array: pa.Array) -> pa.Array:
    """Bytes as text; where they are not UTF-8, as Java reads them."""
    import pyarrow as pa

    try:
        return array.cast(pa.large_string()).cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if data is None else decode_utf8(data) for data in array.to_pylist()]
        return pa.array(texts, pa.string())


def key_columns(keys: Sequence[bytes]) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return group ids, topics and partitions of keys that a fold has parsed."""
    import pyarrow as pa

    joined = b"".join(keys)
    data = np.frombuffer(joined, dtype=np.uint8)
    count = len(keys)
    ends = np.cumsum(np.fromiter(map(len, keys), dtype=np.int64, count=count))
    starts = np.concatenate([[0], ends[:-1]])

    def big_endian(at: np.ndarray[Any, Any], width: int) -> np.ndarray[Any, Any]:
        raw = np.ascontiguousarray(data[at[:, None] + np.arange(width)])
        return raw.view(f">u{width}").ravel()

    group_ends = starts + 2 + big_endian(starts, 2)
    topic_ends = group_ends + 2 + big_endian(group_ends, 2)
    bounds = np.stack([starts + 2, group_ends, group_ends + 2, topic_ends], axis=1)
    pieces = slices(data, np.append(bounds.ravel(), ends[-1:]))
    each = np.arange(count, dtype=np.int64) * 4
    groups, topics = (to_text(pieces.take(pa.array(each + shift))) for shift in (0, 2))
    return groups, topics, pa.array(big_endian(topic_ends, 4).astype(np.uint32).view(np.int32))

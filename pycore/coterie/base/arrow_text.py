"""Arrow text columns from concatenated bytes, without a Python object per row.

A key is the key of an offset commit without its version: int16 length and group id, int16 length
and topic, int32 partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from coterie._core.codec.layout import decode_utf8

if TYPE_CHECKING:
    import pyarrow as pa


TEXT_BYTES_MAX = 2**31 - 1  # of an Arrow string array
FIRST_NOT_ASCII = 0x80


def slices(data: np.ndarray[Any, Any], bounds: np.ndarray[Any, Any]) -> pa.Array:
    """Cut bytes at rising ``bounds``: element i is ``data[bounds[i]:bounds[i + 1]]``."""
    import pyarrow as pa

    ends = np.ascontiguousarray(bounds, dtype=np.int64)
    return pa.Array.from_buffers(
        pa.large_binary(), len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(data)]
    )


def to_text(array: pa.Array) -> pa.Array:
    """Decode bytes as UTF-8; invalid bytes are decoded as Java decodes them."""
    import pyarrow as pa

    try:
        return array.cast(pa.large_string()).cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if data is None else decode_utf8(data) for data in array.to_pylist()]
        return pa.array(texts, pa.string())


def texts_of(
    data: np.ndarray[Any, Any], bounds: np.ndarray[Any, Any], nulls: np.ndarray[Any, Any]
) -> pa.Array:
    """Cut bytes at ``bounds`` into texts; a null takes no bytes."""
    import pyarrow as pa

    count = len(nulls)
    holes = None
    if nulls.any():
        holes = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    if len(data) <= TEXT_BYTES_MAX and (not len(data) or data.max() < FIRST_NOT_ASCII):
        ends = pa.py_buffer(bounds.astype(np.int32))
        return pa.Array.from_buffers(pa.string(), count, [holes, ends, pa.py_buffer(data)])
    ends = pa.py_buffer(bounds)
    buffers = [holes, ends, pa.py_buffer(data)]
    return to_text(pa.Array.from_buffers(pa.large_binary(), count, buffers))

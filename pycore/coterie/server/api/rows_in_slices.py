"""Responses with a long list: its rows are made and encoded in slices of a bounded number.

The codec encodes whole messages. The bytes of rows are what a message with these rows has more
than one without rows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

from coterie import wire
from coterie.server.api.call import Call, Part, Slices

__all__ = ["SLICE_ENTRIES", "answer_in_slices", "encoded_count"]

SLICE_ENTRIES = 1000  # rows and partitions
_ROW_ENTRIES = 10  # a row costs as much as so many partitions
_INT32 = struct.Struct(">i")


def encoded_count(number: int, *, flexible: bool) -> bytes:
    """Encode the length of an array or of bytes."""
    if not flexible:
        return _INT32.pack(number)
    number += 1
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def next_slice(rows: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """Take the rows of a slice: the last one is the first that reaches ``SLICE_ENTRIES``."""
    taken: list[dict[str, Any]] = []
    entries = 0
    for row in rows:
        taken.append(row)
        entries += _ROW_ENTRIES + len(row.get("partitions", ())) + row.get("numPartitions", 0)
        if entries >= SLICE_ENTRIES:
            break
    return taken


def answer_in_slices(
    call: Call,
    body: dict[str, Any],
    name: str,
    rows: Iterable[dict[str, Any]],
    count: int,
    *,
    behind: int = 0,
) -> Slices:
    """Answer with rows, and let other requests be handled between slices of them.

    Parameters
    ----------
    call
        The request.
    body : dict
        The other fields of the response.
    name : str
        The field of the rows, a list.
    rows : iterable of dict
        Exactly ``count`` rows. They are taken slice by slice.
    count : int
        The number of rows.
    behind : int
        The size in bytes of the fields that follow the list in this version, tags not counted.
    """
    rows = iter(rows)
    first_rows = next_slice(rows)
    if len(first_rows) == count:
        return call.answer({**body, name: first_rows})
    flexible = call.api_version >= wire.APIS[call.api_key].flexible_version
    behind += flexible

    def encoded(some: list[dict[str, Any]]) -> bytes:
        frame: bytes = wire.encode_response(
            call.api_key, call.api_version, {**body, name: some},
            correlation_id=call.correlation_id,
        )  # fmt: skip
        return frame

    empty = encoded([])
    end = len(empty) - behind
    start = end - len(encoded_count(0, flexible=flexible))
    parts: list[Part] = [empty[:start] + encoded_count(count, flexible=flexible)]
    some = first_rows
    while some:
        frame = encoded(some)
        first = start + len(encoded_count(len(some), flexible=flexible))
        parts.append(frame[first : len(frame) - behind])
        yield
        some = next_slice(rows)
    parts.append(empty[end:])
    return call.answer_parts(parts)

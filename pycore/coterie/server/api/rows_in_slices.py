"""Long requests: their work, and the encoding of a response with a long list, in slices.

A handler that yields lets other requests be handled before it goes on. The codec encodes whole
messages. The bytes of rows are what a message with these rows has more than one without rows.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from coterie import wire
from coterie.server.api.call import Call, Part, Slices
from coterie.wire.varints import unsigned_varint

SLICE_ENTRIES = 1000  # rows, and the entries of their lists
_ROW_ENTRIES = 10  # a row costs as much as so many entries of its lists
_INT32 = struct.Struct(">i")
Entry = TypeVar("Entry")
Row = dict[str, Any] | tuple[Any, ...]


class Pace:
    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = SLICE_ENTRIES

    def is_over(self, entries: int = 1) -> bool:
        """Count entries; return whether they end a slice."""
        self._left -= entries
        if self._left > 0:
            return False
        self._left = SLICE_ENTRIES
        return True


def runs(entries: Sequence[Entry]) -> Iterable[Sequence[Entry]]:
    """Cut a list into runs of at most one slice."""
    if len(entries) <= SLICE_ENTRIES:
        return (entries,)
    starts = range(0, len(entries), SLICE_ENTRIES)
    return (entries[start : start + SLICE_ENTRIES] for start in starts)


def encoded_count(number: int, *, flexible: bool) -> bytes:
    """Encode the length of an array or of bytes."""
    return unsigned_varint(number + 1) if flexible else _INT32.pack(number)


def _entries(row: Row) -> int:
    if isinstance(row, tuple):
        return _ROW_ENTRIES
    lists = sum(len(value) for value in row.values() if type(value) is list)
    return _ROW_ENTRIES + lists + int(row.get("numPartitions", 0))


def answer_in_slices(
    call: Call,
    body_with: Callable[[list[Any]], dict[str, Any] | tuple[Any, ...]],
    rows: Iterable[Row | None],
    *,
    behind: int = 0,
) -> Slices:
    """Answer with rows, and let other requests be handled between slices of them.

    Parameters
    ----------
    call
        The request.
    body_with : callable
        Returns the response with some of the rows.
    rows : iterable
        They are taken slice by slice. None: a slice ends within a row.
    behind : int
        The size in bytes of the fields that follow the list in this version, tags not counted.
    """
    form = _Form(call, body_with, behind)
    parts: list[Part] = []
    pace, count, is_full = Pace(), 0, False
    some: list[Row] = []
    for row in rows:
        if is_full:
            parts.append(form.encoded(some))
            some = []
            yield
        if row is None:
            is_full = False
            yield
            continue
        some.append(row)
        count += 1
        is_full = pace.is_over(_entries(row))
    if not parts:
        return call.answer(body_with(some))
    return call.answer_parts([*form.around([*parts, form.encoded(some)], count)])


class _Form:
    """Encodes rows of a response, and what is around them."""

    def __init__(self, call: Call, body_with: Callable[[list[Any]], Any], behind: int) -> None:
        self._call, self._body_with = call, body_with
        self._flexible = call.api_version >= wire.APIS[call.api_key].flexible_version
        self._behind = behind + self._flexible
        self._start = 0  # of the list
        self._empty = b""

    def _frame(self, rows: list[Row]) -> bytes:
        call = self._call
        frame: bytes = wire.encode_response(
            call.api_key, call.api_version, self._body_with(rows),
            correlation_id=call.correlation_id,
        )  # fmt: skip
        return frame

    def _count(self, number: int) -> bytes:
        return encoded_count(number, flexible=self._flexible)

    def encoded(self, rows: list[Row]) -> bytes:
        if not self._empty:
            self._empty = self._frame([])
            self._start = len(self._empty) - self._behind - len(self._count(0))
        frame = self._frame(rows)
        return frame[self._start + len(self._count(len(rows))) : len(frame) - self._behind]

    def around(self, parts: list[Part], count: int) -> list[Part]:
        end = len(self._empty) - self._behind
        return [self._empty[: self._start] + self._count(count), *parts, self._empty[end:]]

"""The frame of a Fetch response as parts: encoded bytes, and the stored batches between them.

The codec encodes everything but the records. A field's bytes are what a message has more than the
same message without the field; so no layout of a version is repeated here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from coterie import wire
from coterie.server.api.call import Part
from coterie.server.api.rows_in_slices import encoded_count
from coterie.server.services.adjacent_batches import RecordRange
from coterie.server.services.fetch_sessions import PartitionRow

_FETCH = 1
_FLEXIBLE = wire.APIS[_FETCH].flexible_version


def fetch_frame(version: int, row: tuple[Any, ...], correlation_id: int) -> list[Part]:
    """Encode a response, without its length in front.

    Parameters
    ----------
    version : int
    row : tuple
        The response in the table's order. Its records may be a ``RecordRange``, which becomes a
        part of its own.
    correlation_id : int

    Raises
    ------
    coterie.ArgumentError
        A value does not fit its field.
    """
    *before, topics, endpoints = row
    form = _Form(version, (*before,), endpoints, correlation_id)
    parts: list[Part] = []
    pending = form.head + form.count(len(topics))
    for topic, topic_id, rows in topics:
        pending += form.topic(topic, topic_id) + form.count(len(rows))
        for piece in form.partitions(rows):
            if isinstance(piece, bytes):
                pending += piece
            else:
                parts += (pending, piece)
                pending = b""
        pending += form.end
    parts.append(pending + form.end)
    return parts


class _Form:
    """The pieces of a response in one version."""

    def __init__(
        self, version: int, before: tuple[Any, ...], endpoints: Any, correlation_id: int
    ) -> None:
        self._version, self._before, self._endpoints = version, before, endpoints
        self._correlation_id = correlation_id
        self._flexible = version >= _FLEXIBLE
        self.end = b"\0" if self._flexible else b""
        self._no_count = len(self.count(0))
        self._topic: tuple[str | None, str | None] = (None, None)
        self._topic_head = b""
        self.head = self._frame([])[: -self._no_count - len(self.end)]

    def count(self, number: int) -> bytes:
        """Encode the length of an array or of bytes."""
        return encoded_count(number, flexible=self._flexible)

    def _frame(self, topics: list[tuple[Any, ...]]) -> bytes:
        row = (*self._before, topics, self._endpoints)
        encoded: bytes = wire.encode_response(
            _FETCH, self._version, row, correlation_id=self._correlation_id
        )
        return encoded

    def topic(self, topic: str | None, topic_id: str | None) -> bytes:
        """Begin a topic; encode what precedes the number of its partitions."""
        self._topic = (topic, topic_id)
        start = len(self.head) + self._no_count
        frame = self._frame([(*self._topic, [])])
        self._topic_head = frame[start : len(frame) - self._no_count - 2 * len(self.end)]
        return self._topic_head

    def partitions(self, rows: Sequence[PartitionRow]) -> Iterator[Part]:
        """Encode partitions of the topic; runs of those without a range at once."""
        for ranged, run in groupby(rows, key=lambda row: type(row.records) is RecordRange):
            if not ranged:
                yield self._run(list(run))
                continue
            for row in run:
                records = row.records
                assert isinstance(records, RecordRange)
                without = self._run([row._replace(records=b"")])
                # Such a row has no tagged fields: only rows without records have any.
                yield without[: -self._no_count - len(self.end)] + self.count(records.size)
                yield records
                yield self.end

    def _run(self, rows: list[PartitionRow]) -> bytes:
        start = len(self.head) + self._no_count + len(self._topic_head) + len(self.count(len(rows)))
        frame = self._frame([(*self._topic, rows)])
        return frame[start : len(frame) - 2 * len(self.end)]

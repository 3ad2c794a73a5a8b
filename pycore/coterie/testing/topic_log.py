"""The compacted offsets topic, which all brokers share."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

from coterie.values import Batch

_COMMIT = b"\x00\x00\x00\x01"  # the key of a marker: version 0, type 1
Records = tuple[tuple[bytes | None, bytes | None], ...]
Row = tuple[int, int, int, bool, bool, Records]  # the fields of a batch


class OffsetsLog:
    """The last record of each key, in the order of writing, and the batches of open transactions.

    A rebalance writes all of a group, so memory for every record would grow with rebalances.
    """

    def __init__(self) -> None:
        self._end = 0
        self._records: dict[bytes | None, tuple[int, bytes | None]] = {}
        self._open: dict[int, list[Row]] = {}  # by producer id

    def __len__(self) -> int:
        return len(self._records)

    def append(self, batch: Batch) -> int:
        """Write records; return the offset of the first."""
        return self.write((
            *(batch.base_offset, batch.producer_id, batch.producer_epoch),
            *(batch.transactional, batch.control, batch.records),
        ))  # fmt: skip

    def read(self) -> Iterator[Batch]:
        """Yield the retained records, each in a batch of its own, and open transactions."""
        for row in self.rows():
            yield Batch(*row)

    def write(self, row: Row) -> int:
        """Write a batch that is a row; return its offset."""
        _, producer_id, _, transactional, control, records = row
        first = self._end
        self._end += len(records)
        if control:
            written = self._open.pop(producer_id, [])
            if records[0][0] == _COMMIT:
                for one in written:
                    self._retain(one[-1], one[0])
        elif transactional:
            self._open.setdefault(producer_id, []).append((first, *row[1:]))
        else:
            self._retain(records, first)
        return first

    def _retain(self, records: Records, first: int) -> None:
        retained = self._records
        for offset, (key, value) in enumerate(records, first):
            before = retained.pop(key, None)
            if before is not None and offset < before[0]:
                retained[key] = before  # a commit outside of the transaction came after it
            elif value is not None:
                retained[key] = offset, value

    def rows(self) -> Iterator[Row]:
        """Yield what :meth:`read` yields, as rows."""
        rows: list[Row] = [
            (offset, -1, -1, False, False, ((key, value),))
            for key, (offset, value) in self._records.items()
        ]
        for written in self._open.values():
            rows += written
        yield from sorted(rows, key=itemgetter(0))

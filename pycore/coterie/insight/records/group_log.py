"""The records of groups, except commits, stored in a temporary file.

A group of a thousand members writes a hundred kilobytes at each rebalance. So beyond a few
megabytes, keys and values go to a temporary file; only their index stays in memory.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, overload

from coterie._core.codec.layout import decode_utf8
from coterie.errors import CoterieError

if TYPE_CHECKING:
    from coterie._core.fold.fold import PartitionFold

MEMORY_BYTES = 4 << 20  # of keys and values; more go to a temporary file


class GroupRecord(NamedTuple):
    """One record of a group, not a commit; ``value`` None: a tombstone.

    ``version`` is the key's: 2 for a classic group's metadata, 3 to 23 for a newer protocol.
    ``timestamp`` is in ms, -1: none.
    """

    group: str
    log_offset: int
    timestamp: int
    version: int
    key: bytes
    value: bytes | None
    file: str
    position: int

    @property
    def time_ms(self) -> int | None:
        """The timestamp; None: the record has none."""
        return None if self.timestamp < 0 else self.timestamp


class Place(NamedTuple):
    """A record without its bytes: the key is at ``at``, the value (size -1: none) follows it."""

    group: str
    log_offset: int
    timestamp: int
    version: int
    file: str
    position: int
    at: int
    key_size: int
    value_size: int


class Spool:
    """Bytes that are appended and read back, in a temporary file beyond ``MEMORY_BYTES``."""

    def __init__(self) -> None:
        self.file = tempfile.SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115 - open while in use
        self.end = 0
        weakref.finalize(self, self.file.close)

    def append(self, data: bytes) -> int:
        """Append bytes and return their position."""
        try:
            self.file.seek(self.end)
            self.file.write(data)
        except OSError as error:
            problem = f"a temporary file cannot be written: {error.strerror}"
            raise CoterieError(f"{problem}; let TMPDIR name a folder with more room") from error
        self.end += len(data)
        return self.end - len(data)

    def read(self, at: int, size: int) -> bytes:
        """Return ``size`` bytes from a position."""
        self.file.seek(at)
        return self.file.read(size)


class GroupRecords(Sequence[GroupRecord]):
    """Records of groups in log order; parts of it share its bytes.

    Each access reads the record again.
    """

    def __init__(self, records: Iterable[GroupRecord] = ()) -> None:
        self.places: list[Place] = []
        self.spool = Spool()
        for record in records:
            self.append(record)

    def append(self, record: GroupRecord) -> None:
        """Append a record. Only a whole log may be appended to, not a part of it."""
        at = self.spool.append(record.key + (record.value or b""))
        sizes = len(record.key), -1 if record.value is None else len(record.value)
        names = record.group, record.log_offset, record.timestamp, record.version
        self.places.append(Place(*names, record.file, record.position, at, *sizes))

    def take(self, fold: PartitionFold) -> None:
        """Move the records from a fold to the end of this log."""
        for record in fold.group_records or ():
            self.append(GroupRecord(decode_utf8(record[0]), *record[1:]))
        if fold.group_records:
            fold.group_records.clear()

    def part(self, numbers: Iterable[int]) -> GroupRecords:
        """Return some of the records as a log that shares the bytes."""
        part = GroupRecords.__new__(GroupRecords)
        part.places = [self.places[number] for number in numbers]
        part.spool = self.spool
        return part

    def by_group(self) -> dict[str, GroupRecords]:
        """Return the records of each group, by id in order of first occurrence."""
        numbers: dict[str, list[int]] = {}
        for number, place in enumerate(self.places):
            numbers.setdefault(place.group, []).append(number)
        return {group: self.part(of_group) for group, of_group in numbers.items()}

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, at: int) -> GroupRecord: ...
    @overload
    def __getitem__(self, at: slice) -> GroupRecords: ...
    def __getitem__(self, at: int | slice) -> GroupRecord | GroupRecords:
        if isinstance(at, slice):
            return self.part(range(*at.indices(len(self))))
        place = self.places[at]
        data = self.spool.read(place.at, place.key_size + max(place.value_size, 0))
        return GroupRecord(
            *place[:4],
            data[: place.key_size],
            None if place.value_size < 0 else data[place.key_size :],
            place.file,
            place.position,
        )

    def __iter__(self) -> Iterator[GroupRecord]:
        return (self[number] for number in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

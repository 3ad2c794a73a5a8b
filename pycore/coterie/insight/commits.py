"""The records of one partition of the topic as numpy columns, each commit with its outcome.

Segments are decoded one after another without a Python object a record; names are unified over
them. Faulty places are left out, as ``--on-fault skip`` does. Only the records of groups that are
no commits are kept as bytes. Cost: about 25 M records/s to decode; about 130 bytes a record kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coterie._core.fold.columns import BATCH_DTYPE, KIND_NAMES, decode_columns
from coterie.log.folders import PIECE_BYTES, Segment, cut_points, read_segment

if TYPE_CHECKING:
    from typing_extensions import Buffer

KIND = {name: number for number, name in enumerate(KIND_NAMES)}
OUTCOMES = ("committed", "aborted", "pending")
COMMITTED, ABORTED, PENDING = range(3)
Array = np.ndarray[Any, Any]
ReadSegment = Callable[[Segment], "Buffer"]


class GroupRecord(NamedTuple):
    """One record of a group that is no commit; ``value`` None: a tombstone.

    ``version`` is the key's: 2, a classic group's metadata, or 3 to 23, a newer protocol's.
    ``timestamp`` is ms, -1: none.
    """

    group: str
    log_offset: int
    timestamp: int
    version: int
    key: bytes
    value: bytes | None
    file: str
    position: int


@dataclass(frozen=True, eq=False)
class Commits:
    """Rows of records in log order; row i of every array is one record.

    Attributes
    ----------
    groups, topics, files : list of str
        The names that ``group``, ``topic`` and ``file`` count.
    kind : int8
        Of ``coterie._core.fold.columns.KIND_NAMES``; see ``KIND``. Commits are ``offset`` and
        ``offset_tombstone``.
    group, topic, partition : int32
        Name numbers, -1: none.
    offset, leader_epoch : int64, int32
        What was committed; -1 where there is none.
    log_offset : int64
        The record's place in the partition of the topic.
    timestamp, commit_timestamp, expire_timestamp : int64
        ms, -1: none. The first is the record's own, the others stand in a commit's value.
    producer_id : int64
        Of a transaction; -1: a record outside of any.
    outcome : int8
        Of ``OUTCOMES``: the producer's next marker decides; what is outside of any transaction
        counts at once.
    key_size, value_size : int32
        Bytes; -1: null.
    metadata, metadata_end : uint8, int64
        Metadata end to end, and where each row's ends.
    batch : int32
        Row of ``batches`` (``BATCH_DTYPE``, ``position`` the byte in the segment, decompressed),
        ``batch_file`` (int32) and ``batch_first`` (int64: offset of the first record present, as
        ``appended_batch_offset``, -1: none). All batches are there, whatever rows are left out.
    """

    groups: list[str]
    topics: list[str]
    files: list[str]
    kind: Array
    group: Array
    topic: Array
    partition: Array
    offset: Array
    leader_epoch: Array
    log_offset: Array
    timestamp: Array
    commit_timestamp: Array
    expire_timestamp: Array
    producer_id: Array
    outcome: Array
    key_size: Array
    value_size: Array
    metadata: Array
    metadata_end: Array
    batch: Array
    batches: Array
    batch_file: Array
    batch_first: Array

    def __len__(self) -> int:
        return len(self.kind)

    @cached_property
    def tombstone(self) -> Array:
        """Whether a row is the tombstone of an offset; bool."""
        tombstones: Array = self.kind == KIND["offset_tombstone"]
        return tombstones

    @cached_property
    def position(self) -> Array:
        """Byte of a row's batch in its segment, int64: with ``file``, the evidence."""
        places: Array = self.batches["position"][self.batch]
        return places

    @cached_property
    def file(self) -> Array:
        """Number of a row's file in ``files``, int32."""
        numbers: Array = self.batch_file[self.batch]
        return numbers

    @cached_property
    def metadata_size(self) -> Array:
        """Bytes of a row's metadata, int64."""
        sizes: Array = np.diff(self.metadata_end, prepend=0)
        return sizes

    def metadata_of(self, row: int) -> bytes:
        """Return the metadata of a row."""
        start = int(self.metadata_end[row - 1]) if row else 0
        return self.metadata[start : int(self.metadata_end[row])].tobytes()

    def select(self, keep: Array) -> Commits:
        """Return the rows where ``keep`` (bool) is true, still in log order."""
        sizes = self.metadata_size
        changed: dict[str, Any] = {name: getattr(self, name)[keep] for name in ROW_COLUMNS}
        changed["metadata"] = self.metadata[np.repeat(keep, sizes)]
        changed["metadata_end"] = np.cumsum(sizes[keep])
        same = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in changed}
        return Commits(**same, **changed)

    def only_commits(self) -> Commits:
        """Return the commits and their tombstones alone."""
        return self.select(self.kind <= KIND["offset_tombstone"])


ROW_COLUMNS = (
    *("kind", "group", "topic", "partition", "offset", "leader_epoch", "log_offset"),
    *("timestamp", "commit_timestamp", "expire_timestamp", "producer_id", "outcome"),
    *("key_size", "value_size", "batch"),
)


def in_time(timestamps: Array, at_ms: int) -> Array:
    """Return which records count as of a time, as a fold has it: always those without one (-1)."""
    counting: Array = (timestamps <= at_ms) | (timestamps == -1)
    return counting


def is_before(timestamps: Array, since_ms: int | None) -> Array:
    """Return which records are known to be of before a time (ms; None: none is); bool."""
    if since_ms is None:
        return np.zeros(len(timestamps), dtype=np.bool_)
    early: Array = (timestamps >= 0) & (timestamps < since_ms)
    return early


class Numbering:
    """Numbering numbered in order of first sight, over all pieces."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        """Return a name's number, a new one at its first call."""
        return self.numbers.setdefault(name, len(self.numbers))

    def renumber(self, names: Iterable[str], column: Array) -> Array:
        """Return a column of numbers of ``names`` (-1: none) as numbers of all."""
        table = np.array([*map(self.number, names), -1], dtype=np.int32)
        renumbered: Array = table[column]
        return renumbered


class Reader:
    """Reads the segments of a partition, in log order, piece by piece.

    Parameters
    ----------
    groups
        Keep only rows of these groups; None: all rows, those of no group (markers) too.
    at_ms
        Leave out records whose own timestamp is after this; those without one count.
    read
        Gives the bytes of a segment.
    """

    def __init__(
        self,
        groups: Collection[str] | None = None,
        at_ms: int | None = None,
        read: ReadSegment = read_segment,
    ) -> None:
        self.wanted = groups
        self.at_ms = at_ms
        self.bytes_of = read
        self.names = {"group": Numbering(), "topic": Numbering()}
        self.files = Numbering()
        self.parts: list[dict[str, Array]] = []
        self.markers: list[tuple[Array, ...]] = []
        self.batch_count = 0
        self.metadata_size = 0
        self.group_records: list[GroupRecord] = []

    def read(self, segment: Segment) -> None:
        """Take the next segment."""
        data = memoryview(self.bytes_of(segment))
        for start, end in pairwise(cut_points(data, PIECE_BYTES)):
            self._take(decode_columns(data[start:end], raw=True), segment.name, start)

    def _take(self, columns: dict[str, Any], file: str, start: int) -> None:
        batches = columns["batches"]
        batches["position"] += start
        transactional = batches["transactional"][columns["batch"]] != 0
        columns["producer_id"] = np.where(
            transactional, batches["producer_id"][columns["batch"]], -1
        )
        first = np.append(columns["log_offset"], -1)[batches["first_row"]]
        rows_of = np.bincount(columns["batch"], minlength=len(batches))
        kept = self._kept(columns)
        self._note_markers(columns)
        self._note_groups(columns, kept, file)
        columns["batch"] = columns["batch"] + np.int32(self.batch_count)
        for name, names in self.names.items():
            columns[name] = names.renumber(columns[f"{name}s"], columns[name])
        part = {name: columns[name][kept] for name in ROW_COLUMNS if name != "outcome"}
        sizes = np.diff(columns["metadata_end"], prepend=0)
        part["metadata"] = columns["metadata"][np.repeat(kept, sizes)]
        part["metadata_end"] = np.cumsum(sizes[kept]) + self.metadata_size
        part["batches"] = batches
        part["batch_file"] = np.full(len(batches), self.files.number(file), np.int32)
        part["batch_first"] = np.where(rows_of > 0, first, -1)
        self.parts.append(part)
        self.metadata_size += len(part["metadata"])
        self.batch_count += len(batches)

    def _kept(self, columns: dict[str, Any]) -> Array:
        kept: Array = columns["kind"] != KIND["fault"]
        if self.at_ms is not None:
            kept &= in_time(columns["timestamp"], self.at_ms)
        if self.wanted is not None:
            wanted = [name in self.wanted for name in columns["groups"]]
            kept &= np.array([*wanted, False])[columns["group"]]
        return kept

    def _note_markers(self, columns: dict[str, Any]) -> None:
        """Note which producer's transaction ended how in which batch."""
        batches = columns["batches"]
        found = (batches["marker"] == 0) | (batches["marker"] == 1)  # ABORT, COMMIT
        if self.at_ms is not None:
            times = np.append(columns["timestamp"], -1)[batches["first_row"]]
            found &= in_time(times, self.at_ms)
        numbers = np.flatnonzero(found)
        ended = batches[numbers]
        self.markers.append((numbers + self.batch_count, ended["producer_id"], ended["marker"]))

    def _note_groups(self, columns: dict[str, Any], kept: Array, file: str) -> None:
        """Keep the records of groups that are no commits: few, and each is whole."""
        kinds, names = columns["kind"], columns["groups"]
        theirs = kept & (kinds >= KIND["group"]) & (kinds <= KIND["newer"])
        for row in np.flatnonzero(theirs & (columns["group"] >= 0)).tolist():
            key = _bytes_of(columns, "key", row)
            assert key is not None  # a record without one is a fault
            self.group_records.append(
                GroupRecord(
                    names[columns["group"][row]],
                    int(columns["log_offset"][row]),
                    int(columns["timestamp"][row]),
                    int(columns["key_version"][row]),
                    key,
                    _bytes_of(columns, "value", row),
                    file,
                    int(columns["batches"]["position"][columns["batch"][row]]),
                )
            )

    def finish(self) -> Commits:
        """Return all rows, transactions decided."""
        empty = dict.fromkeys((*ROW_COLUMNS, "batch_first", "metadata_end"), np.int64)
        dtypes = empty | {"metadata": np.uint8, "batch_file": np.int32, "batches": BATCH_DTYPE}
        del dtypes["outcome"]
        joined: dict[str, Any] = {
            name: np.concatenate([part[name] for part in self.parts])
            if self.parts
            else np.empty(0, dtype)
            for name, dtype in dtypes.items()
        }
        joined["outcome"] = self._outcomes(joined["producer_id"], joined["batch"])
        joined |= {f"{name}s": list(of.numbers) for name, of in self.names.items()}
        return Commits(files=list(self.files.numbers), **joined)

    def _outcomes(self, producer_id: Array, batch: Array) -> Array:
        """Return what became of each row: its producer's next marker in the log says."""
        outcome = np.full(len(batch), COMMITTED, dtype=np.int8)
        rows = np.flatnonzero(producer_id != -1)
        if not len(rows):
            return outcome
        at, who, marker = map(np.concatenate, zip(*self.markers, strict=True))
        producers = np.unique(who)
        # One number says (producer, place): the next marker is the next greater of its producer.
        span = self.batch_count + 1
        ends = np.searchsorted(producers, who) * span + at
        order = np.argsort(ends)
        number = np.searchsorted(producers, producer_id[rows])
        known = number < len(producers)
        known[known] = producers[number[known]] == producer_id[rows][known]
        found = np.searchsorted(ends[order], number * span + batch[rows])
        inside = found < len(order)
        next_end = order[np.minimum(found, len(order) - 1)] if len(order) else found
        decided = known & inside
        decided[decided] = who[next_end[decided]] == producer_id[rows][decided]
        outcome[rows] = PENDING
        settled = marker[next_end[decided]]
        outcome[rows[decided]] = np.where(settled == 1, COMMITTED, ABORTED)
        return outcome


def _bytes_of(columns: dict[str, Any], part: str, row: int) -> bytes | None:
    """Return the key or value of a record; None: it has none."""
    at, size = int(columns[f"{part}_at"][row]), int(columns[f"{part}_size"][row])
    if size < 0:
        return None
    found: bytes = columns["bytes"][at : at + size].tobytes()
    return found


def read_records(
    segments: Iterable[Segment],
    *,
    groups: Collection[str] | None = None,
    at_ms: int | None = None,
    read: ReadSegment = read_segment,
) -> tuple[Commits, list[GroupRecord]]:
    """Return every record of a partition's segments, given in log order; those of groups whole.

    See :class:`Reader` for the parameters, :class:`Commits` for the columns.

    Raises
    ------
    LogError
        A segment cannot be read.
    """
    reader = Reader(groups, at_ms, read)
    for segment in segments:
        reader.read(segment)
    return reader.finish(), reader.group_records

"""Reads a partition's log in pieces, so that no question needs the memory of its records.

The log is read twice. The first time tells what goes beyond a piece: which groups there are, their
metadata records, and how each transaction ended that is open where a piece ends. So the second
time each piece is decided by itself, and a question keeps of it what its answer needs.

Faulty places are left out, as ``--on-fault skip`` does. Cost: about 25 M records/s to decode.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coterie._core.fold.columns import decode_columns
from coterie.insight.commits import (
    ABORTED,
    COMMITTED,
    KIND,
    PENDING,
    ROW_COLUMNS,
    Array,
    Commits,
    in_time,
    joined,
)
from coterie.insight.grouplog import GroupLog, GroupRecord
from coterie.log.folders import Segment, cut_points, read_segment

if TYPE_CHECKING:
    from typing_extensions import Buffer

COLUMNS_PIECE_BYTES = 8 << 20  # its rows take some ten times as much
ReadSegment = Callable[[Segment], "Buffer"]
DECIDED = ("outcome", "decided_by", "decided_ms")


class End(NamedTuple):
    """The marker that ended a transaction: 1 (commit) or 0 (abort), its number and time."""

    marker: int
    number: int
    ms: int


class DecodedPiece(NamedTuple):
    """A piece of a segment as ``decode_columns`` gives it, names and rows numbered over all."""

    columns: dict[str, Any]
    file: str
    first_number: int
    kept: Array


class Numbering:
    """Names, numbered in order of first sight over all pieces."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.names: list[str] = []

    def absorb(self, later: Iterable[str]) -> None:
        """Have further names numbered."""
        for name in later:
            self.number(name)

    def number(self, name: str) -> int:
        """Return a name's number, a new one at its first call."""
        found = self.numbers.setdefault(name, len(self.names))
        if found == len(self.names):
            self.names.append(name)
        return found

    def renumber(self, names: Iterable[str], column: Array) -> Array:
        """Return a column of numbers of ``names`` (-1: none) as numbers of all."""
        table = np.array([*map(self.number, names), -1], dtype=np.int32)
        renumbered: Array = table[column]
        return renumbered


class Begin(NamedTuple):
    """What of a log is told before a part of it is read.

    Attributes
    ----------
    number : int
        Of the part's first record.
    names : tuple of tuple of str
        Groups, topics and files of all of the log.
    tail : tuple of (int, End)
        Producers whose transaction is open where the part ends, and how it ended.
    """

    number: int = 0
    names: tuple[Sequence[str], Sequence[str], Sequence[str]] = ((), (), ())
    tail: tuple[tuple[int, End], ...] = ()


FROM_START = Begin()


class Reader:
    """A partition's log, read through once when made, and again at each call of :meth:`pieces`.

    Parameters
    ----------
    segments
        In log order.
    groups
        Keep only rows of these groups; None: all rows, those of no group (markers) too.
    at_ms
        Leave out records whose own timestamp is after this; those without one count.
    read
        Gives the bytes of a segment.
    begin
        What is known of all of the log, where the segments are a part of it.

    Attributes
    ----------
    groups, topics, files : Numbering
        The names of all rows.
    present : dict of str
        Groups that have a row, in order of first sight.
    group_log : GroupLog
        The records of groups that are no commits.
    newest_ms : int
        The newest time of a row; -1: none has one.
    count : int
        Records, whatever is kept.

    Raises
    ------
    LogError
        A segment cannot be read.
    """

    def __init__(
        self,
        segments: Iterable[Segment],
        groups: Collection[str] | None = None,
        at_ms: int | None = None,
        read: ReadSegment = read_segment,
        begin: Begin = FROM_START,
    ) -> None:
        self.segments = tuple(segments)
        self.begin = begin
        self.wanted = groups
        self.at_ms = at_ms
        self.bytes_of = read
        self.groups, self.topics, self.files = Numbering(), Numbering(), Numbering()
        self.group_log = GroupLog()
        self.tails: list[dict[int, End]] = []
        self.opened: dict[int, list[int]] = {}  # producer -> pieces at whose end it is open
        self.began: dict[int, int] = {}  # producer -> number of the first record of what is open
        self.ended: dict[int, End] = {}  # producer -> its first marker
        self.present: dict[str, None] = {}
        self.newest_ms = -1
        self.count = 0
        self.parts: list[int] = []  # the number of the first record of each part absorbed
        self._survey()

    def pieces(self) -> Iterator[Commits]:
        """Yield the rows of each piece, in log order, transactions decided."""
        for tail, piece in zip(self.tails, self._decoded(), strict=True):
            yield self._commits(piece, tail)

    def _decoded(self) -> Iterator[DecodedPiece]:
        number = self.begin.number
        for segment in self.segments:
            data = memoryview(self.bytes_of(segment))
            for start, end in pairwise(cut_points(data, COLUMNS_PIECE_BYTES)):
                columns = decode_columns(data[start:end], raw=True)
                columns["batches"]["position"] += start
                yield DecodedPiece(columns, segment.name, number, self._kept(columns))
                number += len(columns["kind"])

    def _kept(self, columns: dict[str, Any]) -> Array:
        kept: Array = columns["kind"] != KIND["fault"]
        if self.at_ms is not None:
            kept &= in_time(columns["timestamp"], self.at_ms)
        if self.wanted is not None:
            wanted = [name in self.wanted for name in columns["groups"]]
            kept &= np.array([*wanted, False])[columns["group"]]
        return kept

    def _survey(self) -> None:
        """Read all once: names, records of groups, and what goes beyond a piece."""
        for names, numbering in zip(self.begin.names, self._numberings(), strict=True):
            numbering.absorb(names)
        for place, piece in enumerate(self._decoded()):
            columns, kept = piece.columns, piece.kept
            for names, numbering in zip(names_of(piece), self._numberings(), strict=True):
                numbering.absorb(names)
            theirs = np.unique(columns["group"][kept])
            names = columns["groups"]
            self.present |= dict.fromkeys(names[group] for group in theirs if group >= 0)
            self._note_groups(piece)
            times = columns["timestamp"][kept]
            self.newest_ms = max(self.newest_ms, int(times.max(initial=-1)))
            ends = self._ends(piece)
            self._end(first_of_each(ends))
            self.tails.append({})
            rows = np.flatnonzero(kept)
            waiting = producers_of(columns)[rows]
            late = undecided(waiting, columns["batch"][rows], ends)
            for producer, number in first_rows(waiting[late], rows[late]):
                self.began.setdefault(producer, number + piece.first_number)
                self.opened.setdefault(producer, [])
            for pieces in self.opened.values():
                pieces.append(place)
            self.count += len(columns["kind"])
        for producer, end in self.begin.tail:
            for place in self.opened.get(producer, ()):
                self.tails[place][producer] = end

    def _numberings(self) -> tuple[Numbering, Numbering, Numbering]:
        return self.groups, self.topics, self.files

    def _end(self, ends: Mapping[int, End]) -> None:
        """Note the next markers, the first of each producer."""
        for producer, end in ends.items():
            for earlier in self.opened.pop(producer, ()):
                self.tails[earlier][producer] = end
            self.began.pop(producer, None)
            self.ended.setdefault(producer, end)

    @property
    def undecided(self) -> int | None:
        """The number of the first record whose transaction never ended."""
        return min(self.began.values(), default=None)

    def absorb(self, later: Reader) -> None:
        """Go on with what another found in the segments that follow on these, the next part.

        A part is as a piece to ``tails``; :meth:`begins` gives what each is to be read with.
        """
        for numbering, theirs in zip(self._numberings(), later._numberings(), strict=True):
            numbering.absorb(theirs.names)
        self.segments += later.segments
        self.group_log.absorb(later.group_log)
        self.present |= later.present
        self.newest_ms = max(self.newest_ms, later.newest_ms)
        ended = later.ended.items()
        self._end({name: end._replace(number=end.number + self.count) for name, end in ended})
        self.tails.append({})
        self.parts.append(self.count)
        for producer, number in later.began.items():
            self.began.setdefault(producer, number + self.count)
            self.opened.setdefault(producer, [])
        for parts in self.opened.values():
            parts.append(len(self.tails) - 1)
        self.count += later.count

    def begins(self) -> list[Begin]:
        """Return what is known of all of the log, for each part that was absorbed."""
        groups, topics, files = (numbering.names for numbering in self._numberings())
        return [
            Begin(number, (groups, topics, files), tuple(tail.items()))
            for number, tail in zip(self.parts, self.tails, strict=True)
        ]

    def _ends(self, piece: DecodedPiece) -> dict[str, Array]:
        """Return what ended transactions: of which producer, in which batch, how and when."""
        columns, batches = piece.columns, piece.columns["batches"]
        found = (batches["marker"] == 0) | (batches["marker"] == 1)  # ABORT, COMMIT
        times = np.append(columns["timestamp"], -1)[batches["first_row"]]
        if self.at_ms is not None:
            found &= in_time(times, self.at_ms)
        at = np.flatnonzero(found)
        ended = batches[at]
        return {
            "producer_id": ended["producer_id"].astype(np.int64),
            "batch": at,
            "marker": ended["marker"].astype(np.int64),
            "number": ended["first_row"] + piece.first_number,
            "ms": times[at],
        }

    def _note_groups(self, piece: DecodedPiece) -> None:
        """Keep the records of groups that are no commits: few, and each is whole."""
        columns, kept = piece.columns, piece.kept
        kinds, names = columns["kind"], columns["groups"]
        theirs = kept & (kinds >= KIND["group"]) & (kinds <= KIND["newer"])
        for row in np.flatnonzero(theirs & (columns["group"] >= 0)).tolist():
            key = _bytes_of(columns, "key", row)
            assert key is not None  # a record without one is a fault
            self.group_log.append(
                GroupRecord(
                    names[columns["group"][row]],
                    int(columns["log_offset"][row]),
                    int(columns["timestamp"][row]),
                    int(columns["key_version"][row]),
                    key,
                    _bytes_of(columns, "value", row),
                    piece.file,
                    int(columns["batches"]["position"][columns["batch"][row]]),
                )
            )

    def _newer_keys(self, piece: DecodedPiece) -> list[bytes]:
        rows = np.flatnonzero(piece.kept & (piece.columns["kind"] == KIND["newer"])).tolist()
        return [_bytes_of(piece.columns, "key", row) or b"" for row in rows]

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process may absorb: neither bytes nor what leads to them."""
        return self.__dict__ | {"bytes_of": None, "tails": [], "opened": {}}

    def _commits(self, piece: DecodedPiece, tail: dict[int, End]) -> Commits:
        columns, kept, batches = piece.columns, piece.kept, piece.columns["batches"]
        part = {name: columns[name][kept] for name in ROW_COLUMNS if name in columns}
        part["producer_id"] = producers_of(columns)[kept]
        part["number"] = np.flatnonzero(kept) + piece.first_number
        part["group"] = self.groups.renumber(columns["groups"], columns["group"])[kept]
        part["topic"] = self.topics.renumber(columns["topics"], columns["topic"])[kept]
        part |= decide(part, with_tail(self._ends(piece), tail, len(batches)))
        sizes = np.diff(columns["metadata_end"], prepend=0)
        first = np.append(columns["log_offset"], -1)[batches["first_row"]]
        rows_of = np.bincount(columns["batch"], minlength=len(batches))
        return Commits(
            groups=self.groups.names,
            topics=self.topics.names,
            files=self.files.names,
            metadata=columns["metadata"][np.repeat(kept, sizes)],
            metadata_end=np.cumsum(sizes[kept]),
            batches=batches,
            batch_file=np.full(len(batches), self.files.number(piece.file), np.int32),
            batch_first=np.where(rows_of > 0, first, -1),
            newer_keys=self._newer_keys(piece),
            **part,
        )


def names_of(piece: DecodedPiece) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    """Return the groups, topics and files of a piece."""
    return piece.columns["groups"], piece.columns["topics"], (piece.file,)


def producers_of(columns: dict[str, Any]) -> Array:
    """Return the producer of each row of a transaction, -1 of one outside of any."""
    batches = columns["batches"]
    inside = batches["transactional"] != 0
    found: Array = np.where(inside, batches["producer_id"], -1)[columns["batch"]]
    return found


def first_of_each(ends: dict[str, Array]) -> dict[int, End]:
    """Return each producer's first marker of a piece."""
    producers, at = np.unique(ends["producer_id"], return_index=True)
    columns = (ends[name][at].tolist() for name in ("marker", "number", "ms"))
    rows = zip(producers.tolist(), *columns, strict=True)
    return {producer: End(*end) for producer, *end in rows}


def first_rows(producers: Array, rows: Array) -> Iterator[tuple[int, int]]:
    """Yield each producer of these rows with its first one."""
    names, at = np.unique(producers, return_index=True)
    yield from zip(names.tolist(), rows[at].tolist(), strict=True)


def with_tail(ends: dict[str, Array], tail: dict[int, End], batches: int) -> dict[str, Array]:
    """Return a piece's markers and, as if they stood behind it, those that end what it leaves."""
    if not tail:
        return ends
    later = np.array([(producer, batches, *end) for producer, end in tail.items()], np.int64)
    return {
        name: np.append(column, later[:, place])
        for place, (name, column) in enumerate(ends.items())
    }


def next_ends(producer_id: Array, batch: Array, ends: dict[str, Array]) -> Array:
    """Return which marker is the next of each row's producer, from its batch on; -1: none."""
    producers, who = np.unique(ends["producer_id"], return_inverse=True)
    # One number says (producer, batch): the next marker is the next greater of its producer.
    span = int(max(batch.max(initial=0), ends["batch"].max(initial=0))) + 1
    codes = who * span + ends["batch"]
    order = np.argsort(codes)
    number = np.searchsorted(producers, producer_id)
    known = number < len(producers)
    known[known] = producers[number[known]] == producer_id[known]
    at = np.searchsorted(codes[order], number * span + batch)
    known &= at < len(order)
    found = np.full(len(producer_id), -1, dtype=np.int64)
    found[known] = order[at[known]]
    known[known] = who[found[known]] == number[known]
    found[~known] = -1
    return found


def undecided(producer_id: Array, batch: Array, ends: dict[str, Array]) -> Array:
    """Return the rows (their numbers) of transactions that no marker of a piece ends."""
    rows = np.flatnonzero(producer_id != -1)
    return rows[next_ends(producer_id[rows], batch[rows], ends) < 0]


def decide(part: dict[str, Array], ends: dict[str, Array]) -> dict[str, Array]:
    """Return what became of each row, by which record and when: its producer's next marker says."""
    outcome = np.full(len(part["batch"]), COMMITTED, dtype=np.int8)
    decided_by, decided_ms = part["number"].copy(), part["timestamp"].copy()
    rows = np.flatnonzero(part["producer_id"] != -1)
    if len(rows):
        end = next_ends(part["producer_id"][rows], part["batch"][rows], ends)
        outcome[rows[end < 0]] = PENDING
        rows, end = rows[end >= 0], end[end >= 0]
        outcome[rows] = np.where(ends["marker"][end] == 1, COMMITTED, ABORTED)
        decided_by[rows] = ends["number"][end]
        decided_ms[rows] = ends["ms"][end]
    return dict(zip(DECIDED, (outcome, decided_by, decided_ms), strict=True))


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
) -> tuple[Commits, GroupLog]:
    """Return every record of a partition's segments at once; those of groups whole.

    See :class:`Reader` for the parameters, :class:`Commits` for the columns. About 130 bytes a
    record: what a log of any size is asked for goes through :meth:`Reader.pieces`.
    """
    reader = Reader(segments, groups, at_ms, read)
    return joined(list(reader.pieces())), reader.group_log

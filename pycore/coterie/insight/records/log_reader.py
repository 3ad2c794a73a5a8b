"""Reads a partition's log: once for its state and what reading it again must know, then in pieces.

The second reading decides each record in log order. How a transaction ends that is open where a
piece ends, which groups there are, and from when on the log is whole is known only once all of it
was read: the first reading, a fold, tells. So the second time each piece is decided by itself, and
a question keeps of it what its answer needs: no question needs the memory of the log's records.

Faulty places are left out, as ``--on-fault skip`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from coterie._core.codec.text import decode_utf8
from coterie._core.fold import merge, partial
from coterie._core.fold.record_scan import RecordScan
from coterie.insight.records.group_log import GroupRecords
from coterie.insight.records.key_index import Key
from coterie.insight.records.record_columns import Array, RecordColumns
from coterie.log.folders import Segment, read_segment
from coterie.replay.parallel_scan import resting_collector, scan_part, whole
from coterie.state.partial import PartialState, ScanOptions

if TYPE_CHECKING:
    from typing_extensions import Buffer

READ_PIECE_BYTES = 4 << 20  # its rows, as columns, are to stay in a core's cache
ReadSegment = Callable[[Segment], "Buffer"]


class End(NamedTuple):
    """The marker that ended a transaction: 1 (commit) or 0 (abort), its number and time."""

    marker: int
    number: int
    ms: int

    def behind(self, count: int) -> End:
        """Return the same marker with so many records before it."""
        return self._replace(number=self.number + count)


class Begin(NamedTuple):
    """What of a log is told before a part of it is read again.

    Attributes
    ----------
    number : int
        Of the part's first record.
    files : sequence of str
        The names of all of the log.
    tails : list of dict
        Of each piece: producers whose transaction is open where it ends, and how it ended.
    check_crc : bool
        Whether any place of the log is faulty: else all checksums hold.
    """

    number: int
    files: Sequence[str]
    tails: list[dict[int, End]]
    check_crc: bool


class SurveyedLog:
    """A partition's log, read when made, and again at each call of :meth:`pieces`.

    Parameters
    ----------
    segments
        In log order.
    options
        Of which groups, as of when, and what is tracked; markers are of no group.
    read
        Gives the bytes of a segment.

    Attributes
    ----------
    fold : PartitionFold
        The last state of each key, and the generations of each group.
    group_log : GroupRecords
        The records of groups that are no commits.
    present : set of str
        Groups that have a record.
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
        options: ScanOptions,
        read: ReadSegment = read_segment,
    ) -> None:
        self.segments = tuple(segments)
        self.options = options
        self.bytes_of = read
        self.fold = options.new_fold(survey=True)
        self.group_log = GroupRecords()
        self.tails: list[dict[int, End]] = []  # of each piece
        self.opened: dict[int, list[int]] = {}  # producer -> pieces at whose end it is open
        self.began: dict[int, int] = {}  # producer -> number of the first record of what is open
        self.ended: dict[int, End] = {}  # producer -> its first marker
        self.count = 0
        # Records and pieces before each part: itself, and what it absorbed.
        self.parts = [(0, 0)] if self.segments else []
        with resting_collector():
            for segment in self.segments:
                for _ in scan_part(self.fold, whole(segment), read, READ_PIECE_BYTES):
                    self._note_piece()

    def _note_piece(self) -> None:
        """Take what the fold tells of the piece that it scanned last."""
        survey = self.fold.survey
        assert survey is not None  # the fold was made with one
        self.group_log.take(self.fold)
        self._end({producer: End(*end) for producer, end in survey.ended.items()})
        self.tails.append({})
        for producer, number in survey.open.items():
            self.began.setdefault(producer, number)
            self.opened.setdefault(producer, [])
        for pieces in self.opened.values():
            pieces.append(len(self.tails) - 1)
        self.count = self.fold.number

    def _end(self, ends: dict[int, End]) -> None:
        """Note the next markers, the first of each producer."""
        for producer, end in ends.items():
            for piece in self.opened.pop(producer, ()):
                self.tails[piece][producer] = end
            self.began.pop(producer, None)
            self.ended.setdefault(producer, end)

    def absorb(self, later: SurveyedLog) -> None:
        """Go on with what another found in the segments that follow on these, the next part."""
        self.segments += later.segments
        self.group_log.absorb(later.group_log)
        merge.absorb(self.fold, later.fold)
        self.parts.append((self.count, len(self.tails)))
        pieces = len(self.tails)
        self._end({name: end.behind(self.count) for name, end in later.ended.items()})
        for tail in later.tails:
            self.tails.append({name: end.behind(self.count) for name, end in tail.items()})
        for producer, number in later.began.items():
            self.began.setdefault(producer, number + self.count)
            self.opened.setdefault(producer, []).extend(
                pieces + piece for piece in later.opened[producer]
            )
        self.count += later.count

    @cached_property
    def present(self) -> set[str]:
        """Groups that have a record."""
        groups = partial.group_ids(self.fold)
        return {*map(decode_utf8, groups), *(place.group for place in self.group_log.places)}

    @property
    def undecided(self) -> int | None:
        """The number of the first record whose transaction never ended."""
        return min(self.began.values(), default=None)

    def begin(self) -> Begin:
        """Return what reading all of the log again must know."""
        return Begin(0, self._files(), self.tails, bool(self.fold.faults))

    def _files(self) -> list[str]:
        return list(dict.fromkeys(segment.name for segment in self.segments))

    def begins(self) -> list[Begin]:
        """Return the same for each part."""
        files = self._files()
        ends = [first for _, first in self.parts[1:]] + [len(self.tails)]
        return [
            Begin(number, files, self.tails[first:end], bool(self.fold.faults))
            for (number, first), end in zip(self.parts, ends, strict=True)
        ]

    def pieces(self, columns: Collection[str] | None = None) -> Iterator[RecordColumns]:
        """Yield the records of each piece, in log order, decided.

        ``columns``: of ``RecordScan``; None: all.
        """
        yield from read_pieces(self.segments, self.options, self.begin(), self.bytes_of, columns)

    def keys(self, which: Array) -> list[Key]:
        """Return group, topic and partition of some keys, by their places in the fold's tracks."""
        keys = partial.keys(self.fold)
        return [keys[place] for place in which.tolist()]

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process may absorb: neither bytes nor what leads to them."""
        state = PartialState(self.options, {None: self.fold})
        return self.__dict__ | {"bytes_of": None, "fold": state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        (self.fold,) = state["fold"].partitions.values()


def read_pieces(
    segments: Iterable[Segment],
    options: ScanOptions,
    begin: Begin,
    read: ReadSegment = read_segment,
    columns: Collection[str] | None = None,
) -> Iterator[RecordColumns]:
    """Read segments again: all of a log, or a part of it. See :meth:`SurveyedLog.pieces`."""
    scan = RecordScan(
        groups=options.groups,
        at_ms=options.at_ms,
        number=begin.number,
        columns=columns,
        check_crc=begin.check_crc,
    )
    files = list(begin.files)
    tails = iter(begin.tails)
    for segment in segments:
        data, at = memoryview(read(segment)), 0
        file_number = files.index(segment.name)
        while True:
            tail = next(tails, {})  # an active segment may have grown since
            piece, at = scan.scan(data, position=at, max_bytes=READ_PIECE_BYTES, tail=tail.items())
            batches, newer_keys = piece.pop("batches"), piece.pop("newer_keys")
            yield RecordColumns(scan, piece, files, file_number, batches, newer_keys)
            if at >= len(data):
                break


class PieceConsumer(Protocol):
    """Takes the pieces of a log, or of a part of it, in order.

    Those with an attribute ``COLUMNS`` name what they take of ``RecordScan``; others take all.
    """

    def take(self, records: RecordColumns, /) -> None:
        """Take the next piece."""


def feed(pieces: Iterable[RecordColumns], consumers: Iterable[PieceConsumer]) -> None:
    """Have each of these take all pieces."""
    consumers = list(consumers)
    for records in pieces:
        for consumer in consumers:
            consumer.take(records)

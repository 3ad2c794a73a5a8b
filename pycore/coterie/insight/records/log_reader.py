"""Read a partition's log twice: first as a fold, then in pieces.

The first reading finds what is known only at the end of the log: which groups there are, since
when the log is complete, and the outcome of each transaction that is open at the end of a piece. So
the second reading can decide each piece by itself, in log order, and a question never needs the
log's records in memory.

Faulty places are left out, as with ``--on-fault skip``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from coterie._core.codec.layout import decode_utf8
from coterie._core.fold import fold as merge
from coterie._core.fold import fold as partial
from coterie._core.fold.record_scan import RecordScan
from coterie.base.caching import cached_property
from coterie.insight.records.group_log import GroupRecords
from coterie.insight.records.key_index import Key
from coterie.insight.records.record_columns import Array, RecordColumns
from coterie.log.clock import Cut
from coterie.log.folders import Segment, read_segment
from coterie.log.mapped import intact
from coterie.state.parallel_scan import Part, PartTo, resting_collector, scan_part, whole
from coterie.state.partial import PartialState, ScanOptions

if TYPE_CHECKING:
    from typing_extensions import Buffer

READ_PIECE_BYTES = 4 << 20  # small enough that its columns stay in a core's cache
ReadSegment = Callable[[Segment], "Buffer"]


class End(NamedTuple):
    """The marker that ended a transaction: 1 (commit) or 0 (abort), its record number and time."""

    marker: int
    number: int
    ms: int

    def shifted(self, count: int) -> End:
        """Return the same marker, numbered with ``count`` more records before it."""
        return self._replace(number=self.number + count)


class ReadingContext(NamedTuple):
    """What the second reading of a part needs to know of the whole log.

    Attributes
    ----------
    number : int
        The number of the part's first record.
    files : sequence of str
        The names of all files of the log.
    tails : list of dict
        For each piece: producers with a transaction that is open at the end of the piece, and the
        marker that ended it.
    check_crc : bool
        Whether the log has any fault; if it has none, all checksums are known to hold.
    end : (str, int) or None
        The file and the position in it where the reading ends; None: at the end.
    """

    number: int
    files: Sequence[str]
    tails: list[dict[int, End]]
    check_crc: bool
    end: tuple[str, int] | None = None


class SurveyedLog:
    """A partition's log: the constructor reads it, and each call of :meth:`pieces` again.

    Parameters
    ----------
    segments
        In log order.
    options
        Which groups, as of when, and what is tracked; markers have no group.
    read
        Returns the bytes of a segment.
    cut
        Where the log ends; None: at its end. What follows is only scanned for what it is, as
        ``PartitionFold.segments``, and for faults.

    Attributes
    ----------
    fold : PartitionFold
        The last state of each key, and the generations of each group.
    group_log : GroupRecords
        The records of groups, except commits.
    present : set of str
        Groups that have a record.
    count : int
        The number of records, regardless of filters.

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
        cut: Cut | None = None,
    ) -> None:
        self.segments = tuple(segments)
        self.cut = cut
        self.options = options
        self.read_segment_bytes = read
        self.fold = options.new_fold(survey=True)
        self.group_log = GroupRecords()
        self.tails: list[dict[int, End]] = []  # one for each piece
        self.opened: dict[int, int] = {}  # producer -> first piece that ends in its transaction
        self.began: dict[int, int] = {}  # producer -> first record of its open transaction
        self.ended: dict[int, End] = {}  # producer -> its first marker
        self.count = 0
        # Records and pieces before each part: its own, then each absorbed one.
        self.parts = [(0, 0)] if self.segments else []
        self.extend(self._parts_to_read())

    def extend(self, parts: Iterable[Part]) -> None:
        """Read what follows in the log, from one batch boundary to another."""
        with resting_collector():
            for part in parts:
                for _ in scan_part(self.fold, part, self.read_segment_bytes, READ_PIECE_BYTES):
                    self._survey_piece()

    def _parts_to_read(self) -> Iterator[Part]:
        """Yield the segments, up to the cut; those behind it have no part."""
        for segment in self.segments:
            if self.cut is not None and segment.name == self.cut.file:
                if self.cut.position:
                    yield PartTo(segment, 0, self.cut.position)
                return
            yield whole(segment)

    def up_to(self, cut: Cut) -> SurveyedLog:
        """Return the same log, read again up to a cut."""
        log = SurveyedLog(self.segments, self.options, self.read_segment_bytes, cut)
        log.fold.segments[:] = self.fold.segments
        log.fold.faults[:] = self.fold.faults
        log.fold.more_faults.update(self.fold.more_faults)
        log.fold.has_records_of_4x = self.fold.has_records_of_4x
        return log

    def _survey_piece(self) -> None:
        """Store the fold's survey of the last scanned piece."""
        survey = self.fold.survey
        assert survey is not None  # see `new_fold`
        self.group_log.take(self.fold)
        self._apply_markers({producer: End(*end) for producer, end in survey.ended.items()})
        self.tails.append({})
        for producer, number in survey.open.items():
            self.began.setdefault(producer, number)
            self.opened.setdefault(producer, len(self.tails) - 1)
        self.count = self.fold.number

    def _apply_markers(self, ends: dict[int, End]) -> None:
        """Apply the next markers: the first one of each producer."""
        for producer, end in ends.items():
            for tail in self.tails[self.opened.pop(producer, len(self.tails)) :]:
                tail[producer] = end
            self.began.pop(producer, None)
            self.ended.setdefault(producer, end)

    def absorb(self, later: SurveyedLog) -> None:
        self.segments += later.segments
        self.group_log.absorb(later.group_log)
        merge.absorb(self.fold, later.fold)
        self.parts.append((self.count, len(self.tails)))
        piece_count = len(self.tails)
        self._apply_markers(
            {producer: end.shifted(self.count) for producer, end in later.ended.items()}
        )
        for tail in later.tails:
            self.tails.append({producer: end.shifted(self.count) for producer, end in tail.items()})
        for producer, number in later.began.items():
            self.began.setdefault(producer, number + self.count)
            self.opened.setdefault(producer, piece_count + later.opened[producer])
        self.count += later.count

    @property
    def decided_count(self) -> int:
        """The number of pieces before the first that ends in a transaction that is open."""
        return min(self.opened.values(), default=len(self.tails))

    def drop_pieces(self, first: int, count: int) -> None:
        """Forget pieces: those that were read again, or are read again as part of the next."""
        del self.tails[first : first + count]
        self.opened = {
            producer: piece - min(max(piece - first, 0), count)
            for producer, piece in self.opened.items()
        }

    @cached_property
    def present(self) -> set[str]:
        groups = partial.group_ids(self.fold)
        return {*map(decode_utf8, groups), *(place.group for place in self.group_log.places)}

    @property
    def undecided(self) -> int | None:
        """The number of the first record whose transaction never ended."""
        return min(self.began.values(), default=None)

    def reading_context(self) -> ReadingContext:
        """Return the context of a second reading of the whole log."""
        end = None if self.cut is None else self.cut[:2]
        return ReadingContext(0, self._files(), self.tails, bool(self.fold.faults), end)

    def _files(self) -> list[str]:
        return list(dict.fromkeys(segment.name for segment in self.segments))

    def reading_contexts(self) -> list[ReadingContext]:
        """Return the context of a second reading for each part."""
        files = self._files()
        ends = [first for _, first in self.parts[1:]] + [len(self.tails)]
        return [
            ReadingContext(number, files, self.tails[first:end], bool(self.fold.faults))
            for (number, first), end in zip(self.parts, ends, strict=True)
        ]

    def pieces(self, columns: Collection[str] | None = None) -> Iterator[RecordColumns]:
        """Yield the records of each piece, in log order, with their outcome.

        ``columns``: of ``RecordScan``; None: all.
        """
        yield from read_pieces(
            self.segments, self.options, self.reading_context(), self.read_segment_bytes, columns
        )

    def keys(self, rows: Array) -> list[Key]:
        """Return some keys, given their rows in the fold's tracks."""
        keys = partial.keys(self.fold)
        return [keys[row] for row in rows.tolist()]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, without bytes and without their reader."""
        state = PartialState(self.options, {None: self.fold})
        return self.__dict__ | {"read_segment_bytes": None, "fold": state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        (self.fold,) = state["fold"].partitions.values()


def read_pieces(
    segments: Iterable[Segment],
    options: ScanOptions,
    context: ReadingContext,
    read: ReadSegment = read_segment,
    columns: Collection[str] | None = None,
) -> Iterator[RecordColumns]:
    """Read segments a second time: a whole log or a part. See :meth:`SurveyedLog.pieces`."""
    scan = RecordScan(
        groups=options.groups,
        at_ms=options.at_ms,
        number=context.number,
        columns=columns,
        check_crc=context.check_crc,
    )
    files = list(context.files)
    tails = iter(context.tails)
    for segment in segments:
        end = context.end[1] if context.end and context.end[0] == segment.name else None
        if end == 0:
            return
        data, at = memoryview(read(segment))[:end], 0
        file_number = files.index(segment.name)
        while True:
            tail = next(tails, {})  # an active segment may have grown since the survey
            with intact(data):
                piece, at = scan.scan(
                    data, position=at, max_bytes=READ_PIECE_BYTES, tail=tail.items()
                )
            batches, newer_keys = piece.pop("batches"), piece.pop("newer_keys")
            yield RecordColumns(scan, piece, files, file_number, batches, newer_keys)
            if at >= len(data):
                break
        if end is not None:
            return


class PieceConsumer(Protocol):
    """Takes the pieces of a log, or of a part of it, in order.

    An attribute ``COLUMNS`` names the columns of ``RecordScan`` that it needs; without it, all.
    """

    def take(self, records: RecordColumns, /) -> None:
        """Take the next piece."""


def feed(pieces: Iterable[RecordColumns], consumers: Iterable[PieceConsumer]) -> None:
    consumers = list(consumers)
    for records in pieces:
        for consumer in consumers:
            consumer.take(records)

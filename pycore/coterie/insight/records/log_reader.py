"""Read a partition's log twice: first as a fold, then in pieces.

The first reading finds what is known only at the end of the log: which groups there are, since
when the log is complete, and the outcome of each transaction that is open at the end of a piece. So
the second reading can decide each piece by itself, in log order, and a question never needs the
log's records in memory.

Faulty places are left out, as with ``--on-fault skip``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from coterie._core.codec.layout import decode_utf8
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
from coterie.state.partial import ScanOptions

if TYPE_CHECKING:
    from typing_extensions import Buffer

READ_PIECE_BYTES = 4 << 20  # small enough that its columns stay in a core's cache
ReadSegment = Callable[[Segment], "Buffer"]


class End(NamedTuple):
    """The marker that ended a transaction: 1 (commit) or 0 (abort), its record number and time."""

    marker: int
    number: int
    ms: int


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
        # For each piece: the transactions that are open at its end, by producer, and their markers.
        self.tails: list[dict[int, End]] = []
        self.opened: dict[int, int] = {}  # producer -> first piece that ends in its transaction
        self.began: dict[int, int] = {}  # producer -> first record of its open transaction
        self.count = 0
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

    def pieces(self, columns: Collection[str] | None = None) -> Iterator[RecordColumns]:
        """Yield the records of each piece, in log order, with their outcome.

        ``columns``: of ``RecordScan``; None: all.
        """
        scan = RecordScan(
            groups=self.options.groups,
            at_ms=self.options.at_ms,
            columns=columns,
            check_crc=bool(self.fold.faults),  # without a fault all checksums hold
        )
        files = list(dict.fromkeys(segment.name for segment in self.segments))
        tails = iter(self.tails)
        for part in self._parts_to_read():
            data, at, end = part.opened(self.read_segment_bytes)
            data = data[:end]
            file_number = files.index(part.segment.name)
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

    def keys(self, rows: Array) -> list[Key]:
        """Return some keys, given their rows in the fold's tracks."""
        keys = partial.keys(self.fold)
        return [keys[row] for row in rows.tolist()]

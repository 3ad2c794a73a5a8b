"""The state of one partition, extended by what its files have grown by.

The log is read as ``SurveyedLog`` reads it: first into the fold; then, for aggregates, in pieces
whose transactions have ended. Pieces with an open transaction wait, and are added to a copy of the
aggregates when somebody asks. So the answers of :meth:`LivePartition.view` equal those of the whole
log, and a step costs its new records. Memory grows with keys, with the records of groups, and with
what open transactions hold back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from copy import deepcopy
from itertools import chain
from typing import NamedTuple

from coterie._core.fold.record_scan import RecordScan
from coterie.insight.offsets.commit_findings import CommitFindings
from coterie.insight.offsets.loss_findings import SKIP, Losses
from coterie.insight.offsets.outside_spans import OutsideSpans
from coterie.insight.questions import audit, metrics
from coterie.insight.records.aggregates import Aggregate, columns_of
from coterie.insight.records.log_reader import End, SurveyedLog
from coterie.insight.records.partition_view import PartitionView, RecordFilter
from coterie.insight.records.record_columns import RecordColumns
from coterie.live.group_counts import GroupCounts
from coterie.live.group_histories import Histories
from coterie.live.log_growth import GROWTH_PIECE_BYTES, Growth, pieces_of
from coterie.log.mapped import intact
from coterie.state.parallel_scan import PartTo
from coterie.state.partial import Tracking
from coterie.state.replay_pieces import join_pieces

Aggregates = dict[str, Aggregate]
METRICS, AUDIT = metrics.Parameters(), audit.Parameters()


class Piece(NamedTuple):
    """A piece of a segment that was read into the fold; ``number``: of its first record.

    Each has its tail in the log; see ``SurveyedLog.tails``.
    """

    name: str
    data: memoryview
    start: int
    end: int
    number: int


class LivePartition:
    """One partition, read from its start up to somewhere.

    Parameters
    ----------
    number
        The partition's number; None: not known.
    trusted_from_ms
        From when on the log is complete; None: from its start.
    counts_all
        Count what is left of earlier times, too: its counts are only compared with each other.
    """

    def __init__(
        self, number: int | None, trusted_from_ms: int | None, *, counts_all: bool
    ) -> None:
        self.number = number
        self.counts_all = counts_all
        self.trusted_from_ms = trusted_from_ms
        self.filter = RecordFilter(None, None, Tracking(trusted_from_ms))
        self.mapped: dict[str, memoryview] = {}  # files that are being read
        counted_from_ms = None if counts_all else trusted_from_ms
        options = self.filter._replace(tracking=Tracking(counted_from_ms)).options
        self.log = SurveyedLog((), options, lambda segment: self.mapped[segment.path])
        self.histories = Histories(self.log, trusted_from_ms is None)
        self.aggregates = self._new_aggregates()
        columns = columns_of(self.aggregates.values())
        self.columns: frozenset[str] = frozenset() if columns is None else columns
        self.scan = RecordScan(columns=self.columns)
        self.counts = GroupCounts(self.histories, counted_from_ms)
        self.waiting: deque[Piece] = deque()  # for the end of transactions
        self.files: list[str] = []
        self.next_offset = 0  # the log offset after the last record

    def take(self, growths: Iterable[Growth]) -> None:
        """Read what follows in the log. After an error, this object must not be used any more."""
        for growth in chain.from_iterable(map(pieces_of, growths)):
            if growth.segment.name not in self.files:
                self.files.append(growth.segment.name)
            self.mapped[growth.segment.path] = growth.data
            segments, known = self.log.fold.segments, len(self.log.fold.segments)
            count = self.log.count
            self.log.extend([PartTo(growth.segment, growth.start, growth.end)])
            self.mapped.clear()
            pieces = segments[known:]
            new: list[Piece] = []
            for scanned in pieces:
                end = scanned.position + scanned.bytes
                new.append(Piece(scanned.file, growth.data, scanned.position, end, count))
                count += scanned.records
                self.next_offset = max(self.next_offset, scanned.last_offset + 1)
            segments[max(known - 1, 0) :] = join_pieces(segments[max(known - 1, 0) :])
            if self.histories.extend():
                self._renew_spans(self.aggregates)
            for piece, scanned in zip(new, pieces, strict=True):
                self.counts.take(piece.data[piece.start : piece.end], scanned.last_offset)
            for piece in new:
                self._put(piece)
            self._decide()

    def _put(self, piece: Piece) -> None:
        """Let a piece wait; a small one becomes a part of the one before it.

        So pieces and mappings stay few, however many steps a transaction is open.
        """
        waiting = self.waiting
        for at in range(len(waiting) - 1, -1, -1):  # one mapping of each file
            if waiting[at].name != piece.name or waiting[at].data is piece.data:
                break
            waiting[at] = waiting[at]._replace(data=piece.data)
        if waiting:
            last = waiting[-1]
            follows = (last.name, last.end) == (piece.name, piece.start)
            if follows and piece.end - last.start <= GROWTH_PIECE_BYTES:
                piece = piece._replace(start=last.start, number=last.number)
                self.log.drop_pieces(len(waiting) - 1, 1)  # its tail is that of the new end
                waiting.pop()
        waiting.append(piece)

    def _decide(self) -> None:
        """Add the pieces whose transactions have all ended to the aggregates."""
        count = self.log.decided_count
        for tail in self.log.tails[:count]:
            self._feed(self.waiting.popleft(), tail, self.aggregates)
        self.log.drop_pieces(0, count)

    def _feed(
        self,
        piece: Piece,
        tail: Mapping[int, End],
        aggregates: Mapping[str, Aggregate],
    ) -> None:
        with intact(piece.data):
            columns, _ = self.scan.scan(
                piece.data[: piece.end], position=piece.start, tail=tail.items()
            )
        batches, newer_keys = columns.pop("batches"), columns.pop("newer_keys")
        file_number = self.files.index(piece.name)
        records = RecordColumns(self.scan, columns, self.files, file_number, batches, newer_keys)
        for aggregate in aggregates.values():
            aggregate.take(records)

    def _new_aggregates(self) -> Aggregates:
        view = self._view_of({})
        made = {**metrics.aggregates(view, METRICS), **audit.aggregates(view, AUDIT)}
        return {name: aggregate for name, (_, aggregate) in made.items()}

    def _renew_spans(self, aggregates: Mapping[str, Aggregate]) -> None:
        """Let jumps and rewinds know the new times in which groups have no members."""
        spans = OutsideSpans(self._view_of({}))
        for aggregate in aggregates.values():
            if isinstance(aggregate, Losses):
                aggregate.parts[SKIP].spans = spans
            elif isinstance(aggregate, CommitFindings):
                aggregate.taken_back.spans = spans

    def _filled(self) -> Aggregates:
        """Return the aggregates of the whole log so far, for one answer, which only reads them."""
        if not self.waiting:
            return self.aggregates
        whole = deepcopy(self.aggregates, {id(self.scan): self.scan})  # the same scan
        state = self.scan.keys(), self.scan.number
        try:
            for piece, tail in zip(self.waiting, self.log.tails, strict=True):
                self._feed(piece, tail, whole)
        finally:  # a file may have been cut; the next step goes on from the state before
            self.scan.go_back(*state)
        return whole

    def view(self) -> PartitionView:
        """Return the view of the log so far, for answers before the next step."""
        return self._view_of(self._filled())

    @property
    def newest_ms(self) -> int:
        """The time of the newest record; -1: no record has a time."""
        return max((piece.max_timestamp for piece in self.log.fold.segments), default=-1)

    def has_group(self, group: str) -> bool:
        """Whether the log so far has a record of a group."""
        histories = self.histories
        return (
            group in histories.by_group
            or group in histories.newer_by_group
            or group in self.counts.scan.groups
        )

    def _view_of(self, aggregates: Aggregates) -> PartitionView:
        view = PartitionView(self.number, ())
        view.logs[self.filter] = self.log
        view.shared_aggregates = aggregates
        view.__dict__.update(
            trusted_from_ms=self.trusted_from_ms,
            histories=self.histories.by_group,
            newer_records=self.histories.newer,
        )
        return view

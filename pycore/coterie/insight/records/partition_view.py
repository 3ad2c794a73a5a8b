"""A view of one partition of the topic, read on demand: the input of every question.

``fold`` is its last state, ``pieces`` its log as columns, ``histories`` the metadata records of
each group with its members. A view never holds the columns of a whole partition. A question that
needs only the columns never folds, and the other way round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie._core.codec.layout import decode_utf8
from coterie.base.caching import cached_property
from coterie.base.ordering import java_order
from coterie.insight.records.group_log import GroupRecords
from coterie.insight.records.log_reader import ReadSegment, SurveyedLog
from coterie.insight.records.record_columns import RecordColumns
from coterie.log.clock import Begin, ClockStep, Cut, begin_of, cut_at
from coterie.log.folders import Log, Segment, find_segments, read_segment
from coterie.log.joined import order_of, reader_of, trusted_from_each
from coterie.state.consumer_protocol_groups import name_topics
from coterie.state.partial import ScanOptions, Tracking
from coterie.state.replay_engine import Progress, Silent
from coterie.state.rows import KEY_GROUP, group_rows, metadata_row
from coterie.state.several_partitions import forget_older

if TYPE_CHECKING:
    from coterie._core.fold.fold import PartitionFold


class Client(NamedTuple):
    client_id: str | None
    client_host: str | None
    group_instance_id: str | None


@dataclass(frozen=True)
class GroupHistory:
    """The metadata records of one group, in log order.

    Attributes
    ----------
    group : str
        The group id.
    records : GroupRecords
        The records as in the log; :meth:`state` decodes one.
    generations : list of dict
        One row for each record: the fields of ``coterie._core.fold.history.Generation``
        (changes since the record before), and ``file`` and ``position``, the evidence.
    clients : dict
        Each member id in the records -> :class:`Client`.
    from_start : bool
        Whether the log has all records of the group, from its first one on.
    """

    group: str
    records: GroupRecords
    generations: list[dict[str, Any]]
    clients: dict[str, Client]
    from_start: bool

    @cached_property
    def taken_over(self) -> frozenset[str]:
        """Ids of members that replaced a static member: their records name the first client."""
        return frozenset(new for row in self.generations for _, _, new in row["replaced"])

    def state(self, index: int) -> dict[str, Any] | None:
        """Return the group as of a record, members with subscription and assignment.

        As ``coterie.state.rows.metadata_row``; None: a tombstone.
        """
        value = self.records[index].value
        return None if value is None else metadata_row(value)


class RecordFilter(NamedTuple):
    """Selects records of a partition; see :class:`PartitionView`.

    ``tracking``: what their fold tracks; None: nothing.
    """

    groups: frozenset[str] | None
    at_ms: int | None
    tracking: Tracking | None = None

    @property
    def options(self) -> ScanOptions:
        return ScanOptions(at_ms=self.at_ms, groups=self.groups, tracking=self.tracking)


class PartitionView:
    """One partition of the topic. Logs are read on demand and cached in the view.

    Parameters
    ----------
    number : int or None
        The partition's number; None: not known.
    segments : tuple of Segment
        The partition's log; or, for groups in several partitions, the logs of these, the oldest
        first, which are read as one (``coterie.log.joined``).
    groups : frozenset of str or None
        Only these groups; None: all.
    at_ms : int or None
        Only records whose own timestamp is not after this.
    read
        Returns the bytes of a segment.
    since_ms : int or None
        Report only states and events since then. Earlier records are read, too.

    Attributes
    ----------
    order : tuple of int or None
        The partitions whose logs these are.
    shared_aggregates : dict or None
        Filled aggregates of several questions, by name, if the log was read once for all of them.
    clock_steps : list of ClockStep
        Where the time goes back, after the log was read for aggregates.
    logs_by_times : dict
        The logs whose order and times differ as of their filter's time, as the times have them.
    memo : dict
        What functions of ``coterie.insight.groups`` found, by names of their own.
    """

    def __init__(
        self,
        number: int | None,
        segments: Iterable[Segment],
        groups: frozenset[str] | None = None,
        at_ms: int | None = None,
        read: ReadSegment = read_segment,
        since_ms: int | None = None,
    ) -> None:
        self.number = number
        self.segments = tuple(segments)
        self.groups = groups
        self.at_ms = at_ms
        self.order = order_of(self.segments)
        self.read_as_given = read
        self.read_segment_bytes = reader_of(self.order, read)
        self.since_ms = since_ms
        self.shared_aggregates: dict[str, Any] | None = None
        self.clock_steps: list[ClockStep] = []
        self.memo: dict[Any, Any] = {}
        self.logs: dict[RecordFilter, SurveyedLog] = {}
        self.logs_by_times: dict[RecordFilter, SurveyedLog] = {}
        self.other_views: dict[RecordFilter, PartitionView] = {}

    @property
    def record_filter(self) -> RecordFilter:
        return RecordFilter(self.groups, self.at_ms)

    def whole(self) -> PartitionView:
        """Return the view of all groups; this one if it is not limited to some."""
        return self.of(RecordFilter(None, self.at_ms))

    def of(self, record_filter: RecordFilter) -> PartitionView:
        """Return the view of other records of the same partition."""
        if record_filter == self.record_filter:
            return self
        if record_filter not in self.other_views:
            self.other_views[record_filter] = PartitionView(
                *(self.number, self.segments, record_filter.groups, record_filter.at_ms),
                *(self.read_as_given, self.since_ms),
            )
        return self.other_views[record_filter]

    def is_requested(self, at_ms: int | None, log_offset: int | None = None) -> bool:
        """Whether a time (epoch ms; None: not known) lies in the requested time range.

        ``log_offset``: of the record with this time, which decides if the log's times go back.
        """
        if at_ms is None:
            return True
        begin = self.since_begin
        if log_offset is not None and begin is not None and log_offset < begin.log_offset:
            return False
        if log_offset is not None and begin is not None and log_offset >= begin.next_offset:
            return True
        too_late = self.at_ms is not None and at_ms > self.at_ms
        return not too_late and (self.since_ms is None or at_ms >= self.since_ms)

    @cached_property
    def since_begin(self) -> Begin | None:
        """Where the requested time begins in the log; None: the times of records decide."""
        if self.since_ms is None or self.is_joined:
            return None
        scanned = self.fold.segments
        return begin_of(self.segments, scanned, self.since_ms, self.read_segment_bytes)

    def is_complete_at(self, at_ms: int | None) -> bool:
        """Whether compaction removed nothing of a time (epoch ms; None: not known)."""
        since_ms = self.trusted_from_ms
        return since_ms is None or at_ms is None or at_ms >= since_ms

    def read(self, record_filter: RecordFilter) -> SurveyedLog:
        """Return the surveyed log of some records. The first call reads it."""
        if record_filter not in self.logs:
            self.logs[record_filter] = SurveyedLog(
                self.segments, record_filter.options, self.read_segment_bytes
            )
            self._end_in_log_order(record_filter)
            if self.is_joined:
                forget_older(self.logs[record_filter].fold)
        return self.logs[record_filter]

    def _end_in_log_order(self, record_filter: RecordFilter) -> None:
        """Read a log again up to its end as of a time, if its order and its times differ."""
        log, at_ms = self.logs[record_filter], record_filter.at_ms
        if at_ms is not None and not self.is_joined:
            cut = cut_at(self.segments, log.fold.segments, at_ms, self.read_segment_bytes)
            if cut is not None:
                self.logs_by_times[record_filter] = log
                self.logs[record_filter] = log.up_to(cut)

    @property
    def is_joined(self) -> bool:
        """Whether this is the log of several partitions, whose times overlap."""
        return len(self.order) > 1

    @property
    def is_tracked(self) -> bool:
        """Whether the records of this view were folded with tracks."""
        return any(
            record_filter[:2] == self.record_filter[:2] and record_filter.tracking
            for record_filter in self.logs
        )

    @property
    def fold(self) -> PartitionFold:
        """The last state of each key, and the generations of each group."""
        return self.log.fold

    @property
    def log(self) -> SurveyedLog:
        """The surveyed log, with tracks or without; reading in pieces needs it."""
        return log_of(self.record_filter, self.logs) or self.read(self.record_filter)

    def pieces(self, columns: Collection[str] | None = None) -> Iterator[RecordColumns]:
        """Yield every record as columns (of ``RecordScan``), a piece of the log at a time.

        With a filter for groups, records without a group are left out. Each call reads the log
        again.
        """
        return self.log.pieces(columns)

    @cached_property
    def group_ids(self) -> list[str]:
        """Every group with a record of any kind, in Java's order."""
        return sorted(self.log.present, key=java_order)

    @property
    def group_log(self) -> GroupRecords:
        """The records of groups, except commits, in log order."""
        return self.log.group_log

    @cached_property
    def trusted_from_ms(self) -> int | None:
        """From when on the state is complete; None: from the start (``coterie.log.trust``)."""
        return trusted_from_each(self.order, self.segments, self.fold.segments)

    @property
    def newest_ms(self) -> int:
        """The time of the newest record, regardless of filters; -1: no record has a time."""
        return max((piece.max_timestamp for piece in self.fold.segments), default=-1)

    @property
    def end_cut(self) -> Cut | None:
        """Where the log ends as of a time of a request, if batches with earlier times follow."""
        return next((log.cut for log in self.logs.values() if log.cut), None)

    @property
    def complete_begin(self) -> Begin | None:
        """Where the requested time begins, if compaction removed nothing from there on."""
        return self.since_begin if self.complete_from_ms == self.since_ms else None

    @cached_property
    def complete_from_ms(self) -> int | None:
        """From when on the requested time is complete; None: from the log's start."""
        bounds = [ms for ms in (self.since_ms, self.trusted_from_ms) if ms is not None]
        return max(bounds, default=None)

    @cached_property
    def group_rows(self) -> dict[str, dict[str, Any]]:
        """Every group's last state by id, in the schema of ``PartialState.groups``."""
        return rows_by_id(self.number, self.fold)

    @cached_property
    def newer_records(self) -> GroupRecords:
        """The records of the newer protocols (key versions 3 to 23), in log order."""
        log = self.group_log
        return log.part(n for n, place in enumerate(log.places) if place.version != KEY_GROUP)

    @cached_property
    def newer_by_group(self) -> dict[str, GroupRecords]:
        return self.newer_records.by_group()

    @cached_property
    def histories(self) -> dict[str, GroupHistory]:
        """The metadata records of each group that has any, by id."""
        log = self.group_log
        classic = log.part(n for n, place in enumerate(log.places) if place.version == KEY_GROUP)
        records = classic.by_group()
        histories = {}
        for raw_id, folded in self.fold.groups.items():
            group = decode_utf8(raw_id)
            rows = [
                {**row._asdict(), "file": record.file, "position": record.position}
                for row, record in zip(folded.generations(), records[group].places, strict=True)
            ]
            histories[group] = GroupHistory(
                group,
                records[group],
                rows,
                clients_of(rows, records[group]),
                self.trusted_from_ms is None,
            )
        return histories


def log_of(
    record_filter: RecordFilter, logs: Mapping[RecordFilter, SurveyedLog]
) -> SurveyedLog | None:
    """Return the log of a filter, with tracks or without, if it was read."""
    same_records = (
        log for other_filter, log in logs.items() if other_filter[:2] == record_filter[:2]
    )
    return logs.get(record_filter) or next(same_records, None)


def rows_by_id(number: int | None, fold: PartitionFold) -> dict[str, dict[str, Any]]:
    """Return the groups of a fold by id; see ``PartialState.groups``."""
    rows = group_rows(number, fold)
    name_topics(rows)
    return {row["group_id"]: row for row in rows}


def clients_of(rows: list[dict[str, Any]], records: GroupRecords) -> dict[str, Client]:
    """Return the client of each member id; only records with a new member id are decoded."""
    clients: dict[str, Client] = {}
    shared: dict[Client, Client] = {}  # each generation has new members of the same clients
    for number, row in enumerate(rows):
        if not row["tombstone"] and (row["joined"] or row["replaced"]):
            value = records[number].value
            assert value is not None  # not a tombstone
            for member in metadata_row(value)["members"]:
                names = member["client_id"], member["client_host"], member["group_instance_id"]
                client = Client(*names)
                clients[member["member_id"]] = shared.setdefault(client, client)
    return clients


def read_partitions(
    log: Log,
    *,
    groups: Collection[str] | None = None,
    at_ms: int | None = None,
    since_ms: int | None = None,
    progress: Progress | None = None,
) -> Iterator[PartitionView]:
    """Yield a view of each partition of a log, in order of their number.

    Parameters
    ----------
    log
        LOG..., see ``coterie.log.folders.find_segments``.
    groups
        Only these groups; None: all.
    at_ms
        Only records whose own timestamp (ms) is not after this.
    since_ms
        Report only states and events since then (ms).

    Raises
    ------
    LogError
        A path has no log, or a segment cannot be read.
    """
    progress = progress or Silent()
    listing = find_segments(log)
    progress.total(listing.size)
    only = None if groups is None else frozenset(groups)
    for number, segments in listing.partitions().items():
        yield PartitionView(number, segments, only, at_ms, since_ms=since_ms)
        progress.advance(sum(segment.size for segment in segments))

"""What a partition of the topic says, read as it is asked for: what every question begins with.

``fold`` is its last state, ``pieces`` its log as columns, ``lives`` the metadata records of each
group with who its members were. Nothing here holds the columns of a whole partition. A question
that wants the columns alone never folds, and the other way round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie._core.codec.text import decode_utf8
from coterie.insight.records.group_log import GroupRecords
from coterie.insight.records.log_reader import ReadSegment, SurveyedLog
from coterie.insight.records.record_columns import RecordColumns
from coterie.log.folders import Log, Segment, find_segments, read_segment
from coterie.log.trust import trusted_from
from coterie.ordering import java_order
from coterie.replay.engine import Progress, Silent
from coterie.state.consumer_protocol_groups import name_topics
from coterie.state.partial import ScanOptions, Tracking
from coterie.state.rows import KEY_GROUP, group_rows, metadata_row

if TYPE_CHECKING:
    from coterie._core.fold.fold import PartitionFold
    from coterie.insight.records.cut import CutPartition


class Client(NamedTuple):
    """Who a member id stands for."""

    client_id: str | None
    client_host: str | None
    group_instance_id: str | None


@dataclass(frozen=True)
class Life:
    """The metadata records of one group, in log order.

    Attributes
    ----------
    group : str
        Its id.
    records : GroupRecords
        Whole, as they lie in the log; :meth:`state` decodes one.
    generations : list of dict
        One row a record: the fields of ``coterie._core.fold.generations.Generation`` (what
        changed since the one before), and ``file`` and ``position``, the evidence.
    clients : dict
        Every member id that a record names -> :class:`Client`.
    """

    group: str
    records: GroupRecords
    generations: list[dict[str, Any]]
    clients: dict[str, Client]

    @cached_property
    def taken_over(self) -> frozenset[str]:
        """Member ids that took a static member's place: their records name the first client."""
        return frozenset(new for row in self.generations for _, _, new in row["replaced"])

    def state(self, index: int) -> dict[str, Any] | None:
        """Return the group as of a record, members with subscription and assignment.

        As ``coterie.state.rows.metadata_row``; None: a tombstone.
        """
        value = self.records[index].value
        return None if value is None else metadata_row(value)


class RecordFilter(NamedTuple):
    """Which records of a partition are looked at; see :class:`PartitionView`.

    ``tracking``: what their fold tracks, if it does.
    """

    groups: frozenset[str] | None
    at_ms: int | None
    tracking: Tracking | None = None

    @property
    def options(self) -> ScanOptions:
        """How they are folded."""
        return ScanOptions(at_ms=self.at_ms, groups=self.groups, tracking=self.tracking)


@dataclass
class JoinedParts:
    """What was found in parts of a partition, put together: see ``log_parts``.

    Attributes
    ----------
    logs : dict
        Of each view that is asked for.
    aggregates : dict
        What the question's aggregates keep of all pieces, by name.
    """

    logs: dict[RecordFilter, SurveyedLog]
    aggregates: dict[str, Any]


class PartitionView:
    """One partition of the topic. What is read is kept until the next partition comes.

    Parameters
    ----------
    number : int or None
        Of the partition; None: not known.
    segments : tuple of Segment
        Its log.
    groups : frozenset of str or None
        Only these groups; None: all.
    at_ms : int or None
        Only records whose own timestamp is not after this.
    read
        Gives the bytes of a segment.
    since_ms : int or None
        Tell only what was so or happened since then. All is read: what was before decides.
    parts : JoinedParts or None
        What was found in parts of the log already; None: it is read here.

    Attributes
    ----------
    seen : dict or None
        What aggregates of several questions keep, by name, if the log went by once for all of them.
    cut : CutPartition or None
        The log in parts that threads of this process read; None: it is read as one.
    """

    def __init__(
        self,
        number: int | None,
        segments: Iterable[Segment],
        groups: frozenset[str] | None = None,
        at_ms: int | None = None,
        read: ReadSegment = read_segment,
        since_ms: int | None = None,
        parts: JoinedParts | None = None,
    ) -> None:
        self.number = number
        self.segments = tuple(segments)
        self.groups = groups
        self.at_ms = at_ms
        self.bytes_of = read
        self.since_ms = since_ms
        self.parts = parts
        self.seen: dict[str, Any] | None = None
        self.cut: CutPartition | None = None
        self.logs: dict[RecordFilter, SurveyedLog] = {} if parts is None else parts.logs
        self.others: dict[RecordFilter, PartitionView] = {}

    @property
    def record_filter(self) -> RecordFilter:
        """Which of the partition's records these are of."""
        return RecordFilter(self.groups, self.at_ms)

    def whole(self) -> PartitionView:
        """Return the facts of all groups: these, where all are asked for."""
        return self.of(RecordFilter(None, self.at_ms))

    def of(self, record_filter: RecordFilter) -> PartitionView:
        """Return the facts of other records of the partition."""
        if record_filter == self.record_filter:
            return self
        if record_filter not in self.others:
            self.others[record_filter] = PartitionView(
                *(self.number, self.segments, record_filter.groups, record_filter.at_ms),
                *(self.bytes_of, self.since_ms, self.parts),
            )
            self.others[record_filter].cut = self.cut
        return self.others[record_filter]

    def is_asked(self, at_ms: int | None) -> bool:
        """Whether what happened at a time (epoch ms; None: not known) is asked for."""
        if at_ms is None:
            return True
        too_late = self.at_ms is not None and at_ms > self.at_ms
        return not too_late and (self.since_ms is None or at_ms >= self.since_ms)

    def is_whole_at(self, at_ms: int | None) -> bool:
        """Whether compaction took nothing of a time (epoch ms; None: not known)."""
        since_ms = self.trusted_from_ms
        return since_ms is None or at_ms is None or at_ms >= since_ms

    def read(self, record_filter: RecordFilter) -> SurveyedLog:
        """Return the log of some records, read once. The first call reads it."""
        if record_filter not in self.logs:
            assert self.parts is None  # else all that is asked for is there
            if self.cut is not None:
                self.logs[record_filter] = self.cut.survey(record_filter.options, self.bytes_of)
            else:
                self.logs[record_filter] = SurveyedLog(
                    self.segments, record_filter.options, self.bytes_of
                )
        return self.logs[record_filter]

    @property
    def in_parts(self) -> bool:
        """Whether aggregates take parts of the log, and are put together then."""
        return self.parts is not None or self.cut is not None

    @property
    def is_tracked(self) -> bool:
        """Whether these records were read with tracks."""
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
        """The log, read once, maybe with tracks: what reading it in pieces must know."""
        return log_of(self.record_filter, self.logs) or self.read(self.record_filter)

    def pieces(self, columns: Collection[str] | None = None) -> Iterator[RecordColumns]:
        """Yield every record as columns (of ``RecordScan``), a piece of the log at a time.

        Without those of no group where groups are named. Each call reads the log anew.
        """
        return self.log.pieces(columns)

    @cached_property
    def group_ids(self) -> list[str]:
        """Every group that has a record of any kind, sorted as Java sorts."""
        return sorted(self.log.present, key=java_order)

    @property
    def group_log(self) -> GroupRecords:
        """The records of groups that are no commits, in log order."""
        return self.log.group_log

    @cached_property
    def trusted_from_ms(self) -> int | None:
        """From when on the state is whole; None: from its start (``coterie.log.trust``)."""
        return trusted_from(self.fold.segments)

    @property
    def newest_ms(self) -> int:
        """The time of the newest record, whatever was asked for; -1: none has one."""
        return max((piece.max_timestamp for piece in self.fold.segments), default=-1)

    @cached_property
    def begins_ms(self) -> int | None:
        """From when on the records tell all that is asked for; None: from the log's start."""
        known = [ms for ms in (self.since_ms, self.trusted_from_ms) if ms is not None]
        return max(known, default=None)

    @cached_property
    def group_rows(self) -> dict[str, dict[str, Any]]:
        """Every group's last state by id, in the schema of ``PartialState.groups``."""
        return rows_by_id(self.number, self.fold)

    @cached_property
    def newer_records(self) -> GroupRecords:
        """The records of the newer protocols (key versions 3 to 23), in log order."""
        log = self.group_log
        return log.part(n for n, one in enumerate(log.places) if one.version != KEY_GROUP)

    @cached_property
    def lives(self) -> dict[str, Life]:
        """The metadata records of every group that has any, by id."""
        log = self.group_log
        classic = log.part(n for n, one in enumerate(log.places) if one.version == KEY_GROUP)
        records = classic.by_group()
        lives = {}
        for raw, held in self.fold.groups.items():
            group = decode_utf8(raw)
            rows = [
                {**row._asdict(), "file": record.file, "position": record.position}
                for row, record in zip(held.generations(), records[group].places, strict=True)
            ]
            lives[group] = Life(group, records[group], rows, _clients(rows, records[group]))
        return lives


def log_of(
    record_filter: RecordFilter, logs: Mapping[RecordFilter, SurveyedLog]
) -> SurveyedLog | None:
    """Return the log of a view, with tracks or without, if it is there."""
    tracked = (log for other, log in logs.items() if other[:2] == record_filter[:2])
    return logs.get(record_filter) or next(tracked, None)


def rows_by_id(number: int | None, fold: PartitionFold) -> dict[str, dict[str, Any]]:
    """Return the groups of a fold by id; see ``PartialState.groups``."""
    rows = group_rows(number, fold)
    name_topics(rows)
    return {row["group_id"]: row for row in rows}


def _clients(rows: list[dict[str, Any]], records: GroupRecords) -> dict[str, Client]:
    """Return who each member id stands for; only records in which someone is new are decoded."""
    found: dict[str, Client] = {}
    for number, row in enumerate(rows):
        if not row["tombstone"] and (row["joined"] or row["replaced"]):
            value = records[number].value
            assert value is not None  # it is no tombstone
            for member in metadata_row(value)["members"]:
                who = (member["client_id"], member["client_host"], member["group_instance_id"])
                found[member["member_id"]] = Client(*who)
    return found


def read_facts(
    log: Log,
    *,
    groups: Collection[str] | None = None,
    at_ms: int | None = None,
    since_ms: int | None = None,
    progress: Progress | None = None,
) -> Iterator[PartitionView]:
    """Yield what each partition of a log says, in order of their number.

    Parameters
    ----------
    log
        LOG..., see ``coterie.log.folders.find_segments``.
    groups
        Only these groups; None: all. All of a group lies in one partition.
    at_ms
        Only records whose own timestamp (ms) is not after this.
    since_ms
        Tell only what was so or happened since then (ms).

    Raises
    ------
    LogError
        A path leads to no log, or a segment cannot be read.
    """
    progress = progress or Silent()
    listing = find_segments(log)
    progress.total(listing.size)
    only = None if groups is None else frozenset(groups)
    for number, segments in listing.partitions().items():
        yield PartitionView(number, segments, only, at_ms, since_ms=since_ms)
        progress.advance(sum(segment.size for segment in segments))

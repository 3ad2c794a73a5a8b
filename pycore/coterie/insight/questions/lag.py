"""How far a group was behind the ends of its topics, at the times of the end offsets.

The offset is the one that readers saw at a sample's time: a record applies if its own timestamp is
not later, and a transaction's record if its marker's is not later either. Nothing is interpolated:
there is a lag only at a sampled end offset. A commit beyond the end offset has no lag, neither
negative nor 0; its status is ``ahead``. The lag is also unknown if the log ends before the sample,
or if compaction removed what was committed.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from coterie._core.fold import fold as partial
from coterie.base.consumer_protocol import owned_partitions
from coterie.base.ordering import key_order
from coterie.errors import CorruptData
from coterie.insight.offsets.at_times import NOTHING, OffsetsAtTimes, SampleTimes
from coterie.insight.offsets.end_offsets import EndOffsets, Sample
from coterie.insight.records.aggregates import Aggregate, aggregates_of
from coterie.insight.records.key_index import Key
from coterie.insight.records.partition_view import PartitionView, RecordFilter
from coterie.log.set_back import SetBack
from coterie.state.partial import Tracking

NAME = "lag"
VISIBLE = "visible"
FIELDS = {
    "group_id": "string",
    "offsets_partition": "int32",
    "topic": "string",
    "partition": "int32",
    "time": "timestamp",  # of the end offset; null: it has none, and the offset is the latest
    "offset": "int64",  # committed as of then; null: none
    "commit_timestamp": "timestamp",
    "end_offset": "int64",  # null: not known
    "lag": "int64",  # null: not known
    "lag_max": "int64",  # upper bound of an unknown lag, unless the group went back since
    "status": "string",  # of STATUSES
    "lag_ms_min": "int64",  # lower bound of the age of the oldest unread record
    "lag_ms_max": "int64",  # upper bound; null: no sample is old enough
}
STATUSES = {
    "ok": "the lag is known",
    "no_end_offset": "the end offset is not known",
    "no_commit": "the group has no offset",
    "ahead": "the commit lies beyond the end: sampled before it, or the topic was made anew or cut",
    "beyond_log": "sampled after the log ends: what was committed since is not in it",
    "compacted": "compaction took what the log had of the time of the sample",
}
OK, NO_END_OFFSET, NO_COMMIT, AHEAD, BEYOND_LOG, COMPACTED = STATUSES
TOTALS = {
    "group_id": "string",
    "offsets_partition": "int32",
    "time": "timestamp",
    "partitions": "int64",
    "lag": "int64",  # over the partitions whose lag is known; null: of none
    "unknown": "int64",  # partitions whose lag is not known
}
Row = dict[str, Any]


@dataclass(frozen=True)
class Parameters:
    """The end offsets and their times.

    Attributes
    ----------
    ends : EndOffsets
        From ``coterie.insight.offsets.end_offsets.read_end_offsets``.
    at_ms : int or None
        The time of end offsets that have none; None: the end of the log.
    latest : bool
        Use only the last sample of each partition.
    log_until_ms : int or None
        Until when the log is complete: the time of the copy, or else of its newest record. None:
        the time of the partition's newest record.
    """

    ends: EndOffsets
    at_ms: int | None = None
    latest: bool = False
    log_until_ms: int | None = None


class CompleteRange(NamedTuple):
    """The time for which a partition's records are complete, epoch ms; None: no bound."""

    from_ms: int | None
    until_ms: int | None

    def status(self, at_ms: int | None, offset: int | None) -> str | None:
        """Return why the offset as of a time (None: the log's end) is unknown; None: it is known.

        In a compacted log, an offset at a time is still correct, because a record with a successor
        in the cleaned part is removed. But if there is no offset, one may have been removed.
        """
        if at_ms is None:
            return None
        if self.until_ms is not None and at_ms > self.until_ms:
            return BEYOND_LOG
        may_be_removed = offset is None and self.from_ms is not None and at_ms < self.from_ms
        return COMPACTED if may_be_removed else None


def aggregates(
    view: PartitionView, parameters: Parameters
) -> dict[str, tuple[RecordFilter, Aggregate]]:
    """Return the aggregate that finds what readers saw.

    Keys with records only after the requested end have rows, too, so all records are read. There
    is no aggregate if only the end of the log is requested: the state answers that.
    """
    if states(view, parameters):
        return {}
    times = SampleTimes(parameters.ends, time_of(view, parameters))
    set_back = SetBack.of(view.segments, view.read_segment_bytes)
    record_filter = RecordFilter(view.groups, None)
    follows_4x = view.of(record_filter).fold.follows_4x
    return {VISIBLE: (record_filter, OffsetsAtTimes(times, set_back, follows_4x))}


def time_of(view: PartitionView, parameters: Parameters) -> int | None:
    """Return the time of end offsets that have none; None: the end of the log."""
    return view.at_ms if parameters.at_ms is None or parameters.ends.timed else parameters.at_ms


def states(view: PartitionView, parameters: Parameters) -> tuple[RecordFilter, ...]:
    """Return the state that answers a request without times; none for one with times."""
    if parameters.ends.timed or time_of(view, parameters) is not None:
        return ()
    return (view.record_filter._replace(tracking=Tracking()),)


def rows(view: PartitionView, parameters: Parameters) -> Iterator[Row]:
    """Yield one row a group, topic, partition and sample, in that order."""
    yield from rows_of(view, parameters, aggregates_of(view, aggregates, parameters))


def rows_of(
    view: PartitionView, parameters: Parameters, filled: Mapping[str, Any]
) -> Iterator[Row]:
    """Yield the rows; ``filled``: the filled aggregates."""
    if VISIBLE in filled:
        visible: OffsetsAtTimes = filled[VISIBLE]
        times, shown_of = visible.times, visible.by_key()
        complete_range = CompleteRange(view.trusted_from_ms, log_end_ms(view, parameters))
    else:
        times, shown_of = SampleTimes(parameters.ends, None), shown_last(view, parameters)
        complete_range = CompleteRange(view.trusted_from_ms, None)
    keys = {*shown_of, *assigned(view)}
    if view.groups is not None:
        keys = {key for key in keys if key[0] in view.groups}

    @functools.cache
    def ends_of(topic: str, partition: int) -> tuple[EndSamples, list[int | None], list[int]]:
        when = times.of(topic, partition)
        indices = [index for index, ms in enumerate(when) if view.is_requested(ms)]
        return (
            EndSamples(times.samples(topic, partition)),
            when,
            indices[-1:] if parameters.latest else indices,
        )

    for key in sorted(keys, key=key_order()):
        ends, when, indices = ends_of(*key[1:])
        shown = shown_of[key] if key in shown_of else [NOTHING] * len(when)
        for index in indices:
            offset, commit_ms = shown[index]
            yield {
                "group_id": key[0],
                "offsets_partition": view.number,
                "topic": key[1],
                "partition": key[2],
                "time": when[index],
                "offset": offset,
                "commit_timestamp": commit_ms,
                "end_offset": ends.samples[index].offset,
                **lag_of(offset, ends, index, complete_range.status(when[index], offset)),
            }


def shown_last(
    view: PartitionView, parameters: Parameters
) -> dict[Key, list[tuple[int | None, int | None]]]:
    """Return what readers see at the end, for each key that ever had an effective record."""
    log = view.read(*states(view, parameters))
    effective = np.flatnonzero(partial.tracks(log.fold)["last"])
    offsets = partial.offset_entries(log.fold)
    return {key: [NOTHING] for key in log.keys(effective)} | {
        key: [(offset.offset, offset.commit_timestamp)] for key, offset in offsets
    }


def log_end_ms(view: PartitionView, parameters: Parameters) -> int | None:
    """Return until when the log is complete; None: no record has a time."""
    if parameters.log_until_ms is not None:
        return parameters.log_until_ms
    return None if view.newest_ms < 0 else view.newest_ms


def lag_of(
    offset: int | None, ends: EndSamples, index: int, unknown: str | None = None
) -> dict[str, Any]:
    """Return the lag at a sample, its status, and how long it has lasted.

    ``unknown``: why the offset as of the sample is not known.
    """
    end = ends.samples[index].offset
    lag = None if offset is None or end is None or offset > end else end - offset
    status = unknown or OK
    if unknown is None and lag is None:
        status = NO_COMMIT if offset is None else NO_END_OFFSET if end is None else AHEAD
    least = most = None
    if unknown is None and offset is not None and lag is not None:
        least, most = ends.behind_ms(offset, index) if lag else (0, 0)
    return {
        "lag": lag if unknown is None else None,
        "lag_max": None if unknown is None else lag,
        "status": status,
        "lag_ms_min": least,
        "lag_ms_max": most,
    }


def totals(
    rows: Iterable[Row], time_of: Callable[[Row], int | None] = itemgetter("time")
) -> Iterator[Row]:
    """Yield one row for each group and time, over its partitions; times ascend in each group."""
    by_group: dict[str, dict[int | None, list[Row]]] = {}
    for row in rows:
        by_group.setdefault(row["group_id"], {}).setdefault(time_of(row), []).append(row)
    for group, by_time in by_group.items():
        for time in sorted(by_time, key=lambda ms: -1 if ms is None else ms):
            partition_rows = by_time[time]
            known = [row["lag"] for row in partition_rows if row["lag"] is not None]
            yield {
                "group_id": group,
                "offsets_partition": partition_rows[0]["offsets_partition"],
                "time": time,
                "partitions": len(partition_rows),
                "lag": sum(known) if known else None,
                "unknown": len(partition_rows) - len(known),
                "trusted_from": partition_rows[0].get("trusted_from"),
            }


class EndSamples:
    """A partition's samples, and the age of its first unread record at each of them.

    The record was written after the last sample with an end at or below the committed offset, and
    not after the next sample. If ends go back, the topic was created again; no age is known then.
    """

    def __init__(self, samples: tuple[Sample, ...]) -> None:
        self.samples = samples
        known = [
            (sample.time_ms, sample.offset)
            for sample in samples
            if sample.time_ms is not None and sample.offset is not None
        ]
        self.times_ms = [ms for ms, _ in known]
        self.offsets = [offset for _, offset in known]
        backward = (
            at
            for at, (offset, following) in enumerate(pairwise(self.offsets), 1)
            if following < offset
        )
        self.rising = next(backward, len(known))  # the number of ascending ones
        known_so_far = accumulate(
            sample.time_ms is not None and sample.offset is not None for sample in samples
        )
        self.known = list(known_so_far)

    def behind_ms(self, offset: int, index: int) -> tuple[int | None, int | None]:
        """Return the bounds of the age at a sample whose end is above ``offset``."""
        count = self.known[index]
        if not count or count > self.rising:
            return None, None
        now_ms = self.times_ms[count - 1]
        at = bisect_right(self.offsets, offset, 0, count)
        return now_ms - self.times_ms[at], None if at == 0 else now_ms - self.times_ms[at - 1]


def assigned(view: PartitionView) -> Iterator[Key]:
    """Yield the keys of all partitions assigned by the last record of each classic group."""
    for history in view.histories.values():
        state = history.state(len(history.records) - 1)
        if state is None or state["protocol_type"] != "consumer":
            continue
        for member in state["members"]:
            try:
                owned = owned_partitions(member["assignment"])
            except CorruptData:
                continue
            for topic, partitions in owned.items():
                yield from ((history.group, topic, partition) for partition in partitions)

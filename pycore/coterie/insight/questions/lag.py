"""How far a group was behind the ends of its topics, at the times at which those are known.

The offset is the one that readers saw at a sample's time: a record counts if its own timestamp is
not after it, a transaction's if its marker's is not either. Nothing is interpolated: there is a
lag where an end offset was sampled, and nowhere else. A commit beyond the end offset gives no lag
at all, neither a negative one nor 0: its status is ``ahead``. Where the log does not tell what was
committed, since it ends before the sample or compaction took it, no lag is known either.
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

from coterie._core.fold import partial
from coterie.errors import CorruptData
from coterie.insight.offsets.at_times import NOTHING, OffsetsAtTimes, SampleTimes
from coterie.insight.offsets.end_offsets import EndOffsets, Sample
from coterie.insight.records.aggregates import Aggregate, aggregates_of
from coterie.insight.records.key_index import Key
from coterie.insight.records.partition_view import PartitionView, RecordFilter
from coterie.log.consumer_protocol import owned_partitions
from coterie.ordering import key_order
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
    "lag_max": "int64",  # not known, and at most so much, unless the group went back since
    "status": "string",  # of STATUSES
    "lag_ms_min": "int64",  # the oldest unread record was written at least so long ago
    "lag_ms_max": "int64",  # and at most so long ago; null: no sample is old enough to tell
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
class Ask:
    """What the ends were, and when.

    Attributes
    ----------
    ends : EndOffsets
        From ``coterie.insight.offsets.end_offsets.read_end_offsets``.
    at_ms : int or None
        When end offsets without a time were so; None: at the end of the log.
    latest : bool
        Only the last sample of each partition.
    log_until_ms : int or None
        Up to when the log tells all: when the copy was made, or else the time of its newest
        record. None: that of the partition's newest record.
    """

    ends: EndOffsets
    at_ms: int | None = None
    latest: bool = False
    log_until_ms: int | None = None


class Extent(NamedTuple):
    """From when to when a partition's records tell all, epoch ms; None: no bound."""

    from_ms: int | None
    until_ms: int | None

    def status(self, at_ms: int | None, offset: int | None) -> str | None:
        """Return why the offset as of a time (None: the log's end) is not known; None: it is.

        What a compacted log has of a time is what was: a record that is left had no successor in
        what was cleaned. Only where it has nothing, something may be gone.
        """
        if at_ms is None:
            return None
        if self.until_ms is not None and at_ms > self.until_ms:
            return BEYOND_LOG
        lost = offset is None and self.from_ms is not None and at_ms < self.from_ms
        return COMPACTED if lost else None


def aggregates(view: PartitionView, ask: Ask) -> dict[str, tuple[RecordFilter, Aggregate]]:
    """Return what finds, while the log goes by, what readers saw.

    A key that has records only after the end that is asked for has rows, too: all is read.
    Nothing where only the end of the log is asked for, which its state tells.
    """
    if states(view, ask):
        return {}
    return {
        VISIBLE: (
            RecordFilter(view.groups, None),
            OffsetsAtTimes(SampleTimes(ask.ends, time_of(view, ask))),
        )
    }


def time_of(view: PartitionView, ask: Ask) -> int | None:
    """Return when end offsets without a time were so; None: at the end of the log."""
    return view.at_ms if ask.at_ms is None or ask.ends.timed else ask.at_ms


def states(view: PartitionView, ask: Ask) -> tuple[RecordFilter, ...]:
    """Return the state that answers where no times are asked for; else none does."""
    if ask.ends.timed or time_of(view, ask) is not None:
        return ()
    return (view.record_filter._replace(tracking=Tracking()),)


def rows(view: PartitionView, ask: Ask) -> Iterator[Row]:
    """Yield one row a group, topic, partition and sample, in that order."""
    yield from rows_of(view, ask, aggregates_of(view, aggregates, ask))


def rows_of(view: PartitionView, ask: Ask, seen: Mapping[str, Any]) -> Iterator[Row]:
    """As :func:`rows`; ``seen`` is what the aggregates keep."""
    if VISIBLE in seen:
        visible: OffsetsAtTimes = seen[VISIBLE]
        times, shown_of = visible.times, visible.by_key()
        extent = Extent(view.trusted_from_ms, log_end_ms(view, ask))
    else:
        times, shown_of = SampleTimes(ask.ends, None), shown_last(view, ask)
        extent = Extent(view.trusted_from_ms, None)  # which has no part without times
    keys = {*shown_of, *assigned(view)}
    if view.groups is not None:
        keys = {key for key in keys if key[0] in view.groups}

    @functools.cache
    def ends_of(topic: str, partition: int) -> tuple[EndSamples, list[int | None], list[int]]:
        when = times.of(topic, partition)
        indices = [index for index, ms in enumerate(when) if view.is_asked(ms)]
        return (
            EndSamples(times.samples(topic, partition)),
            when,
            indices[-1:] if ask.latest else indices,
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
                **lag_of(offset, ends, index, extent.status(when[index], offset)),
            }


def shown_last(view: PartitionView, ask: Ask) -> dict[Key, list[tuple[int | None, int | None]]]:
    """Return what readers see at the end of each key that ever had a record that counts."""
    log = view.read(*states(view, ask))
    counting = np.flatnonzero(partial.tracks(log.fold)["last"])
    seen = partial.offset_entries(log.fold)
    return {key: [NOTHING] for key in log.keys(counting)} | {
        key: [(one.offset, one.commit_timestamp)] for key, one in seen
    }


def log_end_ms(view: PartitionView, ask: Ask) -> int | None:
    """Return up to when the log tells all; None: no record has a time."""
    if ask.log_until_ms is not None:
        return ask.log_until_ms
    return None if view.newest_ms < 0 else view.newest_ms


def lag_of(
    offset: int | None, ends: EndSamples, index: int, lost: str | None = None
) -> dict[str, Any]:
    """Return the lag at a sample, how sure it is, and how long it has lasted.

    ``lost``: why the offset as of the sample is not known.
    """
    end = ends.samples[index].offset
    lag = None if offset is None or end is None or offset > end else end - offset
    status = lost or OK
    if lost is None and lag is None:
        status = NO_COMMIT if offset is None else NO_END_OFFSET if end is None else AHEAD
    least = most = None
    if lost is None and offset is not None and lag is not None:
        least, most = ends.behind_ms(offset, index) if lag else (0, 0)
    return {
        "lag": lag if lost is None else None,
        "lag_max": None if lost is None else lag,
        "status": status,
        "lag_ms_min": least,
        "lag_ms_max": most,
    }


def totals(
    rows: Iterable[Row], time_of: Callable[[Row], int | None] = itemgetter("time")
) -> Iterator[Row]:
    """Yield one row a group and time, over its partitions; groups as they come, times rising."""
    found: dict[str, dict[int | None, list[Row]]] = {}
    for row in rows:
        found.setdefault(row["group_id"], {}).setdefault(time_of(row), []).append(row)
    for group, by_time in found.items():
        for time in sorted(by_time, key=lambda ms: -1 if ms is None else ms):
            theirs = by_time[time]
            known = [row["lag"] for row in theirs if row["lag"] is not None]
            yield {
                "group_id": group,
                "offsets_partition": theirs[0]["offsets_partition"],
                "time": time,
                "partitions": len(theirs),
                "lag": sum(known) if known else None,
                "unknown": len(theirs) - len(known),
                "trusted_from": theirs[0].get("trusted_from"),
            }


class EndSamples:
    """The samples of a partition of a topic, and how old its first unread record is at each.

    It was written after the last sample whose end was not above the committed offset, and not
    after the next. Where ends go back, the topic was made anew: nothing is said from there on.
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
        backward = (at for at, (one, next_) in enumerate(pairwise(self.offsets), 1) if next_ < one)
        self.rising = next(backward, len(known))  # so many rise
        known_so_far = accumulate(
            one.time_ms is not None and one.offset is not None for one in samples
        )
        self.known = list(known_so_far)

    def behind_ms(self, offset: int, index: int) -> tuple[int | None, int | None]:
        """Return within what the age lies as of a sample, whose end is above ``offset``."""
        count = self.known[index]
        if not count or count > self.rising:
            return None, None
        now_ms = self.times_ms[count - 1]
        at = bisect_right(self.offsets, offset, 0, count)
        return now_ms - self.times_ms[at], None if at == 0 else now_ms - self.times_ms[at - 1]


def assigned(view: PartitionView) -> Iterator[Key]:
    """Yield what the members of each classic group hold by its last record."""
    for life in view.lives.values():
        state = life.state(len(life.records) - 1)
        if state is None or state["protocol_type"] != "consumer":
            continue
        for member in state["members"]:
            try:
                held = owned_partitions(member["assignment"])
            except CorruptData:
                continue
            for topic, partitions in held.items():
                yield from ((life.group, topic, partition) for partition in partitions)

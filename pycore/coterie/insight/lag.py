"""How far a group was behind the ends of its topics, at the times at which those are known.

The offset is the one that readers saw at a sample's time: a record counts if its own timestamp is
not after it, a transaction's if its marker's is not either. Nothing is interpolated: there is a
lag where an end offset was sampled, and nowhere else. A commit beyond the end offset gives no lag
at all, neither a negative one nor 0: its status is ``ahead``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from coterie.errors import CorruptData
from coterie.insight.commits import COMMITTED, KIND, Array, Commits
from coterie.insight.endoffsets import EndOffsets, Sample
from coterie.insight.facts import PartitionFacts
from coterie.insight.keys import by_key
from coterie.log.consumer_protocol import owned_partitions
from coterie.ordering import key_order
from coterie.times import MAX_MS

NAME = "lag"
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
    "status": "string",  # of STATUSES
    "lag_ms_min": "int64",  # the oldest unread record was written at least so long ago
    "lag_ms_max": "int64",  # and at most so long ago; null: no sample is old enough to tell
}
STATUSES = {
    "ok": "the lag is known",
    "no_end_offset": "the end offset is not known",
    "no_commit": "the group has no offset",
    "ahead": "the commit lies beyond the end: sampled before it, or the topic was made anew or cut",
}
OK, NO_END_OFFSET, NO_COMMIT, AHEAD = STATUSES
Key = tuple[str, str, int]
NO_SAMPLE = (Sample(None, None),)


@dataclass(frozen=True)
class Ask:
    """What the ends were, and when.

    Attributes
    ----------
    ends : EndOffsets
        From ``coterie.insight.endoffsets.read_end_offsets``.
    at_ms : int or None
        When end offsets without a time were so; None: at the end of the log.
    latest : bool
        Only the last sample of each partition.
    """

    ends: EndOffsets
    at_ms: int | None = None
    latest: bool = False


def rows(facts: PartitionFacts, ask: Ask) -> Iterator[dict[str, Any]]:
    """Yield one row a group, topic, partition and sample, in that order."""
    # Markers are of no group: all of the partition is read, whatever groups are asked for.
    whole = facts
    if facts.groups is not None:
        whole = PartitionFacts(facts.number, facts.segments, None, None, facts.bytes_of)
    commits = whole.records
    events = Events(commits)
    keys = {*events.spans, *assigned(facts)}
    if facts.groups is not None:
        keys = {key for key in keys if key[0] in facts.groups}
    for key in sorted(keys, key=key_order):
        samples = ask.ends.samples.get(key[1:], NO_SAMPLE)
        at_ms = ask.at_ms if not ask.ends.timed else None
        times = [at_ms if sample.time_ms is None else sample.time_ms for sample in samples]
        shown = events.visible(key, times)
        for index in range(len(samples) - 1 if ask.latest else 0, len(samples)):
            row = shown[index]
            offset = None if row < 0 else int(commits.offset[row])
            yield {
                "group_id": key[0],
                "offsets_partition": facts.number,
                "topic": key[1],
                "partition": key[2],
                "time": times[index],
                "offset": offset,
                "commit_timestamp": None if row < 0 else int(commits.commit_timestamp[row]),
                "end_offset": samples[index].offset,
                **lag_of(offset, samples, index),
            }


def lag_of(offset: int | None, samples: tuple[Sample, ...], index: int) -> dict[str, Any]:
    """Return the lag at a sample, how sure it is, and how long it has lasted."""
    end = samples[index].offset
    status = NO_COMMIT if offset is None else NO_END_OFFSET if end is None else OK
    if offset is None or end is None or offset > end:
        status = AHEAD if status == OK else status
        return {"lag": None, "status": status, "lag_ms_min": None, "lag_ms_max": None}
    least, most = (0, 0) if offset == end else behind_ms(offset, samples[: index + 1])
    return {"lag": end - offset, "status": status, "lag_ms_min": least, "lag_ms_max": most}


def behind_ms(offset: int, samples: tuple[Sample, ...]) -> tuple[int | None, int | None]:
    """Return within what the age of the first unread record lies, as of the last sample's time.

    It was written after the last sample whose end was not above ``offset``, and not after the
    next. Where ends go back, the topic was made anew: nothing is said.
    """
    known = [
        (sample.time_ms, sample.offset)
        for sample in samples
        if sample.time_ms is not None and sample.offset is not None
    ]
    if not known or any(later[1] < earlier[1] for earlier, later in pairwise(known)):
        return None, None
    now_ms = known[-1][0]
    at = bisect_right([one for _, one in known], offset)
    return now_ms - known[at][0], None if at == 0 else now_ms - known[at - 1][0]


def assigned(facts: PartitionFacts) -> Iterator[Key]:
    """Yield what the members of each classic group hold by its last record."""
    for life in facts.lives.values():
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


class Events:
    """What changed the offset of each key, in the order in which readers saw it.

    Parameters
    ----------
    records
        All of a partition's: markers are of no group.
    """

    def __init__(self, records: Commits) -> None:
        self.records = records
        inside = records.producer_id != -1
        counts = (records.kind <= KIND["offset_tombstone"]) & (records.outcome == COMMITTED)
        self.place = np.arange(len(records))
        # A record without a time (magic 0) counts at any.
        self.time = np.where(records.timestamp == -1, -MAX_MS - 1, records.timestamp)
        decided = np.flatnonzero(counts & inside)
        self.place[decided] = next_markers(records, decided)
        self.time[decided] = np.maximum(self.time, self.time[self.place])[decided]
        self.inside = inside
        held = by_key(records, np.flatnonzero(counts))
        self.rows = held.order
        starts = np.flatnonzero(held.first)
        back = ~held.first & (np.diff(self.time[self.rows], prepend=0) < 0)
        odd = np.add.reduceat(back | inside[self.rows], starts) if len(starts) else starts
        first = self.rows[starts]
        names = (records.group[first], records.topic[first], records.partition[first])
        ends = np.append(starts[1:], len(self.rows))[: len(starts)].tolist()
        columns = (*(column.tolist() for column in names), starts.tolist(), ends, odd.tolist())
        self.spans = {
            (records.groups[group], records.topics[topic], partition): (start, end, bool(is_odd))
            for group, topic, partition, start, end, is_odd in zip(*columns, strict=True)
        }

    def visible(self, key: Key, times: list[int | None]) -> list[int]:
        """Return the row that readers saw at each time (None: at the end), -1: none."""
        if key not in self.spans:
            return [-1] * len(times)
        start, end, is_odd = self.spans[key]
        rows = self.rows[start:end]
        if is_odd:
            rows = rows[np.argsort(self.place[rows], kind="stable")]
            return [self._visible_at(rows.tolist(), ms) for ms in times]
        if times == [None]:
            found = [int(rows[-1])]
        else:
            stamps = self.time[rows]
            counts = [
                len(rows) if ms is None else int(stamps.searchsorted(ms, "right")) for ms in times
            ]
            found = [int(rows[count - 1]) if count else -1 for count in counts]
        return [-1 if row < 0 or self.records.tombstone[row] else row for row in found]

    def _visible_at(self, rows: list[int], at_ms: int | None) -> int:
        """As :meth:`visible` for one time, event by event.

        Of a transaction the last record of the key counts, a tombstone as none at all, and only
        over what was appended before it.
        """
        counting = [row for row in rows if at_ms is None or self.time[row] <= at_ms]
        last = {int(self.place[row]): row for row in counting}
        shown = -1
        for row in last.values():
            if not self.inside[row]:
                shown = -1 if self.records.tombstone[row] else row
            elif not self.records.tombstone[row] and (
                shown < 0 or self._appended_at(shown) < self._appended_at(row)
            ):
                shown = row
        return shown

    def _appended_at(self, row: int) -> int:
        return int(self.records.batch_first[self.records.batch[row]])


def next_markers(records: Commits, rows: Array) -> Array:
    """Return the row of the marker that decides each of these transactional rows."""
    ends_one = np.isin(records.batches["marker"], (0, 1))  # ABORT, COMMIT
    markers = np.flatnonzero((records.kind == KIND["marker"]) & ends_one[records.batch])
    found = np.empty(len(rows), dtype=np.int64)
    for producer_id in np.unique(records.producer_id[rows]).tolist():
        theirs = records.producer_id[rows] == producer_id
        ends = markers[records.producer_id[markers] == producer_id]
        found[theirs] = ends[np.searchsorted(ends, rows[theirs])]
    return found

"""Rebalances and departures by cause, and revocation timeouts, counted as records come.

The causes are those of ``coterie explain``: of a rebalance, the first that explains it; of a
departure, what the times of records and commits suggest. For that, the last commit of each key is
stored. Cost: the new records; of a group of a newer protocol that has new ones, all of its records.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coterie._core.fold.record_scan import RecordScan
from coterie.insight.groups import departures
from coterie.insight.groups.causes import QUIET
from coterie.insight.groups.epochs import Gone
from coterie.insight.groups.protocol_switches import epochs_of, joined_rows
from coterie.insight.groups.rebalances import is_rebalance
from coterie.insight.groups.timeline import timeline
from coterie.insight.groups.topic_names import learn_names
from coterie.insight.groups.unowned import OwnershipTracker
from coterie.insight.groups.unowned import Place as Owned
from coterie.insight.questions.explain_members import departure_of_consumer, departures_of
from coterie.insight.records.group_log import Place
from coterie.insight.records.key_index import Table
from coterie.insight.records.partition_view import GroupHistory
from coterie.insight.records.record_columns import KIND
from coterie.live.group_histories import Histories
from coterie.state.consumer_protocol_groups import MEMBER_KEYS
from coterie.state.rows import KEY_GROUP

UNKNOWN = "unknown"
DEPARTURE_CAUSES = (*departures.WAYS, UNKNOWN)
STATES = 3  # records that the causes of one are judged by
Row = dict[str, Any]


@dataclass
class GroupFollower:
    """A classic group, as of its last record."""

    tracker: OwnershipTracker = field(default_factory=OwnershipTracker)
    before: Row | None = None
    count: int = 0  # records taken


class GroupCounts:
    """The counts of a partition's groups.

    Attributes
    ----------
    rebalances, departures : Counter
        By group and cause.
    revocation_timeouts : Counter
        By group.
    """

    def __init__(self, histories: Histories, trusted_from_ms: int | None) -> None:
        self.histories = histories
        self.trusted_from_ms = trusted_from_ms
        self.scan = RecordScan(columns=())
        self.last = Table(ms=(np.int64, -1))  # the last commit of each key
        self.keys_of: dict[str, list[tuple[int, str, int]]] = {}  # key number, topic, partition
        self.keys_known = 0
        self.places_taken = 0
        self.followers: dict[str, GroupFollower] = {}
        self.departures: Counter[tuple[str, str]] = Counter()
        self.names: dict[str, str] = {}  # topic id -> name, as far as a departure needed it
        self.left: dict[int, dict[Owned, int]] = {}  # log offset of a removal -> commits before it
        self.classic: Counter[tuple[str, str]] = Counter()
        self.of_newer: dict[str, Counter[tuple[str, str]]] = {}
        self.revocation_timeouts: Counter[tuple[str]] = Counter()

    @property
    def rebalances(self) -> Counter[tuple[str, str]]:
        counts = Counter({key: n for key, n in self.classic.items() if key[0] not in self.of_newer})
        for of_group in self.of_newer.values():
            counts.update(of_group)
        return counts

    def take(self, data: memoryview, last_offset: int) -> None:
        """Take the next piece of the log, whose last record has this offset."""
        columns, _ = self.scan.scan(data)
        self.last.fit(max(self.scan.key_count, 1))
        is_commit = (columns["kind"] == KIND["offset"]) & (columns["timestamp"] >= 0)
        places = self.histories.log.group_log.places
        at, newer = 0, dict[str, None]()
        while self.places_taken < len(places):
            place = places[self.places_taken]
            if place.log_offset > last_offset:
                break
            self.places_taken += 1
            stop = int(np.searchsorted(columns["log_offset"], place.log_offset))
            self._put(columns, is_commit, at, stop)
            at = max(at, stop)
            if place.version == KEY_GROUP:
                self._take_record(place)
            if place.group in self.histories.newer_by_group:
                newer[place.group] = None
                if place.version in MEMBER_KEYS and place.value_size < 0:
                    self.left[place.log_offset] = self._last_commits(place.group)
        self._put(columns, is_commit, at, len(is_commit))
        for group in newer:
            history, records = self.histories.by_group.get(group), self.histories.newer_by_group
            switched, of_newer = epochs_of(history, records[group])
            rows = joined_rows(history, switched, of_newer)
            self.of_newer[group] = Counter(
                self._cause(group, row) for row in rows if self.is_counted(row)
            )
            self._take_departures(group, rows, of_newer.gone)
            self.revocation_timeouts[(group,)] = sum(
                revocation.timed_out and self._is_complete_at(revocation.record.timestamp)
                for revocation in of_newer.ended_revocations
            )
        self.left.clear()  # what removed no member

    def _take_departures(self, group: str, rows: list[Row], every: list[Gone]) -> None:
        """Count the members of a group of a newer protocol that new records remove."""
        new = [gone for gone in every if gone.record.log_offset in self.left]
        if not new:
            return
        causes = {
            (cause["member_id"], row["file"], row["position"]): cause
            for row in rows
            for cause in row["causes"]
            if cause["what"] == "left_or_evicted"
        }
        if any(topic not in self.names for gone in new for topic, _ in gone.places):
            learn_names(self.histories.newer, self.names)
        for gone in new:
            committed, record = self.left.pop(gone.record.log_offset), gone.record
            cause = causes.get((gone.member["member_id"], record.file, record.position))
            if cause is None or not self._is_complete_at(record.time_ms):
                continue
            known = None if cause["detail"] else departure_of_consumer(gone, committed, self.names)
            way = None if known is None else departures.suggested(known)
            self.departures[group, way or UNKNOWN] += 1

    def _put(self, columns: Row, is_commit: Any, start: int, stop: int) -> None:
        rows = start + np.flatnonzero(is_commit[start:stop])
        self.last["ms"][columns["key"][rows]] = columns["timestamp"][rows]

    def is_counted(self, row: Row) -> bool:
        """Whether a row is a rebalance, and the log is complete for it."""
        return is_rebalance(row) and self._is_complete_at(row["timestamp"])

    def _is_complete_at(self, ms: int | None) -> bool:
        return self.trusted_from_ms is None or ms is None or ms >= self.trusted_from_ms

    @staticmethod
    def _cause(group: str, row: Row) -> tuple[str, str]:
        whats = [cause["what"] for cause in row["causes"]]
        loud = [what for what in whats if what not in QUIET]
        return group, (loud or whats or [UNKNOWN])[0]

    def _take_record(self, place: Place) -> None:
        history = self.histories.by_group[place.group]
        follower = self.followers.setdefault(place.group, GroupFollower())
        index = follower.count
        follower.count += 1
        record, state = history.generations[index], history.state(index)
        first = max(index + 1 - STATES, 0)
        latest = GroupHistory(
            history.group,
            history.records[first : index + 1],
            history.generations[first : index + 1],
            history.clients,
            history.from_start,
        )
        row = timeline(latest)[-1]
        if self.is_counted(row):
            self.classic[self._cause(place.group, row)] += 1
        left = departures_of(
            *(row, record, state, follower.before, follower.tracker.owners),
            self._last_commits(place.group) if record["left"] else {},
        )
        for member in left.values():
            if self._is_complete_at(member.gone_ms):
                self.departures[place.group, departures.suggested(member) or UNKNOWN] += 1
        follower.tracker.take(record, state)
        at_ms = record["timestamp"]
        follower.before = None if state is None else {"state": state, "at_ms": at_ms}

    def _last_commits(self, group: str) -> dict[tuple[str, int], int]:
        """Return the time of the last commit of each of a group's partitions."""
        new = self.scan.keys(self.keys_known)
        groups, topics = self.scan.groups, self.scan.topics
        columns = (new[name].tolist() for name in ("group", "topic", "partition"))
        for number, topic, partition in zip(*columns, strict=True):
            keys = self.keys_of.setdefault(groups[number], [])
            keys.append((self.keys_known, topics[topic], partition))
            self.keys_known += 1
        last = self.last["ms"]
        return {
            (topic, partition): int(last[key])
            for key, topic, partition in self.keys_of.get(group, ())
            if last[key] >= 0
        }

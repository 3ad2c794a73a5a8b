"""When each partition was last committed before an event of its group.

The last commit of a key in each span (``coterie.insight.offsets.commit_spans``) is stored: 16 bytes
for each span that a key has commits in.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coterie.insight.records.key_index import LOW, Keys, Table
from coterie.insight.records.record_columns import Array, RecordColumns


class LastCommits:
    """The time of the last commit of each key in each span, piece by piece."""

    def __init__(self) -> None:
        self.open = Table(span=(np.int32, -1), at_ms=(np.int64, -1))  # the last span of each key
        self.pairs: list[Array] = []  # span and key as one number
        self.times: list[Array] = []

    def take(self, records: RecordColumns, span: Array, key_count: int) -> None:
        """Take the next piece; ``span``: that of each record, -1: none."""
        self.open.fit(key_count)
        rows = np.flatnonzero((span >= 0) & ~records.tombstone & (records.timestamp >= 0))
        keys, spans = records.key[rows].astype(np.intp), span[rows]
        times = records.timestamp[rows]
        changed = self.open["span"][keys] != spans
        same = ~changed
        self.open["at_ms"][keys[same]] = times[same]
        if not changed.any():
            return
        keys, spans, times = keys[changed], spans[changed], times[changed]
        self._close(np.unique(keys))
        pairs = (spans.astype(np.int64) << 32) | keys
        order = np.argsort(pairs, kind="stable")
        is_last = np.append(pairs[order][1:] != pairs[order][:-1], True)
        last = np.sort(order[is_last])  # of each pair, in log order
        self.open["span"][keys[last]] = spans[last]
        self.open["at_ms"][keys[last]] = times[last]
        earlier = last[self.open["span"][keys[last]] != spans[last]]
        self.pairs.append(pairs[earlier])
        self.times.append(times[earlier])

    def _close(self, keys: Array) -> None:
        """Store the last commits of keys in the span that they leave."""
        keys = keys[self.open["span"][keys] >= 0]
        if len(keys):
            self.pairs.append((self.open["span"][keys].astype(np.int64) << 32) | keys)
            self.times.append(self.open["at_ms"][keys].copy())

    def by_span(self, keys: Keys) -> CommitTimes:
        """Return the times by span; call it after the last piece."""
        self._close(np.arange(self.open.count))
        self.open = Table(**self.open.fields)
        none = [np.empty(0, np.int64)]
        pairs, times = np.concatenate(none + self.pairs), np.concatenate(none + self.times)
        order = np.argsort(pairs >> 32, kind="stable")
        return CommitTimes(pairs[order] >> 32, pairs[order] & LOW, times[order], keys)


class CommitTimes(NamedTuple):
    """The last commits, sorted by span: the columns ``span``, ``key``, ``at_ms``; the keys."""

    span: Array
    key: Array
    at_ms: Array
    keys: Keys

    def of_spans(self, first: int, stop: int) -> dict[tuple[str, int], int]:
        """Return the time of the last commit in some neighbouring spans, by topic and partition."""
        begin, end = np.searchsorted(self.span, (first, stop)).tolist()
        entries = self.keys.entries[self.key[begin:end]]
        topics = self.keys.topic_names
        last: dict[tuple[str, int], int] = {}
        for topic, partition, at_ms in zip(
            entries["topic"].tolist(),
            entries["partition"].tolist(),
            self.at_ms[begin:end].tolist(),
            strict=True,
        ):
            place = topics[topic], partition
            last[place] = max(at_ms, last.get(place, at_ms))
        return last

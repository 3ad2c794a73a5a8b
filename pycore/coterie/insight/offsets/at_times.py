"""The offset of each key that readers saw at given times, from the pieces of a log.

A record takes effect at its own time, a transaction's record at its marker's time if that is later.
What was written while a clock was set back takes effect when it was right again (``SetBack``).
Records apply in the order in which they were decided. A plain record or tombstone replaces the
value before it. Of a transaction, only the last record of a key applies. It has no effect if it is
a tombstone, or if the present value was appended later; in Kafka 4.x also if a tombstone was, which
removes what is pending. Only records that some requested time may show are stored.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from coterie.base.times import MAX_MS
from coterie.insight.offsets.end_offsets import EndOffsets, Sample
from coterie.insight.records.key_index import Key, Keys, Table
from coterie.insight.records.record_columns import Array, RecordColumns
from coterie.log.set_back import SetBack

NO_SAMPLE = (Sample(None, None),)
NOTHING: tuple[int | None, int | None] = (None, None)
PRUNE_EVENTS = 1 << 18  # new events until those that no time shows are dropped
BEFORE_ALL = -MAX_MS - 1
Events = dict[str, Array]
LAST = {
    **dict.fromkeys(("shown_from", "decided_by", "number", "ms", "appended"), (np.int64, -1)),
    **dict.fromkeys(("in_transaction", "gone"), (np.bool_, False)),
    **dict.fromkeys(("offset", "commit_ms"), (np.int64, -1)),
    "place": (np.int64, -1),  # scratch: index of the key's first or last event in a piece
}


class SampleTimes:
    """The requested times of each partition of a topic.

    A partition's list of times is its *schedule*; partitions share equal schedules.

    Parameters
    ----------
    ends
        The samples, whose times are requested; a partition without samples has one time.
    at_ms
        The time of samples that have none; None: the end of the log.
    """

    def __init__(self, ends: EndOffsets, at_ms: int | None) -> None:
        self.ends = ends
        self.at_ms = at_ms
        self.schedules: dict[tuple[int | None, ...], int] = {}
        all_schedules = [(at_ms,), *(tuple(self.of(*place)) for place in ends.samples)]
        for schedule in all_schedules:
            self.schedules.setdefault(schedule, len(self.schedules))
        times_ms = {ms for schedule in self.schedules for ms in schedule if ms is not None}
        self.sorted = np.array(sorted(times_ms), dtype=np.int64)
        self.span = len(self.sorted) + 2  # the number of ranks; the last one is the end of the log
        rank = {ms: at for at, ms in enumerate(self.sorted.tolist())}
        codes = [
            number * self.span + rank.get(ms, len(rank))
            for schedule, number in self.schedules.items()
            for ms in schedule
        ]
        self.codes = np.array(codes, dtype=np.int64)
        self.ends_at = np.cumsum([len(schedule) for schedule in self.schedules])

    def samples(self, topic: str, partition: int) -> tuple[Sample, ...]:
        return self.ends.samples.get((topic, partition), NO_SAMPLE)

    def of(self, topic: str, partition: int) -> list[int | None]:
        """Return a partition's times, ascending; None: the end of the log."""
        samples = self.samples(topic, partition)
        return [self.at_ms if sample.time_ms is None else sample.time_ms for sample in samples]

    def schedule(self, topic: str, partition: int) -> int:
        return self.schedules[tuple(self.of(topic, partition))]

    def first_showing(self, schedule: Array, ms: Array) -> Array:
        """Return for each of these times the first scheduled time at or after it.

        The result indexes ``codes``; -1: there is none.
        """
        rank = np.searchsorted(self.sorted, ms)
        index = np.searchsorted(self.codes, schedule * self.span + rank)
        shown: Array = np.where(index < self.ends_at[schedule], index, -1)
        return shown


class OffsetsAtTimes:
    """Computes the offset of each key that readers saw at its times, piece by piece.

    Parameters
    ----------
    times
        The requested times.
    set_back
        What was written while a clock was set back.
    follows_4x
        Whether a tombstone removes pending commits.
    """

    COLUMNS = frozenset(("number", "decided_by", "decided_ms", "commit_timestamp", "previous_row"))

    def __init__(self, times: SampleTimes, set_back: SetBack, follows_4x: bool = False) -> None:
        self.times = times
        self.follows_4x = follows_4x
        self.set_back = set_back
        self.keys = Keys()
        self.schedules = Table(schedule=(np.int64, -1))
        self.last = Table(**LAST)  # the last plain event of each key; shown_from -1: none
        self.events: list[Events] = []  # all other events
        self.pruned_count = 0  # events left by the last pruning
        self.last_number = -1  # the number of the last record taken

    def take(self, commits: RecordColumns) -> None:
        self.last_number = max(self.last_number, int(commits.number.max(initial=-1)))
        self.keys.scan = commits.scan
        rows = np.flatnonzero(commits.effective)
        if not len(rows):
            return
        keys = commits.key[rows].astype(np.int64)
        self._set_schedules(keys)
        # A record without a time (magic 0) is in effect at all times.
        numbers, deciders = commits.number[rows], commits.decided_by[rows]
        own, marker = (
            np.where(ms == -1, BEFORE_ALL, ms)
            for ms in (
                self.set_back.written(numbers, commits.timestamp[rows]),
                self.set_back.written(deciders, commits.decided_ms[rows]),
            )
        )
        ms = np.maximum(own, marker)
        shown_from = self.times.first_showing(self.schedules["schedule"][keys], ms)
        events = {
            "key": keys,
            "shown_from": shown_from,
            "decided_by": deciders,
            "number": numbers,
            "ms": ms,
            "appended": commits.batches["first_offset"][commits.batch[rows]],
            "in_transaction": commits.in_transaction[rows],
            "gone": commits.tombstone[rows],
            "offset": commits.offset[rows],
            "commit_ms": commits.commit_timestamp[rows],
        }
        keep = shown_from >= 0
        keep[replaced_rows(commits, rows, events)] = False
        events = {name: column[keep] for name, column in events.items()}
        self.events += self._replace_last(events)
        self._prune_if_many()

    def _replace_last(self, events: Events) -> Iterator[Events]:
        """Store the last plain event of each key; yield all other events that may be shown.

        A plain event replaces the plain one before it if both are first shown at the same time.
        Nearly all events end here, without sorting.
        """
        self.last.fit(len(self.keys))
        plain = np.flatnonzero(~events["in_transaction"])
        if not len(plain):
            yield events
            return
        keys, places = events["key"][plain], np.arange(len(plain))
        self.last["place"][keys[::-1]] = places[::-1]
        first = plain[self.last["place"][keys] == places]
        self.last["place"][keys] = places
        last = plain[self.last["place"][keys] == places]
        before = self.last["shown_from"][events["key"][first]]
        yield self._last_of(events["key"][first[before != events["shown_from"][first]]])
        others = np.ones(len(events["key"]), dtype=np.bool_)
        others[last] = False
        if others.any():
            yield {name: column[others] for name, column in events.items()}
        for name in LAST:
            if name != "place":
                self.last[name][events["key"][last]] = events[name][last]

    def _last_of(self, keys: Array) -> Events:
        """Return the last plain event of each of these keys, if it has one."""
        keys = keys[self.last["shown_from"][keys] >= 0]
        names = (name for name in LAST if name != "place")
        return {"key": keys} | {name: self.last[name][keys] for name in names}

    def _flush_last(self) -> None:
        """Move the last plain events to the other events."""
        self.events.append(self._last_of(np.arange(self.last.count)))
        self.last = Table(**LAST)

    def _prune_if_many(self) -> None:
        if sum(len(columns["key"]) for columns in self.events) > self.pruned_count + PRUNE_EVENTS:
            self._prune(self.last_number)

    def _set_schedules(self, keys: Array) -> None:
        self.schedules.fit(len(self.keys))
        new = np.unique(keys[self.schedules["schedule"][keys] < 0])
        if not len(new):
            return
        entries, topics = self.keys.entries[new], self.keys.topic_names
        names = (entries[name].tolist() for name in ("topic", "partition"))
        for key, topic, partition in zip(new.tolist(), *names, strict=True):
            self.schedules["schedule"][key] = self.times.schedule(topics[topic], partition)

    def _prune(self, last_number: int) -> None:
        """Drop the events that no time shows; all records up to ``last_number`` were taken."""
        events = {
            name: np.concatenate([columns[name] for columns in self.events])
            for name in self.events[0]
        }
        names = ("number", "decided_by", "shown_from", "key")
        order = np.lexsort([events[name] for name in names])
        events = {name: column[order] for name, column in events.items()}
        for is_replaced in (repeated_in_transaction, replaced_by_plain, replaced_by_transaction):
            keep = ~is_replaced(events, last_number)
            events = {name: column[keep] for name, column in events.items()}
        self.events = [events]
        self.pruned_count = len(events["key"])

    def by_key(self) -> dict[Key, list[tuple[int | None, int | None]]]:
        """Return the offset and commit time of each key at each of its times; None: none."""
        self._flush_last()
        self._prune(MAX_MS)
        events = self.events[0]
        order = np.lexsort([events[name] for name in ("number", "decided_by", "key")])
        events = {name: column[order] for name, column in events.items()}
        schedules = self.schedules["schedule"]
        counts = np.diff(self.times.ends_at, prepend=0)
        events["shown_from"] -= (self.times.ends_at - counts)[schedules[events["key"]]]
        lengths = np.where(schedules < 0, 0, counts[schedules])  # the number of each key's times
        rows = shown_rows(events, lengths)
        ends = np.cumsum(lengths)
        bounds = np.searchsorted(events["key"], np.arange(len(schedules) + 1)).tolist()
        out_of_order = set(out_of_order_keys(events).tolist())
        offsets, commit_ms = events["offset"].tolist(), events["commit_ms"].tolist()
        result = {}
        for number, key in self.keys.items():
            if number >= len(schedules) or not lengths[number]:
                continue  # none of its records took effect
            shown = rows[ends[number] - lengths[number] : ends[number]].tolist()
            if number in out_of_order:
                first, end = bounds[number : number + 2]
                of_key = {name: column[first:end] for name, column in events.items()}
                shown = [
                    shown_at(of_key, ms, first, self.follows_4x) for ms in self.times.of(*key[1:])
                ]
            result[key] = [NOTHING if row < 0 else (offsets[row], commit_ms[row]) for row in shown]
        return result


def replaced_rows(commits: RecordColumns, rows: Array, events: Events) -> Array:
    """Return the plain events of a piece that are replaced by a plain event of the same key.

    An event is replaced by the next one if both are first shown at the same time.
    """
    event_of = np.full(len(commits), -1, np.int64)
    event_of[rows] = np.arange(len(rows))
    later = np.flatnonzero(commits.previous_row[rows] >= 0)
    before = event_of[commits.previous_row[rows[later]]]
    is_replaced = events["shown_from"][later] == events["shown_from"][before]
    is_replaced &= ~events["in_transaction"][later] & ~events["in_transaction"][before]
    replaced: Array = before[is_replaced]
    return replaced


def same_as_next(events: Events, *names: str) -> Array:
    """Return which events equal the next one in these fields, by which they are sorted; bool."""
    agrees = np.ones(len(events["key"]), dtype=np.bool_)
    agrees[-1:] = False
    for name in names:
        agrees[:-1] &= events[name][1:] == events[name][:-1]
    return agrees


def repeated_in_transaction(events: Events, last_number: int) -> Array:
    """Return the events that are replaced by a later event of their own transaction."""
    return same_as_next(events, "key", "shown_from", "decided_by")


def replaced_by_plain(events: Events, last_number: int) -> Array:
    """Return the events that are replaced by a later plain event, shown at the same times."""
    count = len(events["key"])
    same = same_as_next(events, "key", "shown_from")
    ends = np.flatnonzero(~same)
    run = np.cumsum(np.append(False, ~same[:-1])[:count])  # the number of each one's run
    last_plain = np.full(len(ends), -1, dtype=np.int64)
    plain = np.flatnonzero(~events["in_transaction"])
    last_plain[run[plain]] = plain
    replaced: Array = np.arange(count) < last_plain[run]
    return replaced


def replaced_by_transaction(events: Events, last_number: int) -> Array:
    """Return the transactional events that are replaced by one decided and appended later.

    The later event must be certain to apply: its transaction is complete, and has no other record
    of the key, which other times might show.
    """
    count = len(events["key"])
    by_place = np.lexsort((events["decided_by"], events["key"]))
    is_only = np.ones(count, dtype=np.bool_)
    has_next = same_as_next(
        {n: events[n][by_place] for n in ("key", "decided_by")}, "key", "decided_by"
    )
    is_only[by_place[has_next]] = False
    is_only[by_place[np.flatnonzero(has_next) + 1]] = False
    certain = (
        events["in_transaction"] & ~events["gone"] & is_only & (events["decided_by"] <= last_number)
    )
    same = same_as_next(events, "key", "shown_from")
    run = np.cumsum(np.append(False, ~same[:-1])[:count])
    # The last place of append among the certain events after each event of its run. Run and place
    # form one number, which rises from run to run when read backwards.
    places, rank = np.unique(events["appended"], return_inverse=True)
    step = len(places) + 1
    rank_code = np.where(certain, rank + 1, 0) + (int(run[-1]) - run if count else run) * step
    latest_after = np.maximum.accumulate(rank_code[::-1])[::-1]
    following = np.append(latest_after[1:], 0)[:count]
    greatest = np.where(same, following % step, 0) - 1
    return events["in_transaction"] & (greatest > rank)


def out_of_order_keys(events: Events) -> Array:
    """Return the keys with a transactional event, or with events that are not in order of time."""
    back = np.zeros(len(events["key"]), dtype=np.bool_)
    key, ms = events["key"], events["ms"]  # compared, not subtracted: the least time would overflow
    back[1:] = (ms[1:] < ms[:-1]) & (key[1:] == key[:-1])
    keys: Array = np.unique(events["key"][back | events["in_transaction"]])
    return keys


def shown_rows(events: Events, lengths: Array) -> Array:
    """Return the event that is shown at each time of each key; -1: none.

    The result is wrong for keys of ``out_of_order_keys``. The events are sorted by key, then in the
    order in which they were decided. ``shown_from`` is an index into the times of the key, and
    ``lengths`` the number of these times.
    """
    rows = np.full(int(lengths.sum()), -1, np.int64)
    if not len(events["key"]):
        return rows
    begins = np.cumsum(lengths) - lengths
    # If one time is the first to show several events, the last one counts.
    rows[begins[events["key"]] + events["shown_from"]] = np.arange(len(events["key"]))
    rows = np.maximum.accumulate(rows)
    keys = np.repeat(np.arange(len(lengths)), lengths)
    is_nothing = (rows < 0) | (events["key"][rows] != keys) | events["gone"][rows]
    return np.where(is_nothing, -1, rows)


def shown_at(events: Events, at_ms: int | None, first: int, follows_4x: bool) -> int:
    """Return the event of a key that readers saw at a time (None: at the end); -1: none.

    The events are in the order in which they were decided; ``first`` is the first one's number.
    """
    ms, in_transaction, gone, appended = (
        events[n] for n in ("ms", "in_transaction", "gone", "appended")
    )
    in_effect = [row for row in range(len(ms)) if at_ms is None or ms[row] <= at_ms]
    last = {int(events["decided_by"][row]): row for row in in_effect}
    shown, after = -1, -1  # a transaction's record counts if it was appended after this
    for row in last.values():
        if not in_transaction[row]:
            shown = -1 if gone[row] else row
            after = appended[row] if follows_4x or not gone[row] else -1
        elif not gone[row] and after < appended[row]:
            shown, after = row, appended[row]
    return shown if shown < 0 else first + shown

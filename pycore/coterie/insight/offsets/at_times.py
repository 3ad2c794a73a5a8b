"""Which offset of each key readers saw at given times, found while the pieces of a log go by.

A record counts from its own time on, one of a transaction from its marker's on, if that is later.
In the order in which they were decided, a plain record or its tombstone takes the place of what was
there; of a transaction the last record of the key counts, a tombstone as none at all, and only over
what was appended before it. Of what became visible between two times that are asked for, only that
is kept which any of them may show.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from coterie.insight.offsets.end_offsets import EndOffsets, Sample
from coterie.insight.records.key_index import Key, Keys, Table
from coterie.insight.records.record_columns import Array, RecordColumns
from coterie.times import MAX_MS

NO_SAMPLE = (Sample(None, None),)
NOTHING: tuple[int | None, int | None] = (None, None)
AT_ONCE = 1 << 18  # events held until those are left out that no time shows
BEFORE_ALL = -MAX_MS - 1
Events = dict[str, Array]
LAST = {
    **dict.fromkeys(("shown_from", "decided_by", "number", "ms", "appended"), (np.int64, -1)),
    **dict.fromkeys(("inside", "gone"), (np.bool_, False)),
    **dict.fromkeys(("offset", "commit_ms"), (np.int64, -1)),
    "place": (np.int64, -1),  # among those of a piece: its first there, then its last
}


class SampleTimes:
    """The times at which the offsets of each partition of a topic are wanted.

    Parameters
    ----------
    ends
        Whose samples give the times; a partition without any is asked for once.
    at_ms
        The time where a sample has none; None: the end of the log.
    """

    def __init__(self, ends: EndOffsets, at_ms: int | None) -> None:
        self.ends = ends
        self.at_ms = at_ms
        self.plans: dict[tuple[int | None, ...], int] = {}
        every = [(at_ms,), *(tuple(self.of(*place)) for place in ends.samples)]
        for plan in every:
            self.plans.setdefault(plan, len(self.plans))
        known = {ms for plan in self.plans for ms in plan if ms is not None}
        self.sorted = np.array(sorted(known), dtype=np.int64)
        self.span = len(self.sorted) + 2  # ranks, the end of the log the last of them
        rank = {ms: at for at, ms in enumerate(self.sorted.tolist())}
        codes = [
            number * self.span + rank.get(ms, len(rank))
            for plan, number in self.plans.items()
            for ms in plan
        ]
        self.codes = np.array(codes, dtype=np.int64)
        self.ends_at = np.cumsum([len(plan) for plan in self.plans])

    def samples(self, topic: str, partition: int) -> tuple[Sample, ...]:
        """Return the samples of a partition."""
        return self.ends.samples.get((topic, partition), NO_SAMPLE)

    def of(self, topic: str, partition: int) -> list[int | None]:
        """Return the times of a partition, rising; None: the end of the log."""
        samples = self.samples(topic, partition)
        return [self.at_ms if one.time_ms is None else one.time_ms for one in samples]

    def plan(self, topic: str, partition: int) -> int:
        """Return the number of a partition's times."""
        return self.plans[tuple(self.of(topic, partition))]

    def first_showing(self, plan: Array, ms: Array) -> Array:
        """Return the first time that is not before each of these, as a place in ``codes``.

        -1: none is.
        """
        rank = np.searchsorted(self.sorted, ms)
        at = np.searchsorted(self.codes, plan * self.span + rank)
        shown: Array = np.where(at < self.ends_at[plan], at, -1)
        return shown


class OffsetsAtTimes:
    """What each key's readers saw at its times, as the pieces of a log come.

    Parameters
    ----------
    times
        Those that are asked for.
    """

    COLUMNS = frozenset(("number", "decided_by", "decided_ms", "commit_timestamp", "previous_row"))

    def __init__(self, times: SampleTimes) -> None:
        self.times = times
        self.keys = Keys()
        self.plans = Table(plan=(np.int64, -1))
        self.last = Table(**LAST)  # the last plain event of each key; shown_from -1: none
        self.held: list[Events] = []  # all others
        self.settled = 0  # events left by the last sifting
        self.upto = -1  # the number of the last record so far

    def take(self, commits: RecordColumns) -> None:
        """Take the next piece."""
        self.upto = max(self.upto, int(commits.number.max(initial=-1)))
        self.keys.follow(commits)
        rows = np.flatnonzero(commits.counting)
        if not len(rows):
            return
        keys = commits.key[rows].astype(np.int64)
        self._plan(keys)
        # A record without a time (magic 0) counts at any.
        own, marker = (
            np.where(ms == -1, BEFORE_ALL, ms)
            for ms in (commits.timestamp[rows], commits.decided_ms[rows])
        )
        ms = np.maximum(own, marker)
        shown_from = self.times.first_showing(self.plans["plan"][keys], ms)
        events = {
            "key": keys,
            "shown_from": shown_from,
            "decided_by": commits.decided_by[rows],
            "number": commits.number[rows],
            "ms": ms,
            "appended": commits.batches["first_offset"][commits.batch[rows]],
            "inside": commits.inside[rows],
            "gone": commits.tombstone[rows],
            "offset": commits.offset[rows],
            "commit_ms": commits.commit_timestamp[rows],
        }
        keep = shown_from >= 0
        keep[replaced_rows(commits, rows, events)] = False
        events = {name: column[keep] for name, column in events.items()}
        self.held += self._hold_last(events)
        self._sift_if_many()

    def _hold_last(self, events: Events) -> Iterator[Events]:
        """Make the last plain event of each key its last; yield what is left of all others.

        A plain event takes the place of the plain one before it where the same time shows both
        first. That is what becomes of nearly all, and needs no sorting.
        """
        self.last.fit(len(self.keys))
        plain = np.flatnonzero(~events["inside"])
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
        """Return the last plain event of each of these keys that has one."""
        keys = keys[self.last["shown_from"][keys] >= 0]
        names = (name for name in LAST if name != "place")
        return {"key": keys} | {name: self.last[name][keys] for name in names}

    def _let_last_go(self) -> None:
        """Hold the last plain events with all others."""
        self.held.append(self._last_of(np.arange(self.last.count)))
        self.last = Table(**LAST)

    def absorb(self, later: OffsetsAtTimes) -> None:
        """Go on with what follows; see ``aggregates``. Of its events some are left out already.

        Whatever took the place of those did so within the later part, and does so here.
        """
        self._let_last_go()
        later._let_last_go()
        keys = self.keys.absorb(later.keys)
        self.plans.fit(len(self.keys))
        later.plans.fit(len(keys))
        seen = np.flatnonzero(later.plans["plan"] >= 0)
        self.plans["plan"][keys[seen]] = later.plans["plan"][seen]
        self.held += [one | {"key": keys[one["key"]]} for one in later.held]
        self.upto = max(self.upto, later.upto)
        self._sift_if_many()

    def _sift_if_many(self) -> None:
        if sum(len(one["key"]) for one in self.held) > self.settled + AT_ONCE:
            self._sift(self.upto)

    def _plan(self, keys: Array) -> None:
        """Find the times of keys that are new."""
        self.plans.fit(len(self.keys))
        new = np.unique(keys[self.plans["plan"][keys] < 0])
        if not len(new):
            return
        entries, topics = self.keys.entries[new], self.keys.topic_names
        names = (entries[name].tolist() for name in ("topic", "partition"))
        for key, topic, partition in zip(new.tolist(), *names, strict=True):
            self.plans["plan"][key] = self.times.plan(topics[topic], partition)

    def _sift(self, upto: int) -> None:
        """Leave out events that no time shows, once all records up to a number are in."""
        events = {name: np.concatenate([one[name] for one in self.held]) for name in self.held[0]}
        names = ("number", "decided_by", "shown_from", "key")
        order = np.lexsort([events[name] for name in names])
        events = {name: column[order] for name, column in events.items()}
        for leave_out in (said_again, taken_over, passed_over):
            keep = ~leave_out(events, upto)
            events = {name: column[keep] for name, column in events.items()}
        self.held = [events]
        self.settled = len(events["key"])

    def by_key(self) -> dict[Key, list[tuple[int | None, int | None]]]:
        """Return the offset and commit time of each key at each of its times; None: none."""
        self._let_last_go()
        self._sift(MAX_MS)
        events = self.held[0]
        order = np.lexsort([events[name] for name in ("number", "decided_by", "key")])
        events = {name: column[order] for name, column in events.items()}
        plans = self.plans["plan"]
        counts = np.diff(self.times.ends_at, prepend=0)
        events["shown_from"] -= (self.times.ends_at - counts)[plans[events["key"]]]
        lengths = np.where(plans < 0, 0, counts[plans])  # of the times of each key
        rows = shown_rows(events, lengths)
        ends = np.cumsum(lengths)
        bounds = np.searchsorted(events["key"], np.arange(len(plans) + 1)).tolist()
        odd = set(odd_keys(events).tolist())
        offsets, commit_ms = events["offset"].tolist(), events["commit_ms"].tolist()
        found = {}
        for number, key in self.keys.items():
            if number >= len(plans) or not lengths[number]:
                continue  # none of its records counts
            theirs = rows[ends[number] - lengths[number] : ends[number]].tolist()
            if number in odd:
                first, end = bounds[number : number + 2]
                own = {name: column[first:end] for name, column in events.items()}
                theirs = [shown_at(own, ms, first) for ms in self.times.of(*key[1:])]
            found[key] = [NOTHING if row < 0 else (offsets[row], commit_ms[row]) for row in theirs]
        return found


def replaced_rows(commits: RecordColumns, rows: Array, events: Events) -> Array:
    """Return which plain events of a piece the next one of their key, plain too, stands for.

    It does where the same time shows both first.
    """
    event_of = np.full(len(commits), -1, np.int64)
    event_of[rows] = np.arange(len(rows))
    later = np.flatnonzero(commits.previous_row[rows] >= 0)
    before = event_of[commits.previous_row[rows[later]]]
    same = events["shown_from"][later] == events["shown_from"][before]
    same &= ~events["inside"][later] & ~events["inside"][before]
    replaced: Array = before[same]
    return replaced


def same_as_next(events: Events, *names: str) -> Array:
    """Return which events agree with the next in these fields; they are sorted by them."""
    agrees = np.ones(len(events["key"]), dtype=np.bool_)
    agrees[-1:] = False
    for name in names:
        agrees[:-1] &= events[name][1:] == events[name][:-1]
    return agrees


def said_again(events: Events, upto: int) -> Array:
    """Return which are followed by another of their transaction that is shown from then on, too."""
    return same_as_next(events, "key", "shown_from", "decided_by")


def taken_over(events: Events, upto: int) -> Array:
    """Return which a plain event takes the place of that is shown wherever they are."""
    count = len(events["key"])
    same = same_as_next(events, "key", "shown_from")
    ends = np.flatnonzero(~same)
    run = np.cumsum(np.append(False, ~same[:-1])[:count])  # the number of each one's run
    last_plain = np.full(len(ends), -1, dtype=np.int64)
    plain = np.flatnonzero(~events["inside"])
    last_plain[run[plain]] = plain
    over: Array = np.arange(count) < last_plain[run]
    return over


def passed_over(events: Events, upto: int) -> Array:
    """Return which of a transaction are behind one that was decided later and appended later.

    That one must be sure to count: its transaction is complete, and has no other record of the
    key that other times show.
    """
    count = len(events["key"])
    by_place = np.lexsort((events["decided_by"], events["key"]))
    alone = np.ones(count, dtype=np.bool_)
    twice = same_as_next(
        {n: events[n][by_place] for n in ("key", "decided_by")}, "key", "decided_by"
    )
    alone[by_place[twice]] = False
    alone[by_place[np.flatnonzero(twice) + 1]] = False
    sure = events["inside"] & ~events["gone"] & alone & (events["decided_by"] <= upto)
    same = same_as_next(events, "key", "shown_from")
    run = np.cumsum(np.append(False, ~same[:-1])[:count])
    # The greatest place of append among the sure ones behind each event of its run: runs and
    # places as one number, which rises from run to run when read from behind.
    places, rank = np.unique(events["appended"], return_inverse=True)
    step = len(places) + 1
    code = np.where(sure, rank + 1, 0) + (int(run[-1]) - run if count else run) * step
    behind = np.maximum.accumulate(code[::-1])[::-1]
    later = np.append(behind[1:], 0)[:count]
    greatest = np.where(same, later % step, 0) - 1
    return events["inside"] & (greatest > rank)


def odd_keys(events: Events) -> Array:
    """Return the keys that have an event of a transaction, or one of before the last one's time."""
    back = np.zeros(len(events["key"]), dtype=np.bool_)
    key, ms = events["key"], events["ms"]  # the least of all times has no difference to others
    back[1:] = (ms[1:] < ms[:-1]) & (key[1:] == key[:-1])
    odd: Array = np.unique(events["key"][back | events["inside"]])
    return odd


def shown_rows(events: Events, lengths: Array) -> Array:
    """Return which event is seen at each time of each key; -1: none. Those of odd keys are wrong.

    The events stand by key, and in the order in which they were decided; ``shown_from`` is the
    number of a time among those of the key. ``lengths``: how many times each key has.
    """
    rows = np.full(int(lengths.sum()), -1, np.int64)
    if not len(events["key"]):
        return rows
    begins = np.cumsum(lengths) - lengths
    # Of several events that one time shows first, the last is seen.
    rows[begins[events["key"]] + events["shown_from"]] = np.arange(len(events["key"]))
    rows = np.maximum.accumulate(rows)
    keys = np.repeat(np.arange(len(lengths)), lengths)
    none = (rows < 0) | (events["key"][rows] != keys) | events["gone"][rows]
    return np.where(none, -1, rows)


def shown_at(events: Events, at_ms: int | None, first: int) -> int:
    """Return which event of a key readers saw at a time (None: at the end); -1: none.

    The events stand in the order in which they were decided; ``first`` is the first one's number.
    """
    ms, inside, gone, appended = (events[n] for n in ("ms", "inside", "gone", "appended"))
    counting = [row for row in range(len(ms)) if at_ms is None or ms[row] <= at_ms]
    last = {int(events["decided_by"][row]): row for row in counting}
    found = -1
    for row in last.values():
        if not inside[row]:
            found = -1 if gone[row] else row
        elif not gone[row] and (found < 0 or appended[found] < appended[row]):
            found = row
    return found if found < 0 else first + found

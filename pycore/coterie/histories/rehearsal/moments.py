"""The moments of a play: what began each, what it cost, and which are worse than in the history.

A moment begins when the group is no longer stable, a partition has no owner, or an error ends a
client. It ends when the group is stable and every partition has an owner again.

The counterparts of a variant's moment are the moments of the history in which the same ops
happened; without any, those at the same time. So a restart that a variant moves to another time is
compared with itself. A moment is worse only if it is so beside every play of the history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coterie.histories.rehearsal.history import HEARTBEAT_MS

TOGETHER_MS = 1_000  # moments that follow each other so closely are one
NEAR_MS = 60_000  # "at the same time"
NOISE_MS = HEARTBEAT_MS  # members learn of a rebalance so late: a smaller difference is chance
REBALANCE, UNOWNED, REFUSED = "rebalance", "unowned", "refused"  # why a moment lasts
WORDS = {
    "start": "{consumer} started",
    "close": "{consumer} closed",
    "crash": "{consumer} crashed",
    "pause": "{consumer} stopped polling",
    "subscribe": "{consumer} changed its subscription",
    "rejoin": "{consumer} joined again",
    "commit": "{consumer} committed",
    "coordinator_stop": "the coordinator moved",
    "add_partitions": "topic {topic} got {count} more partitions",
}
Place = tuple[str, int]
OpKey = tuple[str, str, int, int]
"""An op: its kind, its consumer or topic, the generations before it, its number among these."""


@dataclass(slots=True)
class Moment:
    """A time in which the group was not at rest.

    Attributes
    ----------
    at, until : int
        In the scenario, ms.
    cause : str
        What happened last before it began.
    ops : set of OpKey
        That, and what happened in it.
    rebalances : int
        Generations or epochs that were made in it.
    unowned_ms, longest_ms : int
        Partition-milliseconds without an owner; the longest of one partition.
    partitions : int
        How many had no owner.
    refused : Counter
        Errors that ended a client in it, by name.
    """

    at: int
    cause: str
    until: int = 0
    ops: set[OpKey] = field(default_factory=set)
    rebalances: int = 0
    unowned_ms: int = 0
    longest_ms: int = 0
    partitions: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def lasted_ms(self) -> int:
        return self.until - self.at


class Moments:
    """Follows a play; ``done`` has its moments in order."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.done: list[Moment] = []
        self._now_ms = now_ms
        self._present: Moment | None = None
        self._why: set[str] = set()  # the present one lasts
        self._places: set[Place] = set()
        self._last: tuple[OpKey, str] | None = None
        self._last_of: dict[str, tuple[OpKey, str]] = {}  # by consumer
        self._counts: Counter[tuple[str, str, int]] = Counter()

    def happened(self, op: Mapping[str, Any]) -> None:
        """Take an op of the scenario."""
        kind, name = op["op"], op.get("consumer", "")
        place = kind, name or op.get("topic", ""), op["after"]
        self._counts[place] += 1
        self._last = (*place, self._counts[place]), op_words(op)
        if name:
            self._last_of[name] = self._last
        if self._present is not None:
            self._present.ops.add(self._last[0])

    def begin(self, why: str, consumer: str | None = None) -> Moment:
        """Begin a moment, unless one lasts; ``consumer``: whose doing it is, if that is known."""
        moment = self._present
        if moment is None:
            last = self.done[-1] if self.done else None
            if last is not None and self._now_ms() - last.until < TOGETHER_MS:
                moment = self.done.pop()
            else:
                self._places = set()
                moment = Moment(self._now_ms(), "")
            cause = self._last_of.get(consumer or "") or self._last
            if cause is not None:
                moment.cause = moment.cause or cause[1]
                moment.ops.add(cause[0])
            self._present = moment
        self._why.add(why)
        return moment

    def end(self, why: str) -> None:
        """End the present moment, unless it lasts for another reason."""
        self._why.discard(why)
        moment = self._present
        if moment is None or self._why:
            return
        self._present = None
        moment.until, moment.partitions = self._now_ms(), len(self._places)
        if moment.lasted_ms or moment.refused or moment.rebalances:
            self.done.append(moment)

    def unowned(self, place: Place) -> None:
        """Take note that a partition has no owner from now on."""
        self.begin(UNOWNED)
        self._places.add(place)

    def owned(self, passed_ms: int, *, was_last: bool) -> None:
        """Take note that a partition had no owner for so long; ``was_last``: all have one now."""
        if self._present is not None:
            self._present.unowned_ms += passed_ms
            self._present.longest_ms = max(self._present.longest_ms, passed_ms)
        if was_last:
            self.end(UNOWNED)

    def refused(self, consumer: str, error: str) -> None:
        """Take note that an error ended a client."""
        self.begin(REFUSED, consumer).refused[error] += 1
        self.end(REFUSED)

    def rebalanced(self) -> None:
        """Count a generation or an epoch."""
        moment = self._present or (self.done[-1] if self.done else None)
        if moment is not None:
            moment.rebalances += 1


def op_words(op: Mapping[str, Any]) -> str:
    """Return what an op is, as words."""
    return WORDS[op["op"]].format_map(op) if op["op"] in WORDS else str(op["op"])


class Worse(NamedTuple):
    """A moment of a variant, and by how much it is worse than its counterparts."""

    moment: Moment
    unowned_more_ms: int
    longest_more_ms: int
    lasted_more_ms: int
    refused: Counter[str]

    @property
    def is_more_than_chance(self) -> bool:
        """A longer rebalance counts only if partitions have an owner for no longer meanwhile."""
        return bool(
            self.refused
            or self.longest_more_ms >= NOISE_MS
            or self.unowned_more_ms >= NOISE_MS * max(1, self.moment.partitions)
            or (self.lasted_more_ms >= NOISE_MS and self.unowned_more_ms >= 0)
        )

    @property
    def rank(self) -> tuple[int, ...]:
        """The worst first: clients that ended, then partition-seconds, then time."""
        more = self.refused.total(), self.unowned_more_ms, self.lasted_more_ms
        return (*(-one for one in more), self.moment.at)


def worse_moments(played: Iterable[Moment], history: Sequence[Sequence[Moment]]) -> list[Worse]:
    """Return the moments of a play that are worse than those of each play of the history.

    The worst are first.
    """
    plays = [_Play(moments) for moments in history]
    found = []
    for moment in played:
        sums = [_summed(play.counterparts(moment)) for play in plays]
        worse = Worse(
            moment,
            moment.unowned_ms - max((one.unowned_ms for one in sums), default=0),
            moment.longest_ms - max((one.longest_ms for one in sums), default=0),
            moment.lasted_ms - max((one.lasted_ms for one in sums), default=0),
            moment.refused - _most(one.refused for one in sums),
        )
        if worse.is_more_than_chance:
            found.append(worse)
    return sorted(found, key=lambda one: one.rank)


class _Play:
    """The moments of a play, by their ops and times."""

    def __init__(self, moments: Sequence[Moment]) -> None:
        self._moments = moments
        self._by_op: dict[OpKey, set[int]] = {}
        for number, moment in enumerate(moments):
            for op in moment.ops:
                self._by_op.setdefault(op, set()).add(number)

    def counterparts(self, moment: Moment) -> Iterator[Moment]:
        numbers = {number for op in moment.ops for number in self._by_op.get(op, ())}
        if numbers:
            yield from (self._moments[number] for number in sorted(numbers))
            return
        for one in self._moments:
            if one.at <= moment.until + NEAR_MS and moment.at <= one.until + NEAR_MS:
                yield one


def _summed(moments: Iterable[Moment]) -> Moment:
    """Return moments as one, which lasts as long as all of them."""
    whole = Moment(0, "")
    for one in moments:
        whole.until += one.lasted_ms
        whole.unowned_ms += one.unowned_ms
        whole.longest_ms = max(whole.longest_ms, one.longest_ms)
        whole.refused.update(one.refused)
    return whole


def _most(counts: Iterable[Counter[str]]) -> Counter[str]:
    most: Counter[str] = Counter()
    for one in counts:
        most |= one
    return most

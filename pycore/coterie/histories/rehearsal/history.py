"""From the generations of a log to a scenario: who started and ended when, and with what settings.

A log has the end of each rebalance and its members, not what they did. What began a rebalance lies
between the record before it and the moment when its joins were complete. A member that is new
there started; one that is gone closed, died or stopped polling: as a broker's log says, else as the
times suggest (``coterie.insight.groups.departures``), else it closed, which is counted as unknown.

An epoch of the consumer protocol is written as soon as a request brings it, so its time is that of
what began it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from coterie.errors import CoterieError, shown
from coterie.testing.assignors import ASSIGNORS
from coterie.testing.member import MOST_PARTITIONS

CONSUMER = "consumer"
PROTOCOL = "group.protocol"  # of a start's settings; without it, classic
LEAD_MS = 60_000  # from the begin of the scenario to the group's first generation
HEARTBEAT_MS = 3_000  # Kafka's heartbeat.interval.ms
LEAST_HEARTBEAT_MS = 10
LEAST_SESSION_MS = 3  # of clients with three heartbeats a session
INITIAL_DELAY_MS = 3_000  # Kafka's group.initial.rebalance.delay.ms
SESSION_MS = 45_000  # Kafka's group.consumer.session.timeout.ms: a log does not have the broker's
HEARTBEAT_INTERVAL_MS = 5_000  # Kafka's group.consumer.heartbeat.interval.ms
SESSION, HEARTBEAT_INTERVAL = (
    f"group.consumer.{name}.ms" for name in ("session.timeout", "heartbeat.interval")
)
AT_ONCE = ("epoch", "upgraded", "downgraded")  # events at the time of the request that brought them
STEP_MS = 10  # between what happens together: a start comes before a close
COMMITS = "commits"  # the event of the row that has them
CLOSED, CRASHED, PAUSED = "close", "crash", "pause"
EVICTION = "eviction"
RESTARTED = ("restarted", "restarted_left", "restarted_evicted")  # causes; their detail: the old id
ENDS = {  # how a member left, as of the question -> op, and the timeout that it took
    "clean close": (CLOSED, None),
    EVICTION: (CRASHED, "session_timeout_ms"),
    "poll timeout": (PAUSED, "rebalance_timeout_ms"),
    "poll timeout or eviction": (PAUSED, "rebalance_timeout_ms"),
}
NO_TOPIC = "(none)"  # for a subscription without topics: no topic can have this name
Row = Mapping[str, Any]
Owned = dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of the log: its time in the scenario, and who owned what.

    ``owners``: the partitions by topic of each consumer of the scenario; none: the group was empty.
    """

    at: int
    generation: int
    owners: dict[str, Owned]


def count_rebalances(generations: Iterable[Generation]) -> int:
    """Return how many numbers of generations there are: a static member's return has no new one."""
    numbers = [one.generation for one in generations]
    return sum(before != number for before, number in pairwise([-1, *numbers]))


@dataclass(slots=True)
class LoggedHistory:
    """A group's history as ops of a scenario, and the generations that it has to lead to.

    Attributes
    ----------
    origin_ms : int
        The time of the scenario's begin, epoch ms.
    topics : dict
        The partition count of each topic at the begin.
    ops : list of dict
        What happens: ``at`` (ms), ``op`` and its fields. ``after`` is the number of generations
        that come first, ``slack_ms`` how wide the time is in whose middle ``at`` lies.
    heartbeat_ms : int
        The longest interval of heartbeats that the log allows; Kafka's default is a second bound.
    unknown : Counter
        What the log does not show, and how often.
    commits : dict
        When the group committed what of a topic's partition: times in the scenario, and offsets.
    brokers : dict
        Settings of the brokers that the log shows.
    """

    group: str
    origin_ms: int
    topics: dict[str, int]
    heartbeat_ms: int = HEARTBEAT_MS
    ops: list[dict[str, Any]] = field(default_factory=list)
    generations: list[Generation] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    brokers: dict[str, Any] = field(default_factory=dict)
    commits: dict[tuple[str, int], tuple[list[int], list[int]]] = field(default_factory=dict)

    def uncommitted(self, place: tuple[str, int], at: int) -> int | None:
        """Return how many records of a partition are not committed at a moment, at most.

        They are between the log's last commit before it and the next one. None: without one of
        them, the log has no bound.
        """
        times, offsets = self.commits.get(place, ([], []))
        after = bisect_right(times, at)
        if not 0 < after < len(times):
            return None
        return max(0, offsets[after] - offsets[after - 1])

    @property
    def protocol(self) -> str:
        """What its consumers speak at the end: ``classic`` or ``consumer``."""
        starts = [op["config"] for op in self.ops if op["op"] == "start"]
        return str(starts[-1].get(PROTOCOL, "classic")) if starts else "classic"

    @property
    def end_ms(self) -> int:
        """When the scenario ends."""
        last = [op["at"] for op in self.ops] + [one.at for one in self.generations]
        return max(last, default=0) + LEAD_MS


def read_history(group: str, rows: Sequence[Row]) -> LoggedHistory:
    """Return the history of a group; ``rows``: those of the question ``generations``.

    Raises
    ------
    CoterieError
        The group has no generation with members and a time, or none of an assignor of Kafka's
        consumers, or partitions that no topic has.
    """
    commits = [one for row in rows if row["event"] == COMMITS for one in row["commits"]]
    rows = [row for row in rows if row["event"] != COMMITS]
    protocols = {row["protocol"] for row in rows if row["members"]}
    if not protocols:
        what = "generation of the classic protocol and no epoch of the consumer protocol"
        raise CoterieError(f"group {shown(group)} has no {what} with members")
    rows = [row for row in rows if row["timestamp"] is not None]
    if not any(row["members"] for row in rows):
        raise CoterieError(f"the records of group {shown(group)} have no timestamps")
    newer = any(member["protocol"] == CONSUMER for row in rows for member in row["members"])
    if not newer and not protocols & ASSIGNORS.keys():
        what = ", ".join(sorted(filter(None, protocols)))
        known = ", ".join(ASSIGNORS)
        raise CoterieError(
            f"group {shown(group)} is no consumer group of Kafka's assignors ({known}): "
            f"its protocol is {shown(what)}"
        )
    history = _Reader(group, rows).history
    for one in commits:
        times, offsets = history.commits.setdefault((one["topic"], one["partition"]), ([], []))
        for at, offset in zip(one["times_ms"], one["offsets"], strict=True):
            # A clock that was set back must not bring what follows before what was.
            times.append(max(at - history.origin_ms, times[-1] if times else 0))
            offsets.append(max(0, offset))
    return history


class _Reader:
    """Follows the generations of a group."""

    def __init__(self, group: str, rows: Sequence[Row]) -> None:
        first = next(row for row in rows if row["members"])
        origin_ms = min(first["joined_at"] or first["timestamp"], first["timestamp"]) - LEAD_MS
        self.history = LoggedHistory(group, origin_ms, {})
        self.heartbeat_ms = self.history.heartbeat_ms = heartbeat_interval(rows)
        self.names: dict[str, str] = {}  # of the members that live, by id
        self.last_names: dict[str, str] = {}  # and of those that have left for now
        self.members: dict[str, Row] = {}
        self.added: Counter[str] = Counter()  # partitions of topics since the begin
        self.before_ms = 0  # the record before, and what led to it
        self.slack_ms = 0  # in which the present rebalance began
        self.sessions: list[int] = []  # after which these were evicted
        self.away: dict[str, int] = {}  # static members that left for now -> when
        self.names_of_ids: dict[str, str] = {}  # of topics
        for row in rows[rows.index(first) :]:
            if row["event"] == "coordinator_change":
                self.slack_ms = 0
                self._op(row["timestamp"] - origin_ms, "coordinator_stop", group=group)
            elif row["event"] == "static_leave":
                self._static_leave(row)
            elif row["event"] == "static_replacement" and row["protocol"] == CONSUMER:
                self._static_replacement(row)
            elif row["members"] or self.members:  # else an empty group was made or deleted
                self._generation(row)
        self.history.ops.sort(key=lambda op: op["at"])
        self._set_session()

    def _op(self, at: int, op: str, **fields: Any) -> None:
        at = max(at, self.before_ms)
        self._add({"at": at, "op": op, "after": len(self.history.generations), **fields})

    def _add(self, op: dict[str, Any]) -> None:
        self.history.ops.append({**op, "slack_ms": self.slack_ms})

    def _generation(self, row: Row) -> None:
        # A clock that was set back must not bring what follows before what was.
        at = max(row["timestamp"] - self.history.origin_ms, self.before_ms)
        joined = (row["joined_at"] or row["timestamp"]) - self.history.origin_ms
        joined = min(max(joined, self.before_ms + 1), max(at, self.before_ms + 1))
        members = {member["member_id"]: self._named(member) for member in row["members"]}
        ways = {one["member_id"]: one["how"] for one in row["departures"]}
        new = [member for member in members if member not in self.members]
        gone = [member for member in self.members if member not in members]
        lead_ms = self.heartbeat_ms // 2 if self.members else INITIAL_DELAY_MS
        if row["event"] in AT_ONCE:
            joined, lead_ms = at, 0
        began = max(self.before_ms + STEP_MS, joined - lead_ms)
        least_ms = max(self.before_ms + STEP_MS, joined - 2 * lead_ms)
        self.slack_ms = 2 * max(0, min(began - least_ms, joined - began)) if self.members else 0
        self._grow(members.values(), began)
        replaced = {self._instance(self.members[one]): one for one in gone}
        replaced.pop(None, None)
        restarted = {
            cause["member_id"]: cause["detail"]
            for cause in row["causes"]
            if cause["what"] in RESTARTED and cause["detail"] in gone
        }
        back = set()
        for member in new:
            former = replaced.get(self._instance(members[member]))
            at = began
            if former is not None:  # a static member that comes back: the old one goes first
                back.add(member)
                self._close(former, began)
                gone.remove(former)
            elif ways.get(died := restarted.get(member, "")) == EVICTION:
                # It came back soon, and the group waited until the session of the dead one ended.
                gone.remove(died)
                self._leave(died, EVICTION, began + STEP_MS)
                at = began + 2 * STEP_MS - self.members[died]["session_timeout_ms"]
            self._start(member, members[member], row["protocol"], at)
        for member in gone:
            self._leave(member, ways.get(member), began + STEP_MS)
        # A static member that comes back with the same metadata brings no generation.
        returned = row["event"] == "generation" and not gone and all(one in back for one in new)
        self._changes(members, row, began, changed=bool(new or gone) and not returned)
        self.members = members
        owners = {self.last_names[one]: _owned(member) for one, member in members.items()}
        self.history.generations.append(Generation(at, row["generation"] or 0, owners))
        self.before_ms = max(at, began + STEP_MS)  # what comes next is later than all of this

    def _changes(self, members: dict[str, Row], row: Row, began: int, *, changed: bool) -> None:
        for one, member in members.items():
            before = self.members.get(one)
            if before is None or None in (before["topics"], member["topics"]):
                continue
            if before["topics"] != member["topics"]:
                topics = dict.fromkeys(_topics(member), 1)
                self._op(began, "subscribe", consumer=self.names[one], subscription=topics)
                changed = True
        whats = {cause["what"] for cause in row["causes"]}
        known = {"cooperative_step", "partitions_appeared", "upgraded", "downgraded"}
        if changed or not members or whats & known:
            return
        if row["event"] == "epoch":
            self.history.unknown["epochs of the same members and topics"] += 1
            return
        self.history.unknown["rebalances of the same members, without a cause in the log"] += 1
        first = next((one for one in members if one in self.members), next(iter(members)))
        self._op(began, "rejoin", consumer=self.names[first])

    def _grow(self, members: Iterable[Row], began: int) -> None:
        """Give topics the partitions that were assigned for the first time."""
        sizes = self.history.topics
        new = {topic for member in members for topic in _topics(member)} - sizes.keys()
        sizes.update(dict.fromkeys(sorted(new), 0))
        most: Counter[str] = Counter()
        for member in members:
            for one in member["assignment"]:
                most[one["topic"]] = max([most[one["topic"]], *(n + 1 for n in one["partitions"])])
        for topic, size in most.items():
            if size > MOST_PARTITIONS:
                raise CoterieError(
                    f"group {shown(self.history.group)} was assigned partition {size - 1} of topic "
                    f"{shown(topic)}; a play has at most {MOST_PARTITIONS} partitions of a topic"
                )
            if topic in new or topic not in sizes:
                sizes[topic] = size
            elif (count := size - sizes[topic] - self.added[topic]) > 0:
                self.added[topic] += count
                self._op(began, "add_partitions", topic=topic, count=count)

    @staticmethod
    def _instance(member: Row) -> str | None:
        instance: str | None = member["group_instance_id"]
        return instance

    def _static_leave(self, row: Row) -> None:
        """Close static members of the consumer protocol, which may come back."""
        at = row["timestamp"] - self.history.origin_ms
        for cause in row["causes"]:
            if (member_id := cause["member_id"]) in self.names:
                self.away[member_id] = at
                self._close(member_id, max(at, self.before_ms))

    def _static_replacement(self, row: Row) -> None:
        """Start static members that took the place of others, without an epoch."""
        at = max(row["timestamp"] - self.history.origin_ms, self.before_ms + STEP_MS)
        members = {member["member_id"]: self._named(member) for member in row["members"]}
        for cause in row["causes"]:
            new, old = cause["member_id"], cause["detail"]
            if cause["what"] == "replaced" and new in members and new not in self.members:
                if old in self.members:
                    self._close(old, at)
                    del self.members[old]
                self.members[new] = members[new]
                self._start(new, members[new], None, at)

    def _named(self, member: Row) -> Row:
        """Return a member whose topics all have names; a log may have no name of an id."""
        topics = member["topics"]
        if topics is None or member["protocol"] != CONSUMER:
            return member
        assignment = []
        for one in member["assignment"]:
            topic, names = one["topic"], self.names_of_ids
            if topic not in topics and topic not in names:
                owned = {each["topic"] for each in member["assignment"]}
                free = [name for name in topics if name not in {*names.values(), *owned}]
                names[topic] = free[0] if free else topic
                self.history.unknown["topics: which name an id has"] += 1
            assignment.append({**one, "topic": names.get(topic, topic)})
        named = sorted({*topics, *(one["topic"] for one in assignment)})
        return {**member, "topics": named, "assignment": assignment}

    def _start(self, member_id: str, member: Row, assignor: str | None, at: int) -> None:
        client: str = member["group_instance_id"] or member["client_id"] or "client"
        base = name = client.replace("/", "_")
        number, live = 1, set(self.names.values())
        while name in live:
            number += 1
            name = f"{base}#{number}"
        self.names[member_id] = self.last_names[member_id] = name
        session_ms = max(member["session_timeout_ms"] or SESSION_MS, LEAST_SESSION_MS)
        poll_ms = member["rebalance_timeout_ms"]
        config = {
            "session.timeout.ms": session_ms,
            "max.poll.interval.ms": poll_ms if poll_ms > 0 else session_ms,  # as Kafka reads it
            "client.id": member["client_id"] or "client",
            "member.id": member_id,
            "partition.assignment.strategy": assignor if assignor in ASSIGNORS else "range",
        }
        if member["protocol"] == CONSUMER:
            config[PROTOCOL] = CONSUMER
        if member["server_assignor"] is not None:
            config["group.remote.assignor"] = member["server_assignor"]
        if member["group_instance_id"] is not None:
            config["group.instance.id"] = member["group_instance_id"]
        if member["topics"] is None:
            self.history.unknown["subscriptions: they cannot be read"] += 1
        topics = dict.fromkeys(_topics(member), 1)
        self._op(at, "start", consumer=name, subscription=topics, config=config)

    def _leave(self, member_id: str, way: str | None, at: int) -> None:
        """End a member in one of the ways of ``ENDS``; None: it is not known."""
        if member_id not in self.names:  # it left for now, and did not come back
            if member_id in self.away and way is None:
                self.sessions.append(at - self.away[member_id])
            return
        if self._instance(self.members[member_id]) is not None and way in (None, "clean close"):
            way = EVICTION  # for a static member that closes sends no LeaveGroup
        if way is None:
            self.history.unknown["departures: closed or evicted"] += 1
        how, timeout = ENDS[way or "clean close"]
        timeout_ms = self.members[member_id][timeout] or SESSION_MS if timeout else 0
        self._end(member_id, how, at - timeout_ms)

    def _close(self, member_id: str, at: int) -> None:
        """Close a member, unless it left for now before."""
        if member_id in self.names:
            self._end(member_id, CLOSED, at)

    def _set_session(self) -> None:
        """Let the broker's session be as long as static members that were away stayed members.

        It began with a member's last heartbeat, so Kafka's own is as likely if it is that close.
        """
        away_ms = max(self.sessions, default=SESSION_MS)
        if not SESSION_MS - HEARTBEAT_INTERVAL_MS <= away_ms <= SESSION_MS:
            heartbeat_ms = min(HEARTBEAT_INTERVAL_MS, max(away_ms // 2, 1))
            self.history.brokers = {SESSION: max(away_ms, 2), HEARTBEAT_INTERVAL: heartbeat_ms}

    def _end(self, member_id: str, how: str, at: int) -> None:
        name = self.names.pop(member_id)
        start = next(
            op
            for op in reversed(self.history.ops)
            if (op["op"], op.get("consumer")) == ("start", name)
        )
        after = len(self.history.generations)
        if at < start["at"] + STEP_MS:  # it died as soon as it had joined
            at, after = start["at"] + STEP_MS, start["after"] + 1
        elif at < self.before_ms:  # it died before the generation that came next: not after it
            after = 0
        self._add({"at": at, "op": how, "after": after, "consumer": name})


def _topics(member: Row) -> list[str]:
    """Return what a member subscribes to; those that it was assigned, if that cannot be read."""
    topics: list[str] | None = member["topics"]
    if topics is None:
        topics = sorted(_owned(member))
    return topics or [NO_TOPIC]


def _owned(member: Row) -> Owned:
    return {one["topic"]: sorted(one["partitions"]) for one in member["assignment"]}


def heartbeat_interval(rows: Sequence[Row]) -> int:
    """Return the longest interval of heartbeats that the log allows, at most Kafka's default.

    Members learn of a rebalance by a heartbeat. A rebalance that began and ended within so many
    ms, with members that stayed, had all of their heartbeats in it.
    """
    interval_ms = HEARTBEAT_MS
    for before, row in pairwise(rows):
        stayed = {m["member_id"] for m in before["members"]} & {
            m["member_id"] for m in row["members"]
        }
        step = any(cause["what"] == "cooperative_step" for cause in row["causes"])
        if stayed and not step and row["joined_at"] is not None:
            interval_ms = min(interval_ms, row["joined_at"] - before["timestamp"])
    return max(interval_ms, LEAST_HEARTBEAT_MS)

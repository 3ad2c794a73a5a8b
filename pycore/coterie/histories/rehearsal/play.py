"""Plays a history with simulated clients of Kafka's own behaviour, on a virtual clock.

What the log puts in order stays in order while the history is played as it was: what began a
rebalance waits for the generation before it. A variant keeps only the times.

A stretch in which nothing changes is skipped: members heartbeat, and nobody joins, leaves or owns
anything else. So a day of 500 members costs what its rebalances cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.base.consumer_protocol import owned_partitions
from coterie.base.schedule import Schedule
from coterie.consumer_groups import ConsumerGroupChange
from coterie.designs.timeline import Timeline
from coterie.events import Append, Cause, MemberFenced, Transition
from coterie.histories.choices import Seeded
from coterie.histories.rehearsal.history import (
    CLOSED,
    CRASHED,
    HEARTBEAT_MS,
    Generation,
    LoggedHistory,
    count_rebalances,
)
from coterie.histories.rehearsal.moments import REBALANCE, Moment, Moments
from coterie.testing.client.consumer import Consumer
from coterie.testing.client.errors import KafkaError, WakeupError
from coterie.testing.client.settings import CLASSIC_ONLY, STRATEGY
from coterie.testing.cluster_coordinator import CountedCoordinator
from coterie.testing.process import Process
from coterie.testing.simulated_cluster import Cluster
from coterie.testing.topics import TopicPartition

POLL_MS = 3_600_000  # of an application without records: heartbeats go on meanwhile
QUIET_MS = 10_000  # nothing has changed for so long, and for a session: then time is skipped
STEP_MS = 1_000
JOIN_MS = 10  # a client has sent its JoinGroup so soon after its start
LATE_MS = 3_600_000  # what a variant brings after the end of the log is played for so long
CONSUMER_SESSION_MS = 45_000  # Kafka's group.consumer.session.timeout.ms
CONSUMER_HEARTBEAT_MS = 5_000  # and group.consumer.heartbeat.interval.ms
FOREVER_MS = 2**31 - 1
THEIR_OWN = {  # causes that are the doing of the member that an event names
    *(Cause.JOIN, Cause.LEAVE, Cause.SESSION_TIMEOUT, Cause.REBALANCE_TIMEOUT),
    *(Cause.SYNC_TIMEOUT, Cause.STATIC_RETURN),
}
Place = tuple[str, int]
_CLASSIC_GROUP = b"\0\2"  # the version of the key of a classic group's record


@dataclass(slots=True)
class Played:
    """What came out of a play.

    Attributes
    ----------
    generations : list of Generation
        As those of a history: in order, with the partitions of each consumer.
    unowned_ms, longest_unowned_ms : int
        Partition-milliseconds without an owner while the group had members; the longest of one.
    rebalances : int
        Generations of the classic protocol, epochs of the consumer protocol.
    settling_ms : int
        The longest time from the begin of a rebalance until the group was stable, or until the
        end of the play.
    refused : Counter
        Errors that ended a client, by name.
    moments : list of Moment
        When the group was not at rest, in order.
    timeline : Timeline or None
        Owners and rebalances, as those of a design; ``unowned`` and ``counted`` (topic, partition)
        begin and end a time without an owner.
    requests, records, record_bytes : int
        The coordinator's load: requests, and what it wrote to the topic for the group.
    """

    generations: list[Generation] = field(default_factory=list)
    rebalances: int = 0
    unowned_ms: int = 0
    longest_unowned_ms: int = 0
    settling_ms: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    moments: list[Moment] = field(default_factory=list)
    timeline: Timeline | None = None
    requests: int = 0
    records: int = 0
    record_bytes: int = 0


class _Life:
    """One start of a consumer, until it ends."""

    def __init__(self, play: Play, name: str, op: Mapping[str, Any]) -> None:
        self.play, self.name = play, name
        self.topics = sorted(op["subscription"])
        self.settings = play.settings_of(op["config"])
        self.process = Process(play.schedule, name)
        self.consumer: Consumer | None = None
        self.closing = self.paused = False
        self.process.start(self._run)

    def _run(self) -> None:
        consumer = Consumer(self.play.cluster, self.settings, process=self.process)
        self.consumer = consumer
        try:
            consumer.subscribe(self.topics, self)
            while not self.closing:
                if self.paused:
                    self.process.sleep(FOREVER_MS)
                try:
                    consumer.poll(POLL_MS)
                except WakeupError:
                    continue
            consumer.close()
        except KafkaError as error:
            self.play.ended(self, error)

    def close(self) -> None:
        self.closing = True
        if self.consumer is not None:
            self.consumer.wakeup()

    def pause(self) -> None:
        """Poll no more: its client leaves after max.poll.interval.ms."""
        self.paused = True
        if self.consumer is not None:
            self.consumer.wakeup()

    def crash(self) -> None:
        self.process.kill()
        self.play.owners.give_all(self)

    def subscribe(self, topics: list[str]) -> None:
        self.play.owners.subscribe(topics, instead_of=self.topics)
        self.topics = topics
        if self.consumer is not None:
            self.consumer.subscribe(topics, self)
            self.consumer.wakeup()

    def rejoin(self) -> None:
        if self.consumer is not None:
            self.consumer.enforce_rebalance()
            self.consumer.wakeup()

    # The rebalance listener

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.play.owners.take(self, partitions)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.play.owners.give(self, partitions)

    on_partitions_lost = on_partitions_revoked


class _Owners:
    """Who owns what, and for how long partitions had no owner while members subscribed to them."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._owned: dict[_Life, set[Place]] = {}
        self._owner_count: Counter[Place] = Counter()
        self._subscribers: Counter[str] = Counter()  # by topic
        self._since: dict[Place, int] = {}  # partitions without an owner

    def subscribe(self, topics: Iterable[str], instead_of: Iterable[str] = ()) -> None:
        """Count the partitions of topics from now on, and no more those that nobody reads."""
        self._subscribers.update(topics)
        self._subscribers.subtract(instead_of)
        all_topics = self._play.cluster.topics
        for topic in topics:
            self.cover((topic, number) for number in range(len(all_topics[topic].logs)))
        for place in [one for one in self._since if not self._subscribers[one[0]]]:
            self._end(place)

    def cover(self, places: Iterable[Place]) -> None:
        """Count partitions from now on, if they have subscribers and no owner."""
        for place in places:
            counts = self._subscribers[place[0]] and not self._owner_count[place]
            if counts and place not in self._since:
                self._since[place] = self._play.now_ms
                self._play.moments.unowned(place)
                self._play.note("unowned", "", place)

    def take(self, life: _Life, places: list[TopicPartition]) -> None:
        owned = self._owned.setdefault(life, set())
        for topic, number in places:
            if (place := (topic, number)) not in owned:
                owned.add(place)
                self._owner_count[place] += 1
                self._end(place)
                self._play.note("owns", life.name, place)
        self._play.changed(bool(places))

    def give(self, life: _Life, places: Iterable[Place]) -> None:
        owned = self._owned.get(life, set())
        given = owned & {(topic, number) for topic, number in places}
        owned -= given
        self._owner_count.subtract(given)
        for place in sorted(given):
            self._play.note("gives_up", life.name, place)
        self.cover(sorted(given))
        self._play.changed(bool(given))

    def give_all(self, life: _Life) -> None:
        self.give(life, self._owned.get(life, ()))
        self._owned.pop(life, None)

    def settle(self) -> None:
        """Count none from now on: the group has no members."""
        for place in list(self._since):
            self._end(place)

    def _end(self, place: Place) -> None:
        since = self._since.pop(place, None)
        if since is not None:
            passed_ms = self._play.now_ms - since
            result = self._play.result
            result.unowned_ms += passed_ms
            result.longest_unowned_ms = max(result.longest_unowned_ms, passed_ms)
            self._play.note("counted", "", place)
            self._play.moments.owned(passed_ms, was_last=not self._since)


class Play:
    """One play of a history.

    Parameters
    ----------
    history : LoggedHistory
        What is played.
    kafka : str
        The release whose rules the coordinator has.
    protocol : str
        ``classic`` or ``consumer``: of all consumers.
    settings : mapping
        Settings of consumers that replace those of the history, by Kafka's names.
    seed : int
        Draws what the log does not say: when in its bounds each event happens, and heartbeats.
    ordered : bool
        Whether what the log puts in order waits for the generations before it.
    timeline : bool
        Whether to follow owners and rebalances.
    """

    def __init__(
        self,
        history: LoggedHistory,
        *,
        kafka: str = "3.9",
        protocol: str = "classic",
        settings: Mapping[str, Any] | None = None,
        seed: int = 0,
        ordered: bool = False,
        timeline: bool = False,
    ) -> None:
        self.history, self.protocol, self.settings = history, protocol, dict(settings or {})
        self.result = Played(timeline=Timeline() if timeline else None)
        self.moments = Moments(lambda: self.now_ms)
        self.schedule = Schedule()
        self.owners = _Owners(self)
        self._ordered, self._choices = ordered, Seeded(seed)
        least_ms = history.heartbeat_ms // 2
        self._heartbeat_ms = self._choices.integer(least_ms, max(least_ms, HEARTBEAT_MS))
        self._skipped_ms = 0
        self._busy_until_ms = 0
        self._unstable_since_ms: int | None = None
        self._epoch = 0
        self._fenced: str | None = None  # the member that a timeout has just removed
        self._lives: dict[str, _Life] = {}
        self._made_ids = 0
        self._ids: dict[str, list[str]] = {}  # ids of the log for the next members, by client
        self._name_of: dict[str, str] = {}  # member id -> consumer
        sessions = [op["config"]["session.timeout.ms"] for op in history.ops if op["op"] == "start"]
        sessions.append(self.settings.get("session.timeout.ms", 0))
        self._session_ms = max(sessions) if protocol == "classic" else CONSUMER_SESSION_MS
        self.cluster = Cluster(
            history.topics,
            {
                "coterie.behaviour": kafka,
                "group.min.session.timeout.ms": 1,
                "group.max.session.timeout.ms": FOREVER_MS,
            },
            interval_ms=None,
            schedule=self.schedule,
            make_coordinator=self._make_coordinator,
        )

    def _make_coordinator(self, config: Any, now_ms: int, **options: Any) -> CountedCoordinator:
        pass_on = options.pop("on_event")

        def on_event(event: Any) -> None:
            self._on_event(event)
            pass_on(event)

        return CountedCoordinator(
            config, now_ms, on_event=on_event, member_ids=self._member_id, **options
        )

    @property
    def now_ms(self) -> int:
        """The time of the scenario."""
        return self.schedule.now_ms + self._skipped_ms

    def run(self) -> Played:
        """Play it to its end."""
        coordinator = self.cluster.coordinator
        assert isinstance(coordinator, CountedCoordinator)
        for op in self._drawn():
            self._advance(op["at"])
            if self._ordered:
                self._await_generation(op["after"])
            self._do(op)
        self._advance(self.history.end_ms)
        last_ms = self.schedule.now_ms + LATE_MS
        while not self._ordered and self.schedule.now_ms < min(self._busy_until_ms, last_ms):
            self._advance(self.now_ms + STEP_MS)
        self.owners.settle()
        self._settled()  # or it has not until the end
        self.result.rebalances += count_rebalances(self.result.generations)
        self.result.requests += coordinator.requests
        self.result.moments = self.moments.done
        return self.result

    def _drawn(self) -> list[dict[str, Any]]:
        """Return the ops at the times that the seed draws."""
        drawn = []
        shift_ms: dict[int, int] = {}  # of all that began a generation
        started_ms: dict[str, int] = {}
        for op in self.history.ops:
            half_ms = op["slack_ms"] // 2
            if op["after"] not in shift_ms:
                shift_ms[op["after"]] = self._choices.integer(-half_ms, half_ms)
            at, name = op["at"] + shift_ms[op["after"]], op.get("consumer", "")
            if op["op"] == "start":
                started_ms[name] = at
            elif name in started_ms:
                at = max(at, started_ms[name] + JOIN_MS)
            drawn.append({**op, "at": at})
        return sorted(drawn, key=lambda op: int(op["at"]))

    def settings_of(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a consumer."""
        classic = self.protocol == "classic"
        settings = {
            "group.id": self.history.group,
            "group.protocol": self.protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **{name: value for name, value in config.items() if name != "member.id"},
        }
        settings |= self.settings
        if classic and "heartbeat.interval.ms" not in self.settings:
            # Members that joined together would heartbeat together for ever; real ones do not.
            interval_ms = min(self._heartbeat_ms, settings["session.timeout.ms"] // 3)
            drift_ms = self._choices.integer(0, interval_ms // 10)
            settings["heartbeat.interval.ms"] = interval_ms - drift_ms
        settings[STRATEGY] = [settings[STRATEGY]]
        if not classic:
            for name in CLASSIC_ONLY:
                settings.pop(name, None)
        return settings

    # The clock

    def changed(self, really: bool = True, *, for_ms: int = 0) -> None:
        """Take note that something has changed: skip no time until it can have had its effects."""
        if really:
            quiet_ms = for_ms + self._session_ms + QUIET_MS
            self._busy_until_ms = max(self._busy_until_ms, self.schedule.now_ms + quiet_ms)

    def _advance(self, to_ms: int) -> None:
        """Play until a time of the scenario."""
        while (left_ms := to_ms - self.now_ms) > 0:
            if self.schedule.now_ms >= self._busy_until_ms:
                self._skip(left_ms)
                return
            self.schedule.run_until(self.schedule.now_ms + min(left_ms, STEP_MS))

    def _skip(self, passed_ms: int) -> None:
        """Let time pass in which members only heartbeat."""
        self._skipped_ms += passed_ms
        for life in self._lives.values():
            interval_ms = life.settings.get("heartbeat.interval.ms", CONSUMER_HEARTBEAT_MS)
            self.result.requests += passed_ms // interval_ms

    def _await_generation(self, number: int) -> None:
        while len(self.result.generations) < number and self.schedule.now_ms < self._busy_until_ms:
            self.schedule.run_until(self.schedule.now_ms + STEP_MS // 10)

    # What happens

    def _do(self, op: Mapping[str, Any]) -> None:
        kind, name = op["op"], op.get("consumer", "")
        life = self._lives.get(name)
        self.changed()
        self.moments.happened(op)
        if kind == "start":
            self._start(name, op)
        elif kind == "coordinator_stop":
            self.cluster.fail_over()
        elif kind == "add_partitions":
            size = len(self.cluster.topics[op["topic"]].logs) + op["count"]
            self.cluster.add_partitions(op["topic"], size)
            self.owners.cover((op["topic"], number) for number in range(size))
            for one in self._lives.values():
                if one.consumer is not None:
                    one.consumer._metadata.request_update()
            self.cluster.wake_clients()
        elif life is not None:
            self._do_of(life, op)

    def _do_of(self, life: _Life, op: Mapping[str, Any]) -> None:
        kind = op["op"]
        session_ms = life.settings.get("session.timeout.ms", CONSUMER_SESSION_MS)
        if kind == "subscribe":
            life.subscribe(sorted(op["subscription"]))
        elif kind == "rejoin":
            life.rejoin()
        elif kind == CLOSED:
            life.close()
            self._over(life, session_ms if "group.instance.id" in life.settings else 0)
        elif kind == CRASHED:
            life.crash()
            self._over(life, session_ms)
        else:
            life.pause()
            poll_ms = life.settings["max.poll.interval.ms"]
            self._over(life, poll_ms)
            self.changed(for_ms=poll_ms)

    def _start(self, name: str, op: Mapping[str, Any]) -> None:
        config = op["config"]
        prefix = config.get("group.instance.id") or config["client.id"]
        self._ids.setdefault(prefix, []).append(config["member.id"])
        self._name_of[config["member.id"]] = name
        self.owners.subscribe(op["subscription"])
        self._lives[name] = _Life(self, name, op)

    def _over(self, life: _Life, member_ms: int) -> None:
        """Take note that a client does nothing more; it is a member for so long."""
        if self._lives.get(life.name) is life:
            del self._lives[life.name]
            self.schedule.call_later(member_ms, self._left, life)

    def _left(self, life: _Life) -> None:
        self.owners.subscribe((), instead_of=life.topics)
        if life.paused:  # its listener is not called: the application does not poll
            self.owners.give_all(life)

    def ended(self, life: _Life, error: KafkaError) -> None:
        """Take note that a client has thrown: its application ends."""
        self.result.refused[type(error).__name__] += 1
        self.moments.refused(life.name, type(error).__name__)
        self.owners.give_all(life)
        self._over(life, 0)

    def _member_id(self, prefix: str) -> str:
        ids = self._ids.get(prefix)
        if ids:
            return ids.pop(0)
        self._made_ids += 1
        return f"{prefix}-{self._made_ids}"

    def _on_event(self, event: Any) -> None:
        if isinstance(event, Transition | ConsumerGroupChange):
            self._group_changed(event)
        elif isinstance(event, MemberFenced):
            self._fenced = event.member_id
        if not isinstance(event, Append):
            return
        self.result.records += 1
        self.result.record_bytes += len(event.key) + len(event.value or b"")
        if event.key[:2] == _CLASSIC_GROUP and event.value is not None:
            self._generation(event.decoded()["value"])

    def _group_changed(self, event: Transition | ConsumerGroupChange) -> None:
        """Take a new state of the group; an epoch is a rebalance of the consumer protocol."""
        self.changed()
        state = event.to if isinstance(event, Transition) else event.state
        if state in ("Stable", "Empty", "Dead", None):
            self._settled()
        elif self._unstable_since_ms is None:
            self._unstable_since_ms = self.now_ms
            member_id = self._fenced
            if isinstance(event, Transition):
                member_id = event.member_id if event.cause in THEIR_OWN else None
            self.moments.begin(REBALANCE, self._name_of.get(member_id or ""))
            self.note("rebalance_began", "")
        self._fenced = None
        if isinstance(event, ConsumerGroupChange) and event.type == "consumer":
            if event.group_epoch > self._epoch:
                self.result.rebalances += 1
                self.moments.rebalanced()
            self._epoch = event.group_epoch
            if not event.members:
                self.owners.settle()

    def _settled(self) -> None:
        if self._unstable_since_ms is not None:
            settling_ms = self.now_ms - self._unstable_since_ms
            self.result.settling_ms = max(self.result.settling_ms, settling_ms)
        self._unstable_since_ms = None
        self.moments.end(REBALANCE)

    def note(self, kind: str, consumer: str, place: Place | tuple[()] = ()) -> None:
        """Add to the timeline, if there is one."""
        if self.result.timeline is not None:
            self.result.timeline.add(self.now_ms, kind, consumer, *place)

    def _generation(self, record: Mapping[str, Any]) -> None:
        members = record["members"]
        owners = {
            self._name_of.get(one["member_id"], one["member_id"]): owned_partitions(
                one["assignment"]
            )
            for one in members
        }
        if not owners:
            self.owners.settle()
        before = self.result.generations[-1].generation if self.result.generations else None
        if record["generation_id"] != before:
            self.moments.rebalanced()
        self.result.generations.append(Generation(self.now_ms, record["generation_id"], owners))

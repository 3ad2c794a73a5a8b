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
from hashlib import sha256
from typing import Any, NamedTuple

from coterie.base.consumer_protocol import owned_partitions
from coterie.base.schedule import Schedule
from coterie.consumer_groups import ConsumerGroupChange, encode_topic_id
from coterie.coordinator.consumer_requests import derived_topic_id
from coterie.designs.timeline import Timeline
from coterie.events import Append, Cause, MemberFenced, Transition
from coterie.histories.choices import Seeded
from coterie.histories.rehearsal.epochs import VERSIONS, Epochs
from coterie.histories.rehearsal.history import (
    CLOSED,
    CRASHED,
    HEARTBEAT_MS,
    PAUSED,
    PROTOCOL,
    Generation,
    LoggedHistory,
)
from coterie.histories.rehearsal.known_bugs import Finding, Findings
from coterie.histories.rehearsal.moments import REBALANCE, Moment, Moments
from coterie.histories.rehearsal.restarts import restarts
from coterie.testing.client.classic_membership import ClassicMembership
from coterie.testing.client.consumer import Consumer
from coterie.testing.client.consumer_membership import ConsumerMembership
from coterie.testing.client.errors import KafkaError, WakeupError
from coterie.testing.client.settings import CLASSIC_ONLY
from coterie.testing.cluster_coordinator import CountedCoordinator
from coterie.testing.process import Process
from coterie.testing.simulated_cluster import Cluster
from coterie.testing.topics import TopicPartition
from coterie.values import Error

HEARTBEAT = "heartbeat.interval.ms"
POLL_MS = 3_600_000  # of an application without records: heartbeats go on meanwhile
QUIET_MS = 10_000  # nothing has changed for so long, and for a session: then time is skipped
STEP_MS = 1_000
SESSION_MS = 45_000  # Kafka's session.timeout.ms
LOAD_MS = 100  # of the log by a new coordinator
JOIN_MS = 10  # a client has sent its JoinGroup so soon after its start
RESTLESS_MS = 3_600_000  # of rebalances without a cause: as many as RESTLESS do not end
RESTLESS, MOST_RESTLESS = 100, 1_000
LATE_MS = 3_600_000  # what a variant brings after the end of the log is played for so long
FOREVER_MS = 2**31 - 1
THEIR_OWN = {  # causes that are the doing of the member that an event names
    *(Cause.JOIN, Cause.LEAVE, Cause.SESSION_TIMEOUT, Cause.REBALANCE_TIMEOUT),
    *(Cause.SYNC_TIMEOUT, Cause.STATIC_RETURN),
}
Place = tuple[str, int]
ENDED, FENCED, COMMIT = "ended", "fenced", "commit"
JOINS_AGAIN = {Error.FENCED_MEMBER_EPOCH, Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION}
UUID_LENGTH, SHORT_UUID_LENGTH = 36, 22  # as Java's and Kafka's are written
CLASSIC_GROUP = 2  # the version of the key of a classic group's record


class Refusal(NamedTuple):
    """An error that a client got: it ended, was fenced and joins again, or did not commit."""

    at: int
    client: str
    error: str
    what: str


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
    cut_ms : int or None
        When the play ended before its end, since the group does not settle.
    settling_ms : int
        The longest time from the begin of a rebalance until the group was stable, or until the
        end of the play.
    uncommitted : int
        Partitions that a client lost without a commit: it died, was evicted or
        fenced, or an error ended it.
    read_again, unbounded : int
        Records in these that are read again, at most, and those for which the log has no bound.
    refusals : list of Refusal
        What clients were refused, in order.
    findings : list of Finding
        The known bugs that struck, in order.
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
    cut_ms: int | None = None
    settling_ms: int = 0
    uncommitted: int = 0
    read_again: int = 0
    unbounded: int = 0
    refusals: list[Refusal] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    timeline: Timeline | None = None
    requests: int = 0
    records: int = 0
    record_bytes: int = 0

    @property
    def refused(self) -> Counter[str]:
        """How many clients each error ended."""
        return Counter(one.error for one in self.refusals if one.what == ENDED)


class _Life:
    """One start of a consumer, until it ends."""

    def __init__(self, play: Play, name: str, op: Mapping[str, Any]) -> None:
        self.play, self.name = play, name
        self.topics = sorted(op["subscription"])
        self.settings = play.settings_of(op["config"])
        self.odd = op.get("odd", {})
        self.process = Process(play.schedule, name)
        self.consumer: Consumer | None = None
        self.closing = self.paused = False
        self.process.start(self._run)

    def _run(self) -> None:
        consumer = Consumer(self.play.cluster, self.settings, process=self.process)
        self.consumer = consumer
        if self.odd:
            _make_odd(consumer, self.odd)
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
        self.play.owners.lose_all(self)

    def subscribe(self, topics: list[str]) -> None:
        self.play.owners.subscribe(topics, instead_of=self.topics)
        self.topics = topics
        if self.consumer is not None:
            self.consumer.subscribe(topics, self)
            self.consumer.wakeup()

    def commit(self) -> None:
        """Commit the positions, without waiting."""
        if self.consumer is not None:
            self.consumer.commit_async(callback=self._committed)

    def _committed(self, offsets: Any, error: KafkaError | None) -> None:
        if error is not None:
            self.play.refused(self.name, error, COMMIT)

    def rejoin(self) -> None:
        if self.consumer is not None:
            self.consumer.enforce_rebalance()
            self.consumer.wakeup()

    # The rebalance listener

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            self.play.bugs.assigned(self.name, self.settings)
        self.play.owners.take(self, partitions)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.play.owners.give(self, partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.play.owners.lose(self, partitions)


class _Owners:
    """Who owns what, and for how long partitions had no owner while members subscribed to them."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._owned: dict[_Life, set[Place]] = {}
        self._owner_count: Counter[Place] = Counter()
        self._subscribers: Counter[str] = Counter()  # by topic
        self._since: dict[Place, int] = {}  # partitions without an owner
        self._covered: set[str] = set()  # topics whose partitions have an owner, or are in there

    def subscribe(self, topics: Iterable[str], instead_of: Iterable[str] = ()) -> None:
        """Count the partitions of topics from now on, and no more those that nobody reads."""
        self._subscribers.update(topics)
        self._subscribers.subtract(instead_of)
        all_topics = self._play.cluster.topics
        for topic in sorted({*topics} - self._covered):
            self.cover((topic, number) for number in range(len(all_topics[topic].logs)))
            self._covered.add(topic)
        unread = {topic for topic in instead_of if not self._subscribers[topic]}
        if unread:
            self._covered -= unread
            for place in [one for one in self._since if one[0] in unread]:
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

    def lose(self, life: _Life, places: Iterable[Place]) -> None:
        """Give partitions without a commit of what was read of them."""
        play, result = self._play, self._play.result
        for topic, number in places:
            if (place := (topic, number)) in self._owned.get(life, ()):
                most = play.history.uncommitted(place, play.now_ms)
                result.uncommitted += 1
                result.unbounded += most is None
                result.read_again += most or 0
        self.give(life, places)

    def lose_all(self, life: _Life) -> None:
        self.lose(life, list(self._owned.get(life, ())))
        self._owned.pop(life, None)

    def settle(self) -> None:
        """Count none from now on: the play has ended, or the group has no members."""
        self._covered.clear()
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
    brokers : mapping
        Settings of the coordinator, by Kafka's names, and ``coterie.behaviour``: its release.
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
        brokers: Mapping[str, Any] | None = None,
        seed: int = 0,
        ordered: bool = False,
        timeline: bool = False,
    ) -> None:
        self.history = history
        self.result = Played(timeline=Timeline() if timeline else None)
        self.moments = Moments(lambda: self.now_ms)
        self.schedule = Schedule()
        self.owners = _Owners(self)
        self._ordered, self._choices = ordered, Seeded(seed)
        least_ms = history.heartbeat_ms // 2
        self._heartbeat_ms = self._choices.integer(least_ms, max(least_ms, HEARTBEAT_MS))
        self._skipped_ms = 0
        self._busy_until_ms = 0
        self._happened = 0, 0  # when something did, and the number of rebalances until then
        self._unstable_since_ms: int | None = None
        self._number = -1  # of the last generation or epoch
        self._fenced: str | None = None  # the member that a timeout has just removed
        self._lives: dict[str, _Life] = {}
        self._away: dict[str, list[str]] = {}  # topics of consumers that are restarted
        self._made_ids, self._seed = 0, seed
        self._ids: dict[str, list[str]] = {}  # ids of the log for the next members, by client
        self._name_of: dict[str, str] = {}  # member id -> consumer
        self._coordinators: list[CountedCoordinator] = []
        topics = {encode_topic_id(derived_topic_id(topic)): topic for topic in history.topics}
        self._epochs = Epochs(self.result.generations, self._consumer_of, self._joined, topics)
        self.cluster = Cluster(
            history.topics,
            {
                "group.min.session.timeout.ms": 1,
                "group.max.session.timeout.ms": FOREVER_MS,
                "group.consumer.min.session.timeout.ms": 1,
                **history.brokers,
                **(brokers or {}),
            },
            interval_ms=None,
            schedule=self.schedule,
            make_coordinator=self._make_coordinator,
        )
        self.cluster.on_note = self._note
        self.cluster.member_ids = self._client_made_id
        self.bugs = Findings(lambda: self.now_ms, lambda: self.cluster.coordinator, history.group)
        starts = [op["config"] for op in history.ops if op["op"] == "start"]
        self._session_ms = max(map(self._session_of, starts), default=0)

    def _make_coordinator(self, config: Any, now_ms: int, **options: Any) -> CountedCoordinator:
        pass_on = options.pop("on_event")

        def on_event(event: Any) -> None:
            self._on_event(event)
            pass_on(event)

        made = CountedCoordinator(
            config, now_ms, on_event=on_event, member_ids=self._member_id, **options
        )
        self._coordinators.append(made)
        return made

    @property
    def now_ms(self) -> int:
        """The time of the scenario."""
        return self.schedule.now_ms + self._skipped_ms

    def run(self) -> Played:
        """Play it to its end."""
        for op in self._drawn():
            self._advance(op["at"])
            if self._ordered:
                self._await_generation(op["after"])
            if self.result.cut_ms is not None:
                break
            self._do(op)
        self._advance(self.history.end_ms)
        last_ms = self.schedule.now_ms + LATE_MS
        while (
            not self._ordered
            and self.result.cut_ms is None
            and self.schedule.now_ms < min(self._busy_until_ms, last_ms)
        ):
            self._advance(self.now_ms + STEP_MS)
        self.owners.settle()
        self._settled()  # or it has not until the end
        self.result.requests += sum(one.requests for one in self._coordinators)
        self.result.moments = self.moments.done
        self.result.findings = self.bugs.found
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
        drawn.sort(key=lambda op: int(op["at"]))
        for end, _ in restarts(drawn, (CLOSED, CRASHED, PAUSED)):
            drawn[end]["returns"] = True
        return drawn

    def settings_of(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a consumer."""
        protocol = config.get(PROTOCOL, "classic")
        settings = {
            "group.id": self.history.group,
            PROTOCOL: protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **{name: value for name, value in config.items() if name != "member.id"},
        }
        if protocol != "classic":
            for name in CLASSIC_ONLY:
                settings.pop(name, None)
            return settings
        settings.pop("group.remote.assignor", None)
        if HEARTBEAT not in config:
            # Members that joined together would heartbeat together for ever; real ones do not.
            interval_ms = min(self._heartbeat_ms, self._session_of(settings) // 3)
            drift_ms = self._choices.integer(0, interval_ms // 10)
            settings[HEARTBEAT] = interval_ms - drift_ms
        return settings

    def _session_of(self, config: Mapping[str, Any]) -> int:
        """Return how long a member without heartbeats stays in the group."""
        if config.get(PROTOCOL, "classic") == "classic":
            return int(config.get("session.timeout.ms", SESSION_MS))
        return int(self.cluster.coordinator.config["group.consumer.session.timeout.ms"])

    # The clock

    def changed(self, really: bool = True, *, for_ms: int = 0) -> None:
        """Take note that something has changed: skip no time until it can have had its effects."""
        if really:
            quiet_ms = for_ms + self._session_ms + QUIET_MS
            self._busy_until_ms = max(self._busy_until_ms, self.schedule.now_ms + quiet_ms)

    def _advance(self, to_ms: int) -> None:
        """Play until a time of the scenario."""
        while (left_ms := to_ms - self.now_ms) > 0:
            if self._is_restless():
                return
            if self.schedule.now_ms >= self._busy_until_ms:
                self._skip(left_ms)
                return
            self.schedule.run_until(self.schedule.now_ms + min(left_ms, STEP_MS))

    def _is_restless(self) -> bool:
        """Whether the group goes on to rebalance with nothing to cause it, which may be for ever.

        Such a play ends: it would cost as much as its time is long.
        """
        at, before = self._happened
        rebalances = self.result.rebalances - before
        long = self.schedule.now_ms - at >= RESTLESS_MS
        if rebalances >= MOST_RESTLESS or (rebalances >= RESTLESS and long):
            self.result.cut_ms = self.now_ms
            return True
        return False

    def _skip(self, passed_ms: int) -> None:
        """Let time pass in which members only heartbeat."""
        self._skipped_ms += passed_ms
        of_broker = self.cluster.coordinator.config["group.consumer.heartbeat.interval.ms"]
        for life in self._lives.values():
            interval_ms = life.settings.get(HEARTBEAT, of_broker)
            self.result.requests += passed_ms // interval_ms

    def _await_generation(self, number: int) -> None:
        while len(self.result.generations) < number and self.schedule.now_ms < self._busy_until_ms:
            self.schedule.run_until(self.schedule.now_ms + STEP_MS // 10)

    # What happens

    def _do(self, op: Mapping[str, Any]) -> None:
        kind, name = op["op"], op.get("consumer", "")
        life = self._lives.get(name)
        self.changed()
        self._happened = self.schedule.now_ms, self.result.rebalances
        self.moments.happened(op)
        if kind == "start":
            self._start(name, op)
        elif kind == "coordinator_stop":
            self.cluster.fail_over(LOAD_MS, config=op.get("config"))
            self.schedule.call_later(LOAD_MS + 1, self.bugs.loaded)
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
        session_ms = self._session_of(life.settings)
        if kind == "subscribe":
            life.subscribe(sorted(op["subscription"]))
        elif kind == "rejoin":
            life.rejoin()
        elif kind == "commit":
            life.commit()
        elif kind == CLOSED:
            life.close()
            member_ms = session_ms if "group.instance.id" in life.settings else 0
            self._over(life, member_ms, returns=op.get("returns", False))
        elif kind == CRASHED:
            life.crash()
            self._over(life, session_ms, returns=op.get("returns", False))
        else:
            life.pause()
            poll_ms = life.settings["max.poll.interval.ms"]
            self._over(life, poll_ms, returns=op.get("returns", False))
            self.changed(for_ms=poll_ms)

    def _start(self, name: str, op: Mapping[str, Any]) -> None:
        config = op["config"]
        prefix: str = config["client.id"]
        if config.get(PROTOCOL, "classic") == "classic":  # its coordinator makes the id
            prefix = config.get("group.instance.id") or prefix
        self._ids.setdefault(prefix, []).append(config["member.id"])
        self._name_of[config["member.id"]] = name
        self.owners.subscribe(op["subscription"], instead_of=self._away.pop(name, ()))
        life = self._lives[name] = _Life(self, name, op)
        self.bugs.started(name, life.settings, life.odd)

    def _over(self, life: _Life, member_ms: int, *, returns: bool = False) -> None:
        """Take note that a client does nothing more; it is a member for so long.

        One that is restarted meanwhile misses its partitions: a deploy of all at once is no rest.
        """
        if self._lives.get(life.name) is life:
            del self._lives[life.name]
            if returns:
                self._away[life.name] = life.topics
            self.schedule.call_later(member_ms, self._left, life, returns)

    def _left(self, life: _Life, returns: bool) -> None:
        if not returns:
            self.owners.subscribe((), instead_of=life.topics)
        if life.paused:  # its listener is not called: the application does not poll
            self.owners.lose_all(life)

    def ended(self, life: _Life, error: KafkaError) -> None:
        """Take note that a client has thrown: its application ends."""
        self.refused(life.name, error, ENDED)
        self.bugs.ended(life.name, self.result.refusals[-1].error, life.settings)
        self.owners.lose_all(life)
        self._over(life, 0)

    def refused(self, client: str, error: KafkaError, what: str) -> None:
        """Take note of an error of a client, by its name in Kafka's protocol if it has one."""
        name = type(error).__name__ if error.error is None else error.error.name
        self.result.refusals.append(Refusal(self.now_ms, client, name, what))
        if what == ENDED:
            self.moments.refused(client, name)
        else:
            self.bugs.commit_refused(client, name)

    def _note(self, at_ms: int, client: str, kind: str, details: Any) -> None:
        if kind == "fenced" and details in JOINS_AGAIN:
            self.result.refusals.append(Refusal(self.now_ms, client, details.name, FENCED))
            self.bugs.fenced(client, details.name)

    def _member_id(self, prefix: str) -> str:
        """Make an id as a coordinator does, PREFIX-UUID: that of the log, if there is one."""
        return self._id_of(prefix, f"{prefix}-", UUID_LENGTH)

    def _client_made_id(self, client_id: str) -> str:
        """Make an id as a client of the consumer protocol does: that of the log, if it is one."""
        return self._id_of(client_id, "", SHORT_UUID_LENGTH)

    def _id_of(self, prefix: str, begin: str, length: int) -> str:
        ids = self._ids.get(prefix)
        of_log = ids.pop(0) if ids else ""
        if of_log and bool(begin) == (len(of_log) > SHORT_UUID_LENGTH):
            return of_log
        self._made_ids += 1
        drawn = sha256(f"{self._seed} {self._made_ids}".encode()).hexdigest()
        made = begin + drawn[:length]
        if of_log:  # of the other protocol
            self._name_of[made] = self._name_of[of_log]
        return made

    def _on_event(self, event: Any) -> None:
        if isinstance(event, Transition | ConsumerGroupChange):
            self._group_changed(event)
        elif isinstance(event, MemberFenced):
            self._fenced = event.member_id
        if not isinstance(event, Append):
            return
        self.result.records += 1
        self.result.record_bytes += len(event.key) + len(event.value or b"")
        version = int.from_bytes(event.key[:2])
        if version == CLASSIC_GROUP and event.value is not None:
            self._generation(event.decoded()["value"])
        elif version in VERSIONS:
            self._epochs.take(event.key, event.value, self.now_ms)

    def _joined(self, member_id: str, prefix: str) -> None:
        """Name a member of a consumer group; the coordinator makes ids of classic members."""
        if member_id not in self._name_of and (ids := self._ids.get(prefix)):
            self._name_of[member_id] = self._name_of[ids.pop(0)]

    def _consumer_of(self, member_id: str) -> str:
        return self._name_of.get(member_id, member_id)

    def _group_changed(self, event: Transition | ConsumerGroupChange) -> None:
        """Take a new state of the group; an epoch is a rebalance of the consumer protocol."""
        self.changed()
        if isinstance(event, Transition):
            state: str | None = event.to
            self.bugs.classic(event.to)
        else:
            state = event.state
            self.bugs.changed(event)
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
            self._numbered(event.group_epoch)
            if not event.members and not self._away:
                self.owners.settle()

    def _numbered(self, number: int) -> None:
        """Count another generation or epoch; a conversion goes on with the number before it."""
        if number != self._number:
            self._number = number
            self.result.rebalances += 1
            self.moments.rebalanced()

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
            if not self.result.generations or not self.result.generations[-1].owners:
                return  # the group was only made: 4.x writes so before the first member has joined
            if not self._away:
                self.owners.settle()
        self._numbered(record["generation_id"])
        self.bugs.generation(record["generation_id"])
        self.result.generations.append(Generation(self.now_ms, record["generation_id"], owners))


def _make_odd(consumer: Consumer, odd: Mapping[str, str]) -> None:
    """Let a consumer write other than Kafka's client does, as a client of one's own may.

    ``user_data``, of the assignments when it leads, and ``metadata``, its subscription: bytes in
    hex, of the classic protocol; ``member_id``: that of an earlier consumer, of the other one.
    """
    member = consumer._member
    if isinstance(member, ConsumerMembership):
        member._member_id = member._heartbeats._member_id = odd["member_id"]
    elif isinstance(member, ClassicMembership):
        for assignor in member._assignors.values():
            assignor.assignment_user_data = bytes.fromhex(odd.get("user_data", "")) or None
        if "metadata" in odd:
            metadata = bytes.fromhex(odd["metadata"])
            member.group._protocols = lambda: dict.fromkeys(member._assignors, metadata)
            member.group._lead = lambda response: {}

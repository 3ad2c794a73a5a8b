"""The first coordinator design (0.9, as planned): one broker assigns a group's partitions.

``coordinator09_messages`` has its requests and responses; here are the data in ZooKeeper and the
two state machines; ``coordinator09_simulation`` has the clock, the network and the crashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from coterie._core.codec.compression import partition_for
from coterie.base.consumer_protocol import Subscription
from coterie.base.schedule import Schedule
from coterie.designs import coordinator09_messages as m
from coterie.designs.coordinator09_messages import Code, GroupRequest, GroupResponse
from coterie.testing.assignors.base import flat
from coterie.testing.assignors.by_turns import RangeAssignor, RoundRobinAssignor

# The data of the 0.9 design in ZooKeeper: topics, groups, and the coordinator of each group.
#
# A group's generation and members are written in one step. Only coordinators watch topics.


NO_COORDINATOR = -1  # the coordinator has died, and none is elected yet


@dataclass(frozen=True, slots=True)
class StoredMember:
    topics: tuple[str, ...]
    session_timeout_ms: int
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class StoredGroup:
    generation_id: int = 0
    strategy: str = ""
    members: Mapping[str, StoredMember] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)  # partitions by topic, when assigned


@dataclass
class Store:
    brokers: tuple[int, ...]
    live: set[int] = field(default_factory=set)
    topics: dict[str, int] = field(default_factory=dict)
    groups: dict[str, StoredGroup] = field(default_factory=dict)
    coordinators: dict[str, int] = field(default_factory=dict)
    operations: int = 0
    watch_events: int = 0

    def read_group(self, group_id: str) -> StoredGroup:
        """Return a group's metadata; that of a new group is empty."""
        self.operations += 1
        return self.groups.get(group_id, StoredGroup())

    def write_group(self, group_id: str, group: StoredGroup) -> None:
        self.operations += 1
        self.groups[group_id] = group

    def read_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each topic; 0 if it does not exist."""
        counts = {topic: self.topics.get(topic, 0) for topic in sorted({*topics})}
        self.operations += len(counts)
        return counts

    def release(self, groups: Iterable[str], broker: int) -> None:
        """Remove a broker as the coordinator of its groups among these."""
        for group_id in groups:
            if self.coordinators[group_id] == broker:
                self.coordinators[group_id] = NO_COORDINATOR

    def elect(self, group_id: str) -> int | None:
        """Return a group's coordinator; if it has died, elect the next live broker.

        The order of brokers starts at the one that the group's name hashes to.
        """
        coordinator = self.coordinators.get(group_id)
        if coordinator in self.live:
            return coordinator
        start = partition_for(group_id, len(self.brokers))
        order = self.brokers[start:] + self.brokers[:start]
        elected = next((broker for broker in order if broker in self.live), None)
        if elected is not None:
            self.coordinators[group_id] = elected
        return elected


# The environment of brokers and consumers of the 0.9 design, as a protocol, and its settings.


@dataclass(frozen=True)
class CoordinatorSettings:
    """Times of the design, in ms, and the number of heartbeats in a session timeout.

    A JoinGroup may take a whole session timeout; its sender waits ``join_patience_ms`` longer.
    """

    delivery_ms: int = 5
    watch_ms: int = 10
    catch_up_ms: int = 1000
    retry_ms: int = 100
    request_timeout_ms: int = 2000
    join_patience_ms: int = 5000
    broker_session_ms: int = 6000
    session_timeout_ms: int = 30000
    heartbeat_frequency: int = 3
    auto_commit_ms: int = 60000
    from_start: bool = True


class World(Protocol):
    broker_ids: Sequence[int]
    settings: CoordinatorSettings
    schedule: Schedule
    store: Store

    def coordinator_of(self, group_id: str) -> int | None:
        """Find the coordinator of a group."""

    def to_broker(self, consumer: Any, broker_id: int, number: int, request: GroupRequest) -> None:
        """Send a request."""

    def to_consumer(self, consumer: Any, number: int, response: GroupResponse) -> None:
        """Send a response."""

    def boundary(self, broker: Any, name: str, group_id: str) -> None:
        """Kill a coordinator at a boundary, if the scenario says so."""

    def log(self, source: str, text: str, detail: str) -> None:
        """Log an event."""

    def rebalance_prepared(self, group_id: str, reason: str) -> None:
        """Record the start of a rebalance."""

    def rebalance_done(self, group_id: str, members: int) -> None:
        """Record a new generation, with its number of members."""

    def take(self, consumer: Any) -> None:
        """Start a consumer's fetching of its partitions."""

    def give(self, consumer: Any, *, commit: bool) -> None:
        """Stop its fetching."""

    def commit(self, consumer: Any) -> None:
        """Commit its progress."""


# A consumer of the 0.9 design: a thin client with the five states of the document.
#
# It has one request in progress at a time. Late responses, from before its last change of state,
# are recognised by the number of the request and ignored.


class ConsumerState(Enum):
    """States of a consumer, as in the document; in the last one it has given up."""

    DOWN = "Down"
    DISCOVER = "Start up & discover coordinator"
    PART = "Part of a group"
    REDISCOVER = "Rediscover coordinator"
    STOPPED = "Stopped consumption"
    FAILED = "Failed"


class CoordinatedConsumer:
    """One consumer of a group."""

    def __init__(
        self,
        world: World,
        name: str,
        group_id: str,
        topics: tuple[str, ...],
        *,
        session_timeout_ms: int,
        strategy: str,
    ) -> None:
        self.world, self.name, self.group_id, self.topics = world, name, group_id, topics
        self.session_timeout_ms, self.strategy = session_timeout_ms, strategy
        self.state = ConsumerState.DOWN
        self.id, self.generation_id = "", 0
        self.partitions: tuple[tuple[str, int], ...] = ()
        self.fetching = False
        self.coordinator: int | None = None
        self.error: Code | None = None
        self.number = 0  # of the present request
        self.last_response_ms = 0
        self.cut = self.held = False
        self.delayed: list[tuple[int, m.GroupResponse]] = []  # while the connection is held
        self._broker_index = len(world.broker_ids) - 1
        self._ids = 0

    @property
    def alive(self) -> bool:
        return self.state not in (ConsumerState.DOWN, ConsumerState.FAILED)

    @property
    def in_group(self) -> str:
        return self.state.value

    def new_id(self) -> str:
        """Return the id that a coordinator gives this consumer, in place of a UUID."""
        self._ids += 1
        return f"{self.name}-{self._ids}"

    # The program

    def start(self) -> None:
        """Start up: find the coordinator, then join."""
        self._enter(ConsumerState.DISCOVER)
        self._discover()
        interval_ms = self.world.settings.auto_commit_ms
        if interval_ms:
            self.world.schedule.call_later(interval_ms, self._commit, interval_ms)

    def close(self) -> None:
        self._stop_fetching(commit=not self.cut)
        if self.coordinator is not None and self.id:
            left = m.LeaveGroupRequest(self.group_id, self.id)
            self.world.to_broker(self, self.coordinator, 0, left)
        self._end(ConsumerState.DOWN)

    def crash(self) -> None:
        """End without a commit and without a request to leave."""
        self._stop_fetching(commit=False)
        self._end(ConsumerState.DOWN)

    def _end(self, state: ConsumerState) -> None:
        self._enter(state)
        self.number += 1

    # The network

    def refused(self, number: int) -> None:
        if number == self.number and self.state is not ConsumerState.PART:
            self._retry()

    def receive(self, number: int, response: m.GroupResponse) -> None:
        if number != self.number:
            return
        self.last_response_ms = self.world.schedule.now_ms
        if isinstance(response, m.ConsumerMetadataResponse):
            self._discovered(response)
        elif isinstance(response, m.JoinGroupResponse):
            self._joined(response)
        else:
            self._heartbeat_answered(response)

    def _send(self, broker: int, request: m.GroupRequest, *, within_ms: int) -> None:
        """Send a request; without a response in time, look for a coordinator."""
        self.number += 1
        self.world.to_broker(self, broker, self.number, request)
        self.world.schedule.call_later(within_ms, self._unanswered, self.number)

    def _unanswered(self, number: int) -> None:
        if number == self.number:
            self._rediscover()

    def _retry(self) -> None:
        """Look for the coordinator again, after a pause."""
        self.number += 1
        pause_ms = self.world.settings.retry_ms
        self.world.schedule.call_later(pause_ms, self._after_pause, self.number)

    def _after_pause(self, number: int) -> None:
        if number == self.number:
            self._discover()

    # States

    def _enter(self, state: ConsumerState) -> None:
        if state is not self.state:
            self.state = state
            self.world.log(self.name, state.value, str(self.generation_id))

    def _discover(self) -> None:
        self._broker_index = (self._broker_index + 1) % len(self.world.broker_ids)
        broker = self.world.broker_ids[self._broker_index]
        patience_ms = self.world.settings.request_timeout_ms
        self._send(broker, m.ConsumerMetadataRequest(self.group_id), within_ms=patience_ms)

    def _rediscover(self) -> None:
        if self.state in (ConsumerState.PART, ConsumerState.STOPPED):
            self._enter(ConsumerState.REDISCOVER)
        self._discover()

    def _discovered(self, response: m.ConsumerMetadataResponse) -> None:
        if response.error is not Code.NONE or response.coordinator is None:
            self._retry()
            return
        self.coordinator = response.coordinator
        if self.state is ConsumerState.REDISCOVER and self.id:
            self._heartbeat()
        else:
            self._join()

    def _join(self) -> None:
        assert self.coordinator is not None
        request = m.JoinGroupRequest(
            self.group_id, self.session_timeout_ms, self.topics, self.id, self.strategy
        )
        patience_ms = self.session_timeout_ms + self.world.settings.join_patience_ms
        self._send(self.coordinator, request, within_ms=patience_ms)

    def _joined(self, response: m.JoinGroupResponse) -> None:
        if response.error is Code.NONE:
            self.id, self.generation_id = response.consumer_id, response.generation_id
            self.partitions = response.partitions
            self._enter(ConsumerState.PART)
            self._fetch()
            self._heartbeat()
        elif response.error is Code.UNKNOWN_CONSUMER_ID:
            self.id = ""
            self._join()
        elif response.error in (
            Code.NOT_COORDINATOR_FOR_GROUP,
            Code.COORDINATOR_STARTUP_NOT_COMPLETE,
        ):
            self._retry()
        else:
            self.error = response.error
            self._end(ConsumerState.FAILED)

    def _heartbeat(self) -> None:
        """Send a heartbeat now, and one at each interval while part of the group."""
        request = m.HeartbeatRequest(self.group_id, self.generation_id, self.id)
        assert self.coordinator is not None
        if self.state is ConsumerState.REDISCOVER:
            self._send(self.coordinator, request, within_ms=self.session_timeout_ms)
            return
        self.number += 1
        self.world.to_broker(self, self.coordinator, self.number, request)
        self._schedule_heartbeat(self.number)

    def _schedule_heartbeat(self, number: int) -> None:
        """Schedule the next heartbeat, or the end of a session without responses."""
        interval_ms = max(1, self.session_timeout_ms // self.world.settings.heartbeat_frequency)
        schedule = self.world.schedule
        session_ends_ms = self.last_response_ms + self.session_timeout_ms
        delay_ms = min(interval_ms, session_ends_ms - schedule.now_ms)
        schedule.call_later(delay_ms, self._heartbeat_due, number)

    def _heartbeat_due(self, number: int) -> None:
        if number != self.number:
            return
        now_ms = self.world.schedule.now_ms
        if now_ms - self.last_response_ms >= self.session_timeout_ms:
            self._rediscover()
            return
        assert self.coordinator is not None
        request = m.HeartbeatRequest(self.group_id, self.generation_id, self.id)
        self.world.to_broker(self, self.coordinator, number, request)
        self._schedule_heartbeat(number)

    def _heartbeat_answered(self, response: m.HeartbeatResponse) -> None:
        if response.error is Code.NONE:
            if self.state is ConsumerState.REDISCOVER:
                self._enter(ConsumerState.PART)
                self._fetch()
                self.number += 1
                self._schedule_heartbeat(self.number)
        elif response.error is Code.ILLEGAL_GENERATION:
            self._stop_and_join()
        elif response.error is Code.UNKNOWN_CONSUMER_ID:
            self.id = ""
            self._stop_and_join()
        else:  # not the coordinator, or not yet
            if self.state is ConsumerState.PART:
                self._enter(ConsumerState.REDISCOVER)
            self._retry()

    def _stop_and_join(self) -> None:
        self._enter(ConsumerState.STOPPED)
        self._stop_fetching(commit=True)
        self._join()

    # Fetching

    def _fetch(self) -> None:
        if not self.fetching:
            self.fetching = True
            self.world.take(self)

    def _stop_fetching(self, *, commit: bool) -> None:
        if self.fetching:
            self.fetching = False
            self.world.give(self, commit=commit)

    def _commit(self, interval_ms: int) -> None:
        if self.alive:
            if self.state is ConsumerState.PART and not self.cut:
                self.world.commit(self)
            self.world.schedule.call_later(interval_ms, self._commit, interval_ms)


# A coordinator of the 0.9 design: its states, its responses and its rebalances.
#
# A broker is Down, catches up with the groups that it takes over, and is Ready. Each of its groups
# is Ready, in Prepare for rebalance, or in Rebalancing. Where the document is silent, the code of
# 2015 decides. A broker may die at each boundary (:data:`BOUNDARIES`): the call of ``boundary``
# then raises :class:`Died`, so that nothing after it happens.


ASSIGNORS = {each.name: each() for each in (RangeAssignor, RoundRobinAssignor)}

BOUNDARIES = {
    "received": "a request has arrived, and is not handled",
    "catching up": "the broker was elected, and has read nothing",
    "prepared": "a rebalance is prepared, and no consumer knows",
    "told": "a consumer was told IllegalGeneration",
    "joined": "a JoinGroup has arrived and waits",
    "writing": "generation and assignment are made, and not written",
    "written": "they are written, and nobody has an answer",
    "answered": "a JoinGroup was answered",
    "ready": "all consumers have shown the new generation",
}


class Died(Exception):
    """The broker dies at this boundary."""


class CoordinatorState(Enum):
    DOWN = "Down"
    CATCH_UP = "Catch up"
    READY = "Ready"
    PREPARE = "Prepare for rebalance"
    REBALANCING = "Rebalancing"


@dataclass(slots=True)
class CoordinatedMember:
    topics: tuple[str, ...]
    session_timeout_ms: int
    deadline_ms: int = field(init=False)
    partitions: tuple[tuple[str, int], ...] = ()
    connection: Any = None  # of a consumer that joined without an id
    pending_join: tuple[Any, int] | None = None  # sender and number of its JoinGroup
    answered: bool = False  # with the present generation, by this broker


@dataclass(slots=True)
class CoordinatedGroup:
    name: str
    state: CoordinatorState
    generation_id: int = field(init=False)
    strategy: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    members: dict[str, CoordinatedMember] = field(default_factory=dict)
    preparations: int = 0  # rebalances prepared so far; identifies the timer of one
    to_join: set[str] = field(default_factory=set)  # members whose JoinGroup is awaited
    to_show: set[str] = field(default_factory=set)  # members silent in the new generation

    @property
    def topics(self) -> set[str]:
        return {topic for member in self.members.values() for topic in member.topics}


class CoordinatorBroker:
    """A broker; it loses its memory when it dies."""

    def __init__(self, world: World, broker_id: int) -> None:
        self.world, self.id = world, broker_id
        self.life = 0  # number of starts; timers of an earlier life are ignored
        self.alive = False
        self.groups: dict[str, CoordinatedGroup] = {}

    def start(self) -> None:
        self.life += 1
        self.alive, self.groups = True, {}

    def kill(self) -> None:
        """Die at once."""
        self.alive, self.groups = False, {}

    def guarded(self, life: int, function: Callable[..., None], *args: Any) -> None:
        """Call a function unless the broker has died since; it may die in the call."""
        if self.alive and life == self.life:
            with suppress(Died):
                function(*args)

    def _call_later(self, ms: int, function: Callable[..., None], *args: Any) -> None:
        self.world.schedule.call_later(ms, self.guarded, self.life, function, *args)

    def _boundary(self, boundary: str, group_id: str) -> None:
        self.world.boundary(self, boundary, group_id)

    def _enter(self, group: CoordinatedGroup, state: CoordinatorState) -> None:
        group.state = state
        self.world.log(f"broker {self.id}", state.value, group.name)

    # Taking over a group

    def elected(self, name: str) -> None:
        group = self.groups[name] = CoordinatedGroup(name, CoordinatorState.CATCH_UP)
        self._enter(group, CoordinatorState.CATCH_UP)
        self._call_later(self.world.settings.catch_up_ms, self._catch_up, group)
        self._boundary("catching up", name)

    def _catch_up(self, group: CoordinatedGroup) -> None:
        """Read the group; each member has a session timeout from now to send a request."""
        stored = self.world.store.read_group(group.name)
        group.generation_id, group.strategy = stored.generation_id, stored.strategy
        group.counts = dict(stored.counts)
        for name, one in stored.members.items():
            member = CoordinatedMember(one.topics, one.session_timeout_ms)
            member.partitions = one.partitions
            group.members[name] = member
            self._start_session(group, name, member)
        self._enter(group, CoordinatorState.READY)
        self.topics_changed(group)

    # Requests

    def handle(self, sender: Any, number: int, request: m.GroupRequest) -> None:
        """Answer a request now or later."""
        self._boundary("received", request.group_id)
        if isinstance(request, m.ConsumerMetadataRequest):
            coordinator = self.world.coordinator_of(request.group_id)
            error = Code.COORDINATOR_NOT_AVAILABLE if coordinator is None else Code.NONE
            self._answer(sender, number, m.ConsumerMetadataResponse(error, coordinator))
            return
        group = self.groups.get(request.group_id)
        is_join = isinstance(request, m.JoinGroupRequest)
        if group is None or group.state is CoordinatorState.CATCH_UP:
            code = Code.COORDINATOR_STARTUP_NOT_COMPLETE
            if group is None:
                code = Code.NOT_COORDINATOR_FOR_GROUP
            refusal = m.JoinGroupResponse(code) if is_join else m.HeartbeatResponse(code)
            self._answer(sender, number, refusal)
        elif isinstance(request, m.HeartbeatRequest):
            self._heartbeat(group, sender, number, request)
        elif isinstance(request, m.JoinGroupRequest):
            self._join(group, sender, number, request)
        elif request.consumer_id in group.members:
            self._remove(group, request.consumer_id, "left")

    def _answer(self, sender: Any, number: int, response: m.GroupResponse) -> None:
        self.world.to_consumer(sender, number, response)

    def _heartbeat(
        self, group: CoordinatedGroup, sender: Any, number: int, request: m.HeartbeatRequest
    ) -> None:
        member = group.members.get(request.consumer_id)
        if member is None:
            self._answer(sender, number, m.HeartbeatResponse(Code.UNKNOWN_CONSUMER_ID))
            return
        self._extend_session(member)
        if request.generation_id != group.generation_id or group.state is CoordinatorState.PREPARE:
            self._answer(sender, number, m.HeartbeatResponse(Code.ILLEGAL_GENERATION))
            self.world.log(f"broker {self.id}", "told IllegalGeneration", request.consumer_id)
            self._boundary("told", group.name)
            return
        self._answer(sender, number, m.HeartbeatResponse(Code.NONE))
        self.shown(group, request.consumer_id)

    def shown(self, group: CoordinatedGroup, consumer_id: str) -> None:
        """Handle a heartbeat or a commit of the present generation."""
        if group.state is CoordinatorState.REBALANCING:
            group.to_show.discard(consumer_id)
            self._ready_if_all_have_shown(group)

    def _join(
        self, group: CoordinatedGroup, sender: Any, number: int, request: m.JoinGroupRequest
    ) -> None:
        error = self._join_error(group, request)
        if error is not None:
            self._answer(sender, number, m.JoinGroupResponse(error))
            return
        name = request.consumer_id or self._id_for(group, sender)
        member = group.members.get(name)
        unchanged = member is not None and member.topics == request.topics
        if (
            member is not None
            and unchanged
            and member.answered
            and group.state is not CoordinatorState.PREPARE
        ):
            self._extend_session(member)  # a repeated request, and nothing has changed
            self._answer(sender, number, self._share(group, name, member))
            return
        if member is None:
            member = CoordinatedMember(request.topics, request.session_timeout_ms)
            member.connection = sender
            group.members[name] = member
            self._start_session(group, name, member)
        member.topics, member.session_timeout_ms = request.topics, request.session_timeout_ms
        group.strategy = request.strategy
        self._extend_session(member)
        member.pending_join = sender, number
        if group.state is not CoordinatorState.PREPARE:
            self._prepare(group, "a consumer joins")
        group.to_join.discard(name)
        self._boundary("joined", group.name)
        self._rebalance_if_all_have_joined(group)

    def _join_error(self, group: CoordinatedGroup, request: m.JoinGroupRequest) -> Code | None:
        """Return the error of a JoinGroup, checked in the order of the code of 2015."""
        if request.strategy not in ASSIGNORS:
            return Code.UNKNOWN_STRATEGY
        if group.strategy not in ("", request.strategy):  # "": it has no members
            return Code.INCONSISTENT_STRATEGY
        if request.consumer_id and request.consumer_id not in group.members:
            return Code.UNKNOWN_CONSUMER_ID
        return None

    def _id_for(self, group: CoordinatedGroup, sender: Any) -> str:
        """Return an id for a consumer without one; the same connection always gets the same id."""
        for name, member in group.members.items():
            if member.connection is sender:
                return name
        new_id: str = sender.new_id()
        return new_id

    # Failure detection

    def _extend_session(self, member: CoordinatedMember) -> None:
        member.deadline_ms = self.world.schedule.now_ms + member.session_timeout_ms

    def _start_session(self, group: CoordinatedGroup, name: str, member: CoordinatedMember) -> None:
        self._extend_session(member)
        self._check_session(group, name, member)

    def _check_session(self, group: CoordinatedGroup, name: str, member: CoordinatedMember) -> None:
        """Remove a member after its deadline, which a pending join extends."""
        if group.members.get(name) is not member:
            return
        if member.pending_join is not None:
            self._extend_session(member)
        remaining_ms = member.deadline_ms - self.world.schedule.now_ms
        if remaining_ms > 0:
            self._call_later(remaining_ms, self._check_session, group, name, member)
        else:
            self._remove(group, name, "is dead")

    def _remove(self, group: CoordinatedGroup, name: str, reason: str) -> None:
        del group.members[name]
        group.to_join.discard(name)
        self.world.log(f"broker {self.id}", reason, name)
        if group.state is not CoordinatorState.PREPARE:
            self._prepare(group, f"{name} {reason}")
        self._rebalance_if_all_have_joined(group)

    # Rebalances

    def topics_changed(self, group: CoordinatedGroup) -> None:
        """Rebalance if the topics' partitions differ from the assigned ones."""
        if (
            group.state is CoordinatorState.CATCH_UP
            or group.state is CoordinatorState.PREPARE
            or not group.members
        ):
            return  # in these states the topics are read later
        if self.world.store.read_counts(group.topics) != group.counts:
            self._prepare(group, "topics changed")

    def _prepare(self, group: CoordinatedGroup, reason: str) -> None:
        self._enter(group, CoordinatorState.PREPARE)
        group.preparations += 1
        if group.members:
            longest_ms = max(one.session_timeout_ms for one in group.members.values())
            self._call_later(longest_ms, self._end_preparation, group, group.preparations)
        group.to_join = {name for name, one in group.members.items() if not one.pending_join}
        self.world.rebalance_prepared(group.name, reason)
        self._boundary("prepared", group.name)

    def _end_preparation(self, group: CoordinatedGroup, preparation: int) -> None:
        if group.state is CoordinatorState.PREPARE and group.preparations == preparation:
            joined = {name: one for name, one in group.members.items() if one.pending_join}
            group.members = joined
            self._rebalance(group)

    def _rebalance_if_all_have_joined(self, group: CoordinatedGroup) -> None:
        if not group.to_join:
            self._rebalance(group)

    def _rebalance(self, group: CoordinatedGroup) -> None:
        """Start a generation: assign, write everything in one step, and answer."""
        members = group.members
        self._enter(group, CoordinatorState.REBALANCING)
        group.to_show = {*members}
        group.counts = self.world.store.read_counts(group.topics) if members else {}
        group.generation_id += 1  # of an empty group too, so no number is written twice
        if members:
            self._assign(group)
        else:
            group.strategy = ""
        self._boundary("writing", group.name)
        self.world.store.write_group(group.name, self._stored(group))
        self.world.log(f"broker {self.id}", "wrote generation", str(group.generation_id))
        self._boundary("written", group.name)
        self.world.rebalance_done(group.name, len(members))
        for name, member in members.items():
            pending_join, member.pending_join = member.pending_join, None
            member.answered = True
            self._extend_session(member)
            if pending_join is not None:
                self._answer(*pending_join, self._share(group, name, member))
                self._boundary("answered", group.name)
        self._ready_if_all_have_shown(group)

    def _assign(self, group: CoordinatedGroup) -> None:
        subscriptions = {
            name: Subscription(0, tuple(member.topics)) for name, member in group.members.items()
        }
        assignment = ASSIGNORS[group.strategy].assign(subscriptions, group.counts)
        for name, member in group.members.items():
            member.partitions = tuple(sorted(flat(assignment[name])))

    def _stored(self, group: CoordinatedGroup) -> StoredGroup:
        members = {
            name: StoredMember(one.topics, one.session_timeout_ms, one.partitions)
            for name, one in group.members.items()
        }
        return StoredGroup(group.generation_id, group.strategy, members, dict(group.counts))

    def _share(
        self, group: CoordinatedGroup, name: str, member: CoordinatedMember
    ) -> m.JoinGroupResponse:
        return m.JoinGroupResponse(Code.NONE, group.generation_id, name, member.partitions)

    def _ready_if_all_have_shown(self, group: CoordinatedGroup) -> None:
        if not group.to_show:
            self._enter(group, CoordinatorState.READY)
            self._boundary("ready", group.name)
            self.topics_changed(group)  # reads the topics, which sets the one-time watches again

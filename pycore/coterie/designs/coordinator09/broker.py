"""A coordinator of the 0.9 design: its states, its responses and its rebalances.

A broker is Down, catches up with the groups that it takes over, and is Ready. Each of its groups is
Ready, in Prepare for rebalance, or in Rebalancing. Where the document is silent, the code of 2015
decides. A broker may die at each boundary (:data:`BOUNDARIES`): the call of ``boundary`` then
raises :class:`Died`, so that nothing after it happens.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from coterie.designs.coordinator09 import messages as m
from coterie.designs.coordinator09.messages import Code
from coterie.designs.coordinator09.store import StoredGroup, StoredMember
from coterie.designs.coordinator09.world import World
from coterie.log.consumer_protocol import Subscription
from coterie.testing.assignors.base import flat
from coterie.testing.assignors.by_turns import RangeAssignor, RoundRobinAssignor

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
    """States of a coordinator, as in the document."""

    DOWN = "Down"
    CATCH_UP = "Catch up"
    READY = "Ready"
    PREPARE = "Prepare for rebalance"
    REBALANCING = "Rebalancing"


@dataclass(slots=True)
class CoordinatedMember:
    """A member, in the memory of its coordinator."""

    topics: tuple[str, ...]
    session_timeout_ms: int
    deadline_ms: int = field(init=False)
    partitions: tuple[tuple[str, int], ...] = ()
    connection: Any = None  # of a consumer that joined without an id
    pending_join: tuple[Any, int] | None = None  # sender and number of its JoinGroup
    answered: bool = False  # with the present generation, by this broker


@dataclass(slots=True)
class CoordinatedGroup:
    """A group, in the memory of its coordinator."""

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
        """Topics of all members."""
        return {topic for member in self.members.values() for topic in member.topics}


class CoordinatorBroker:
    """A broker; it loses its memory when it dies.

    Parameters
    ----------
    world
        Its clock, network and store.
    broker_id
        Its id.
    """

    def __init__(self, world: World, broker_id: int) -> None:
        self.world, self.id = world, broker_id
        self.life = 0  # number of starts; timers of an earlier life are ignored
        self.alive = False
        self.groups: dict[str, CoordinatedGroup] = {}

    def start(self) -> None:
        """Start with an empty memory."""
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
        """Become the coordinator of a group, and catch up."""
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

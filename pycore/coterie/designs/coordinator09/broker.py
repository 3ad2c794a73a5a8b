"""A broker as a coordinator of the 0.9 design: its states, what it answers, when it rebalances.

The broker is Down, catches up with the groups that it takes over, and is Ready; each of its groups
is Ready, in Prepare for rebalance, or in Rebalancing. What the document leaves open follows the
code of 2015. The broker may die at each boundary (:data:`BOUNDARIES`): whatever calls
``boundary`` then gets :class:`Died`, so that nothing after it happens.
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
from coterie.testing import ASSIGNORS

BOUNDARIES = {
    "received": "a message has arrived, and is not handled",
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
    """The broker died here."""


class CoordinatorState(Enum):
    """States of a coordinator, those of the document."""

    DOWN = "Down"
    CATCH_UP = "Catch up"
    READY = "Ready"
    PREPARE = "Prepare for rebalance"
    REBALANCING = "Rebalancing"


@dataclass(slots=True)
class CoordinatedMember:
    """A member, as the coordinator keeps it."""

    topics: tuple[str, ...]
    session_timeout_ms: int
    host: str
    deadline_ms: int = 0
    partitions: tuple[tuple[str, int], ...] = ()
    connection: Any = None  # of the consumer without an id that this broker took in
    waiting: tuple[Any, int] | None = None  # whose JoinGroup waits, and its number
    told: bool = False  # this broker answered its join with the present generation


@dataclass(slots=True)
class CoordinatedGroup:
    """A group, in the memory of its coordinator."""

    name: str
    state: CoordinatorState
    generation_id: int = 0
    strategy: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    members: dict[str, CoordinatedMember] = field(default_factory=dict)
    preparing: int = 0  # how many rebalances were prepared: names the timer of one
    to_join: set[str] = field(default_factory=set)  # whose JoinGroup a rebalance waits for
    to_show: set[str] = field(default_factory=set)  # who has not shown the new generation

    @property
    def topics(self) -> set[str]:
        """Topics that any member subscribes to."""
        return {topic for member in self.members.values() for topic in member.topics}


class CoordinatorBroker:
    """One broker; what it remembers ends with its life.

    Parameters
    ----------
    world
        Where it runs: clock, network and store.
    broker_id
        Its id.
    """

    def __init__(self, world: World, broker_id: int) -> None:
        self.world, self.id = world, broker_id
        self.life = 0  # counts its lives: a timer of an earlier one does nothing
        self.alive = False
        self.groups: dict[str, CoordinatedGroup] = {}

    def start(self) -> None:
        """Come up, knowing nothing."""
        self.life += 1
        self.alive, self.groups = True, {}

    def kill(self) -> None:
        """Go down at once."""
        self.alive, self.groups = False, {}

    def guarded(self, life: int, function: Callable[..., None], *args: Any) -> None:
        """Call a function, if the broker still has this life; it may die meanwhile."""
        if self.alive and life == self.life:
            with suppress(Died):
                function(*args)

    def _later(self, ms: int, function: Callable[..., None], *args: Any) -> None:
        self.world.schedule.call_later(ms, self.guarded, self.life, function, *args)

    def _at(self, boundary: str, group_id: str) -> None:
        self.world.boundary(self, boundary, group_id)

    def _enter(self, group: CoordinatedGroup, state: CoordinatorState) -> None:
        group.state = state
        self.world.log(f"broker {self.id}", state.value, group.name)

    # Taking a group over

    def elected(self, name: str) -> None:
        """Become the coordinator of a group: catch up first."""
        group = self.groups[name] = CoordinatedGroup(name, CoordinatorState.CATCH_UP)
        self._enter(group, CoordinatorState.CATCH_UP)
        self._later(self.world.settings.catch_up_ms, self._catch_up, group)
        self._at("catching up", name)

    def _catch_up(self, group: CoordinatedGroup) -> None:
        """Read the group; every member has one session timeout from now to be heard."""
        stored = self.world.store.read_group(group.name)
        group.generation_id, group.strategy = stored.generation_id, stored.strategy
        group.counts = dict(stored.counts)
        for name, one in stored.members.items():
            member = CoordinatedMember(one.topics, one.session_timeout_ms, one.host)
            member.partitions = one.partitions
            group.members[name] = member
            self._watch_over(group, name, member)
        self._enter(group, CoordinatorState.READY)
        self.topics_changed(group)

    # Requests

    def handle(self, sender: Any, number: int, request: m.GroupRequest) -> None:
        """Answer a request, or keep it waiting."""
        self._at("received", request.group_id)
        if isinstance(request, m.ConsumerMetadataRequest):
            found = self.world.coordinator_of(request.group_id)
            error = Code.COORDINATOR_NOT_AVAILABLE if found is None else Code.NONE
            self._answer(sender, number, m.ConsumerMetadataResponse(error, found))
            return
        group = self.groups.get(request.group_id)
        joins = isinstance(request, m.JoinGroupRequest)
        if group is None or group.state is CoordinatorState.CATCH_UP:
            code = Code.COORDINATOR_STARTUP_NOT_COMPLETE
            if group is None:
                code = Code.NOT_COORDINATOR_FOR_GROUP
            refusal = m.JoinGroupResponse(code) if joins else m.HeartbeatResponse(code)
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
        self._heard(member)
        if request.generation_id != group.generation_id or group.state is CoordinatorState.PREPARE:
            self._answer(sender, number, m.HeartbeatResponse(Code.ILLEGAL_GENERATION))
            self.world.log(f"broker {self.id}", "told IllegalGeneration", request.consumer_id)
            self._at("told", group.name)
            return
        self._answer(sender, number, m.HeartbeatResponse(Code.NONE))
        self.shown(group, request.consumer_id)

    def shown(self, group: CoordinatedGroup, consumer_id: str) -> None:
        """Take note of a heartbeat or a commit of the present generation."""
        if group.state is CoordinatorState.REBALANCING:
            group.to_show.discard(consumer_id)
            self._ready_if_all_have_shown(group)

    def _join(
        self, group: CoordinatedGroup, sender: Any, number: int, request: m.JoinGroupRequest
    ) -> None:
        refused = self._why_not(group, request)
        if refused is not None:
            self._answer(sender, number, m.JoinGroupResponse(refused))
            return
        name = request.consumer_id or self._id_for(group, sender)
        member = group.members.get(name)
        known = member is not None and member.topics == request.topics
        if (
            member is not None
            and known
            and member.told
            and group.state is not CoordinatorState.PREPARE
        ):
            self._heard(member)  # it asked twice, and nothing has changed
            self._answer(sender, number, self._share(group, name, member))
            return
        if member is None:
            member = group.members[name] = CoordinatedMember(request.topics, 0, sender.name)
            member.connection = sender
            self._watch_over(group, name, member, request.session_timeout_ms)
        member.topics, member.session_timeout_ms = request.topics, request.session_timeout_ms
        group.strategy = group.strategy or request.strategy
        self._heard(member)
        member.waiting = sender, number
        if group.state is not CoordinatorState.PREPARE:
            self._prepare(group, "a consumer joins")
        group.to_join.discard(name)
        self._at("joined", group.name)
        self._rebalance_if_all_have_joined(group)

    def _why_not(self, group: CoordinatedGroup, request: m.JoinGroupRequest) -> Code | None:
        """Why a JoinGroup is refused, in the order of the code of 2015."""
        if request.strategy not in ASSIGNORS:
            return Code.UNKNOWN_STRATEGY
        if group.strategy and group.strategy != request.strategy and group.members:
            return Code.INCONSISTENT_STRATEGY
        if request.consumer_id and request.consumer_id not in group.members:
            return Code.UNKNOWN_CONSUMER_ID
        return None

    def _id_for(self, group: CoordinatedGroup, sender: Any) -> str:
        """Return an id for a consumer without one: what its connection got, if it asked before."""
        for name, member in group.members.items():
            if member.connection is sender:
                return name
        found: str = sender.new_id()
        return found

    # Failure detection

    def _heard(self, member: CoordinatedMember) -> None:
        member.deadline_ms = self.world.schedule.now_ms + member.session_timeout_ms

    def _watch_over(
        self, group: CoordinatedGroup, name: str, member: CoordinatedMember, ms: int | None = None
    ) -> None:
        member.session_timeout_ms = member.session_timeout_ms if ms is None else ms
        self._heard(member)
        self._later(member.session_timeout_ms, self._is_it_dead, group, name, member)

    def _is_it_dead(self, group: CoordinatedGroup, name: str, member: CoordinatedMember) -> None:
        """Look again at the member's deadline; one that waits for its join's answer lives."""
        if group.members.get(name) is not member:
            return
        if member.waiting is not None:
            self._heard(member)
        left = member.deadline_ms - self.world.schedule.now_ms
        if left > 0:
            self._later(left, self._is_it_dead, group, name, member)
        else:
            self._remove(group, name, "is dead")

    def _remove(self, group: CoordinatedGroup, name: str, why: str) -> None:
        del group.members[name]
        group.to_join.discard(name)
        self.world.log(f"broker {self.id}", why, name)
        if group.state is not CoordinatorState.PREPARE:
            self._prepare(group, f"{name} {why}")
        self._rebalance_if_all_have_joined(group)

    # Rebalances

    def topics_changed(self, group: CoordinatedGroup) -> None:
        """Compare the topics of a group with what was assigned: a watch fired, or it is new."""
        if (
            group.state is CoordinatorState.CATCH_UP
            or group.state is CoordinatorState.PREPARE
            or not group.members
        ):
            return  # whoever is not Ready reads the topics later
        if self.world.store.read_counts(group.topics) != group.counts:
            self._prepare(group, "topics changed")

    def _prepare(self, group: CoordinatedGroup, why: str) -> None:
        self._enter(group, CoordinatorState.PREPARE)
        group.preparing += 1
        if group.members:
            most = max(one.session_timeout_ms for one in group.members.values())
            self._later(most, self._waited_enough, group, group.preparing)
        for member in group.members.values():
            member.told = False
        group.to_join = {name for name, one in group.members.items() if not one.waiting}
        self.world.rebalance_prepared(group.name, why)
        self._at("prepared", group.name)

    def _waited_enough(self, group: CoordinatedGroup, preparing: int) -> None:
        if group.state is CoordinatorState.PREPARE and group.preparing == preparing:
            joined = {name: one for name, one in group.members.items() if one.waiting}
            group.members = joined
            self._rebalance(group)

    def _rebalance_if_all_have_joined(self, group: CoordinatedGroup) -> None:
        if not group.to_join:
            self._rebalance(group)

    def _rebalance(self, group: CoordinatedGroup) -> None:
        """Raise the generation, assign, write all in one step, and answer."""
        members = group.members
        self._enter(group, CoordinatorState.REBALANCING)
        group.to_show = {*members}
        group.counts = self.world.store.read_counts(group.topics) if members else {}
        group.generation_id += 1  # of an empty group too: no number is written twice
        if members:
            self._assign(group)
        else:
            group.strategy = ""
        self._at("writing", group.name)
        self.world.store.write_group(group.name, self._stored(group))
        self.world.log(f"broker {self.id}", "wrote generation", str(group.generation_id))
        self._at("written", group.name)
        self.world.rebalance_done(group.name, len(members))
        for name, member in members.items():
            waiting, member.waiting = member.waiting, None
            member.told = True
            self._heard(member)
            if waiting is not None:
                self._answer(*waiting, self._share(group, name, member))
                self._at("answered", group.name)
        self._ready_if_all_have_shown(group)

    def _assign(self, group: CoordinatedGroup) -> None:
        topics = {name: member.topics for name, member in group.members.items()}
        plan = ASSIGNORS[group.strategy](topics, group.counts, sorted(topics))
        for name, member in group.members.items():
            member.partitions = tuple((t, p) for t, held in plan[name].items() for p in held)

    def _stored(self, group: CoordinatedGroup) -> StoredGroup:
        members = {
            name: StoredMember(one.topics, one.session_timeout_ms, one.partitions, one.host)
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
            self._at("ready", group.name)
            self.topics_changed(group)  # watches fire once: it reads the topics to set them again

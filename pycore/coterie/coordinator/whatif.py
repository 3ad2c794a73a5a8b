"""Run a trace under other settings, and compare rebalances, evictions and times.

Clients are replayed, not bytes. A request carries the member id and the generation that its client
got in the changed run. A client that learns of a rebalance, or that it is unknown, joins and syncs
at once, as real clients do. A request that is wrong in the trace, with a stale generation for
example, stays wrong. ``whatif_consumers`` has the clients of the consumer protocol.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie._core.coordinator.coordinator import Coordinator
from coterie._core.coordinator.offsets import Trace
from coterie.base.operations import NUMBER
from coterie.consumer_groups import ConsumerGroupChange
from coterie.coordinator.config import coordinator_config
from coterie.coordinator.consumer_fields import read_metadata
from coterie.coordinator.fields import MemberOf
from coterie.coordinator.group_coordinator import GroupCoordinator
from coterie.coordinator.whatif_consumers import (
    CLIENT_ID,
    STATES,
    ConsumerClient,
    epochs_and_states,
    timed_out,
)
from coterie.errors import CoterieError
from coterie.events import Response, Transition
from coterie.values import Error

_REJOIN = {Error.REBALANCE_IN_PROGRESS, Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID}
_STALE = {Error.ILLEGAL_GENERATION, Error.STALE_MEMBER_EPOCH, Error.UNKNOWN_MEMBER_ID,
          Error.GROUP_ID_NOT_FOUND}  # fmt: skip
_SESSION = 2  # index into a join's details
_NO_GENERATION = -1  # of a request that has none, as a join, and of a client before its first one
_HEARTBEAT, _GROUP_CONFIG = NUMBER["consumer_group_heartbeat"], NUMBER["group_config"]
CLASSIC_STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
_GROUP_SESSION = "consumer.session.timeout.ms"  # of a group's own settings


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes: settings, session timeouts by client id, clients that become static."""

    config: Mapping[str, Any] = field(default_factory=dict)
    scale_session: Mapping[str, float] = field(default_factory=dict)
    static: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Summary:
    """The measures of a run; times are ms, summed over the groups."""

    rebalances: int
    generations: int
    session_evictions: int
    rebalance_evictions: int
    sync_evictions: int
    refused_requests: int
    ms_in_state: dict[str, int]

    def rows(self) -> dict[str, int]:
        """Return the measures by name, in the order of the table."""
        head = {
            "rebalances": self.rebalances,
            "generations": self.generations,
            "evicted by session timeout": self.session_evictions,
            "evicted by rebalance timeout": self.rebalance_evictions,
            "evicted by sync timeout": self.sync_evictions,
            "refused requests": self.refused_requests,
        }
        return head | {f"ms in {state}": ms for state, ms in self.ms_in_state.items()}


@dataclass(slots=True)
class _Client:
    """A client of a group: its member id and generation in the changed run."""

    last_ms: int = 0  # of its last request as a member
    recorded_generation: int = _NO_GENERATION
    member_id: str = ""
    generation_id: int = _NO_GENERATION
    join: tuple[Any, ...] | None = None
    group_id: str | None = None
    instance: str | None = None
    consumer: ConsumerClient = field(default_factory=ConsumerClient)
    is_joining: bool = False  # its join is not answered
    syncs_itself: bool = False  # the trace has no sync after its join


def _recorded(trace: Trace) -> dict[int, Any]:
    """Return the responses of the unchanged run, by request id."""
    events = _started(trace).play(trace).events()
    return {e.id: e.response for e in events if isinstance(e, Response)}


def _started(trace: Trace) -> Coordinator:
    """Return a coordinator with the settings and the topics of a trace."""
    core = Coordinator(coordinator_config(trace.header.get("config")))
    if trace.header.get("version") == 2:
        core.set_image(*read_metadata(trace.header))
    return core


def _was_accepted(recorded: Any) -> bool:
    """Whether a recorded request was one of a member of the generation, or has no response."""
    if recorded is None or getattr(recorded, "error", None) not in (Error.NONE, None):
        return recorded is None
    partitions = getattr(recorded, "partitions", ())
    return not any(getattr(partition, "error", None) in _STALE for partition in partitions)


def _has_left(recorded: Any, place: int) -> bool:
    """Whether a recorded leave removed the member at this place, or has no response."""
    if recorded is None:
        return True
    errors = [recorded.error, *(member.error for member in recorded.members[place : place + 1])]
    return errors == [Error.NONE, Error.NONE]


class _Replay:
    def __init__(self, trace: Trace, changes: Changes) -> None:
        config = {**(trace.header.get("config") or {}), **changes.config}
        self.trace, self.changes = trace, changes
        self.core = GroupCoordinator(config)
        if trace.header.get("version") == 2:
            self.core._core.set_image(*read_metadata(trace.header))
        self.session_ms: dict[str | None, int] = {}  # of groups with a timeout of their own
        self.session_evictions = self.rebalance_evictions = 0  # of consumer groups
        self.answers = _recorded(trace)
        self.by_id: dict[tuple[str | None, str], _Client] = {}  # ids of the recorded run
        self.members: dict[tuple[str | None, str], _Client] = {}  # ids of the changed run
        self.owner: dict[int, _Client] = {}
        self.assigned: dict[str, bytes] = {}
        self.events: list[Any] = []
        self.next_id = trace.last_id + 1

    def run(self) -> None:
        for (
            _,
            at,
            op,
            request_id,
            group_id,
            generation,
            member,
            instance,
            details,
        ) in self.trace.requests():
            self.advance(at)
            member, details = self.with_ids(member), self.with_ids(details)
            handler = {NUMBER["join_group"]: self.join, NUMBER["leave_group"]: self.leave}
            if op == _HEARTBEAT:
                self.heartbeat(request_id, group_id, generation, member, instance, details)
            elif op in handler:
                handler[op](request_id, group_id, member, instance, details)
            elif member or op in (NUMBER["sync_group"], NUMBER["heartbeat"]):
                self.as_member(op, request_id, group_id, generation, member, instance, details)
            else:
                if op == _GROUP_CONFIG:
                    timeout_ms = (details[0] or {}).get(_GROUP_SESSION)
                    self.session_ms[group_id] = timeout_ms or self.default_session_ms
                self.ask(op, request_id, group_id, generation, member, instance, details)
        self.advance(at if self.trace.count else 0)

    def with_ids(self, value: Any) -> Any:
        """Replace each ``member_id_of`` by the member id of that response in the recorded run."""
        if isinstance(value, MemberOf):
            return self.answers[value.request_id].member_id
        if type(value) is tuple:
            return tuple(map(self.with_ids, value))
        if type(value) is dict:
            return {self.with_ids(key): item for key, item in value.items()}
        return value

    def advance(self, at: int) -> None:
        """Advance to a time from deadline to deadline; clients react at each."""
        while (due := self.core.next_deadline_ms()) is not None and due < at:
            self.core.advance(max(due, self.core.now_ms))
            self.react(timers=True)
        self.core.advance(at)
        self.react(timers=True)

    def ask(self, op: int, request_id: int, *request: Any) -> None:
        self.core._core.call(op, request_id, *request)
        self.core._drain()
        self.react()

    def client_of(self, group_id: str | None, member: str) -> _Client:
        client = self.by_id.get((group_id, member)) or _Client(member_id=member)
        if member:
            self.by_id[group_id, member] = client
        return client

    def join(
        self, request_id: int, group_id: str | None, member: str, instance: str | None,
        details: tuple[Any, ...],
    ) -> None:  # fmt: skip
        client_id, changed = details[4], list(details)
        if client_id in self.changes.scale_session:
            changed[_SESSION] = int(changed[_SESSION] * self.changes.scale_session[client_id])
        if client_id in self.changes.static and instance is None:
            instance = client_id
        client = self.client_of(group_id, member)
        client.join, client.group_id, client.instance = tuple(changed), group_id, instance
        client.last_ms = self.core.now_ms
        self.owner[request_id] = client
        recorded = self.answers.get(request_id)
        if recorded is not None and recorded.member_id:
            self.by_id[group_id, recorded.member_id] = client
        # A client that became static gets its id with its first generation: the second join, with
        # the id that the first one got in the recorded run, is not necessary.
        became_static = client_id in self.changes.static
        if became_static and member and client.generation_id == _NO_GENERATION:
            return
        client.is_joining, client.syncs_itself = True, False
        self.ask(NUMBER["join_group"], request_id, group_id, _NO_GENERATION, client.member_id,
                 instance, client.join)  # fmt: skip

    def as_member(
        self, op: int, request_id: int, group_id: str | None, generation: int, member: str,
        instance: str | None, details: Any,
    ) -> None:  # fmt: skip
        client = self.client_of(group_id, member)
        client.last_ms = self.core.now_ms
        self.owner[request_id] = client
        recorded = self.answers.get(request_id)
        in_step = client.generation_id == client.recorded_generation
        if (_was_accepted(recorded) and not in_step) or generation == client.recorded_generation:
            generation = client.generation_id
        if op == NUMBER["sync_group"]:
            plans = {self.client_of(group_id, m).member_id: b for m, b in details[2].items()}
            self.assigned.update(plans)
            details = (*(details[:2] if in_step else (None, None)), plans)
        self.ask(op, request_id, group_id, generation, client.member_id,
                 client.instance or instance, details)  # fmt: skip

    def heartbeat(
        self, request_id: int, group_id: str | None, epoch: int, member: str,
        instance: str | None, details: tuple[Any, ...],
    ) -> None:  # fmt: skip
        client_id = details[CLIENT_ID]
        if client_id in self.changes.scale_session:
            raise CoterieError(
                f"the session of {client_id!r} in group {group_id!r} is a setting of the broker: "
                "--set group.consumer.session.timeout.ms=MS"
            )
        if client_id in self.changes.static and instance is None:
            instance, epoch = client_id, -2 if epoch == -1 else epoch
        client = self.client_of(group_id, member)
        client.group_id, client.instance, client.last_ms = group_id, instance, self.core.now_ms
        self.owner[request_id] = client
        recorded = self.answers.get(request_id)
        if recorded is not None and recorded.member_id:
            self.by_id[group_id, recorded.member_id] = client
        request = client.consumer.request(epoch, details)
        self.ask(_HEARTBEAT, request_id, group_id, request[0], client.member_id, instance,
                 request[1])  # fmt: skip

    def heartbeat_answered(self, client: _Client, event: Any, recorded: Any) -> None:
        answer = event.response
        if recorded is not None:
            client.consumer.record(recorded)
            client.recorded_generation = client.consumer.recorded_epoch
        sent = client.consumer.take(answer, recorded)
        self.name(client, answer.member_id)
        client.generation_id = client.consumer.epoch
        if sent is not None:
            self.inject("consumer_group_heartbeat", client, *sent)

    @property
    def default_session_ms(self) -> int:
        timeout_ms: int = self.core.config["group.consumer.session.timeout.ms"]
        return timeout_ms

    def count_evictions(self, events: list[Any]) -> None:
        """Count members of consumer groups that a timer has removed, by the cause."""
        for group_id, member_id in timed_out(events):
            client = self.members.get((group_id, member_id), _Client())  # or one that was loaded
            session_ms = self.session_ms.get(group_id, self.default_session_ms)
            if client.join is not None:
                session_ms = client.join[_SESSION]
            if self.core.now_ms - client.last_ms >= session_ms:
                self.session_evictions += 1
            else:
                self.rebalance_evictions += 1

    def leave(
        self, request_id: int, group_id: str | None, member: Any, instance: Any,
        details: tuple[Any, ...],
    ) -> None:  # fmt: skip
        recorded = self.answers.get(request_id)
        members = []
        for place, (member_id, static_id) in enumerate(details):
            client = self.client_of(group_id, member_id) if member_id else None
            if client is not None and _has_left(recorded, place):
                client.join, client.syncs_itself = None, False  # it answers to nothing any more
            members.append((client.member_id if client else member_id, static_id))
        details = tuple(members)
        self.ask(NUMBER["leave_group"], request_id, group_id, _NO_GENERATION, None, None, details)

    def react(self, *, timers: bool = False) -> None:
        """Take the new responses; a client that has to join again does so."""
        events = self.core.take_events()
        if timers:
            self.count_evictions(events)
        for event in events:
            self.events.append(event)
            if not isinstance(event, Response) or (client := self.owner.get(event.id)) is None:
                continue
            answer, recorded = event.response, self.answers.get(event.id)
            if event.op == "join_group":
                self.joined(client, event, recorded)
            elif event.op == "consumer_group_heartbeat":
                self.heartbeat_answered(client, event, recorded)
            elif (
                event.op in ("heartbeat", "sync_group")
                and answer.error in _REJOIN
                and (recorded is None or recorded.error == Error.NONE)
            ):
                if answer.error == Error.UNKNOWN_MEMBER_ID:
                    client.member_id = ""
                self.rejoin(client)

    def joined(self, client: _Client, event: Any, recorded: Any) -> None:
        answer, client.is_joining = event.response, False
        self.name(client, answer.member_id)
        if recorded is not None and recorded.error == Error.NONE:
            client.recorded_generation = recorded.generation_id
        if answer.error == Error.MEMBER_ID_REQUIRED:
            if client.syncs_itself:
                self.rejoin(client)
        elif answer.error == Error.NONE:
            client.generation_id = answer.generation_id
            if client.syncs_itself:
                self.resync(client, answer)
        elif answer.error == Error.UNKNOWN_MEMBER_ID:
            client.member_id = ""
            if recorded is None or recorded.error != Error.UNKNOWN_MEMBER_ID:
                self.rejoin(client)  # in the recorded run it had no reason to

    def name(self, client: _Client, member_id: str) -> None:
        if member_id:
            client.member_id = member_id
            self.members[client.group_id, member_id] = client

    def rejoin(self, client: _Client) -> None:
        client.syncs_itself = True
        if client.join is not None and not client.is_joining:
            client.is_joining = True
            self.inject("join_group", client, _NO_GENERATION, client.join)

    def resync(self, client: _Client, answer: Any) -> None:
        plans = {m.member_id: self.assigned.get(m.member_id, b"") for m in answer.members}
        self.inject("sync_group", client, client.generation_id, (None, None, plans))

    def inject(self, op: str, client: _Client, generation: int, details: Any) -> None:
        request_id, self.next_id = self.next_id, self.next_id + 1
        self.owner[request_id] = client
        self.ask(NUMBER[op], request_id, client.group_id, generation, client.member_id,
                 client.instance, details)  # fmt: skip


def _summary(
    events: list[Any], end_ms: int, evictions: tuple[int, int, int], states: tuple[str, ...]
) -> Summary:
    counts: Counter[str] = Counter()
    ms_in_state: Counter[str] = Counter()
    since: dict[str, tuple[int, str]] = {}
    refused = 0
    for event in events:
        if isinstance(event, Transition):
            counts[event.to] += 1
            start, state = since.pop(event.group_id, (event.at, event.from_))
            ms_in_state[state] += event.at - start
            since[event.group_id] = (event.at, event.to)
        elif isinstance(event, Response):
            refused += event.response.error not in (Error.NONE, Error.MEMBER_ID_REQUIRED)
        elif isinstance(event, ConsumerGroupChange) and event.group_id in since:  # converted
            start, state = since.pop(event.group_id)
            ms_in_state[state] += event.at - start
    for start, state in since.values():
        ms_in_state[state] += end_ms - start
    epochs, targets, ms_of_consumer_groups = epochs_and_states(events, end_ms)
    ms_in_state.update(ms_of_consumer_groups)
    return Summary(
        counts["PreparingRebalance"] + epochs,
        counts["CompletingRebalance"] + targets,
        *evictions,
        refused,
        {state: ms_in_state[state] for state in states},
    )


def _evictions(core: Coordinator) -> tuple[int, int, int]:
    return core.session_evictions, core.rebalance_evictions, core.sync_evictions


def what_if(trace: Trace, changes: Changes) -> tuple[Summary, Summary]:
    """Run a trace unchanged, and with changes.

    A rebalance of a consumer group is a new group epoch, a generation a new target assignment.

    Returns
    -------
    (as recorded, as changed)
    """
    if trace.header.get("version") == 2:
        return _replayed(trace, Changes()), _replayed(trace, changes)
    core = _started(trace)
    events = core.play(trace).events()
    base = _summary(events, core.now_ms, _evictions(core), CLASSIC_STATES)
    return base, _replayed(trace, changes)


def _replayed(trace: Trace, changes: Changes) -> Summary:
    replay = _Replay(trace, changes)
    replay.run()
    core = replay.core._core
    session, rebalance, sync = _evictions(core)
    evictions = session + replay.session_evictions, rebalance + replay.rebalance_evictions, sync
    states = CLASSIC_STATES + (STATES if trace.header.get("version") == 2 else ())
    return _summary(replay.events, core.now_ms, evictions, states)

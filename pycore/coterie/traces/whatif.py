"""Run a trace under other settings, and compare rebalances, evictions and times.

Clients are replayed, not bytes. A request carries the member id and the generation that its client
got in the changed run. A client that learns of a rebalance, or that it is unknown, joins and syncs
at once, as real clients do. A request that is wrong in the trace, with a stale generation for
example, stays wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie._core.coordinator.coordinator import Coordinator
from coterie._core.coordinator.trace import Trace
from coterie.coordinator.config import coordinator_config
from coterie.coordinator.fields import MemberOf
from coterie.coordinator.group_coordinator import GroupCoordinator
from coterie.events import Response, Transition
from coterie.operations import NUMBER
from coterie.values import Error

__all__ = ["Changes", "Summary", "what_if"]

_REJOIN = {Error.REBALANCE_IN_PROGRESS, Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID}
_SESSION, _KNOWN_ID = 2, 6  # indices into a join's details


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

    recorded_generation: int = -1
    member_id: str = ""
    generation_id: int = -1
    join: tuple[Any, ...] | None = None
    group_id: str | None = None
    instance: str | None = None


def _recorded(trace: Trace) -> dict[int, Any]:
    """Return the responses of the unchanged run, by request id."""
    core = Coordinator(coordinator_config(trace.header.get("config")))
    events = core.play(trace).events()
    return {e.id: e.response for e in events if isinstance(e, Response)}


class _Replay:
    def __init__(self, trace: Trace, changes: Changes) -> None:
        config = {**(trace.header.get("config") or {}), **changes.config}
        self.trace, self.changes = trace, changes
        self.core = GroupCoordinator(config)
        self.answers = _recorded(trace)
        self.clients: dict[Any, _Client] = {}
        self.by_id: dict[tuple[str | None, str], _Client] = {}
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
            if op in handler:
                handler[op](request_id, group_id, member, instance, details)
            elif member or op in (NUMBER["sync_group"], NUMBER["heartbeat"]):
                self.as_member(op, request_id, group_id, generation, member, instance, details)
            else:
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
            self.react()
        self.core.advance(at)
        self.react()

    def ask(self, op: int, request_id: int, *request: Any) -> None:
        self.core._core.call(op, request_id, *request)
        self.core._drain()
        self.react()

    def client_of(self, group_id: str | None, member: str, instance: str | None) -> _Client:
        client = self.by_id.get((group_id, member))
        if client is None:
            client = self.by_id[group_id, member] = _Client(member_id=member)
        return client

    def join(
        self, request_id: int, group_id: str | None, member: str, instance: str | None,
        details: tuple[Any, ...],
    ) -> None:  # fmt: skip
        client_id, changed = details[4], list(details)
        if client_id in self.changes.scale_session:
            changed[_SESSION] = int(changed[_SESSION] * self.changes.scale_session[client_id])
        if client_id in self.changes.static and instance is None:
            instance, changed[_KNOWN_ID] = client_id, False
        client = self.client_of(group_id, member, instance) if member else _Client()
        client.join, client.group_id, client.instance = tuple(changed), group_id, instance
        self.owner[request_id] = client
        recorded = self.answers.get(request_id)
        if recorded is not None and recorded.member_id:
            self.by_id[group_id, recorded.member_id] = client
        # A client that became static has its id: the recorded second join is not necessary.
        if client.instance and client.member_id and member and client.generation_id < 0:
            return
        self.ask(NUMBER["join_group"], request_id, group_id, -1, client.member_id, instance,
                 client.join)  # fmt: skip

    def as_member(
        self, op: int, request_id: int, group_id: str | None, generation: int, member: str,
        instance: str | None, details: Any,
    ) -> None:  # fmt: skip
        client = self.client_of(group_id, member, instance)
        self.owner[request_id] = client
        recorded = self.answers.get(request_id)
        was_accepted = recorded is None or getattr(recorded, "error", None) in (Error.NONE, None)
        if was_accepted or generation == client.recorded_generation:
            generation = client.generation_id
        if op == NUMBER["sync_group"]:
            plans = {self.client_of(group_id, m, None).member_id: b for m, b in details[2].items()}
            self.assigned.update(plans)
            details = (None, None, plans)
        self.ask(op, request_id, group_id, generation, client.member_id,
                 client.instance or instance, details)  # fmt: skip

    def leave(
        self, request_id: int, group_id: str | None, member: Any, instance: Any,
        details: tuple[Any, ...],
    ) -> None:  # fmt: skip
        members = tuple(
            (self.client_of(group_id, m, i).member_id if m else m, i) for m, i in details
        )
        self.ask(NUMBER["leave_group"], request_id, group_id, -1, None, None, members)

    def react(self) -> None:
        """Take the new responses; a client that has to join again does so."""
        for event in self.core.take_events():
            self.events.append(event)
            client = self.owner.get(event.id) if isinstance(event, Response) else None
            if client is None:
                continue
            answer, recorded = event.response, self.answers.get(event.id)
            if event.op == "join_group":
                self.joined(client, event, recorded)
            elif (
                event.op in ("heartbeat", "sync_group")
                and answer.error in _REJOIN
                and (recorded is None or recorded.error == Error.NONE)
            ):
                if answer.error == Error.UNKNOWN_MEMBER_ID:
                    client.member_id = ""
                self.rejoin(client)

    def joined(self, client: _Client, event: Any, recorded: Any) -> None:
        answer = event.response
        if answer.member_id:
            client.member_id = answer.member_id
        if recorded is not None and recorded.error == Error.NONE:
            client.recorded_generation = recorded.generation_id
        if answer.error == Error.MEMBER_ID_REQUIRED:
            if event.id > self.trace.last_id:
                self.rejoin(client)
        elif answer.error == Error.NONE:
            client.generation_id = answer.generation_id
            if event.id > self.trace.last_id:
                self.resync(client, answer)
        elif answer.error == Error.UNKNOWN_MEMBER_ID and client.member_id:
            client.member_id = ""
            if recorded is None or recorded.error != Error.UNKNOWN_MEMBER_ID:
                self.rejoin(client)  # in the recorded run it had no reason to

    def rejoin(self, client: _Client) -> None:
        if client.join is not None:
            self.inject("join_group", client, -1, client.join)

    def resync(self, client: _Client, answer: Any) -> None:
        plans = {m.member_id: self.assigned.get(m.member_id, b"") for m in answer.members}
        self.inject("sync_group", client, client.generation_id, (None, None, plans))

    def inject(self, op: str, client: _Client, generation: int, details: Any) -> None:
        request_id, self.next_id = self.next_id, self.next_id + 1
        self.owner[request_id] = client
        self.ask(NUMBER[op], request_id, client.group_id, generation, client.member_id,
                 client.instance, details)  # fmt: skip


def _summary(core: Any, events: list[Any], end_ms: int) -> Summary:
    counts: Counter[str] = Counter()
    ms_in_state: Counter[str] = Counter()
    since: dict[str, tuple[int, str]] = {}
    refused = 0
    for event in events:
        if isinstance(event, Transition):
            counts[event.to] += 1
            start, state = since.pop(event.group_id, (event.at, event.from_))
            ms_in_state[state] += event.at - start
            if event.to != "Dead":
                since[event.group_id] = (event.at, event.to)
        elif isinstance(event, Response):
            refused += event.response.error not in (Error.NONE, Error.MEMBER_ID_REQUIRED)
    for start, state in since.values():
        ms_in_state[state] += end_ms - start
    states = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
    return Summary(
        counts["PreparingRebalance"],
        counts["CompletingRebalance"],
        core.session_evictions,
        core.rebalance_evictions,
        core.sync_evictions,
        refused,
        {state: ms_in_state[state] for state in states},
    )


def what_if(trace: Trace, changes: Changes) -> tuple[Summary, Summary]:
    """Run a trace unchanged, and with changes.

    Returns
    -------
    (as recorded, as changed)
    """
    core = Coordinator(coordinator_config(trace.header.get("config")))
    events = core.play(trace).events()
    base = _summary(core, events, core.now_ms)
    replay = _Replay(trace, changes)
    replay.run()
    return base, _summary(replay.core._core, replay.events, replay.core.now_ms)

"""The same trace under other settings: what would have rebalanced, and for how long.

The clients of a trace are replayed, not their bytes: a request carries the member id and the
generation that this client was told in the present run, and a client that is told of a rebalance,
or that it is unknown, joins (and then syncs) at once, as real clients do. Requests that the trace
itself has wrong (a stale generation, say) stay as wrong as they were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie._core.coordinator.coordinator import Coordinator
from coterie._core.coordinator.trace import Trace
from coterie.coordinator.config import coordinator_config
from coterie.coordinator.group_coordinator import GroupCoordinator
from coterie.events import Response, Transition
from coterie.operations import NUMBER
from coterie.values import Error

__all__ = ["Changes", "Summary", "what_if"]

_REJOIN = {Error.REBALANCE_IN_PROGRESS, Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID}
_SESSION, _KNOWN_ID = 2, 6  # places in a join's details


@dataclass(frozen=True, slots=True)
class Changes:
    """What is changed: settings, session timeouts by client id, clients made static."""

    config: Mapping[str, Any] = field(default_factory=dict)
    scale_session: Mapping[str, float] = field(default_factory=dict)
    static: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run came to; times are ms, summed over the groups."""

    rebalances: int
    generations: int
    session_evictions: int
    rebalance_evictions: int
    sync_evictions: int
    refused_requests: int
    ms_in_state: dict[str, int]

    def rows(self) -> dict[str, int]:
        """Return the measures by name, in the order of a report."""
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
    """What one client of a group was told, in the recorded run and in this one."""

    told_id: str = ""
    told_generation: int = -1
    member_id: str = ""
    generation_id: int = -1
    join: tuple[Any, ...] | None = None
    group_id: str | None = None
    instance: str | None = None


def _recorded(trace: Trace) -> dict[int, Any]:
    """Return the answers of the run as it was recorded, by request."""
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
            handler = {NUMBER["join_group"]: self.join, NUMBER["leave_group"]: self.leave}
            if op in handler:
                handler[op](request_id, group_id, member, instance, details)
            elif member or op in (NUMBER["sync_group"], NUMBER["heartbeat"]):
                self.as_member(op, request_id, group_id, generation, member, instance, details)
            else:
                self.ask(op, request_id, group_id, generation, member, instance, details)
        self.advance(at if self.trace.count else 0)

    def advance(self, at: int) -> None:
        """To this time from deadline to deadline, reacting to what is answered on the way."""
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
        found = self.by_id.get((group_id, member))
        if found is None:
            found = self.by_id[group_id, member] = _Client(member, -1, member, -1)
        return found

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
            client.told_id = recorded.member_id
            self.by_id[group_id, recorded.member_id] = client
        # A static client needs no second join with the id that it was handed out.
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
        right = recorded is None or getattr(recorded, "error", None) in (Error.NONE, None)
        if right or generation == client.told_generation:
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
        now = tuple((self.client_of(group_id, m, i).member_id if m else m, i) for m, i in details)
        self.ask(NUMBER["leave_group"], request_id, group_id, -1, None, None, now)

    def react(self) -> None:
        """Take what was answered; a client that is told to join does so."""
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
            client.told_generation = recorded.generation_id
        if answer.error == Error.MEMBER_ID_REQUIRED:
            if event.id > self.trace.last_id:
                self.rejoin(client)
        elif answer.error == Error.NONE:
            client.generation_id = answer.generation_id
            if event.id > self.trace.last_id:
                self.resync(client, answer)
        elif answer.error == Error.UNKNOWN_MEMBER_ID:
            client.member_id = ""

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
    spent: Counter[str] = Counter()
    since: dict[str, tuple[int, str]] = {}
    refused = 0
    for event in events:
        if isinstance(event, Transition):
            counts[event.to] += 1
            start, state = since.pop(event.group_id, (event.at, event.from_))
            spent[state] += event.at - start
            if event.to != "Dead":
                since[event.group_id] = (event.at, event.to)
        elif isinstance(event, Response):
            refused += event.response.error not in (Error.NONE, Error.MEMBER_ID_REQUIRED)
    for start, state in since.values():
        spent[state] += end_ms - start
    states = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
    return Summary(
        counts["PreparingRebalance"],
        counts["CompletingRebalance"],
        core.session_evictions,
        core.rebalance_evictions,
        core.sync_evictions,
        refused,
        {state: spent[state] for state in states},
    )


def what_if(trace: Trace, changes: Changes) -> tuple[Summary, Summary]:
    """Run the trace as it was, and as it would have been.

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

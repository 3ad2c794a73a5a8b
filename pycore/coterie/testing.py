"""Tools for tests of code in a consumer group: a scripted client, subscriptions, assignments.

A :class:`Member` acts as a consumer does, on the coordinator's virtual clock and only when the test
calls it. It joins, assigns partitions if it leads, heartbeats when due, rejoins when it must, and
calls a rebalance listener. It never sleeps and uses no network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coterie.arguments import function, sequence, text, whole
from coterie.coordinator.group_coordinator import GroupCoordinator
from coterie.coordinator.pending import Pending
from coterie.errors import ArgumentError, CoterieError, shown
from coterie.log.consumer_protocol import (
    assignment,
    read_assignment,
    read_subscription,
    subscription,
)
from coterie.values import Error

__all__ = ["Member", "assignment", "read_assignment", "read_subscription", "subscription"]

Partitions = dict[str, list[int]]
Listener = Callable[[str, list[tuple[str, int]]], None]


def range_assign(
    subscriptions: Mapping[str, Iterable[str]], partitions: Mapping[str, int], order: list[str]
) -> dict[str, Partitions]:
    """Assign as Kafka's RangeAssignor does, without racks; ``order``: the members, sorted."""
    out: dict[str, Partitions] = {member: {} for member in order}
    for topic in sorted(partitions):
        subscribers = [member for member in order if topic in subscriptions[member]]
        at = 0
        for number, member in enumerate(subscribers):
            count, extra = divmod(partitions[topic], len(subscribers))
            size = count + (number < extra)
            if size:
                out[member][topic] = list(range(at, at + size))
            at += size
    return out


def roundrobin_assign(
    subscriptions: Mapping[str, Iterable[str]], partitions: Mapping[str, int], order: list[str]
) -> dict[str, Partitions]:
    """Assign as Kafka's RoundRobinAssignor does."""
    out: dict[str, Partitions] = {member: {} for member in order}
    at = 0
    for topic in sorted(partitions):
        if not any(topic in subscriptions[member] for member in order):
            continue
        for partition in range(partitions[topic]):
            while topic not in subscriptions[order[at % len(order)]]:
                at += 1
            out[order[at % len(order)]].setdefault(topic, []).append(partition)
            at += 1
    return out


ASSIGNORS = {"range": range_assign, "roundrobin": roundrobin_assign}
MOST_PARTITIONS = 1_000_000  # of a topic: more is a mistake that would exhaust the memory


def _partition_counts(topics: Any) -> dict[str, int]:
    """Return the partition count of each topic; 1 if only its name is given."""
    pairs = (
        topics.items()
        if isinstance(topics, Mapping)
        else ((topic, 1) for topic in sequence(topics, "topics"))
    )
    counts = {}
    for topic, value in pairs:
        count = whole(value, "the partition count of a topic")
        if not 0 <= count <= MOST_PARTITIONS:
            raise ArgumentError(
                f"a topic has at most {MOST_PARTITIONS} partitions, not {shown(count)}"
            )
        counts[text(topic, "a topic")] = count
    return counts


class Member:
    """A client of a group, driven by the test.

    Parameters
    ----------
    coordinator
        The coordinator of the group; the member uses its clock.
    group_id, client_id, topics
        As of a consumer. ``topics`` may map each topic to its partition count, for the assignment
        if the member leads; in a plain list each topic has one partition.
    assignor
        ``"range"``, ``"roundrobin"`` or several in order of preference.
    group_instance_id
        Makes the member static.
    on_rebalance
        Called as ``on_rebalance("revoked" | "assigned" | "lost", [(topic, partition)])``.

    Attributes
    ----------
    generation_id, member_id : int, str
        From the coordinator's last answer; -1 and "" before the first.
    assignment : dict
        The partitions that it owns, ``{topic: [partition]}``.
    events : list
        Its actions and the answers, in order: ``(at, what, detail)``, at in ms.
    """

    def __init__(
        self,
        coordinator: GroupCoordinator,
        group_id: str,
        *,
        client_id: str,
        topics: Iterable[str] | Mapping[str, int],
        assignor: str | Iterable[str] = "range",
        group_instance_id: str | None = None,
        session_timeout_ms: int = 45000,
        rebalance_timeout_ms: int = 300000,
        heartbeat_interval_ms: int = 3000,
        on_rebalance: Listener | None = None,
    ) -> None:
        if not isinstance(coordinator, GroupCoordinator):
            raise ArgumentError(f"coordinator must be a GroupCoordinator, not {shown(coordinator)}")
        if on_rebalance is not None:
            function(on_rebalance, "on_rebalance")
        self.coordinator = coordinator
        self.group_id, self.client_id = text(group_id, "group_id"), text(client_id, "client_id")
        self.partitions = _partition_counts(topics)
        self.assignors = [assignor] if isinstance(assignor, str) else sequence(assignor, "assignor")
        for name in self.assignors:
            if not isinstance(name, str) or name not in ASSIGNORS:
                raise ArgumentError(f"assignor {shown(name)} is not known: {', '.join(ASSIGNORS)}")
        self.group_instance_id = group_instance_id
        if group_instance_id is not None:
            text(group_instance_id, "group_instance_id")
        self.session_timeout_ms = whole(session_timeout_ms, "session_timeout_ms")
        self.rebalance_timeout_ms = whole(rebalance_timeout_ms, "rebalance_timeout_ms")
        self.heartbeat_interval_ms = whole(heartbeat_interval_ms, "heartbeat_interval_ms")
        self.on_rebalance = on_rebalance
        self.generation_id, self.member_id = -1, ""
        self.assignment: Partitions = {}
        self.events: list[tuple[int, str, Any]] = []
        self.crashed = False
        self.joining: Pending[Any] | None = None
        self.syncing: Pending[Any] | None = None
        self.needs_join = True
        self.next_heartbeat_ms = 0

    def __repr__(self) -> str:
        return f"<Member {self.member_id or self.client_id} of {self.group_id!r}>"

    @property
    def stable(self) -> bool:
        """Whether it has synced and knows of no later rebalance."""
        return not (self.needs_join or self.joining or self.syncing or self.crashed)

    def join(self) -> Pending[Any]:
        """Send JoinGroup; after MEMBER_ID_REQUIRED, send it again with the new id."""
        self._alive()
        for _ in range(2):
            pending = self.coordinator.join_group(
                self.group_id,
                self.member_id,
                protocol_type="consumer",
                protocols={name: subscription(self.partitions) for name in self.assignors},
                session_timeout_ms=self.session_timeout_ms,
                rebalance_timeout_ms=self.rebalance_timeout_ms,
                group_instance_id=self.group_instance_id,
                client_id=self.client_id,
                require_known_member_id=True,
                supports_skipping_assignment=True,
            )
            if not pending.done or pending.response.error != Error.MEMBER_ID_REQUIRED:
                break
            self.member_id = pending.response.member_id
        self._log("join", self.member_id)
        self.joining, self.syncing, self.needs_join = pending, None, False
        return pending

    def sync(self) -> Pending[Any]:
        """Send SyncGroup for the generation of the last join; a leader assigns partitions."""
        self._alive()
        if self.joining is None or not self.joining.done:
            raise CoterieError(f"{self!r} has no answer to its join to sync with")
        answer = self.joining.response
        plans: dict[str, bytes] = {}
        if answer.members and not answer.skip_assignment:
            plans = self._assign(answer)
        self.joining = None
        self.syncing = self.coordinator.sync_group(
            self.group_id,
            self.generation_id,
            self.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=answer.protocol_type,
            protocol_name=answer.protocol_name,
            assignments=plans,
        )
        self._log("sync", self.generation_id)
        self._take_sync()
        return self.syncing or self._synced

    def poll(self) -> None:
        """Act as a consumer's poll: take answers, heartbeat if due, rejoin if necessary."""
        self._alive()
        for _ in range(8):  # each round takes one answer; a healthy member needs four
            before = (self.joining, self.syncing, self.needs_join)
            if self.needs_join:
                self.join()
            self._take_join()
            if self.joining is not None and self.joining.done:
                self.sync()
            self._take_sync()
            if self.stable and self.coordinator.now_ms >= self.next_heartbeat_ms:
                self._heartbeat()
            if (self.joining, self.syncing, self.needs_join) == before:
                return

    def commit(self, offsets: Mapping[tuple[str, int], Any]) -> Pending[Any]:
        """Commit offsets as a member."""
        self._alive()
        return self.coordinator.offset_commit(
            self.group_id,
            offsets,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
        )

    def leave(self) -> Any:
        """Leave the group and forget the member id."""
        self._alive()
        answer = self.coordinator.leave_group(
            self.group_id, [(self.member_id, self.group_instance_id)]
        )
        self._log("leave", self.member_id)
        self._give_up("revoked")
        self.member_id, self.generation_id, self.needs_join = "", -1, True
        self.joining = self.syncing = None
        return answer

    def crash(self) -> None:
        """Stop for good, without a LeaveGroup; the session ends by its timeout."""
        self._log("crash", self.member_id)
        self.crashed = True

    # Inside

    def _alive(self) -> None:
        if self.crashed:
            raise CoterieError(f"{self!r} has crashed; make a new Member to come back")

    def _log(self, what: str, detail: Any) -> None:
        self.events.append((self.coordinator.now_ms, what, detail))

    def _flat(self) -> list[tuple[str, int]]:
        return [(topic, n) for topic, numbers in self.assignment.items() for n in numbers]

    def _give_up(self, how: str) -> None:
        """Revoke (or lose) its partitions before it joins again: the eager protocol."""
        if self.assignment:
            revoked, self.assignment = self._flat(), {}
            self._log(how, revoked)
            if self.on_rebalance:
                self.on_rebalance(how, revoked)

    def _assign(self, answer: Any) -> dict[str, bytes]:
        """Assign in Kafka's order: static members by instance id, then the rest by member id."""
        static = [m for m in answer.members if m.group_instance_id is not None]
        dynamic = [m for m in answer.members if m.group_instance_id is None]
        order = [m.member_id for m in sorted(static, key=lambda m: m.group_instance_id)]
        order += [m.member_id for m in sorted(dynamic, key=lambda m: m.member_id)]
        topics = {m.member_id: read_subscription(m.metadata).topics for m in answer.members}
        known = {t for subscribed in topics.values() for t in subscribed}
        counts = {topic: self.partitions.get(topic, 1) for topic in known}
        plan = ASSIGNORS[answer.protocol_name](topics, counts, order)
        return {member: assignment(partitions) for member, partitions in plan.items()}

    def _take_join(self) -> None:
        if self.joining is None or self.joining.status == "waiting":
            return
        error = self.joining.response.error if self.joining.done else Error.UNKNOWN_MEMBER_ID
        if error == Error.NONE:
            answer = self.joining.response
            self.member_id, self.generation_id = answer.member_id, answer.generation_id
            return
        self.joining = None
        self._refused("join", error)

    def sync_answer(self) -> Any:
        """Return the answer to the last sync, or None."""
        return self._synced.response if self._synced and self._synced.done else None

    _synced: Any = None

    def _take_sync(self) -> None:
        if self.syncing is None or self.syncing.status == "waiting":
            return
        self._synced, self.syncing = self.syncing, None
        error = self._synced.response.error if self._synced.done else Error.UNKNOWN_MEMBER_ID
        if error != Error.NONE:
            self._refused("sync", error)
            return
        self.assignment = read_assignment(self._synced.response.assignment)
        self.next_heartbeat_ms = self.coordinator.now_ms + self.heartbeat_interval_ms
        self._log("assigned", self._flat())
        if self.on_rebalance:
            self.on_rebalance("assigned", self._flat())

    def _heartbeat(self) -> None:
        error = self.coordinator.heartbeat(
            self.group_id,
            self.generation_id,
            self.member_id,
            group_instance_id=self.group_instance_id,
        ).error
        self.next_heartbeat_ms = self.coordinator.now_ms + self.heartbeat_interval_ms
        if error != Error.NONE:
            self._refused("heartbeat", error)

    def _refused(self, what: str, error: Error) -> None:
        """Go back to joining, as a consumer does after such an error."""
        self._log(f"{what} refused", error.name)
        if error == Error.FENCED_INSTANCE_ID:
            self._give_up("lost")
            self.crashed = True
            return
        if error in (Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION):
            self._give_up("lost")
            if error == Error.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self.generation_id = -1
        else:
            self._give_up("revoked")
        retriable = {Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION, Error.REBALANCE_IN_PROGRESS,
                     Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE,
                     Error.COORDINATOR_LOAD_IN_PROGRESS}  # fmt: skip
        if error not in retriable:
            raise CoterieError(f"{self!r}: {what} was refused with {error.name}")
        self.needs_join = True

"""The cluster of a play: a broker whose clock follows the history, and whose clients are real.

It has the methods of a simulated cluster, from which it takes its topics and the times of their
records. What happens at a time of the history happens to the broker after its clock was moved
there; while members of a group owe it heartbeats, the clock waits for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from coterie.base.operations import REQUESTS
from coterie.base.schedule import Schedule
from coterie.coordinator.group_coordinator import GroupCoordinator
from coterie.coordinator.pending import Pending
from coterie.coordinator.requests import compile_values
from coterie.errors import CoterieError
from coterie.histories.played_consumer import PlayedConsumer
from coterie.testing.process import Process
from coterie.testing.simulated_cluster import Cluster
from coterie.testing.topics import Interval
from coterie.values import Error

STEP_MS = 3000  # as far as the clock moves at once: a consumer's heartbeat interval
LOOKS, LOOK_S = 500, 0.002  # for heartbeats, before the clock moves on without one
END_S = 10.0
LOADING = (
    *("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch"),
    "ConsumerGroupHeartbeat",
)


class PlayedSchedule(Schedule):
    """A schedule that tells of each move of its clock before it happens."""

    def __init__(self) -> None:
        super().__init__()
        self.on_move: Callable[[int], None] = lambda _: None

    def step(self, limit_ms: int | None = None) -> bool:
        """Run what is due next, up to the limit; return whether there was anything."""
        times = [at_ms for at_ms in (self.next_ms, limit_ms) if at_ms is not None]
        if times and min(times) > self.now_ms:
            self.on_move(min(times))
        return super().step(limit_ms)


class _Coordinator(GroupCoordinator):
    def __init__(self, broker: Any, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.broker = broker

    def _ask(self, op: str, *values: Any) -> Pending[Any]:
        if op not in REQUESTS:
            return super()._ask(op, *values)
        pending: Pending[Any] = Pending(0, op)
        compiled = compile_values(op, values)
        pending._response = self.broker._on_stage("ask", op, compiled)
        pending.status = "answered"
        return pending


class _Network:
    def __init__(self, cluster: PlayedCluster) -> None:
        self._cluster = cluster
        self.members_cut: set[str] = set()

    def _each(self, member: str, act: str, *args: Any) -> None:
        """Act on the clients of a member that live: one, or none while it is down."""
        for client in self._cluster.clients_of(member):
            self._cluster.on_stage(act, client.client_id, *args)

    def cut(self, member: str) -> None:
        self.members_cut.add(member)
        self._each(member, "cut")

    def heal(self, member: str) -> None:
        """Connect a member again."""
        self.members_cut.discard(member)
        self._each(member, "heal")

    def lose_request(self, member: str, api: str | None) -> None:
        self._each(member, "lose", api, False)

    def lose_response(self, member: str, api: str | None) -> None:
        """Lose the response to the next request of a member."""
        self._each(member, "lose", api, True)

    def fail(self, member: str, api: str, error: Error) -> None:
        for client in self._cluster.clients_of(member):
            fault = self._cluster.broker.fail(
                api.replace("_", ""), error=error.name, client_id=client.client_id
            )
            self._cluster.faults.append(fault)

    def end_faults(self, member: str) -> None:
        """Forget what is still to be lost or refused."""
        self._each(member, "lose_nothing")
        while self._cluster.faults:
            self._cluster.faults.pop().cancel()


class PlayedCluster(Cluster):
    """A broker, as a run sees it.

    Parameters
    ----------
    broker : Broker
        With a virtual clock and without the history's topics.
    topics, interval_ms, schedule
        As of :class:`Cluster`.
    group_id : str
        The group that is played.
    """

    def __init__(
        self,
        broker: Any,
        topics: Mapping[str, int],
        config: Mapping[str, Any],
        *,
        interval_ms: Interval,
        schedule: PlayedSchedule,
        group_id: str,
    ) -> None:
        super().__init__(
            topics,
            config,
            interval_ms=interval_ms,
            schedule=schedule,
            make_coordinator=partial(_Coordinator, broker),
        )
        self.broker, self.group_id = broker, group_id
        self.network: Any = _Network(self)
        self.faults: list[Any] = []
        self._consumers: list[PlayedConsumer] = []
        self._ended: list[PlayedConsumer] = []
        self._made = 0
        self._written: dict[tuple[str, int], int] = {}  # the end of each partition at the broker
        self._at_ms = 0
        for name, partitions in topics.items():
            self.on_stage("create_topic", name, partitions)
        broker.advance(0)  # it must have a virtual clock
        self.has_consumer_groups: bool = self.on_stage("quicken", group_id)
        schedule.on_move = self._follow

    def on_stage(self, act: str, *args: Any) -> Any:
        """Act on the broker: call a method of its stage."""
        return self.broker._on_stage(act, *args)

    # Clients

    def make_consumer(
        self, client: Callable[..., Any], name: str, settings: Mapping[str, Any], process: Process
    ) -> PlayedConsumer:
        """Return a client of a member."""
        self._made += 1
        client_id = f"{name}.{self._made}"
        address = {"bootstrap.servers": self.broker.bootstrap_servers, "client.id": client_id}
        made = PlayedConsumer(
            self, name, client_id, lambda: client({**settings, **address}), process
        )
        self._consumers.append(made)
        if name in self.network.members_cut:
            self.network.cut(name)
        return made

    def clients_of(self, member: str) -> list[PlayedConsumer]:
        """Return the living clients of a member."""
        return [one for one in self._consumers if one.client_id.rpartition(".")[0] == member]

    def forget(self, consumer: PlayedConsumer) -> None:
        """Cut off a client that is closed or dead."""
        self._consumers.remove(consumer)
        self._ended.append(consumer)
        self.on_stage("cut", consumer.client_id)

    def joins(self, client_id: str) -> int:
        """Return how many requests of a client joined the group."""
        joins: int = self.on_stage("joins_of", client_id)
        return joins

    def end(self) -> None:
        """End all clients, and wait until their threads have ended."""
        for one in list(self._consumers):
            one.end()
        for one in self._ended:
            one.join(END_S)

    # Time and records

    def _follow(self, to_ms: int) -> None:
        """Move the broker's clock to a time of the history, with the records up to it."""
        while self._at_ms < to_ms:
            next_ms = min(to_ms, self._at_ms + STEP_MS)
            self._await_heartbeats()
            records = self._records(next_ms)
            self.on_stage("move", next_ms - self._at_ms, records)
            self._at_ms = next_ms

    def _records(self, at_ms: int) -> list[Any]:
        """Return the records that come by a time, and take note of them."""
        found: list[Any] = []
        for name, topic in self._topics.items():
            for number, log in enumerate(topic.logs):
                start, end = self._written.get((name, number), 0), log.end_offset(at_ms)
                if start < end:
                    self._written[name, number] = end
                    records, _ = log.read(start, end, end - start, committed=False)
                    rows = [(r.timestamp, r.key.encode(), r.value.encode()) for r in records]
                    found.append((name, number, rows))
        return found

    def _await_heartbeats(self) -> None:
        """Wait until each member that can has sent a heartbeat lately, in virtual time."""
        ids = [one.client_id for one in self._consumers]
        for _ in range(LOOKS):
            ids = self.on_stage("silent", ids, STEP_MS)
            if not ids:
                return
            time.sleep(LOOK_S)
        self.on_stage("excuse", ids)

    def wake_clients(self) -> None:
        """Do nothing: real clients fetch."""

    # What admins and faults do

    def add_partitions(self, name: str, total: int) -> None:
        """Give a topic more partitions."""
        super().add_partitions(name, total)
        self.on_stage("add_partitions", name, total)

    def delete_topic(self, name: str) -> None:
        super().delete_topic(name)
        self.on_stage("delete_topic", name)

    def fail_over(self, load_ms: int = 100, *, config: Mapping[str, Any] | None = None) -> None:
        """Let the coordinator load its log again, and refuse requests for so long."""
        if config is not None:
            raise CoterieError("config: the brokers of a play keep their settings")
        self.broker.move_coordinator(self.group_id)
        for api in LOADING:
            fault = self.broker.fail(
                api, error="COORDINATOR_LOAD_IN_PROGRESS", times=None, group_id=self.group_id
            )
            self.schedule.call_later(load_ms, fault.cancel)

    def create_topic(self, name: str, partitions: int, interval_ms: Interval = None) -> None:
        """Refuse: only an application's producer would write to it, and a play has none."""
        raise CoterieError(f"outputs: a play has no producer for {name!r}")

"""The state at a point of a scenario, in the form of the golden files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coterie.base.schedule import PausingClock, Schedule
from coterie.designs import consumer08_registration as registration
from coterie.designs import ops
from coterie.designs.checks import ScenarioError
from coterie.designs.consumer08 import RunContext, ZooKeeperConsumer
from coterie.designs.consumer08_cluster import (
    GROUPS,
    Brokers,
    GroupViews,
    consumer_config,
    partitions_of,
    topics_present,
)
from coterie.designs.ownership import subscription_of
from coterie.designs.scenario import Scenario
from coterie.designs.times import Times
from coterie.designs.zookeeper import Session, ZooKeeper, ZooKeeperError


class Points:
    """Take points; the counts of a point start at the point before it."""

    def __init__(self, world: RunContext, consumers: Mapping[str, ZooKeeperConsumer]) -> None:
        self._world = world
        self._tree = world.zookeeper.tree
        self._consumers = consumers
        self._before: dict[str, tuple[ZooKeeperConsumer, dict[str, int], dict[str, int]]] = {}

    def take(self, point: int, *, kafka_offsets: bool) -> dict[str, Any]:
        taken: dict[str, Any] = {
            "point": point,
            "at": self._world.schedule.now_ms,
            "znodes": {
                path: self._node(path)
                for path in self._tree.paths_below(GROUPS)
                if path.count("/") > 2  # below a group's own node
            },
            "consumers": {
                name: self._consumer(self._consumers[name]) for name in sorted(self._consumers)
            },
            "partitions_without_owner_node": self._without_owner_node(),
            "partitions_that_several_believe_theirs": self._several(),
        }
        if kafka_offsets:
            offsets = self._world.brokers.stored_offsets
            taken["kafka_offsets"] = {
                f"{group} {topic}/{number}": offsets[group, topic, number]
                for group, topic, number in sorted(offsets)
                if offsets[group, topic, number] >= 0
            }
        return taken

    def _node(self, path: str) -> dict[str, Any]:
        node = self._tree.nodes[path]
        entry: dict[str, Any] = {}
        if node.data:
            entry["data"] = node.data
            if path.split("/")[3] == "ids":
                entry["data"] = _without_timestamp(node.data)
        if isinstance(node.owner, Session):
            entry["session_of"] = node.owner.name
        return entry

    def _consumer(self, consumer: ZooKeeperConsumer) -> dict[str, Any]:
        entry: dict[str, Any] = {"state": consumer.state}
        if consumer.start_error:
            entry["start_error"] = consumer.start_error
        entry["since_last_point"] = self._since(consumer)
        entry["owner_nodes"] = self._owner_nodes(consumer)
        entry["consumed"] = {
            f"{topic}/{number}": [list(span) for span in consumer.consumed[topic, number]]
            for topic, number in sorted(consumer.consumed)
        }
        if consumer.state not in ("closed", "crashed"):
            entry["next_offsets"] = {
                f"{topic}/{number}": consumer.owned[topic, number].offset
                for topic, number in sorted(consumer.owned)
            }
        return entry

    def _since(self, consumer: ZooKeeperConsumer) -> dict[str, Any]:
        counts = consumer.counts
        now = {
            "rebalances": counts.rebalances,
            "failed_rebalances": counts.failed_rebalances,
            "no_broker_rebalances": counts.no_broker_rebalances,
        }
        last = self._before.get(consumer.name)
        _, before, events = last if last and last[0] is consumer else (None, {}, {})
        self._before[consumer.name] = consumer, now, dict(counts.watch_events)
        since: dict[str, Any] = {key: value - before.get(key, 0) for key, value in now.items()}
        since["watch_events"] = {
            kind: count - events.get(kind, 0)
            for kind, count in sorted(counts.watch_events.items())
            if count > events.get(kind, 0)
        }
        return since

    def _owner_nodes(self, consumer: ZooKeeperConsumer) -> list[str]:
        above = f"{GROUPS}/{consumer.group}/owners/"
        session = consumer.zk.connection.session
        return sorted(path[len(above) :] for path in session.ephemerals if path.startswith(above))

    def _without_owner_node(self) -> list[str]:
        present = topics_present(self._tree)
        unowned = []
        for group in self._tree.nodes[GROUPS].children:
            taken: set[str] = set()
            for name in self._names_below(f"{GROUPS}/{group}/ids"):
                try:
                    data = self._tree.nodes[f"{GROUPS}/{group}/ids/{name}"].data
                    subscription = registration.parse(data)
                except registration.Unreadable:
                    continue
                taken.update(subscription.topics(present, exclude_internal=True))
            for topic in taken:
                owned = self._names_below(f"{GROUPS}/{group}/owners/{topic}")
                unowned += [
                    f"{group} {topic}/{number}"
                    for number in self._partitions_of(topic)
                    if str(number) not in owned
                ]
        return sorted(unowned)

    def _partitions_of(self, topic: str) -> Sequence[int]:
        try:
            return partitions_of(self._tree, topic)
        except registration.Unreadable:
            return ()

    def _names_below(self, path: str) -> Mapping[str, None]:
        node = self._tree.nodes.get(path)
        return node.children if node else {}

    def _several(self) -> dict[str, list[str]]:
        believers: dict[str, list[str]] = {}
        for name in sorted(self._consumers):
            consumer = self._consumers[name]
            for topic, number in consumer.owned:
                believers.setdefault(f"{consumer.group} {topic}/{number}", []).append(name)
        return {key: names for key, names in sorted(believers.items()) if len(names) > 1}


def _without_timestamp(data: str) -> Any:
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return data
    if not isinstance(fields, dict):
        return data
    fields.pop("timestamp", None)
    return fields


# Run a scenario under 0.8.2: the effect of each op on ZooKeeper, brokers and consumers.


HARNESS = "other"  # the session that owns foreign ephemeral nodes


class ZooKeeperSimulation:
    """One run of a scenario."""

    def __init__(
        self,
        scenario: Scenario,
        times: Times,
        note: Callable[..., None] | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        config = scenario.config
        self.schedule = schedule or Schedule()
        self._periods = PausingClock(self.schedule)
        self.zookeeper = ZooKeeper(self.schedule, tick_ms=config.tick_ms)
        self.brokers = Brokers(
            self.zookeeper, config.brokers, up=config.brokers_up, deletes=config.deletes_topics
        )
        self.consumers: dict[str, ZooKeeperConsumer] = {}
        self._replaced: list[ZooKeeperConsumer] = []  # another has taken their name
        self.refused = 0  # messages for partitions without a leader
        self._scenario = scenario
        self._note = note
        self._context = RunContext(
            self.schedule,
            self._periods,
            self.zookeeper,
            self.brokers,
            GroupViews(self.zookeeper.tree, self.schedule),
            times,
            self._timed if note else _unnoted,
        )
        self._points = Points(self._context, self.consumers)
        self._harness: Session = self.zookeeper.open(HARNESS, 1, lambda kind, path: None)
        self._uses_kafka = False
        self._starts = (-1, 0)  # a time, and the number of consumers started then, less one
        self._do: dict[type[ops.Op], Callable[[Any], None]] = {
            ops.CreateTopic: lambda op: self.brokers.create_topic(op.topic, op.replicas),
            ops.AddPartitions: lambda op: self.brokers.add_partitions(op.topic, op.replicas),
            ops.DeleteTopic: lambda op: self.brokers.delete_topic(op.topic),
            ops.TouchTopic: lambda op: self.brokers.touch_topic(op.topic),
            ops.Produce: self._produce,
            ops.Start: self._start,
            ops.Close: lambda op: self.consumers[op.consumer].close(),
            ops.Crash: lambda op: self.consumers[op.consumer].crash(),
            ops.Expire: lambda op: self._connection(op).expire(),
            ops.ZkCut: lambda op: self._connection(op).cut(),
            ops.ZkHeal: lambda op: self._connection(op).heal(),
            ops.ZkHold: lambda op: self._connection(op).hold(),
            ops.ZkRelease: lambda op: self._connection(op).release(),
            ops.BrokerStop: lambda op: self.brokers.stop(op.broker),
            ops.BrokerStart: lambda op: self.brokers.start(op.broker),
            ops.CoordinatorStop: self._coordinator_stop,
            ops.ZnodeCreate: self._znode_create,
            ops.ZnodeSet: lambda op: self.zookeeper.set(op.path, op.data),
            ops.ZnodeDelete: lambda op: self.zookeeper.delete(op.path),
            ops.Commit: lambda op: self.consumers[op.consumer].commit(),
        }

    def run(self) -> list[dict[str, Any]]:
        """Run the scenario to its end; return its points."""
        points = []
        wait_end_ms = 0  # the end of the last wait
        for op in self._scenario.ops:
            if isinstance(op, ops.Settle):
                self._settle(op.at, wait_end_ms)
            elif op.at > self.schedule.now_ms:  # ops of one time happen at once
                self.schedule.run_until(op.at)
            wait_end_ms = op.at + (op.ms if isinstance(op, ops.Wait) else 0)
            if isinstance(op, ops.Settle):
                points.append(self._points.take(op.point, kafka_offsets=self._uses_kafka))
            elif (do := self._do.get(type(op))) is not None:
                try:
                    do(op)
                except ZooKeeperError as error:
                    reason = f"{type(error).__name__} {error}"
                    raise ScenarioError(f"{op.place}: ZooKeeper refuses: {reason}") from None
        return points

    def _settle(self, at_ms: int, wait_end_ms: int) -> None:
        """Advance to a point. Periodic commits pause after the last wait."""
        self.schedule.run_until(min(wait_end_ms, at_ms))
        self._periods.pause()
        self.schedule.run_until(at_ms)
        self._periods.resume()

    def counted(self) -> dict[str, int]:
        consumers = [*self.consumers.values(), *self._replaced]
        counts = [consumer.counts for consumer in consumers]
        return {
            "rebalances": sum(one.rebalances for one in counts),
            "failed_rebalances": sum(one.failed_rebalances for one in counts),
            "tries": sum(one.tries for one in counts),
            "conflicts": sum(one.conflicts for one in counts),
            "watch_events": sum(sum(one.watch_events.values()) for one in counts),
            "zookeeper_operations": sum(one.zk.operations for one in consumers),
            "requests": sum(one.fetchers.requests + one.offsets.requests for one in consumers),
            "refused": self.refused,
        }

    def _start(self, op: ops.Start) -> None:
        config = consumer_config(self._scenario.config.consumer, op.config)
        self._uses_kafka |= config.offsets_storage == "kafka"
        subscription = subscription_of(op)
        consumer = ZooKeeperConsumer(
            self._context, op.name, op.group, op.consumer, subscription, config
        )
        if op.name in self.consumers:
            self._replaced.append(self.consumers[op.name])
        self.consumers[op.name] = consumer
        at_ms, started = self._starts
        started = started + 1 if at_ms == op.at else 0
        self._starts = op.at, started
        self.schedule.call_later(started * self._context.times.start_gap_ms, consumer.start)

    def _produce(self, op: ops.Produce) -> None:
        if not self.brokers.produce(op.topic, op.partition, op.count):
            self.refused += op.count

    def _coordinator_stop(self, op: ops.CoordinatorStop) -> None:
        """Stop the first live broker, as none coordinates."""
        if self.brokers.alive:
            self.brokers.stop(min(self.brokers.alive))

    def _znode_create(self, op: ops.ZnodeCreate) -> None:
        session = self._harness if op.ephemeral else None
        self.zookeeper.create_with_parents(op.path, op.data, session)

    def _connection(self, op: Any) -> Any:
        return self.consumers[op.consumer].zk.connection

    def _timed(self, kind: str, consumer: str, *details: Any) -> None:
        if self._note is not None:
            self._note(self.schedule.now_ms, kind, consumer, *details)


def _unnoted(kind: str, consumer: str, *details: Any) -> None:
    """Discard an entry of the timeline."""

"""Play a scenario under the 0.9 design: the effect of each op, and the state at each point.

``zk_cut`` and ``zk_hold`` apply to a consumer's connection to the brokers. ``expire`` and foreign
nodes have no effect. A topic filter is resolved when its consumer starts, since a JoinGroup names
topics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.designs import ops
from coterie.designs.consumer08 import registration
from coterie.designs.consumer08.config import consumer_config
from coterie.designs.coordinator09.simulation import POINTS, CoordinatorSimulation
from coterie.designs.coordinator09.world import CoordinatorSettings
from coterie.designs.ops import MOMENTS
from coterie.designs.scenario import Scenario
from coterie.schedule import Schedule

__all__ = ["play"]

SESSION = "zookeeper.session.timeout.ms"  # one setting for all designs
STRATEGY = "partition.assignment.strategy"
BOUNDARY = dict(zip(MOMENTS, POINTS.values(), strict=True))


class Player:
    """Apply the ops of a scenario to the simulation of a design with a coordinator."""

    def __init__(
        self, scenario: Scenario, simulation: Any, note: Callable[..., None] | None
    ) -> None:
        self.scenario, self.simulation = scenario, simulation
        self.states: dict[str, str] = {}
        self.note = note
        self.points: list[dict[str, Any]] = []
        self.replicas: dict[str, list[tuple[int, ...]]] = {}  # of each partition, by topic
        self.refused = 0  # messages for partitions without a live replica
        self.stops: dict[str, list[str]] = {}  # boundaries of the next rebalances, by group
        simulation.dies = self.dies
        self.effects: dict[type[ops.Op], Callable[[Any], None]] = {
            ops.CreateTopic: self.create_topic,
            ops.AddPartitions: self.add_partitions,
            ops.DeleteTopic: self.delete_topic,
            ops.Produce: self.produce,
            ops.Start: self.start,
            ops.Close: self.close,
            ops.Crash: self.crash,
            ops.Commit: lambda op: self.simulation.commit(self.simulation.consumers[op.consumer]),
            ops.ZkCut: lambda op: self.simulation.cut(op.consumer),
            ops.ZkHeal: lambda op: self.simulation.heal(op.consumer),
            ops.ZkHold: lambda op: self.simulation.hold(op.consumer),
            ops.ZkRelease: lambda op: self.simulation.release(op.consumer),
            ops.BrokerStop: lambda op: self.simulation.stop_broker(op.broker),
            ops.BrokerStart: lambda op: self.simulation.start_broker(op.broker),
            ops.CoordinatorStop: self.coordinator_stop,
            ops.Settle: self.settle,
        }
        if not scenario.config.brokers_up:
            for broker in scenario.config.brokers:
                self.simulation.stop_broker(broker)

    def run(self) -> None:
        """Play all ops, each at its time."""
        for op in self.scenario.ops:
            self.simulation.run_until(op.at)
            effect = self.effects.get(type(op))
            if effect is not None:
                effect(op)
        self.simulation.run_until(self.scenario.ops[-1].at if self.scenario.ops else 0)

    def create_topic(self, op: ops.CreateTopic) -> None:
        self.replicas[op.topic] = list(op.replicas)
        self.simulation.set_topic(op.topic, len(op.replicas))

    def add_partitions(self, op: ops.AddPartitions) -> None:
        self.replicas[op.topic] += op.replicas
        self.simulation.set_topic(op.topic, self.simulation.counts(op.topic) + len(op.replicas))

    def produce(self, op: ops.Produce) -> None:
        """Append messages if a replica lives, so that the partition has a leader."""
        if any(self.simulation.is_up(broker) for broker in self.replicas[op.topic][op.partition]):
            self.simulation.produce(op.topic, op.partition, op.count)
        else:
            self.refused += op.count

    def delete_topic(self, op: ops.DeleteTopic) -> None:
        if self.scenario.config.deletes_topics:
            self.simulation.set_topic(op.topic, 0)

    def start(self, op: ops.Start) -> None:
        settings = {**self.scenario.config.consumer, **op.config}
        config = consumer_config(settings)
        if op.subscription is not None:
            topics = sorted(op.subscription)
        else:
            pattern = "white_list" if op.whitelist is not None else "black_list"
            text = op.whitelist if op.whitelist is not None else op.blacklist
            subscription = registration.by_filter(pattern, text or "", op.streams)
            present = [name for name, size in self.simulation.store.topics.items() if size]
            topics = sorted(subscription.topics(present, exclude_internal=True))
        self.states[op.name] = "running"
        self._note("started", op.name)
        timeout = config.zookeeper_session_timeout_ms if SESSION in settings else None
        self.simulation.start_consumer(
            op.name,
            topics,
            group_id=op.group,
            session_timeout_ms=timeout,
            strategy=config.partition_assignment_strategy if STRATEGY in settings else None,
        )

    def close(self, op: ops.Close) -> None:
        self.simulation.consumers[op.consumer].close()
        self.states[op.consumer] = "closed"
        self._note("closed", op.consumer)

    def crash(self, op: ops.Crash) -> None:
        self.simulation.consumers[op.consumer].crash()
        self.states[op.consumer] = "crashed"
        self._note("crashed", op.consumer)

    def coordinator_stop(self, op: ops.CoordinatorStop) -> None:
        """Stop the coordinator now, or at a moment of the group's next rebalance."""
        broker = self.simulation.coordinator_of(op.group)
        if not op.moment:
            if broker is not None:
                self.simulation.stop_broker(broker)
            return
        self.stops.setdefault(op.group, []).append(BOUNDARY[op.moment])

    def dies(self, _: int, boundary: str, group: str) -> bool:
        """Return whether a group's coordinator stops at a boundary, by the next of its stops."""
        stops = self.stops.get(group)
        if not stops or stops[0] != boundary:
            return False
        stops.pop(0)
        return True

    def settle(self, op: ops.Settle) -> None:
        """Add the present state to the points."""
        consumers = {}
        unowned, several = [], {}
        for group, ledger in sorted(self.simulation.ledgers.items()):
            subscribed = {
                topic
                for one in self.simulation.consumers.values()
                if one.group_id == group and one.alive
                for topic in one.topics
            }
            for (topic, number), owners in sorted(ledger.owners.items()):
                place = f"{group} {topic}/{number}"
                if not owners and topic in subscribed:
                    unowned.append(place)
                if len(owners) > 1:
                    several[place] = sorted(owners)
        owned = {group: ledger.owned_by_all() for group, ledger in self.simulation.ledgers.items()}
        for name, one in sorted(self.simulation.consumers.items()):
            ledger = self.simulation.ledgers[one.group_id]
            consumers[name] = {
                "state": self.states[name],
                "in_group": one.in_group,
                "generation": one.generation_id,
                "next_offsets": {
                    f"{topic}/{number}": offset
                    for (topic, number), offset in owned[one.group_id].get(name, {}).items()
                },
                "consumed": {
                    f"{topic}/{number}": ranges
                    for (topic, number), ranges in sorted(ledger.ranges_of(name).items())
                },
            }
        point = {"point": op.point, "at": op.at, "consumers": consumers}
        point["partitions_without_consumer"] = unowned
        point["partitions_that_several_believe_theirs"] = several
        self.points.append(point)

    def _note(self, kind: str, consumer: str) -> None:
        if self.note is not None:
            self.note(self.simulation.schedule.now_ms, kind, consumer)


def from_start(scenario: Scenario) -> bool:
    """Return whether consumers without a committed offset begin at the start."""
    return consumer_config(scenario.config.consumer).auto_offset_reset == "smallest"


def play(
    scenario: Scenario,
    note: Callable[..., None] | None = None,
    schedule: Schedule | None = None,
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Play a scenario; return its points and counts."""
    settings = CoordinatorSettings(from_start=from_start(scenario))
    schedule = schedule or Schedule()
    simulation = CoordinatorSimulation(
        scenario.config.brokers, settings, keep_log=False, note=note, schedule=schedule
    )
    player = Player(scenario, simulation, note)
    player.run()
    costs, store = simulation.costs, simulation.store
    return player.points, {
        "rebalances": costs.rebalances,
        "took_part": costs.took_part,
        "watch_events": store.watch_events,
        "zookeeper_operations": store.operations,
        "requests": costs.requests,
        "refused": player.refused,
    }

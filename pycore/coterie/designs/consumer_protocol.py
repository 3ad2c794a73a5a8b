"""The consumer protocol (KIP-848) under the ops of a scenario: coterie's coordinator of Kafka 4.

``ProtocolConsumer`` is a fetching member of ``coterie.testing``. Clock, brokers and log are those
of ``today``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from coterie.base.schedule import Schedule
from coterie.consumer_groups import ConsumerGroupChange
from coterie.designs.ledger import TopicPartition
from coterie.designs.scenario import Scenario
from coterie.designs.today import DELIVERY_MS, GroupCluster, GroupConsumer, Who, play_in
from coterie.errors import ArgumentError, shown
from coterie.testing.consumer import ConsumerMember

# A consumer of the consumer protocol: a scripted member that fetches its partitions.


class ProtocolConsumer(GroupConsumer):
    """A member of the consumer protocol."""

    member: ConsumerMember

    def __init__(self, cluster: ConsumerProtocolSimulation, who: Who, **options: Any) -> None:
        super().__init__(cluster, who, protocol="consumer", **options)
        self._moved = cluster.count_moved

    @property
    def in_the_group(self) -> bool:
        return self.generation_id > 0

    may_commit = in_the_group

    def _unstable(self) -> str:
        return self.member.state.value.capitalize()

    def _rebalanced(self, how: str, places: list[TopicPartition]) -> None:
        super()._rebalanced(how, places)
        if places:
            self._moved(self)


# A coordinator of Kafka 4 and consumers of its consumer protocol.
#
# The coordinator assigns, and it has the topics, so nobody leads. A response reaches its consumer
# after a while. Then the consumer reconciles and acknowledges at once. If it is cut off meanwhile,
# the response is lost.


BEHAVIOUR = "4.1"
HEARTBEAT_MS = 5_000  # the default of group.consumer.heartbeat.interval.ms
ASSIGNORS = {"range": "range", "roundrobin": "uniform", None: None}  # by a scenario's strategy


@dataclass
class ConsumerProtocolSimulation(GroupCluster):
    behaviour: str = BEHAVIOUR
    # Since 4.3 a broker's bounds would clamp the timeouts of a scenario.
    settings = MappingProxyType(
        {
            "group.consumer.min.session.timeout.ms": 1,
            "group.consumer.max.session.timeout.ms": 2**31 - 1,
        }
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._epochs: dict[str, tuple[int, int]] = {}  # by group: its own, and its target's
        self._moved: dict[str, set[str]] = {}  # by group: consumers that this epoch has moved
        self._topic_ids: dict[str, bytes] = {}
        self._created = 0  # topics

    def set_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, give it more partitions, or delete it (0)."""
        exists = self.counts(topic)
        super().set_topic(topic, partitions)
        self.coordinator.move(self.schedule.now_ms)
        if not partitions:
            self.coordinator.set_topics(delete_topics=[topic])
            return
        if not exists:
            self._created += 1
            self._topic_ids[topic] = self._created.to_bytes(16, "big")
        self.coordinator.set_topics(
            [{"topic": topic, "topic_id": self._topic_ids[topic], "partitions": partitions}]
        )

    def _consumer(self, who: Who, session_timeout_ms: int | None, strategy: str | None) -> Any:
        if strategy not in ASSIGNORS:
            known = ", ".join(filter(None, ASSIGNORS))
            raise ArgumentError(f"assignor {shown(strategy)} is not known: {known}")
        if session_timeout_ms is not None:
            self._set_session(who[1], session_timeout_ms)
        return ProtocolConsumer(self, who, server_assignor=ASSIGNORS[strategy])

    def _set_session(self, group_id: str, timeout_ms: int) -> None:
        """Set the session timeout of a group, which is a setting of the broker."""
        if timeout_ms <= HEARTBEAT_MS:
            raise ArgumentError(
                f"heartbeat_interval_ms {HEARTBEAT_MS} must be below session_timeout_ms "
                f"{timeout_ms}"
            )
        config = {"consumer.session.timeout.ms": timeout_ms}
        self.coordinator.handle({"op": "group_config", "group_id": group_id, "config": config})

    def _take_turn(self, consumer: ProtocolConsumer) -> None:
        response = consumer.member.send()
        consumer.member.events.clear()
        self._schedule_coordinator()
        self.coordinator.take_events()
        self.schedule.call_later(DELIVERY_MS, self._receive, consumer, consumer.turn, response)

    def _receive(self, consumer: ProtocolConsumer, turn: int, response: Any) -> None:
        """Deliver a response, and let the consumer do what it is for."""
        if not consumer.alive:
            return
        member = consumer.member
        if turn != consumer.turn or not consumer.reachable:
            member.receive(None)  # the consumer is woken when it can reach the coordinator
            return
        member.receive(response)
        member.reconcile()
        if member.heartbeat_due:
            self._act(consumer, turn)
        else:
            self._wake(consumer, max(1, member.next_heartbeat_ms - self.schedule.now_ms))

    def _on_event(self, event: Any) -> None:
        if isinstance(event, ConsumerGroupChange) and event.type == "consumer":
            self._changed(event)

    def _changed(self, event: ConsumerGroupChange) -> None:
        group_id = event.group_id
        epoch, target_epoch = self._epochs.get(group_id, (0, 0))
        self._epochs[group_id] = event.group_epoch, event.assignment_epoch
        boundaries: list[str] = []
        if event.group_epoch > epoch:
            self._moved[group_id] = set()
            self._began(group_id)
            boundaries += ("prepared", "told", "joined")
        if event.assignment_epoch > target_epoch:
            boundaries.append("written")
        if event.state == "Stable":
            self._ended(group_id)
            boundaries.append("answered")
        self._pass(boundaries, group_id)

    def count_moved(self, consumer: ProtocolConsumer) -> None:
        moved = self._moved.setdefault(consumer.group_id, set())
        if consumer.name not in moved:
            moved.add(consumer.name)
            self.protocol_counts.took_part += 1


def play(
    scenario: Scenario,
    note: Callable[..., None] | None = None,
    schedule: Schedule | None = None,
    behaviour: str = BEHAVIOUR,
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Play a scenario; return its points and counts."""
    return play_in(ConsumerProtocolSimulation, scenario, note, schedule, behaviour=behaviour)

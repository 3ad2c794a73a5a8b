"""The state at a point of a scenario, in the form of the golden files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.designs.consumer08 import registration
from coterie.designs.consumer08.consumer import RunContext, ZooKeeperConsumer
from coterie.designs.consumer08.views import GROUPS, partitions_of, topics_present
from coterie.designs.zookeeper.session import Session


class Points:
    """Take points; the counts of a point start at the point before it."""

    def __init__(self, world: RunContext, consumers: Mapping[str, ZooKeeperConsumer]) -> None:
        self._world = world
        self._tree = world.zookeeper.tree
        self._consumers = consumers
        self._before: dict[str, tuple[ZooKeeperConsumer, dict[str, int], dict[str, int]]] = {}

    def take(self, point: int, *, kafka_offsets: bool) -> dict[str, Any]:
        """Return the present state."""
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

"""Check the ops of a scenario one after another, each against those before it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any

from coterie.designs.checks import CHECKS, ScenarioError
from coterie.designs.consumer08_cluster import consumer_config
from coterie.designs.consumer08_registration import filter_text
from coterie.designs.ops import (
    MOMENTS,
    OPS,
    AddPartitions,
    BrokerStart,
    BrokerStop,
    Close,
    CoordinatorStop,
    Crash,
    CreateTopic,
    DeleteTopic,
    OfConsumer,
    OfTopic,
    Op,
    Produce,
    Start,
    TouchTopic,
    ZkCut,
    ZkHold,
)
from coterie.errors import ArgumentError, shown

KINDS = {  # the check of each field, by its name in a file
    "topic": "topic",
    "replicas": "replicas",
    "partition": "count",
    "count": "count",
    "consumer": "name",
    "group": "name",
    "subscription": "streams",
    "whitelist": "text",
    "blacklist": "text",
    "streams": "stream_count",
    "config": "settings",
    "as": "name",
    "async": "bool",
    "broker": "count",
    "moment": "text",
    "path": "path",
    "data": "text",
    "ephemeral": "bool",
    "ms": "count",
    "point": "count",
}


def check_settings(*settings: Mapping[str, Any], place: str) -> None:
    """Check consumer settings; later ones win. The error names ``place``."""
    try:
        consumer_config(*settings)
    except ArgumentError as error:
        raise ScenarioError(f"{place}: {error}") from None


class OpReader:
    """Read ops in order; each is checked against the state after the ops before it."""

    def __init__(
        self,
        consumer_settings: Mapping[str, Any],
        brokers: Collection[int],
        *,
        deletes_topics: bool,
    ) -> None:
        self._consumer_settings = consumer_settings
        self._brokers = brokers
        self._deletes_topics = deletes_topics
        self._last_ms = 0
        self._names: set[str] = set()
        self._live: set[str] = set()
        self._gone: set[str] = set()
        self._groups: set[str] = set()
        self._stops: list[CoordinatorStop] = []
        self._topics: dict[str, int] = {}
        self._rules: dict[type[Op], Callable[[Any], None]] = {
            CreateTopic: self._create_topic,
            AddPartitions: self._add_partitions,
            DeleteTopic: self._delete_topic,
            TouchTopic: self._check_topic,
            Produce: self._produce,
            Start: self._start,
            BrokerStart: self._broker,
            BrokerStop: self._broker,
            CoordinatorStop: self._coordinator_stop,
        }

    def op(self, event: Any, place: str) -> Op:
        if not isinstance(event, Mapping):
            raise ScenarioError(f"{place}: {shown(event)} is not an object")
        kind = OPS.get(event["op"]) if isinstance(event.get("op"), str) else None
        if kind is None:
            raise ScenarioError(f"{place}.op: unknown op {shown(event.get('op'))}")
        at = CHECKS["count"](event.get("at"), f"{place}.at")
        if at < self._last_ms:
            raise ScenarioError(f"{place}.at: {at} lies before {self._last_ms}, the op before it")
        self._last_ms = at
        values: dict[str, Any] = {"at": at, "place": place}
        fields = {field.name: field for field in dataclasses.fields(kind)}
        for key, value in event.items():
            if key in ("at", "op"):
                continue
            name = f"{key}_" if key in ("as", "async") else key
            if name not in fields or key == "place":
                raise ScenarioError(f"{place}: {event['op']} has no field {shown(key)}")
            values[name] = CHECKS[KINDS[key]](value, f"{place}.{key}")
        for name, field in fields.items():
            required = (
                field.default is dataclasses.MISSING
                and field.default_factory is dataclasses.MISSING
            )
            if required and name not in values:
                raise ScenarioError(f"{place}: {event['op']} needs {name.rstrip('_')!r}")
        op = kind(**values)
        if isinstance(op, OfConsumer) and not isinstance(op, Start):
            self._check_consumer(op)
        rule = self._rules.get(kind)
        if rule is not None:
            rule(op)
        return op

    def check_stopped_groups(self) -> None:
        """Check that each group whose coordinator stops has a consumer, then or later."""
        for op in self._stops:
            if op.group not in self._groups:
                raise ScenarioError(f"{op.place}.group: no consumer is of group {op.group!r}")

    def _check_consumer(self, op: OfConsumer) -> None:
        if op.consumer not in self._names:
            raise ScenarioError(f"{op.place}.consumer: no consumer {op.consumer!r} was started")
        if isinstance(op, Close | Crash | ZkCut | ZkHold) and op.consumer in self._gone:
            raise ScenarioError(f"{op.place}.consumer: {op.consumer!r} does not run any more")
        if isinstance(op, Close | Crash):
            self._live.discard(op.consumer)
            if not (isinstance(op, Close) and op.async_):  # an async close may still be in progress
                self._gone.add(op.consumer)

    def _start(self, op: Start) -> None:
        choices = op.subscription, op.whitelist, op.blacklist
        if sum(choice is not None for choice in choices) != 1:
            raise ScenarioError(
                f"{op.place}: start needs one of 'subscription', 'whitelist' and 'blacklist'"
            )
        if op.name in self._live:
            raise ScenarioError(f"{op.place}: consumer {op.name!r} runs already")
        for key in ("whitelist", "blacklist"):
            if (text := getattr(op, key)) is not None:
                try:
                    filter_text(text)
                except ArgumentError as error:
                    raise ScenarioError(f"{op.place}.{key}: {error}") from None
        check_settings(self._consumer_settings, op.config, place=f"{op.place}.config")
        self._names.add(op.name)
        self._live.add(op.name)
        self._gone.discard(op.name)
        self._groups.add(op.group)

    def _create_topic(self, op: CreateTopic) -> None:
        if op.topic in self._topics:
            raise ScenarioError(f"{op.place}.topic: {op.topic!r} is there already")
        self._check_replicas(op)
        self._topics[op.topic] = len(op.replicas)

    def _add_partitions(self, op: AddPartitions) -> None:
        self._check_topic(op)
        self._check_replicas(op)
        self._topics[op.topic] += len(op.replicas)

    def _check_replicas(self, op: CreateTopic | AddPartitions) -> None:
        for i, ids in enumerate(op.replicas):
            place = f"{op.place}.replicas[{i}]"
            for broker in ids:
                if broker not in self._brokers:
                    raise ScenarioError(f"{place}: there is no broker {broker}")

    def _check_topic(self, op: OfTopic) -> None:
        if op.topic not in self._topics:
            raise ScenarioError(f"{op.place}.topic: there is no topic {op.topic!r}")

    def _delete_topic(self, op: DeleteTopic) -> None:
        self._check_topic(op)
        if self._deletes_topics:
            del self._topics[op.topic]

    def _produce(self, op: Produce) -> None:
        self._check_topic(op)
        if op.partition >= self._topics[op.topic]:
            raise ScenarioError(
                f"{op.place}.partition: {op.topic!r} has partitions 0 to "
                f"{self._topics[op.topic] - 1}, not {op.partition}"
            )

    def _broker(self, op: BrokerStart | BrokerStop) -> None:
        if op.broker not in self._brokers:
            raise ScenarioError(f"{op.place}.broker: there is no broker {op.broker}")

    def _coordinator_stop(self, op: CoordinatorStop) -> None:
        if op.moment and op.moment not in MOMENTS:
            raise ScenarioError(f"{op.place}.moment: {op.moment!r} is none of {', '.join(MOMENTS)}")
        self._stops.append(op)

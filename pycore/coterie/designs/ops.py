"""Ops of a scenario: what can happen at a moment, a class for each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MOMENTS = (
    "before-heartbeats",
    "some-heartbeats-answered",
    "some-joins-arrived",
    "generation-written",
    "some-joins-answered",
)
"""When a coordinator stops in the next rebalance: the 0.9 design's five points of failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """An event at a time (``at``, ms). Messages name it by its ``place``."""

    at: int
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OfTopic(Op):
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic(OfTopic):
    """A topic is created; ``replicas`` has the brokers of each partition."""

    replicas: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions(OfTopic):
    """Partitions are added; ``replicas`` has the brokers of each."""

    replicas: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic(OfTopic):
    """A topic is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchTopic(OfTopic):
    """A topic's node is written again with the same data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce(OfTopic):
    partition: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OfConsumer(Op):
    consumer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(OfConsumer):
    """A consumer starts: ``consumer`` is its id, ``as_`` its name in the scenario."""

    group: str = "group1"
    subscription: Mapping[str, int] | None = None
    whitelist: str | None = None
    blacklist: str | None = None
    streams: int = 1
    config: Mapping[str, Any] = field(default_factory=dict)
    as_: str = ""
    async_: bool = False

    @property
    def name(self) -> str:
        return self.as_ or self.consumer


@dataclass(frozen=True, slots=True, kw_only=True)
class Close(OfConsumer):
    async_: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash(OfConsumer):
    """Its process ends without a request to leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire(OfConsumer):
    """Its ZooKeeper session ends while it is disconnected; it reconnects at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZkCut(OfConsumer):
    """Its connection is closed and refused from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZkHeal(OfConsumer):
    """Its connection is allowed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZkHold(OfConsumer):
    """Everything sent to it is delayed from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZkRelease(OfConsumer):
    """Delayed events and answers are delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(OfConsumer):
    """The program asks for a commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStop(Op):
    """A broker stops; its node goes at once."""

    broker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStart(Op):
    broker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorStop(Op):
    """The broker that coordinates a group stops: now, or at a moment of its next rebalance."""

    group: str = "group1"
    moment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZnodeCreate(Op):
    path: str
    data: str = ""
    ephemeral: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ZnodeSet(Op):
    path: str
    data: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZnodeDelete(Op):
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(Op):
    """Time passes. Only a ``settle`` right after it depends on ``ms``."""

    ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle(Op):
    """A point: the present state becomes part of the result."""

    point: int


OPS: dict[str, type[Op]] = {  # by the name in a file: create_topic of CreateTopic
    re.sub("(?<!^)(?=[A-Z])", "_", kind.__name__).lower(): kind
    for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, Op) and kind not in (Op, OfTopic, OfConsumer)
}

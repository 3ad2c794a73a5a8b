"""A scenario: who starts, closes, dies, what fails, when; read from a file and checked.

Anything wrong in a file is a :class:`ScenarioError`: one line that names the place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.arguments import called
from coterie.designs.checks import CHECKS, ScenarioError
from coterie.designs.consumer08.config import consumer_config
from coterie.designs.consumer08.registration import filter_text
from coterie.errors import ArgumentError, shown

FORMAT = "coterie-zk08"
SIMPLE = "coterie-simple08"  # what SimpleConsumer asked: no scenario of a group
MOMENTS = (
    "before-heartbeats",
    "some-heartbeats-answered",
    "some-joins-arrived",
    "generation-written",
    "some-joins-answered",
)
"""When, in the next rebalance, the coordinator stops: the five points of the 0.9 design."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """Something that happens at a moment (``at``, ms); ``place`` names it in messages."""

    at: int
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OfTopic(Op):
    """An op on a topic."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic(OfTopic):
    """A topic is created; the brokers of each of its partitions."""

    replicas: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions(OfTopic):
    """Partitions are added; the brokers of each."""

    replicas: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic(OfTopic):
    """A topic is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchTopic(OfTopic):
    """A topic's node is written again as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce(OfTopic):
    """Messages are appended to a partition."""

    partition: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OfConsumer(Op):
    """An op on a consumer that was started."""

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
        """Its name in the scenario."""
        return self.as_ or self.consumer


@dataclass(frozen=True, slots=True, kw_only=True)
class Close(OfConsumer):
    """A clean shutdown."""

    async_: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash(OfConsumer):
    """Its process is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire(OfConsumer):
    """Its session ends at the server while it is disconnected; it reconnects at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZkCut(OfConsumer):
    """Its connection is closed and refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZkHeal(OfConsumer):
    """Its connection is allowed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZkHold(OfConsumer):
    """What is sent to it waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZkRelease(OfConsumer):
    """What waited flows again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(OfConsumer):
    """The program asks for a commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStop(Op):
    """A broker stops; its node goes at once."""

    broker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStart(Op):
    """A broker starts."""

    broker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorStop(Op):
    """The broker that coordinates a group stops: now, or at a moment of its next rebalance."""

    group: str = "group1"
    moment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZnodeCreate(Op):
    """A node is created from outside."""

    path: str
    data: str = ""
    ephemeral: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ZnodeSet(Op):
    """A node is written from outside."""

    path: str
    data: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZnodeDelete(Op):
    """A node is deleted from outside."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(Op):
    """Time passes: in a virtual clock ``at`` of the next op says it all."""

    ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle(Op):
    """A point: what is there now is taken down."""

    point: int


OPS: dict[str, type[Op]] = {
    "create_topic": CreateTopic,
    "add_partitions": AddPartitions,
    "delete_topic": DeleteTopic,
    "touch_topic": TouchTopic,
    "produce": Produce,
    "start": Start,
    "close": Close,
    "crash": Crash,
    "expire": Expire,
    "zk_cut": ZkCut,
    "zk_heal": ZkHeal,
    "zk_hold": ZkHold,
    "zk_release": ZkRelease,
    "commit": Commit,
    "broker_stop": BrokerStop,
    "broker_start": BrokerStart,
    "coordinator_stop": CoordinatorStop,
    "znode_create": ZnodeCreate,
    "znode_set": ZnodeSet,
    "znode_delete": ZnodeDelete,
    "wait": Wait,
    "settle": Settle,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A scenario's ``config``."""

    brokers: tuple[int, ...] = (0,)
    brokers_up: bool = True
    broker: Mapping[str, Any] = field(default_factory=dict)
    consumer: Mapping[str, Any] = field(default_factory=dict)
    tick_ms: int = 500

    @property
    def deletes_topics(self) -> bool:
        """Whether brokers delete topics (``delete.topic.enable``)."""
        return str(self.broker.get("delete.topic.enable", "false")).lower() == "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario: its name, what it shows, how it is set, what happens."""

    name: str
    doc: str
    config: Config
    ops: tuple[Op, ...]


@called
def read_scenario(value: Any, *, name: str = "") -> Scenario:
    """Read a scenario from what a JSON file holds.

    Parameters
    ----------
    value
        The object of the file.
    name : str
        What to call it if it has no name of its own.

    Raises
    ------
    ScenarioError
        Something is wrong: the message is one line that names the place.
    """
    if not isinstance(value, Mapping):
        raise ScenarioError(f"a scenario is an object, not {shown(value)}")
    form, version = value.get("format", FORMAT), value.get("version", 1)
    if not isinstance(form, str) or form != FORMAT or type(version) is not int or version != 1:
        if isinstance(form, str) and form == SIMPLE:
            raise ScenarioError(f"format: {SIMPLE}: coterie.designs.simple08.run plays it")
        what = f"{shown(form)} version {shown(version)}"
        raise ScenarioError(f"format: {what} is not {FORMAT!r} version 1")
    config = _read_config(value.get("config", {}))
    events = value.get("events")
    if not isinstance(events, Sequence) or isinstance(events, str):
        raise ScenarioError(f"events: {shown(events)} is not a list")
    checked = _Checked(config)
    ops = tuple(checked.op(event, f"events[{i}]") for i, event in enumerate(events))
    checked.groups_fit()
    return Scenario(
        name=CHECKS["text"](value.get("name", name), "name"),
        doc=CHECKS["text"](value.get("doc", ""), "doc"),
        config=config,
        ops=ops,
    )


def _read_config(given: Any) -> Config:
    if not isinstance(given, Mapping):
        raise ScenarioError(f"config: {shown(given)} is not an object")
    checks: dict[str, tuple[str, str]] = {
        "brokers": ("brokers", "ids"),
        "brokers_up": ("brokers_up", "bool"),
        "broker": ("broker", "settings"),
        "consumer": ("consumer", "settings"),
        "zookeeper.tick.ms": ("tick_ms", "positive"),
    }
    values = {
        checks[key][0]: CHECKS[checks[key][1]](value, f"config.{key}")
        for key, value in given.items()
        if key in checks
    }
    config = Config(**values)
    _settings_fit(config.consumer, place="config.consumer")
    return config


def _settings_fit(*settings: Mapping[str, Any], place: str) -> None:
    try:
        consumer_config(*settings)
    except ArgumentError as error:
        raise ScenarioError(f"{place}: {error}") from None


KINDS = {  # how each field is checked, by its name in a file
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


class _Checked:
    """Checks ops one after another: each against what the ones before have made."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._now = 0
        self._names: set[str] = set()
        self._live: set[str] = set()
        self._gone: set[str] = set()
        self._groups: set[str] = set()
        self._stops: list[CoordinatorStop] = []
        self._topics: dict[str, int] = {}
        self._fits: dict[type[Op], Callable[[Any], None]] = {
            CreateTopic: self._create_topic,
            AddPartitions: self._add_partitions,
            DeleteTopic: self._delete_topic,
            TouchTopic: self._there,
            Produce: self._produce,
            Start: self._start,
            BrokerStart: self._broker,
            BrokerStop: self._broker,
            CoordinatorStop: self._moment,
        }

    def op(self, event: Any, place: str) -> Op:
        """Read one op."""
        if not isinstance(event, Mapping):
            raise ScenarioError(f"{place}: {shown(event)} is not an object")
        kind = OPS.get(event["op"]) if isinstance(event.get("op"), str) else None
        if kind is None:
            raise ScenarioError(f"{place}.op: unknown op {shown(event.get('op'))}")
        at = CHECKS["count"](event.get("at"), f"{place}.at")
        if at < self._now:
            raise ScenarioError(f"{place}.at: {at} lies before {self._now}, the op before it")
        self._now = at
        values: dict[str, Any] = {"at": at, "place": place}
        known = {one.name: one for one in dataclasses.fields(kind)}
        for key, value in event.items():
            if key in ("at", "op"):
                continue
            name = f"{key}_" if key in ("as", "async") else key
            if name not in known or key == "place":
                raise ScenarioError(f"{place}: {event['op']} has no field {shown(key)}")
            values[name] = CHECKS[KINDS[key]](value, f"{place}.{key}")
        for name, one in known.items():
            lacks = (
                one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
            )
            if lacks and name not in values:
                raise ScenarioError(f"{place}: {event['op']} needs {name.rstrip('_')!r}")
        op = kind(**values)
        if isinstance(op, OfConsumer) and not isinstance(op, Start):
            self._started(op)
        fits = self._fits.get(kind)
        if fits is not None:
            fits(op)
        return op

    def groups_fit(self) -> None:
        """Check that somebody is of each group whose coordinator stops: now or later."""
        for op in self._stops:
            if op.group not in self._groups:
                raise ScenarioError(f"{op.place}.group: no consumer is of group {op.group!r}")

    def _started(self, op: OfConsumer) -> None:
        if op.consumer not in self._names:
            raise ScenarioError(f"{op.place}.consumer: no consumer {op.consumer!r} was started")
        if isinstance(op, Close | Crash | ZkCut | ZkHold) and op.consumer in self._gone:
            raise ScenarioError(f"{op.place}.consumer: {op.consumer!r} does not run any more")
        if isinstance(op, Close | Crash):
            self._live.discard(op.consumer)
            if not (isinstance(op, Close) and op.async_):  # else it is closing yet
                self._gone.add(op.consumer)

    def _start(self, op: Start) -> None:
        ways = [one for one in (op.subscription, op.whitelist, op.blacklist) if one is not None]
        if len(ways) != 1:
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
        _settings_fit(self._config.consumer, op.config, place=f"{op.place}.config")
        self._names.add(op.name)
        self._live.add(op.name)
        self._gone.discard(op.name)
        self._groups.add(op.group)

    def _create_topic(self, op: CreateTopic) -> None:
        if op.topic in self._topics:
            raise ScenarioError(f"{op.place}.topic: {op.topic!r} is there already")
        self._replicas(op)
        self._topics[op.topic] = len(op.replicas)

    def _add_partitions(self, op: AddPartitions) -> None:
        self._there(op)
        self._replicas(op)
        self._topics[op.topic] += len(op.replicas)

    def _replicas(self, op: CreateTopic | AddPartitions) -> None:
        for i, ids in enumerate(op.replicas):
            place = f"{op.place}.replicas[{i}]"
            for broker in ids:
                if broker not in self._config.brokers:
                    raise ScenarioError(f"{place}: there is no broker {broker}")

    def _there(self, op: OfTopic) -> None:
        if op.topic not in self._topics:
            raise ScenarioError(f"{op.place}.topic: there is no topic {op.topic!r}")

    def _delete_topic(self, op: DeleteTopic) -> None:
        self._there(op)
        if self._config.deletes_topics:
            del self._topics[op.topic]

    def _produce(self, op: Produce) -> None:
        self._there(op)
        if op.partition >= self._topics[op.topic]:
            raise ScenarioError(
                f"{op.place}.partition: {op.topic!r} has partitions 0 to "
                f"{self._topics[op.topic] - 1}, not {op.partition}"
            )

    def _broker(self, op: BrokerStart | BrokerStop) -> None:
        if op.broker not in self._config.brokers:
            raise ScenarioError(f"{op.place}.broker: there is no broker {op.broker}")

    def _moment(self, op: CoordinatorStop) -> None:
        if op.moment and op.moment not in MOMENTS:
            raise ScenarioError(f"{op.place}.moment: {op.moment!r} is none of {', '.join(MOMENTS)}")
        self._stops.append(op)

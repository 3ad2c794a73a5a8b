"""The file of a scenario: a group's history, written so that a person can edit and replay it.

JSON, an event a line. Its events have the names, fields and order of those of
``coterie.designs``, and three more: ``pause``, ``subscribe``, ``rejoin``. Beside the time of each,
``after`` and ``slack_ms`` say what the log shows of its order (:class:`LoggedHistory`). Anything
wrong in a file is a ``ScenarioError``: one line that names the place.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from coterie.coordinator.config import coordinator_config
from coterie.designs.checks import CHECKS, ScenarioError
from coterie.errors import ConfigError, shown
from coterie.histories.rehearsal.history import (
    CLOSED,
    CRASHED,
    HEARTBEAT_MS,
    PAUSED,
    PROTOCOL,
    Generation,
    LoggedHistory,
    Owned,
)
from coterie.testing.client.settings import STRATEGY, consumer_settings
from coterie.testing.member import MOST_PARTITIONS

FORMAT, VERSION = "coterie-rehearsal", 1
TIMES = {"at": "count", "after": "count", "slack_ms": "count"}
OPS = {  # op -> its fields, each with its check
    "start": {"consumer": "name", "subscription": "streams", "config": "settings"},
    CLOSED: {"consumer": "name"},
    CRASHED: {"consumer": "name"},
    PAUSED: {"consumer": "name"},
    "rejoin": {"consumer": "name"},
    "commit": {"consumer": "name"},
    "subscribe": {"consumer": "name", "subscription": "streams"},
    "add_partitions": {"topic": "topic", "count": "positive"},
    "coordinator_stop": {"group": "text", "config": "settings"},
}
HEAD = {  # the fields of a file, each with its check
    "format": "text",
    "version": "count",
    "doc": "text",
    "group": "text",
    "kafka": "text",
    "origin_ms": "count",
    "heartbeat_ms": "positive",
    "brokers": "settings",
    "topics": "sizes",
    "unknown": "sizes",
    "events": "list",
    "generations": "list",
    "commits": "list",
}
GENERATION = {"at": "count", "generation": "count", "owners": "object"}
COMMITS = {"topic": "text", "partition": "count", "times": "list", "offsets": "list"}
NEEDED = {
    *("events", "topics", "at", "op", "consumer", "subscription", "topic", "count", "owners"),
    *COMMITS,
}
SESSION, POLL = "session.timeout.ms", "max.poll.interval.ms"
REMOTE = "group.remote.assignor"
Object = dict[str, Any]


def write(history: LoggedHistory, kafka: str) -> Iterator[str]:
    """Yield the file of a history in pieces; ``kafka``: the release to play it under."""
    head = {
        "format": FORMAT,
        "version": VERSION,
        "group": history.group,
        "kafka": kafka,
        "origin_ms": history.origin_ms,
        "heartbeat_ms": history.heartbeat_ms,
        "brokers": history.brokers,
        "topics": history.topics,
        "unknown": dict(sorted(history.unknown.items())),
    }
    generations = (
        {"at": one.at, "generation": one.generation, "owners": one.owners}
        for one in history.generations
    )
    yield "{\n"
    yield from (f" {_json(name)}: {_json(value)},\n" for name, value in head.items())
    yield from _lines("events", history.ops)
    yield ",\n"
    yield from _lines("generations", generations)
    yield ",\n"
    commits = (
        {"topic": topic, "partition": partition, "times": times, "offsets": offsets}
        for (topic, partition), (times, offsets) in history.commits.items()
    )
    yield from _lines("commits", commits)
    yield "\n}\n"


def _lines(name: str, values: Iterable[Any]) -> Iterator[str]:
    yield f" {_json(name)}: ["
    for number, value in enumerate(values):
        yield f"{',' if number else ''}\n  {_json(value)}"
    yield "\n ]"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def read(value: Any) -> tuple[LoggedHistory, str | None]:
    """Return the history that is the content of a file, and the release to play it under.

    Raises
    ------
    ScenarioError
        It is wrong; the message is one line that names the place.
    """
    head = _checked(value, HEAD, "")
    form = head.get("format"), head.get("version")
    if form != (FORMAT, VERSION):
        raise ScenarioError(
            f"format: {shown(form[0])} version {shown(form[1])} is not {FORMAT!r} version {VERSION}"
        )
    if not head.get("group", "group"):
        raise ScenarioError("group: it has no name")
    history = LoggedHistory(
        head.get("group", "group"),
        head.get("origin_ms", 0),
        head["topics"],
        head.get("heartbeat_ms", HEARTBEAT_MS),
        unknown=Counter(head.get("unknown", {})),
        brokers=head.get("brokers", {}),
    )
    _check_brokers(history.brokers, "brokers")
    reader = _Events(history.topics)
    history.ops += [reader.op(one, f"events[{n}]") for n, one in enumerate(head["events"])]
    if not reader.started:
        raise ScenarioError("events: no consumer starts")
    generations = head.get("generations", ())
    history.generations += [
        _generation(one, f"generations[{n}]") for n, one in enumerate(generations)
    ]
    for n, one in enumerate(head.get("commits", ())):
        place, curve = _commits(one, f"commits[{n}]")
        history.commits[place] = curve
    return history, head.get("kafka")


def _commits(value: Any, place: str) -> tuple[tuple[str, int], tuple[list[int], list[int]]]:
    one = _checked(value, COMMITS, place)
    times, offsets = (
        [CHECKS["count"](number, f"{place}.{name}[{n}]") for n, number in enumerate(one[name])]
        for name in ("times", "offsets")
    )
    if len(times) != len(offsets):
        raise ScenarioError(f"{place}: {len(times)} times are not {len(offsets)} offsets")
    if times != sorted(times):
        raise ScenarioError(f"{place}.times: they are not in order")
    return (one["topic"], one["partition"]), (times, offsets)


def _generation(value: Any, place: str) -> Generation:
    one = _checked(value, GENERATION, place)
    owners: dict[str, Owned] = {}
    for consumer, owned in one["owners"].items():
        of = f"{place}.owners.{consumer}"
        owners[consumer] = {
            topic: [CHECKS["count"](number, f"{of}.{topic}") for number in _list(numbers, of)]
            for topic, numbers in _object(owned, of).items()
        }
    return Generation(one["at"], one.get("generation", 0), owners)


class _Events:
    """Checks events, each against those before it."""

    def __init__(self, topics: Mapping[str, int]) -> None:
        self.sizes = Counter(topics)
        self.live: dict[str, str] = {}  # consumer -> member id
        self.started = 0
        self.last_ms = 0
        self._check_sizes("topics")

    def op(self, value: Any, place: str) -> Object:
        """Return an event as an op of a history."""
        kind = _object(value, place).get("op")
        if not isinstance(kind, str) or kind not in OPS:
            raise ScenarioError(f"{place}.op: {shown(kind)} is none of {', '.join(OPS)}")
        op: Object = {"after": 0, "slack_ms": 0} | _checked(
            value, TIMES | {"op": "text"} | OPS[kind], place
        )
        if op["at"] < self.last_ms:
            raise ScenarioError(
                f"{place}.at: {op['at']} lies before {self.last_ms}, the event before it"
            )
        self.last_ms = op["at"]
        for topic in op.get("subscription", ()):
            self._check_topic(topic, f"{place}.subscription")
        if kind == "start":
            self._start(op, place)
        elif kind == "add_partitions":
            self._check_topic(op["topic"], f"{place}.topic")
            self.sizes[op["topic"]] += op["count"]
            self._check_sizes(f"{place}.count")
        elif kind == "coordinator_stop":
            _check_brokers(op.get("config", {}), f"{place}.config")
        elif "consumer" in op and op["consumer"] not in self.live:
            raise ScenarioError(f"{place}.consumer: {shown(op['consumer'])} does not run")
        if kind in (CLOSED, CRASHED, PAUSED):
            del self.live[op["consumer"]]
        return op

    def _start(self, op: Object, place: str) -> None:
        name = op["consumer"]
        if name in self.live:
            raise ScenarioError(f"{place}.consumer: {shown(name)} runs already")
        self.started += 1
        op["config"] = _config(op.get("config", {}), f"{place}.config") | {
            key: op.get("config", {}).get(key, default)
            for key, default in (("client.id", name), ("member.id", f"{name}-{self.started}"))
        }
        member_id = CHECKS["text"](op["config"]["member.id"], f"{place}.config.member.id")
        if member_id in self.live.values():
            raise ScenarioError(f"{place}.config.member.id: another member has {shown(member_id)}")
        self.live[name] = member_id

    def _check_topic(self, topic: str, place: str) -> None:
        if topic not in self.sizes:
            raise ScenarioError(f"{place}: there is no topic {shown(topic)}")

    def _check_sizes(self, place: str) -> None:
        if (number := self.sizes.total()) > MOST_PARTITIONS:
            raise ScenarioError(f"{place}: {number} partitions are more than {MOST_PARTITIONS}")


def _config(config: Object, place: str) -> Object:
    """Return the settings of a consumer, with the defaults of those that a play needs."""
    if "group.id" in config:
        raise ScenarioError(f"{place}.group.id: a scenario has one group")
    classic = {"group.id": "group", "heartbeat.interval.ms": 1} | {
        name: value for name, value in config.items() if name not in ("member.id", REMOTE, PROTOCOL)
    }
    modern = {name: value for name, value in config.items() if name in (REMOTE, PROTOCOL)}
    try:
        settings = consumer_settings(classic)
        consumer_settings(modern)
    except ConfigError as error:
        raise ScenarioError(f"{place}: {error}") from None
    return {STRATEGY: "range"} | config | {SESSION: settings[SESSION], POLL: settings[POLL]}


def _check_brokers(config: Object, place: str) -> None:
    try:
        coordinator_config(config)
    except ConfigError as error:
        raise ScenarioError(f"{place}: {error}") from None


def _checked(value: Any, checks: Mapping[str, str], place: str) -> Object:
    """Return the fields of an object, each checked; optional ones may be missing."""
    fields = _object(value, place or "a scenario")
    before = f"{place}." if place else ""
    for key in fields:
        if key not in checks:
            known = ", ".join(checks)
            raise ScenarioError(f"{before or 'a scenario: '}{shown(key)}: there are {known}")
    for key in checks:
        if key in NEEDED and key not in fields:
            raise ScenarioError(f"{place or 'a scenario'}: {key!r} is missing")
    return {key: CHECK[checks[key]](value, before + key) for key, value in fields.items()}


def _object(value: Any, place: str) -> Object:
    if not isinstance(value, dict):
        raise ScenarioError(f"{place}: {shown(value)} is not an object")
    return value


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise ScenarioError(f"{place}: {shown(value)} is not a list")
    return value


def _sizes(value: Any, place: str) -> dict[str, int]:
    return {
        name: CHECKS["count"](n, f"{place}.{name}") for name, n in _object(value, place).items()
    }


CHECK = {**CHECKS, "object": _object, "list": _list, "sizes": _sizes}

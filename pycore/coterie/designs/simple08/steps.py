"""Play a scenario of the low-level consumer: apply its events, and answer its requests.

Responses in the file are ignored. An event without fields, such as ``session of broker 0 ended``,
lets time pass until nothing is pending.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coterie.designs.simple08.checks import NEEDS, request_fields
from coterie.designs.simple08.cluster import Cluster
from coterie.designs.simple08.requests import ANSWERS, OffsetStore, ResponseFields
from coterie.errors import ArgumentError, shown

__all__ = ["run"]

CLOSED = {"exception": "java.nio.channels.ClosedChannelException"}
PLACE = ("partition", "count")
NODE_WORDS = {  # words of a step that say which nodes it reads
    "states": re.compile(r"\b(?:states?|leaders?|isr|in-sync|elect\w*|epochs?)\b", re.I),
    "offsets": re.compile(r"\b(?:offsets?|commit\w*|version 0)\b", re.I),
}


def run(scenario: Mapping[str, Any]) -> list[ResponseFields]:
    """Play a scenario and return its steps, each request with its response.

    Parameters
    ----------
    scenario
        A file of the format ``coterie-simple08``, with or without its responses.

    Raises
    ------
    ArgumentError
        A step is wrong; the message names it.
    """
    player = Player(scenario)
    return [player.play(step, f"step {at}") for at, step in enumerate(player.steps, 1)]


class Player:
    """The state of a scenario that is being played."""

    def __init__(self, scenario: Mapping[str, Any]):
        config = _mapping(_mapping(scenario, "scenario").get("config"), "config")
        topics: Any = config.get("topics")
        brokers: Any = config.get("brokers")
        try:
            self.cluster = Cluster(topics, brokers)
        except ArgumentError as error:
            raise ArgumentError(f"config: {error}") from None
        self.offsets = OffsetStore()
        self.requests: list[Mapping[str, Any]] = []  # to brokers so far
        self.steps = _list(scenario.get("steps"), "steps")

    def play(self, value: Any, place: str) -> ResponseFields:
        """Play a step; error messages name it by its ``place``."""
        step = _mapping(value, place)
        place = f"step {shown(step['step'])}" if isinstance(step.get("step"), int) else place
        result = {name: field for name, field in step.items() if name != "response"}
        if "request" in step:
            request = _mapping(step["request"], f"{place}: request")
            return result | {"response": self.answer(request, str(step.get("doc", "")), place)}
        self.event(step, place)
        return result

    def event(self, step: Mapping[str, Any], place: str) -> None:
        name = step.get("event")
        if not isinstance(name, str):
            raise ArgumentError(f"{place}: event {shown(name)} is not known")
        if name in ("started", "start"):
            self.cluster.start([self._broker(one, place) for one in _brokers_of(step, place)])
        elif name in ("kill", "killed", "stop", "stopped"):
            for one in _brokers_of(step, place):
                self.cluster.kill(self._broker(one, place))
        elif name == "produce":
            self._produce(step, place)
        elif not step.keys() - {"step", "event", "doc"}:
            self.cluster.settle()
        else:
            raise ArgumentError(f"{place}: event {shown(name)} is not known")

    def _produce(self, step: Mapping[str, Any], place: str) -> None:
        topic, codec = step.get("topic"), step.get("codec", "none")
        number, count = (step[name] if _is_int(step.get(name)) else -1 for name in PLACE)
        if not isinstance(topic, str) or number < 0 or count < 0:
            raise ArgumentError(f"{place}: produce needs a topic, a partition and a count")
        try:
            partition = self.cluster.partition(topic, number)
            self.cluster.produce(topic, number, count, codec)
        except ArgumentError as error:
            raise ArgumentError(f"{place}: {error}") from None
        if partition is None:
            missing = f"topic {shown(topic)}, partition {shown(number)}"
            raise ArgumentError(f"{place}: nothing to produce to: {missing}")

    def answer(self, request: Mapping[str, Any], doc: str, place: str) -> ResponseFields:
        """Return the response to a request, or the exception of its sender."""
        api: Any = request.get("api")
        try:
            request = {**request, **request_fields(api, request, NEEDS)}
        except ArgumentError as error:
            raise ArgumentError(f"{place}: {error}") from None
        if api == "znodes":
            return self._nodes(doc)
        self.requests.append(request)
        broker = self._broker_asked(request, place)
        if broker is None or broker not in self.cluster.alive:
            return dict(CLOSED)
        answers: dict[str, Callable[[Cluster, int, Mapping[str, Any]], ResponseFields]] = {
            **ANSWERS,
            "consumer_metadata": self.offsets.consumer_metadata,
            "offset_commit": self.offsets.commit,
            "offset_fetch": self.offsets.fetch,
        }
        return answers[api](self.cluster, broker, request)

    def _broker_asked(self, request: Mapping[str, Any], place: str) -> int | None:
        """Return the broker of a request; ``coordinator`` stands for a group's coordinator."""
        named = request.get("broker")
        if not isinstance(named, str) or named not in ("coordinator", "not the coordinator"):
            return self._broker(named, place)
        coordinator = self.offsets.coordinator(self.cluster, request["group"])
        if named == "coordinator":
            return coordinator
        others = (broker for broker in sorted(self.cluster.alive) if broker != coordinator)
        return next(others, None)

    def _broker(self, value: Any, place: str) -> int:
        if not _is_int(value) or value not in self.cluster.brokers:
            raise ArgumentError(
                f"{place}: broker {shown(value)} is not one of {shown(list(self.cluster.brokers))}"
            )
        return int(value)

    def _nodes(self, doc: str) -> ResponseFields:
        """Return nodes of ZooKeeper: stored offsets, or the partition states of a topic.

        The request does not say which. The step's text may. Otherwise they are offsets after a
        request of version 0, which stores offsets in nodes, and states after any other request.
        """
        before = self.requests[-1] if self.requests else {}
        offsets = before.get("version") == 0
        if (kind := _kind_of_nodes(doc)) is not None:
            offsets = kind == "offsets"
        if offsets:
            return {path: str(at) for path, at in sorted(self.offsets.in_zookeeper.items())}
        return {
            f"/brokers/topics/{one.topic}/partitions/{one.number}/state": one.state.as_json()
            for one in self.cluster.topics.get(self._topic_of_states(doc), [])
        }

    def _topic_of_states(self, doc: str) -> str:
        """Return the topic in a step's text, or of the last request, or else the first topic."""
        topics = self.cluster.topics
        if (named := re.search(r"\btopic ([\w.-]+)", doc)) and named[1] in topics:
            return named[1]
        words = [one for one in re.findall(r"[\w.-]+", doc) if len(one) > 1]
        requested = (name for one in reversed(self.requests) for name in _requested_topics(one))
        return next((one for one in (*words, *requested, *topics) if one in topics), "")


def _kind_of_nodes(doc: str) -> str | None:
    """Return the kind of nodes in a step's text; None if it names none, or both."""
    kinds = [kind for kind, words in NODE_WORDS.items() if words.search(doc)]
    return kinds[0] if len(kinds) == 1 else None


def _requested_topics(request: Mapping[str, Any]) -> Sequence[str]:
    topics = request.get("topics", [request.get("topic", "")])
    return [one for one in topics if isinstance(one, str)]


def _brokers_of(step: Mapping[str, Any], place: str) -> Sequence[Any]:
    if "broker" in step:
        return [step["broker"]]
    return _list(step.get("brokers"), f"{place}: brokers")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _mapping(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ArgumentError(f"{place} must be an object, not {shown(value)}")
    return value


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise ArgumentError(f"{place} must be a list, not {shown(value)}")
    return value

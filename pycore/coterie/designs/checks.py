"""Checks of a scenario's values: each returns the value as it is used, or says what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coterie.errors import CoterieError, shown

_INT64 = 2**63
MOST_STREAMS = 10_000  # of a topic and a consumer: Kafka runs a thread for each
MOST = 2**53  # what JSON numbers hold exactly everywhere


class ScenarioError(CoterieError, ValueError):
    """A scenario cannot be run: one line that names the place and says what is wrong there."""


def _wrong(value: Any, place: str, wanted: str) -> ScenarioError:
    return ScenarioError(f"{place}: {shown(value)} is not {wanted}")


def count(value: Any, place: str) -> int:
    """Take a whole number from 0."""
    if type(value) is not int or not 0 <= value <= MOST:
        raise _wrong(value, place, "a whole number from 0")
    return value


def positive(value: Any, place: str) -> int:
    """Take a whole number from 1."""
    if type(value) is not int or not 1 <= value <= MOST:
        raise _wrong(value, place, "a whole number from 1")
    return value


def boolean(value: Any, place: str) -> bool:
    """Take true or false."""
    if type(value) is not bool:
        raise _wrong(value, place, "true or false")
    return value


def text(value: Any, place: str) -> str:
    """Take any text."""
    if not isinstance(value, str):
        raise _wrong(value, place, "text")
    return value


def name(value: Any, place: str) -> str:
    """Take text that can be a node's name: not empty, without a slash."""
    if not isinstance(value, str) or not value or "/" in value:
        raise _wrong(value, place, "a name: text without '/'")
    return value


def path(value: Any, place: str) -> str:
    """Take a node's path."""
    if not isinstance(value, str) or not value.startswith("/") or "" in value[1:].split("/"):
        raise _wrong(value, place, "a node's path, such as '/consumers/group1/ids/x'")
    return value


def settings(value: Any, place: str) -> Mapping[str, Any]:
    """Take settings: text, numbers or booleans by name."""
    if not isinstance(value, Mapping):
        raise _wrong(value, place, "an object of settings")
    for key, one in value.items():
        if not isinstance(key, str):
            raise _wrong(key, place, "the name of a setting")
        if not isinstance(one, str | int | bool) or (isinstance(one, int) and abs(one) > _INT64):
            raise _wrong(one, f"{place}.{key}", "text, a whole number, true or false")
    return dict(value)


def streams(value: Any, place: str) -> Mapping[str, int]:
    """Take how many streams of each topic."""
    if not isinstance(value, Mapping) or not value:
        raise _wrong(value, place, "an object of streams by topic")
    return {name(key, place): stream_count(count, f"{place}.{key}") for key, count in value.items()}


def stream_count(value: Any, place: str) -> int:
    """Take how many streams of a topic: each is a thread of its own in a rebalance."""
    if type(value) is not int or not 1 <= value <= MOST_STREAMS:
        raise _wrong(value, place, f"a whole number from 1 to {MOST_STREAMS}")
    return value


def ids(value: Any, place: str) -> tuple[int, ...]:
    """Take broker ids, at least one, each once."""
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise _wrong(value, place, "a list of broker ids, at least one")
    found = tuple(count(one, f"{place}[{i}]") for i, one in enumerate(value))
    if len(set(found)) != len(found):
        raise _wrong(value, place, "a list of different broker ids")
    return found


def replicas(value: Any, place: str) -> tuple[tuple[int, ...], ...]:
    """Take a list of replica lists, one for each partition."""
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise _wrong(value, place, "a list of replica lists, one a partition")
    return tuple(ids(one, f"{place}[{i}]") for i, one in enumerate(value))


CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "count": count,
    "positive": positive,
    "bool": boolean,
    "text": text,
    "name": name,
    "topic": name,
    "path": path,
    "settings": settings,
    "streams": streams,
    "stream_count": stream_count,
    "ids": ids,
    "replicas": replicas,
}

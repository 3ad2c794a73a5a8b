"""Check single values of a scenario. Each function returns the value or raises an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coterie.errors import CoterieError, shown

_INT64 = 2**63
MOST_STREAMS = 10_000  # of a topic and a consumer: Kafka runs a thread for each
MOST = 2**53  # what JSON numbers hold exactly everywhere


class ScenarioError(CoterieError, ValueError):
    """A scenario cannot be run. The message is one line that names the place."""


def _wrong(value: Any, place: str, expected: str) -> ScenarioError:
    return ScenarioError(f"{place}: {shown(value)} is not {expected}")


def count(value: Any, place: str) -> int:
    """Check a whole number from 0."""
    if type(value) is not int or not 0 <= value <= MOST:
        raise _wrong(value, place, "a whole number from 0")
    return value


def positive(value: Any, place: str) -> int:
    """Check a whole number from 1."""
    if type(value) is not int or not 1 <= value <= MOST:
        raise _wrong(value, place, "a whole number from 1")
    return value


def boolean(value: Any, place: str) -> bool:
    if type(value) is not bool:
        raise _wrong(value, place, "true or false")
    return value


def text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise _wrong(value, place, "text")
    return value


def name(value: Any, place: str) -> str:
    """Check text that can name a node: not empty, without a slash."""
    if not isinstance(value, str) or not value or "/" in value:
        raise _wrong(value, place, "a name: text without '/'")
    return value


def path(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value.startswith("/") or "" in value[1:].split("/"):
        raise _wrong(value, place, "a node's path, such as '/consumers/group1/ids/x'")
    return value


def settings(value: Any, place: str) -> Mapping[str, Any]:
    """Check settings: text, numbers or booleans by name."""
    if not isinstance(value, Mapping):
        raise _wrong(value, place, "an object of settings")
    for key, setting in value.items():
        if not isinstance(key, str):
            raise _wrong(key, place, "the name of a setting")
        if not isinstance(setting, str | int | bool) or (
            isinstance(setting, int) and abs(setting) > _INT64
        ):
            raise _wrong(setting, f"{place}.{key}", "text, a whole number, true or false")
    return dict(value)


def streams(value: Any, place: str) -> Mapping[str, int]:
    if not isinstance(value, Mapping) or not value:
        raise _wrong(value, place, "an object of streams by topic")
    return {
        name(key, place): stream_count(number, f"{place}.{key}") for key, number in value.items()
    }


def stream_count(value: Any, place: str) -> int:
    """Check the number of streams of a topic; each is a thread of the consumer."""
    if type(value) is not int or not 1 <= value <= MOST_STREAMS:
        raise _wrong(value, place, f"a whole number from 1 to {MOST_STREAMS}")
    return value


def ids(value: Any, place: str) -> tuple[int, ...]:
    """Check broker ids: at least one, each once."""
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise _wrong(value, place, "a list of broker ids, at least one")
    brokers = tuple(count(broker, f"{place}[{i}]") for i, broker in enumerate(value))
    if len(set(brokers)) != len(brokers):
        raise _wrong(value, place, "a list of different broker ids")
    return brokers


def replicas(value: Any, place: str) -> tuple[tuple[int, ...], ...]:
    """Check a list of replica lists, one for each partition."""
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise _wrong(value, place, "a list of replica lists, one a partition")
    return tuple(ids(brokers, f"{place}[{i}]") for i, brokers in enumerate(value))


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

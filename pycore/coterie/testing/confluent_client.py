"""What the consumer and the producer of confluent-kafka share: settings, exceptions, metadata."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from coterie.testing.client import errors
from coterie.testing.confluent_types import (
    CODE,
    KafkaError,
    KafkaException,
    TopicPartition,
    failure,
    translated,
)
from coterie.testing.program_client import Client
from coterie.values import OffsetAndMetadata

A_SLIP = 0.94  # similarity of a misspelling: above that of any two properties of librdkafka
CALLBACKS = ("on_commit", "error_cb", "stats_cb", "throttle_cb", "logger", "on_delivery")


def merged(args: tuple[Any, ...], named: dict[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Return the settings of a client, from a dict, named arguments or both.

    A misspelling of a known one is refused; unknown ones have no effect.
    """
    if len(args) > 1 or not all(isinstance(each, dict) for each in args):
        raise TypeError("expected configuration dict")
    given = dict(args[0]) if args else {}
    given |= {
        name if name in CALLBACKS else name.replace("_", "."): of for name, of in named.items()
    }
    given |= given.pop("default.topic.config", None) or {}
    properties = frozenset((*known, *CALLBACKS))
    for name in given:
        if name not in properties and _is_slip(name, properties):
            raise failure(CODE._INVALID_ARG, f'No such configuration property: "{name}"')
    return given


@lru_cache(maxsize=1024)  # members of many histories have the same settings
def _is_slip(name: str, known: frozenset[str]) -> bool:
    return bool(get_close_matches(name, known, 1, A_SLIP))


class ConfluentClient(Client):
    """A client of librdkafka."""

    def _closed_failure(self) -> Exception:
        return RuntimeError(f"{type(self).__name__} closed")

    def _raised(self, error: errors.KafkaError) -> Exception:
        return KafkaException(translated(error))

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """Return the topics and their partitions."""
        known = self._program.cluster.topics
        names = known if topic is None else [topic]
        topics = {}
        for name in names:
            error = None if name in known else KafkaError(CODE.UNKNOWN_TOPIC_OR_PART)
            numbers = range(len(known[name].logs)) if name in known else ()
            partitions = {
                n: SimpleNamespace(id=n, leader=0, replicas=[0], isrs=[0], error=None)
                for n in numbers
            }
            topics[name] = SimpleNamespace(topic=name, partitions=partitions, error=error)
        broker = SimpleNamespace(id=0, host="coterie", port=9092)
        return SimpleNamespace(
            cluster_id="coterie", controller_id=0, brokers={0: broker}, topics=topics,
            orig_broker_id=0, orig_broker_name="coterie:9092/0",
        )  # fmt: skip


def offsets_of(offsets: Iterable[TopicPartition]) -> dict[tuple[str, int], OffsetAndMetadata]:
    """Return the offsets that a commit may contain."""
    return {
        tp._place: OffsetAndMetadata(tp.offset, metadata=tp.metadata or "")
        for tp in offsets
        if tp.offset >= 0
    }

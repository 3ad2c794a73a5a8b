"""The admin client of confluent-kafka on virtual time: topics."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from coterie.testing.confluent_client import ConfluentClient, merged
from coterie.testing.confluent_types import failure
from coterie.testing.program_admin import add_partitions, create_topic, delete_topic
from coterie.values import Error

__all__ = ["AdminClient", "NewPartitions", "NewTopic"]


class NewTopic:
    """A topic to create; -1: what the broker's settings say."""

    def __init__(
        self,
        topic: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replica_assignment: list[list[int]] | None = None,
        config: dict[str, str] | None = None,
    ) -> None:
        self.topic, self.num_partitions = topic, num_partitions
        self.replication_factor = replication_factor
        self.replica_assignment, self.config = replica_assignment, config


class NewPartitions:
    """How many partitions a topic gets."""

    def __init__(
        self, topic: str, new_total_count: int, replica_assignment: list[list[int]] | None = None
    ) -> None:
        self.topic, self.new_total_count = topic, new_total_count
        self.replica_assignment = replica_assignment


class AdminClient(ConfluentClient):
    """An admin client of librdkafka; its futures are done at once."""

    def __init__(self, conf: dict[str, Any], **named: Any) -> None:
        super().__init__(str(merged((conf,), named, ()).get("client.id", "rdkafka")))

    def create_topics(
        self, new_topics: list[NewTopic], validate_only: bool = False, **_: Any
    ) -> dict[str, Future[None]]:
        """Create topics; return a future of each."""
        cluster = self._program.cluster
        return _futures(
            (new.topic, create_topic(cluster, new.topic, new.num_partitions, validate_only))
            for new in new_topics
        )

    def delete_topics(self, topics: list[str], **_: Any) -> dict[str, Future[None]]:
        """Delete topics; return a future of each."""
        return _futures((name, delete_topic(self._program.cluster, name)) for name in topics)

    def create_partitions(
        self, new_partitions: list[NewPartitions], validate_only: bool = False, **_: Any
    ) -> dict[str, Future[None]]:
        """Give topics more partitions; return a future of each."""
        cluster = self._program.cluster
        return _futures(
            (new.topic, add_partitions(cluster, new.topic, new.new_total_count, validate_only))
            for new in new_partitions
        )

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        """Return a future of the description of each topic of a TopicCollection."""
        known, node = (
            self._program.cluster._topics,
            SimpleNamespace(id=0, host="coterie", port=9092),
        )
        found = _futures(
            (name, Error.NONE if name in known else Error.UNKNOWN_TOPIC_OR_PARTITION)
            for name in topics.topic_names
        )
        for name in found.keys() & known.keys():
            partitions = [
                SimpleNamespace(id=log.partition, leader=node, replicas=[node], isr=[node])
                for log in known[name].logs
            ]
            found[name] = Future()
            found[name].set_result(
                SimpleNamespace(name=name, is_internal=False, partitions=partitions)
            )
        return found

    def poll(self, timeout: float = -1) -> int:
        """Return 0: there are no events."""
        return 0


def _futures(errors: Iterable[tuple[str, Error]]) -> dict[str, Future[Any]]:
    found: dict[str, Future[Any]] = {}
    for name, error in errors:
        future: Future[Any] = Future()
        found[name] = future
        if error is Error.NONE:
            future.set_result(None)
        else:
            future.set_exception(failure(error))
    return found

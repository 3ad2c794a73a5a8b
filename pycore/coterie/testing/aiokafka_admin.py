"""The admin client of aiokafka on virtual time: topics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from coterie.testing.aiokafka_client import AsyncClient
from coterie.testing.kafka_python_errors import for_code
from coterie.testing.program_admin import (
    NewPartitions,
    NewTopic,
    add_partitions,
    create_topic,
    delete_topic,
)
from coterie.values import Error

__all__ = ["AIOKafkaAdminClient", "NewPartitions", "NewTopic"]


class AIOKafkaAdminClient(AsyncClient):
    """An admin client of aiokafka."""

    def __init__(self, **_: Any) -> None:
        super().__init__("aiokafka-admin")

    async def start(self) -> None:
        """Connect."""

    async def stop(self) -> None:
        """End the client."""
        self._closed = True

    async def close(self) -> None:
        """End the client."""
        self._closed = True

    async def create_topics(
        self, new_topics: list[NewTopic], timeout_ms: int | None = None, validate_only: bool = False
    ) -> Any:
        """Create topics; the response has the error of each."""
        cluster = self._program.cluster
        return _response(
            {
                new.name: create_topic(cluster, new.name, new.num_partitions, validate_only)
                for new in new_topics
            }
        )

    async def delete_topics(self, topics: list[str], timeout_ms: int | None = None) -> Any:
        """Delete topics; the response has the error of each."""
        cluster = self._program.cluster
        return _response({name: delete_topic(cluster, name) for name in topics})

    async def create_partitions(
        self,
        topic_partitions: dict[str, NewPartitions],
        timeout_ms: int | None = None,
        validate_only: bool = False,
    ) -> Any:
        """Give topics more partitions."""
        cluster = self._program.cluster
        errors = {
            name: add_partitions(cluster, name, new.total_count, validate_only)
            for name, new in topic_partitions.items()
        }
        for name, error in errors.items():
            if error is not Error.NONE:
                raise for_code(error)(f"Could not create partitions for {name}: {error.name}")
        return _response(errors)

    async def list_topics(self) -> list[str]:
        """Return the names of all topics."""
        return list(self._program.cluster._topics)

    async def describe_topics(self, topics: list[str] | None = None) -> list[dict[str, Any]]:
        """Return topics and their partitions, by default all."""
        known = self._program.cluster._topics
        return [
            {
                "error_code": 0 if name in known else int(Error.UNKNOWN_TOPIC_OR_PARTITION),
                "topic": name,
                "is_internal": False,
                "partitions": [
                    {
                        "error_code": 0,
                        "partition": log.partition,
                        "leader": 0,
                        "replicas": [0],
                        "isr": [0],
                        "offline_replicas": [],
                    }
                    for log in (known[name].logs if name in known else ())
                ],
            }
            for name in (known if topics is None else topics)
        ]


def _response(errors: dict[str, Error]) -> Any:
    rows = [(name, int(error), error.name if error else None) for name, error in errors.items()]
    return SimpleNamespace(topic_errors=rows, topic_error_codes=[row[:2] for row in rows])

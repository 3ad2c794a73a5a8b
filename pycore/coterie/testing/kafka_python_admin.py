"""The admin client of kafka-python on virtual time: topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coterie.testing.kafka_python_client import PythonClient, unknown
from coterie.testing.kafka_python_errors import for_code, named
from coterie.testing.program_admin import (
    NewPartitions,
    NewTopic,
    add_partitions,
    create_topic,
    delete_topic,
)
from coterie.values import Error

__all__ = ["KafkaAdminClient", "NewPartitions", "NewTopic"]
_WITHOUT_EFFECT = ("client_id", "request_timeout_ms", "retry_backoff_ms", "metadata_max_age_ms")


class KafkaAdminClient(PythonClient):
    """An admin client of kafka-python."""

    def __init__(self, **configs: Any) -> None:
        bad = unknown(configs, _WITHOUT_EFFECT)
        if bad:
            raise named("KafkaConfigurationError", f"Unrecognized configs: {bad}")
        super().__init__("kafka-python-admin")

    def create_topics(
        self,
        new_topics: Any,
        timeout_ms: float | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
        **_: Any,
    ) -> dict[str, Any]:
        """Create topics: a list of NewTopic or of names, or a dict by name."""
        cluster = self._program.cluster
        errors = {
            name: create_topic(cluster, name, partitions, validate_only)
            for name, partitions in _partitions(new_topics).items()
        }
        return {"topics": _results(errors, raises=raise_errors)}

    def delete_topics(
        self, topics: list[str], timeout_ms: float | None = None, raise_errors: bool = True
    ) -> dict[str, Any]:
        """Delete topics."""
        errors = {name: delete_topic(self._program.cluster, name) for name in topics}
        return {"topics": _results(errors, raises=raise_errors)}

    def create_partitions(
        self,
        topic_partitions: dict[str, Any],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
    ) -> dict[str, Any]:
        """Give topics more partitions: NewPartitions or a total by name."""
        cluster = self._program.cluster
        errors = {
            name: add_partitions(cluster, name, getattr(new, "total_count", new), validate_only)
            for name, new in topic_partitions.items()
        }
        return {"results": _results(errors, raises=raise_errors)}

    def list_topics(self) -> list[str]:
        """Return the names of all topics."""
        return list(self._program.cluster._topics)

    def describe_topics(self, topics: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Return topics and their partitions, by default all."""
        known = self._program.cluster._topics
        return [
            {
                "error_code": 0 if name in known else int(Error.UNKNOWN_TOPIC_OR_PARTITION),
                "name": name,
                "is_internal": False,
                "partitions": [
                    {
                        "error_code": 0,
                        "partition_index": log.partition,
                        "leader_id": 0,
                        "leader_epoch": 0,
                        "replica_nodes": [0],
                        "isr_nodes": [0],
                        "offline_replicas": [],
                    }
                    for log in (known[name].logs if name in known else ())
                ],
            }
            for name in (known if topics is None else topics)
        ]

    def close(self) -> None:
        """End the client."""
        self._closed = True


def _partitions(new_topics: Any) -> dict[str, int]:
    """Return the number of partitions of each new topic."""
    if isinstance(new_topics, dict):
        return {name: of.get("num_partitions", -1) for name, of in new_topics.items()}
    return {getattr(new, "name", new): getattr(new, "num_partitions", -1) for new in new_topics}


def _results(errors: dict[str, Error], *, raises: bool) -> list[dict[str, Any]]:
    for name, error in errors.items():
        if raises and error is not Error.NONE:
            raise for_code(error)(f"{name}: {error.name}")
    return [
        {"name": name, "error_code": int(error), "error_message": error.name if error else None}
        for name, error in errors.items()
    ]

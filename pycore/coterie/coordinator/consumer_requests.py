"""Requests of consumer groups (KIP-848): a part of :class:`coterie.GroupCoordinator`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coterie._core.coordinator.coordinator import Coordinator
from coterie.base.arguments import called, integer, text
from coterie.base.operations import NUMBER
from coterie.consumer_groups import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
    encode_topic_id,
)
from coterie.coordinator.config import CLASSIC_ONLY, REPLAYING
from coterie.coordinator.pending import Pending, now_or_later
from coterie.coordinator.requests import compile_values
from coterie.errors import ConfigError


def derived_topic_id(topic: str) -> bytes:
    """Return the id that :meth:`ConsumerGroupRequests.set_topics` gives a topic without one."""
    return hashlib.sha256(topic.encode("utf-8", "surrogatepass")).digest()[:16]


class ConsumerGroupRequests:
    """What members of consumer groups send, and the metadata that they are assigned by."""

    _core: Coordinator

    @property
    def config(self) -> Mapping[str, Any]:
        raise NotImplementedError

    def _ask(self, op: str, *values: Any) -> Pending[Any]:
        raise NotImplementedError

    def _needs_consumer_groups(self) -> None:
        if self.config["coterie.behaviour"] in CLASSIC_ONLY:
            raise ConfigError(
                f"consumer groups need coterie.behaviour {', '.join(map(repr, REPLAYING))}, not "
                f"{self.config['coterie.behaviour']!r}"
            )

    @called
    def consumer_group_heartbeat(
        self,
        group_id: str | None = None,
        member_id: str = "",
        member_epoch: int = 0,
        *,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        subscribed_topic_names: Iterable[str] | None = None,
        subscribed_topic_regex: str | None = None,
        server_assignor: str | None = None,
        topic_partitions: Sequence[Mapping[str, Any]] | None = None,
        client_id: str = "",
        client_host: str = "/127.0.0.1",
        version: int = 1,
    ) -> ConsumerGroupHeartbeatResponse | Any:
        """Send ConsumerGroupHeartbeat; epoch 0 joins, -1 leaves, -2 leaves for now.

        ``topic_partitions``: ``[{"topic_id": ..., "partitions": [...]}]`` that the member owns.
        None means that the member does not say; an empty list that it has none.
        """
        self._needs_consumer_groups()
        return now_or_later(self._ask(
            "consumer_group_heartbeat", group_id, member_id, member_epoch, instance_id, rack_id,
            rebalance_timeout_ms, subscribed_topic_names, subscribed_topic_regex, server_assignor,
            topic_partitions, client_id, client_host, version
        ))  # fmt: skip

    def _assigned_topics(self, group_id: str) -> dict[str, str]:
        """Return the names of the topics that a group is assigned, by id: a client's metadata.

        It is no request: it is neither recorded nor an event.
        """
        op = "consumer_group_describe"
        described = self._core.ask(NUMBER[op], 0, *compile_values(op, ((group_id,),)))
        if described is None:  # a timer of this moment came between
            return {}
        ((*_, members),) = described[1]
        return {
            encode_topic_id(raw): name
            for *_, assigned, target in members
            for raw, name, _ in (*assigned, *target)
        }

    @called
    def consumer_group_describe(
        self, group_ids: Iterable[str] = ()
    ) -> ConsumerGroupDescribeResponse:
        self._needs_consumer_groups()
        answered: Pending[ConsumerGroupDescribeResponse] = self._ask(
            "consumer_group_describe", group_ids
        )
        return answered.response

    @called
    def set_topics(
        self,
        topics: Mapping[str, int] | Iterable[Mapping[str, Any]] = (),
        *,
        brokers: Iterable[Mapping[str, Any]] = (),
        delete_topics: Iterable[str] = (),
    ) -> None:
        """Change the topics of the cluster, by which consumer groups are assigned.

        ``topics``: ``{name: partitions}``, whose ids are made of the names, or
        ``[{"topic", "topic_id", "partitions", "replicas"}]``. A topic that is there gets more
        partitions. ``brokers``: ``[{"id", "rack"}]`` of those that change.
        """
        self._needs_consumer_groups()
        if isinstance(topics, Mapping):
            topics = [
                {
                    "topic": text(name, "a topic"),
                    "topic_id": derived_topic_id(name),
                    "partitions": integer(count, "partitions", 32),
                }
                for name, count in topics.items()
            ]
        self._ask("metadata", brokers, delete_topics, topics)

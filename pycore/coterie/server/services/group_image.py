"""The topics of a cluster as the group coordinator of Kafka 4 knows them: its metadata image.

A topic may be made while the coordinator writes to its log. So changes are collected, and passed on
before the coordinator's next request or timer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coterie.consumer_groups import decode_topic_id
from coterie.server.context import Context
from coterie.server.services.topics import Topic, Topics


class GroupImage:
    """The changes of brokers and topics that the coordinator has not seen yet."""

    def __init__(self, context: Context, topics: Topics) -> None:
        config = context.config
        self._node_id = config.node_id
        self._brokers: tuple[tuple[int, str | None], ...] = ((self._node_id, config.rack),)
        self._changed: dict[str, Topic] = {topic.name: topic for topic in topics}
        self._deleted: dict[str, None] = {}
        topics.on_change.append(self._take_change)
        topics.on_delete.append(self._take_deletion)

    def _take_change(self, topic: Topic) -> None:
        self._changed[topic.name] = topic

    def _take_deletion(self, topics: Sequence[Topic]) -> None:
        for topic in topics:
            self._changed.pop(topic.name, None)
            self._deleted[topic.name] = None

    @property
    def is_current(self) -> bool:
        """Whether the coordinator has all changes."""
        return not (self._changed or self._deleted or self._brokers)

    def changes(self) -> tuple[Any, ...] | None:
        """Return the changes as details of the operation ``metadata``; None: there are none."""
        if self.is_current:
            return None
        replicas = [self._node_id]
        topics = tuple(
            (topic.name, decode_topic_id(topic.topic_id), [replicas] * len(topic.partitions))
            for topic in self._changed.values()
        )
        details = (self._brokers, tuple(self._deleted), topics)
        self._brokers, self._changed, self._deleted = (), {}, {}
        return details

"""Whether the metadata of a group's topics changed: partitions, racks, or the topics themselves.

Since Kafka 4.1 an epoch has a hash of the metadata of all subscribed topics; brokers before it
wrote the metadata. Both change, too, if the group subscribes to other topics. So a change is only
certain if the subscribed topics are the same, or of topics in both.
"""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]


class TopicMetadata:
    """Follows the metadata of a group's topics.

    ``names`` below are the subscribed topics, None: not known.
    """

    def __init__(self) -> None:
        self.names: frozenset[str] | None = None  # as of the last epoch
        self.hash: int | None = None
        self.topics: dict[str, Row] | None = None  # of brokers before Kafka 4.1

    def topics_changed(self, value: Row | None, names: frozenset[str] | None) -> bool:
        """Take the metadata that a broker before Kafka 4.1 wrote; return whether it changed."""
        before = self.topics
        self.topics = {topic["topicName"]: topic for topic in (value or {}).get("topics", ())}
        if before is None or value is None:
            return False
        if names is not None and names == self.names:
            return before != self.topics
        return any(before[name] != self.topics[name] for name in before.keys() & self.topics.keys())

    def hash_changed(self, digest: int, names: frozenset[str] | None) -> bool | None:
        """Take the hash of an epoch; return whether the metadata changed, None: not known."""
        before, names_before = self.hash, self.names
        self.hash, self.names = digest, names
        if before is None or before == digest:
            return False
        return True if names is not None and names == names_before else None

"""What a consumer subscribes to, what it is assigned, and where it is in each partition.

Source: ``SubscriptionState.java``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from coterie._core.testing.clients import AssignedPartitions, PartitionState
from coterie.testing.client.errors import IllegalStateError, NoOffsetForPartitionError
from coterie.testing.topics import TopicPartition
from coterie.values import OffsetAndMetadata


class SubscriptionPattern(NamedTuple):
    """A regular expression that the coordinator matches with topics (consumer protocol).

    ``pattern``: in the syntax of RE2. Source: ``SubscriptionPattern.java``.
    """

    pattern: str


class SubscriptionState(AssignedPartitions):
    """The subscription and the assignment of a consumer.

    Attributes
    ----------
    kind : str or None
        ``"topics"``, ``"pattern"``, ``"server pattern"`` or ``"assigned"`` (by the application);
        None: nothing.
    auto_assigned : bool
        Whether the group assigns the partitions.
    topics : frozenset of str
        The subscribed topics.
    pattern : re.Pattern or None
        The expression that the client matches with topics.
    server_pattern : str or None
        The expression that the coordinator matches with topics.
    group_topics : frozenset of str
        A leader's: those of all members.
    assigned : dict
        The state of each assigned partition, in the order in which they are read.
    listener
        The rebalance listener, or None.
    """

    def __init__(self, reset_policy: str) -> None:
        self.reset_policy = reset_policy
        self.kind: str | None = None
        self.auto_assigned = False
        self.topics: frozenset[str] = frozenset()
        self.group_topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.server_pattern: str | None = None
        self.listener: Any = None

    # Subscriptions

    def set_kind(self, kind: str) -> None:
        """Begin to subscribe or to assign; the ways exclude each other until ``unsubscribe``."""
        if self.kind is None:
            self.kind, self.auto_assigned = kind, kind != "assigned"
        elif self.kind != kind:
            raise IllegalStateError(
                "subscription to topics, to a pattern, and assigned partitions exclude each other"
            )

    def subscribe(self, topics: Iterable[str], listener: Any) -> None:
        self.set_kind("topics")
        self.listener = listener
        self.topics = frozenset(topics)

    def subscribe_pattern(self, pattern: re.Pattern[str], listener: Any) -> None:
        """Subscribe to the topics that match an expression."""
        self.set_kind("pattern")
        self.listener, self.pattern = listener, pattern

    def subscribe_server_pattern(self, pattern: str, listener: Any) -> None:
        """Subscribe to the topics that the coordinator finds to match an expression."""
        self.set_kind("server pattern")
        self.listener, self.server_pattern = listener, pattern

    def matches(self, topic: str) -> bool:
        """Whether an assigned topic belongs to the subscription."""
        if self.pattern is not None:
            return self.pattern.fullmatch(topic) is not None
        return topic in self.topics

    def unsubscribe(self) -> None:
        """Drop the subscription and the assignment."""
        self.kind = self.pattern = self.server_pattern = None
        self.auto_assigned = False
        self.topics = self.group_topics = frozenset()
        self.assigned = {}

    @property
    def metadata_topics(self) -> frozenset[str]:
        """The topics that the consumer has to know."""
        return self.topics | self.group_topics if self.group_topics else self.topics

    # Assignment

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Set the assignment; partitions that stay keep their state."""
        before = self.assigned
        self.assigned = {tp: before.get(tp) or PartitionState() for tp in partitions}

    def assign_by_application(self, partitions: Collection[TopicPartition]) -> None:
        """Set the assignment that the application has chosen."""
        self.set_kind("assigned")
        self.topics = frozenset(tp.topic for tp in partitions)
        self.assign(partitions)

    def state(self, partition: TopicPartition) -> PartitionState:
        state = self.assigned.get(partition)
        if state is None:
            raise IllegalStateError(f"no current assignment for partition {_name(partition)}")
        return state

    def all_consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions as they are committed."""
        return self.positions(_committed_at)

    def where(self, test: Callable[[PartitionState], bool]) -> list[TopicPartition]:
        """Return the assigned partitions whose state passes a test."""
        return [tp for tp, state in self.assigned.items() if test(state)]

    def initializing(self) -> list[TopicPartition]:
        """Return the partitions without a position and without a look-up of one."""
        return self.where(
            lambda s: s.position is None and s.reset is None and not s.pending_assigned
        )

    def reset_initializing(self) -> None:
        """Let partitions without a committed offset begin as ``auto.offset.reset`` says."""
        without = self.initializing()
        if without and self.reset_policy == "none":
            raise NoOffsetForPartitionError(without)
        for tp in without:
            self.request_reset(tp, self.reset_policy)

    def request_reset(self, partition: TopicPartition, policy: str) -> None:
        """Look up the position of a partition anew."""
        state = self.state(partition)
        state.reset, state.retry_ms = policy, 0
        state.position = None


@lru_cache(maxsize=4096)  # most commits repeat the positions of some partitions
def _committed_at(position: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(position)


def _name(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"

"""Tools for tests of code in a consumer group, on virtual time.

A :class:`Consumer` is a consumer of a :class:`Cluster`, with the methods of Kafka's client. A
:class:`Member` is a scripted client of a group: it acts only when the test calls it. Both speak the
classic protocol and the consumer protocol; neither sleeps or uses a network. :func:`histories`
draws what happens to a group, and runs an application in it. :func:`virtual_clients` runs
applications for confluent-kafka, kafka-python and aiokafka as they are.
"""

from typing import TYPE_CHECKING

from coterie.base.consumer_protocol import (
    assignment,
    read_assignment,
    read_subscription,
    subscription,
)
from coterie.testing.classic import ClassicMember
from coterie.testing.client import (
    Consumer,
    ConsumerGroupMetadata,
    Producer,
    RecordMetadata,
    SubscriptionPattern,
)
from coterie.testing.client.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    IllegalStateError,
    InvalidRegularExpressionError,
    KafkaError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    ProducerFencedError,
    RebalanceInProgressError,
    RetriableCommitFailedError,
    RetriableError,
    WakeupError,
)
from coterie.testing.consumer import ConsumerMember
from coterie.testing.consumer_state import MemberState
from coterie.testing.member import Member
from coterie.testing.simulated_cluster import Cluster
from coterie.testing.stand_ins import virtual_clients
from coterie.testing.topics import ConsumerRecord, TopicPartition

if TYPE_CHECKING:
    from coterie.histories import History, histories, random_history

__all__ = [
    "ClassicMember",
    "Cluster",
    "CommitFailedError",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerMember",
    "ConsumerRecord",
    "FencedInstanceIdError",
    "History",
    "IllegalStateError",
    "InvalidRegularExpressionError",
    "KafkaError",
    "KafkaTimeoutError",
    "Member",
    "MemberState",
    "NoOffsetForPartitionError",
    "OffsetOutOfRangeError",
    "Producer",
    "ProducerFencedError",
    "RebalanceInProgressError",
    "RecordMetadata",
    "RetriableCommitFailedError",
    "RetriableError",
    "SubscriptionPattern",
    "TopicPartition",
    "WakeupError",
    "assignment",
    "histories",
    "random_history",
    "read_assignment",
    "read_subscription",
    "subscription",
    "virtual_clients",
]

if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name):
        """Import what histories need when it is first used; they use this package."""
        if name not in ("History", "histories", "random_history"):
            raise AttributeError(f"module 'coterie.testing' has no attribute {name!r}")
        import coterie.histories

        return getattr(coterie.histories, name)

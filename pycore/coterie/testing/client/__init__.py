"""A consumer and a producer on virtual time, with the semantics of Kafka's Java client."""

from coterie.testing.client.consumer import Consumer, ConsumerGroupMetadata
from coterie.testing.client.producer import Producer, RecordMetadata
from coterie.testing.client.subscriptions import SubscriptionPattern

__all__ = [
    "Consumer",
    "ConsumerGroupMetadata",
    "Producer",
    "RecordMetadata",
    "SubscriptionPattern",
]

"""A consumer on virtual time, with the methods and semantics of Kafka's Java client."""

from coterie.testing.client.consumer import Consumer, ConsumerGroupMetadata

__all__ = ["Consumer", "ConsumerGroupMetadata"]

"""The names of confluent-kafka over the simulated clients, for applications on virtual time.

They behave like librdkafka where it differs from Kafka's Java client: ``poll`` runs the callbacks
of rebalances and commits, a returned message stores its offset and moves the position, and errors
are messages. The protocol is that of :class:`coterie.testing.Consumer` and
:class:`coterie.testing.Producer`.
"""

from coterie.testing.confluent_consumer import Consumer
from coterie.testing.confluent_producer import Producer
from coterie.testing.confluent_types import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)

__all__ = [
    "OFFSET_BEGINNING",
    "OFFSET_END",
    "OFFSET_INVALID",
    "OFFSET_STORED",
    "TIMESTAMP_CREATE_TIME",
    "TIMESTAMP_LOG_APPEND_TIME",
    "TIMESTAMP_NOT_AVAILABLE",
    "Consumer",
    "KafkaError",
    "KafkaException",
    "Message",
    "Producer",
    "TopicCollection",
    "TopicPartition",
    "libversion",
    "version",
]


def version() -> tuple[str, int]:
    """Return the version of confluent-kafka with these names."""
    return "2.16.1", 0x02100100


def libversion() -> tuple[str, int]:
    """Return the version of librdkafka with this behaviour."""
    return "2.16.0", 0x021000FF

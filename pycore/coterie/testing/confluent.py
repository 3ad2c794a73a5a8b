"""The names of confluent-kafka over the simulated clients, for applications on virtual time.

What librdkafka does differently from Kafka's Java client is kept: callbacks of rebalances and
commits run in ``poll``, offsets are stored when a message is returned, positions are those of
returned messages, and errors come as messages. The protocol is that of
:class:`coterie.testing.Consumer` and :class:`coterie.testing.Producer`.
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
    "TopicPartition",
    "libversion",
    "version",
]


def version() -> tuple[str, int]:
    """Return the version of confluent-kafka whose names these are."""
    return "2.16.1", 0x02100100


def libversion() -> tuple[str, int]:
    """Return the version of librdkafka that this does as."""
    return "2.16.0", 0x021000FF

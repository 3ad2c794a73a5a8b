"""The names of aiokafka over the simulated clients, for applications on virtual time.

They behave like aiokafka where it differs from Kafka's Java client: a task of its own takes part in
the group and commits, whatever the application does meanwhile; ``start`` waits for the first
assignment; methods of listeners may be coroutines; ``stop`` and ``unsubscribe`` call no listener.
The event loop runs on virtual time.
"""

from coterie.testing.aiokafka_client import OffsetAndMetadata, OffsetAndTimestamp
from coterie.testing.aiokafka_consumer import (
    AIOKafkaConsumer,
    ConsumerRebalanceListener,
    ConsumerRecord,
)
from coterie.testing.aiokafka_errors import ConsumerStoppedError, IllegalOperation
from coterie.testing.aiokafka_producer import AIOKafkaProducer, RecordMetadata
from coterie.testing.topics import TopicPartition

__all__ = [
    "AIOKafkaConsumer",
    "AIOKafkaProducer",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerStoppedError",
    "IllegalOperation",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "RecordMetadata",
    "TopicPartition",
]
__version__ = "0.14.0"

"""The names of kafka-python over the simulated clients, for applications on virtual time.

They behave like kafka-python where it differs from Kafka's Java client: ``poll`` returns records by
partition and takes no timeout by default, the position of an iterator moves record by record, a
subscription without a group reads all partitions, ``unsubscribe`` calls no listener, and a listener
hears of a first join. The protocol is that of :class:`coterie.testing.Consumer` and
:class:`coterie.testing.Producer`.
"""

from coterie.testing.kafka_python_admin import KafkaAdminClient
from coterie.testing.kafka_python_consumer import KafkaConsumer
from coterie.testing.kafka_python_producer import KafkaProducer
from coterie.testing.kafka_python_types import (
    ConsumerGroupMetadata,
    ConsumerRebalanceListener,
    ConsumerRecord,
    Future,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RecordMetadata,
)
from coterie.testing.topics import TopicPartition

__all__ = [
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "Future",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "RecordMetadata",
    "TopicPartition",
]
__version__ = "3.0.12"

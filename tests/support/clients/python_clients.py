"""Python's clients of Kafka, called alike: a record written and read back, by one's settings.

A security is ``(protocol, mechanism or None, user, password, files)``; ``files`` has paths: ``ca``,
and ``cert`` and ``key`` where the client shows a certificate.
"""

import asyncio
import gc
import ssl
import warnings
from typing import NamedTuple

import pytest

from support.patience import HANG_S

GROUP, TOPIC = "the-group", "orders"


class Security(NamedTuple):
    """How a client comes in."""

    protocol: str
    mechanism: str | None = None
    user: str = "alice"
    password: str = "alice-secret"
    files: dict | None = None

    def context(self):
        """The context of the client's side."""
        if self.files is None:
            return None
        context = ssl.create_default_context(cafile=self.files["ca"])
        if "cert" in self.files:
            context.load_cert_chain(self.files["cert"], self.files["key"])
        return context


def confluent(bootstrap, security):
    """The settings of confluent-kafka."""
    given = {"bootstrap.servers": bootstrap, "security.protocol": security.protocol}
    if security.mechanism is not None:
        given |= {
            "sasl.mechanism": security.mechanism,
            "sasl.username": security.user,
            "sasl.password": security.password,
        }
    names = {"ca": "ssl.ca.location", "cert": "ssl.certificate.location", "key": "ssl.key.location"}
    for name, path in (security.files or {}).items():
        given[names[name]] = str(path)
    return given


def keywords(bootstrap, security):
    """The settings of kafka-python and of aiokafka."""
    given = {"bootstrap_servers": bootstrap, "security_protocol": security.protocol}
    if security.mechanism is not None:
        given |= {
            "sasl_mechanism": security.mechanism,
            "sasl_plain_username": security.user,
            "sasl_plain_password": security.password,
        }
    if security.files is not None:
        given["ssl_context"] = security.context()
    return given


def echo_confluent(bootstrap, security):
    """Write a record and read it back as a member of a group; what was read."""
    kafka = pytest.importorskip("confluent_kafka")
    own = confluent(bootstrap, security)
    producer = kafka.Producer(own)
    producer.produce(TOPIC, b"value", key=b"key")
    assert producer.flush(HANG_S) == 0
    consumer = kafka.Consumer({**own, "group.id": GROUP, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    try:
        record = consumer.poll(HANG_S)
        return record.key(), record.value()
    finally:
        consumer.close()


def echo_kafka_python(bootstrap, security):
    """As ``echo_confluent``."""
    kafka = pytest.importorskip("kafka")
    own = keywords(bootstrap, security)
    producer = kafka.KafkaProducer(**own)
    producer.send(TOPIC, b"value", key=b"key").get(HANG_S)
    producer.close()
    more = {"group_id": GROUP, "auto_offset_reset": "earliest"}
    consumer = kafka.KafkaConsumer(TOPIC, **own, **more, consumer_timeout_ms=HANG_S * 1000)
    try:
        record = next(consumer)
        return record.key, record.value
    finally:
        consumer.close()
        with warnings.catch_warnings():  # it does not close a socket that has bytes to send
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()  # here, not in another test


def echo_aiokafka(bootstrap, security):
    """As ``echo_confluent``."""
    kafka = pytest.importorskip("aiokafka")

    async def run():
        own = keywords(bootstrap, security)
        async with kafka.AIOKafkaProducer(**own) as producer:
            await producer.send_and_wait(TOPIC, b"value", key=b"key")
        more = {"group_id": GROUP, "auto_offset_reset": "earliest"}
        async with kafka.AIOKafkaConsumer(TOPIC, **own, **more) as consumer:
            record = await consumer.getone()
            return record.key, record.value

    return asyncio.run(asyncio.wait_for(run(), HANG_S))


ECHOES = {
    "confluent-kafka": echo_confluent,
    "kafka-python": echo_kafka_python,
    "aiokafka": echo_aiokafka,
}

"""Frames of Kafka's protocol, read and written, beside kio, kafka-python and aiokafka.

One message a call. coterie reads header and body, the others the body alone. What each
reads it must write to the frame's bytes; values are compared where they are plain, as aiokafka's.
"""

import importlib
import io

import pytest

from coterie import wire

SIZES = {"smoke": [1], "short": [1], "full": [1]}
MEMBER = "consumer-1-7b2c9f6e-7f3e-4a5e-9c5e-2b1d2f3a4b5c"
TOPICS = [f"orders-{n}" for n in range(20)]


def commit(version):
    generation = "generationIdOrMemberEpoch"
    partitions = [{"partitionIndex": n, "committedOffset": 1000 * n, "committedMetadata": ""}
                  for n in range(10)]  # fmt: skip
    return 8, version, "request", {
        "groupId": "group-1", generation: 5, "memberId": MEMBER, "retentionTimeMs": -1,
        "topics": [{"name": "orders", "partitions": partitions}],
    }  # fmt: skip


def heartbeat(version):
    return 12, version, "request", {"groupId": "group-1", "generationId": 5, "memberId": MEMBER}


def joined(version):
    members = [{"memberId": f"{MEMBER}-{n}", "metadata": bytes(60)} for n in range(50)]
    return 11, version, "response", {
        "generationId": 5, "protocolName": "range", "leader": MEMBER, "memberId": MEMBER,
        "members": members,
    }  # fmt: skip


def metadata(version):
    partitions = [{"partitionIndex": n, "leaderId": 1, "replicaNodes": [1, 2, 3],
                   "isrNodes": [1, 2, 3], "offlineReplicas": []} for n in range(10)]  # fmt: skip
    topics = [{"name": name, "partitions": partitions} for name in TOPICS]
    brokers = [{"nodeId": n, "host": f"broker-{n}", "port": 9092} for n in range(3)]
    return 3, version, "response", {
        "brokers": brokers, "clusterId": "c", "controllerId": 1, "topics": topics,
    }  # fmt: skip


def fetched(version):
    partitions = [{"partitionIndex": n, "highWatermark": 100, "lastStableOffset": 100,
                   "logStartOffset": 0, "abortedTransactions": [], "records": bytes(1000)}
                  for n in range(10)]  # fmt: skip
    return 1, version, "response", {"responses": [{"topic": "orders", "partitions": partitions}]}


MESSAGES = {  # aiokafka has only versions that are not flexible
    "Heartbeat 1": heartbeat(1),
    "Heartbeat 4": heartbeat(4),
    "OffsetCommit 3, 10 partitions": commit(3),
    "OffsetCommit 8, 10 partitions": commit(8),
    "JoinGroup 5 answer, 50 members": joined(5),
    "JoinGroup 9 answer, 50 members": joined(9),
    "Metadata 5 answer, 200 partitions": metadata(5),
    "Metadata 12 answer, 200 partitions": metadata(12),
    "Fetch 11 answer, 10 kB": fetched(11),
    "Fetch 12 answer, 10 kB": fetched(12),
}
AIOKAFKA = {1: "fetch.FetchResponse", 3: "metadata.MetadataResponse", 8:
            "commit.OffsetCommitRequest", 11: "group.JoinGroupResponse", 12:
            "group.HeartbeatRequest"}  # fmt: skip
KAFKA_PYTHON = {1: "consumer.fetch.FetchResponse", 3: "metadata.metadata.MetadataResponse",
                8: "consumer.group.OffsetCommitRequest", 11: "consumer.group.JoinGroupResponse",
                12: "consumer.group.HeartbeatRequest"}  # fmt: skip


def frame_of(key, version, direction, body):
    """A message's frame, and where its body begins."""
    flexible = version >= wire.APIS[key].flexible_version
    if direction == "request":
        return wire.encode_request(key, version, body), 10 + flexible
    return wire.encode_response(key, version, body), 4 + flexible


def values(value):
    """The values of a message as lists, whatever holds them."""
    if isinstance(value, dict):
        return [values(inner) for inner in value.values()]
    if isinstance(value, (list, tuple)):
        return [values(inner) for inner in value]
    return value


class Coterie:
    def __init__(self, key, version, direction, frame, start):
        self.frame = frame
        self.key, self.version, self.is_request = key, version, direction == "request"
        self.body = self.decode()
        self.decoded = values(self.body)

    def decode(self):
        if self.is_request:
            return wire.decode_request(self.frame).body
        return wire.decode_response(self.key, self.version, self.frame).body

    def encode(self):
        encode = wire.encode_request if self.is_request else wire.encode_response
        return encode(self.key, self.version, self.body)


class Kio:
    def __init__(self, key, version, direction, frame, start):
        from kio import index
        from kio.serial import entity_reader, entity_writer

        kind = getattr(index, f"load_{direction}_schema")(key, version)
        self.read, self.write, self.data = entity_reader(kind), entity_writer(kind), frame[start:]
        self.entity = self.decode()
        self.decoded = None  # it has types of its own; what it writes of them is compared

    def decode(self):
        return self.read(self.data, 0)[0]

    def encode(self):
        out = io.BytesIO()
        self.write(out, self.entity)
        return out.getvalue()


class KafkaPython:
    def __init__(self, key, version, direction, frame, start):
        module, _, name = KAFKA_PYTHON[key].rpartition(".")
        self.kind = getattr(importlib.import_module(f"kafka.protocol.{module}"), name)
        self.version, self.data = version, frame[start:]
        self.entity = self.decode()
        self.entity._header = None
        self.decoded = None  # as kio

    def decode(self):
        return self.kind.decode(self.data, version=self.version)

    def encode(self):
        return self.entity.encode(version=self.version)


class Aiokafka:
    def __init__(self, key, version, direction, frame, start):
        if version >= wire.APIS[key].flexible_version:
            pytest.skip("aiokafka has no flexible versions of it")
        module, _, name = AIOKAFKA[key].rpartition(".")
        module = importlib.import_module(f"aiokafka.protocol.{module}")
        self.kind, self.data = getattr(module, f"{name}_v{version}"), frame[start:]
        self.entity = self.decode()
        rows = self.kind.SCHEMA.names
        self.decoded = values([getattr(self.entity, row) for row in rows])

    def decode(self):
        return self.kind.decode(io.BytesIO(self.data))

    def encode(self):
        return self.entity.encode()


PEERS = {"coterie": Coterie, "kio": Kio, "kafka-python": KafkaPython, "aiokafka": Aiokafka}
MODULES = {"coterie": "coterie", "kio": "kio", "kafka-python": "kafka", "aiokafka": "aiokafka"}


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("what", ["decode", "encode"])
@pytest.mark.parametrize("message", MESSAGES)
def test_wire(benchmark, note, message, what, peer, size):
    pytest.importorskip(MODULES[peer])
    benchmark.group = f"{what} {message}"
    key, version, direction, _body = MESSAGES[message]
    frame, start = frame_of(*MESSAGES[message])
    ours = Coterie(key, version, direction, frame, start)
    one = PEERS[peer](key, version, direction, frame, start)
    if one.decoded is not None:
        assert one.decoded == ours.decoded
    assert one.encode() in (frame, frame[start:])
    benchmark(getattr(one, what))
    note(f"wire, {what} {message}", peer, size, unit="frame")

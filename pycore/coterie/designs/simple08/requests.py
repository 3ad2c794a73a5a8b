"""Responses of a broker of 0.8.2 to the requests of a simple consumer.

Each function takes the cluster, the broker and the request's fields, and returns those of the
response. Offsets of version 0 are stored in ZooKeeper, those of version 1 at the coordinator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coterie._core.codec.compression import partition_for
from coterie.designs.simple08.cluster import Cluster, LogEntry, Partition
from coterie.errors import CoterieError
from coterie.values import Error

LONGEST_METADATA = 4096  # offset.metadata.max.bytes
OFFSETS_PARTITIONS = 50  # offsets.topic.num.partitions
LATEST, EARLIEST = -1, -2
SINCE_MS = 10**12  # from this time on all messages have been written; before it none
ResponseFields = dict[str, Any]
RequestFields = Mapping[str, Any]
TEXT_OF_LENGTH = re.compile(r"(\d+) characters")  # how a scenario writes a long text


class Gone(CoterieError):
    """The broker is dead: its socket is closed, and a second connection failed."""


def metadata(cluster: Cluster, broker: int, request: RequestFields) -> ResponseFields:
    """Return sorted topics from the broker's cache; all of them if none is named."""
    names = sorted(set(request["topics"]) or cluster.topics)
    return {"topics": [_topic(cluster, name) for name in names]}


def _topic(cluster: Cluster, name: str) -> ResponseFields:
    partitions = cluster.topics.get(name)
    error = Error.UNKNOWN_TOPIC_OR_PARTITION if partitions is None else Error.NONE
    described = [_partition(cluster, partition) for partition in partitions or []]
    return {"topic": name, "error": int(error), "partitions": described}


def _partition(cluster: Cluster, partition: Partition) -> ResponseFields:
    """Describe a partition from the broker's cache, without dead brokers."""
    cached, live = partition.cached, cluster.registered
    replicas = [one for one in partition.replicas if one in live]
    isr = [one for one in cached.isr if one in live]
    leader: int | None = cached.leader
    error = Error.NONE
    if cached.leader not in live:
        leader, isr, error = None, [], Error.LEADER_NOT_AVAILABLE
    elif len(replicas) < len(partition.replicas) or len(isr) < len(cached.isr):
        error = Error.REPLICA_NOT_AVAILABLE  # the partition can still be read
    return {
        "partition": partition.number,
        "error": int(error),
        "leader": leader,
        "replicas": replicas,
        "isr": isr,
    }


def _leader_error(
    cluster: Cluster, broker: int, request: RequestFields
) -> tuple[Partition | None, int]:
    partition = cluster.partition(request["topic"], request["partition"])
    if partition is None or broker not in partition.replicas:
        return None, int(Error.UNKNOWN_TOPIC_OR_PARTITION)
    # by the state node: only live brokers get requests, and a live leader knows that it leads
    if partition.state.leader != broker or broker not in cluster.alive:
        return None, int(Error.NOT_LEADER_OR_FOLLOWER)
    return partition, 0


def offsets(cluster: Cluster, broker: int, request: RequestFields) -> ResponseFields:
    """Return offsets before a time, in descending order: the end, then the starts of segments."""
    partition, error = _leader_error(cluster, broker, request)
    if partition is None:
        return {"error": error, "offsets": []}
    end, time = partition.end(broker), request["time"]
    before = [end, 0] if end else [0]  # logs of a scenario have one segment
    if time == EARLIEST:
        before = [0]
    elif time != LATEST and time < SINCE_MS:
        before = []
    return {"error": 0, "offsets": before[: max(request["max_offsets"], 0)]}


def fetch(cluster: Cluster, broker: int, request: RequestFields) -> ResponseFields:
    """Return messages from an offset on, up to the fetch size; compressed sets are complete."""
    partition, error = _leader_error(cluster, broker, request)
    if partition is not None and not 0 <= request["offset"] <= partition.end(broker):
        partition, error = None, int(Error.OFFSET_OUT_OF_RANGE)
    if partition is None:
        refusal: ResponseFields = {"error": error, "high_watermark": -1, "offsets": []}
        return refusal | {"bytes": 0, "valid_bytes": 0}
    entries = [entry for entry in partition.logs[broker] if entry.last >= request["offset"]]
    complete = list(_that_fit(entries, request["fetch_size"]))
    response: ResponseFields = {
        "error": 0,
        "high_watermark": partition.end(broker),
        "offsets": [offset for entry in complete for offset in entry.offsets],
    }
    if not partition.compressed:  # otherwise the size depends on the compressor
        response["bytes"] = min(request["fetch_size"], sum(entry.size for entry in entries))
        response["valid_bytes"] = sum(entry.size for entry in complete)
    return response


def _that_fit(entries: Iterable[LogEntry], size: int) -> Iterable[LogEntry]:
    for entry in entries:
        size -= entry.size
        if size < 0:
            return  # the last entry is incomplete, and dropped
        yield entry


class OffsetStore:
    """Stored offsets of groups, and their coordinators."""

    def __init__(self) -> None:
        self.in_zookeeper: dict[str, int] = {}  # path -> offset
        self.in_kafka: dict[tuple[str, str, int], tuple[int, str]] = {}
        self.has_topic = False

    def coordinator(self, cluster: Cluster, group: str) -> int | None:
        """Return a group's coordinator: a live broker, chosen by a hash of the group's name."""
        live = sorted(cluster.registered & cluster.alive)
        if not self.has_topic or not live:
            return None
        return live[partition_for(group, OFFSETS_PARTITIONS) % len(live)]

    def consumer_metadata(
        self, cluster: Cluster, broker: int, request: RequestFields
    ) -> ResponseFields:
        """Find the coordinator; the first request creates the offsets topic, and fails."""
        if not self.has_topic:
            self.has_topic = True
            return {"error": int(Error.COORDINATOR_NOT_AVAILABLE)}
        return {"error": 0, "same_from_both": True}

    def commit(self, cluster: Cluster, broker: int, request: RequestFields) -> ResponseFields:
        """Store an offset: version 0 in ZooKeeper by any broker, version 1 at the coordinator."""
        group, topic, partition = request["group"], request["topic"], request["partition"]
        in_zookeeper = request["version"] == 0
        error = Error.NONE
        if in_zookeeper and topic not in cluster.topics:
            error = Error.UNKNOWN_TOPIC_OR_PARTITION
        elif length_of(request["metadata"]) > LONGEST_METADATA:
            error = Error.OFFSET_METADATA_TOO_LARGE
        elif in_zookeeper:
            self.in_zookeeper[_path(group, topic, partition)] = request["offset"]
        elif broker != self.coordinator(cluster, group):
            error = Error.NOT_COORDINATOR
        else:
            value = request["offset"], request["metadata"]
            self.in_kafka[group, topic, partition] = value
        return {"error": int(error)}

    def fetch(self, cluster: Cluster, broker: int, request: RequestFields) -> ResponseFields:
        """Read a stored offset. In ZooKeeper there is no metadata, and no offset is an error."""
        group, topic, partition = request["group"], request["topic"], request["partition"]
        missing = int(Error.UNKNOWN_TOPIC_OR_PARTITION), -1, ""
        if request["version"] == 0:
            stored = self.in_zookeeper.get(_path(group, topic, partition))
            exists = topic in cluster.topics and stored is not None
            error, offset, metadata = (0, stored, "") if exists else missing
        elif cluster.partition(topic, partition) is None:
            error, offset, metadata = missing
        elif broker != self.coordinator(cluster, group):
            error, offset, metadata = int(Error.NOT_COORDINATOR), -1, ""
        else:
            error, (offset, metadata) = 0, self.in_kafka.get((group, topic, partition), (-1, ""))
        return {"error": error, "offset": offset, "metadata": metadata}


def _path(group: str, topic: str, partition: int) -> str:
    return f"/consumers/{group}/offsets/{topic}/{partition}"


def length_of(text: str) -> int:
    """Return the length of a text; a scenario writes a long one as ``5000 characters``."""
    match = TEXT_OF_LENGTH.fullmatch(text)
    return int(match[1]) if match else len(text)


ANSWERS: dict[str, Callable[[Cluster, int, RequestFields], ResponseFields]] = {
    "metadata": metadata,
    "offsets": offsets,
    "fetch": fetch,
}

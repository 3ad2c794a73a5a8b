"""What a broker of 0.8.2 answers to the requests of a simple consumer.

Each function takes the cluster, the broker asked and the request's fields, and returns the fields
of the response. Offsets of version 0 are nodes in ZooKeeper, those of version 1 the coordinator's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coterie._core.codec.checksum import partition_for
from coterie.designs.simple08.cluster import Cluster, LogEntry, Partition
from coterie.errors import CoterieError
from coterie.values import Error

LONGEST_METADATA = 4096  # offset.metadata.max.bytes
OFFSETS_PARTITIONS = 50  # offsets.topic.num.partitions
LATEST, EARLIEST = -1, -2
SINCE_MS = 10**12  # a time from here is after the last write, one before it is before the first
ResponseFields = dict[str, Any]
RequestFields = Mapping[str, Any]
TEXT_OF_LENGTH = re.compile(r"(\d+) characters")  # how a scenario writes a long text


class Gone(CoterieError):
    """The broker's socket is closed, and one attempt to connect again failed."""


def metadata(cluster: Cluster, broker: int, request: RequestFields) -> ResponseFields:
    """Topics as the broker's cache has them, sorted; all if none is named."""
    names = sorted(set(request["topics"]) or cluster.topics)
    return {"topics": [_topic(cluster, name) for name in names]}


def _topic(cluster: Cluster, name: str) -> ResponseFields:
    partitions = cluster.topics.get(name)
    error = Error.UNKNOWN_TOPIC_OR_PARTITION if partitions is None else Error.NONE
    known = [_partition(cluster, one) for one in partitions or []]
    return {"topic": name, "error": int(error), "partitions": known}


def _partition(cluster: Cluster, partition: Partition) -> ResponseFields:
    """Describe a partition by the cache: what the controller last told, less the dead."""
    told, live = partition.told, cluster.registered
    replicas = [one for one in partition.replicas if one in live]
    isr = [one for one in told.isr if one in live]
    leader: int | None = told.leader
    error = Error.NONE
    if told.leader not in live:
        leader, isr, error = None, [], Error.LEADER_NOT_AVAILABLE
    elif len(replicas) < len(partition.replicas) or len(isr) < len(told.isr):
        error = Error.REPLICA_NOT_AVAILABLE  # and usable all the same
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
    # by the state node: a leader that has died is not asked, so who leads knows that it does
    if partition.state.leader != broker or broker not in cluster.alive:
        return None, int(Error.NOT_LEADER_OR_FOLLOWER)
    return partition, 0


def offsets(cluster: Cluster, broker: int, request: RequestFields) -> ResponseFields:
    """Offsets before a time, the greatest first: the end, then the starts of segments."""
    partition, error = _leader_error(cluster, broker, request)
    if partition is None:
        return {"error": error, "offsets": []}
    end, time = partition.end(broker), request["time"]
    found = [end, 0] if end else [0]  # logs of a scenario have one segment
    if time == EARLIEST:
        found = [0]
    elif time != LATEST and time < SINCE_MS:
        found = []
    return {"error": 0, "offsets": found[: max(request["max_offsets"], 0)]}


def fetch(cluster: Cluster, broker: int, request: RequestFields) -> ResponseFields:
    """Messages from an offset on, cut at the wanted size; compressed sets come whole."""
    partition, error = _leader_error(cluster, broker, request)
    if partition is not None and not 0 <= request["offset"] <= partition.end(broker):
        partition, error = None, int(Error.OFFSET_OUT_OF_RANGE)
    if partition is None:
        nothing: ResponseFields = {"error": error, "high_watermark": -1, "offsets": []}
        return nothing | {"bytes": 0, "valid_bytes": 0}
    found = [one for one in partition.logs[broker] if one.last >= request["offset"]]
    whole = list(_that_fit(found, request["fetch_size"]))
    answer: ResponseFields = {
        "error": 0,
        "high_watermark": partition.end(broker),
        "offsets": [offset for entry in whole for offset in entry.offsets],
    }
    if not partition.compressed:  # their size is the compressor's
        answer["bytes"] = min(request["fetch_size"], sum(one.size for one in found))
        answer["valid_bytes"] = sum(one.size for one in whole)
    return answer


def _that_fit(entries: Iterable[LogEntry], size: int) -> Iterable[LogEntry]:
    for entry in entries:
        size -= entry.size
        if size < 0:
            return  # the last one comes in part, and is dropped
        yield entry


class OffsetStore:
    """Stored offsets of groups, and where their coordinator is."""

    def __init__(self) -> None:
        self.in_zookeeper: dict[str, int] = {}  # path -> offset
        self.in_kafka: dict[tuple[str, str, int], tuple[int, str]] = {}
        self.topic_made = False

    def coordinator(self, cluster: Cluster, group: str) -> int | None:
        """Find the broker that coordinates: by a hash of the group, of those that are there."""
        there = sorted(cluster.registered & cluster.alive)
        if not self.topic_made or not there:
            return None
        return there[partition_for(group, OFFSETS_PARTITIONS) % len(there)]

    def consumer_metadata(
        self, cluster: Cluster, broker: int, request: RequestFields
    ) -> ResponseFields:
        """Look the coordinator up; the first look-up ever makes the offsets topic, and fails."""
        if not self.topic_made:
            self.topic_made = True
            return {"error": int(Error.COORDINATOR_NOT_AVAILABLE)}
        return {"error": 0, "same_from_both": True}

    def commit(self, cluster: Cluster, broker: int, request: RequestFields) -> ResponseFields:
        """Store an offset: version 0 in ZooKeeper by any broker, version 1 at the coordinator."""
        group, topic, partition = request["group"], request["topic"], request["partition"]
        by_zookeeper = request["version"] == 0
        error = Error.NONE
        if by_zookeeper and topic not in cluster.topics:
            error = Error.UNKNOWN_TOPIC_OR_PARTITION
        elif length_of(request["metadata"]) > LONGEST_METADATA:
            error = Error.OFFSET_METADATA_TOO_LARGE
        elif by_zookeeper:
            self.in_zookeeper[_path(group, topic, partition)] = request["offset"]
        elif broker != self.coordinator(cluster, group):
            error = Error.NOT_COORDINATOR
        else:
            value = request["offset"], request["metadata"]
            self.in_kafka[group, topic, partition] = value
        return {"error": int(error)}

    def fetch(self, cluster: Cluster, broker: int, request: RequestFields) -> ResponseFields:
        """Read a stored offset; in ZooKeeper there is no metadata, and none stored is an error."""
        group, topic, partition = request["group"], request["topic"], request["partition"]
        nothing = int(Error.UNKNOWN_TOPIC_OR_PARTITION), -1, ""
        if request["version"] == 0:
            offset = self.in_zookeeper.get(_path(group, topic, partition))
            known = topic in cluster.topics and offset is not None
            error, found, note = (0, offset, "") if known else nothing
        elif cluster.partition(topic, partition) is None:
            error, found, note = nothing
        elif broker != self.coordinator(cluster, group):
            error, found, note = int(Error.NOT_COORDINATOR), -1, ""
        else:
            error, (found, note) = 0, self.in_kafka.get((group, topic, partition), (-1, ""))
        return {"error": error, "offset": found, "metadata": note}


def _path(group: str, topic: str, partition: int) -> str:
    return f"/consumers/{group}/offsets/{topic}/{partition}"


def length_of(text: str) -> int:
    """Length of a text; a scenario writes a long one as ``5000 characters``."""
    told = TEXT_OF_LENGTH.fullmatch(text)
    return int(told[1]) if told else len(text)


ANSWERS: dict[str, Callable[[Cluster, int, RequestFields], ResponseFields]] = {
    "metadata": metadata,
    "offsets": offsets,
    "fetch": fetch,
}

"""What the admin clients of applications do with topics; records come from producers alone."""

from __future__ import annotations

from coterie.base.topic_names import name_refusal
from coterie.testing.member import MOST_PARTITIONS
from coterie.testing.simulated_cluster import Cluster
from coterie.values import Error


class NewTopic:
    """A topic to create, as kafka-python and aiokafka have it; -1: what the broker's settings say.

    Replicas and the settings of the topic have no effect.
    """

    def __init__(
        self,
        name: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replica_assignments: dict[int, list[int]] | None = None,
        topic_configs: dict[str, str] | None = None,
    ) -> None:
        self.name, self.num_partitions = name, num_partitions
        self.replication_factor = replication_factor
        self.replica_assignments = replica_assignments or {}
        self.topic_configs = topic_configs or {}


class NewPartitions:
    """How many partitions a topic gets, as kafka-python and aiokafka have it."""

    def __init__(self, total_count: int, new_assignments: list[list[int]] | None = None) -> None:
        self.total_count, self.new_assignments = total_count, new_assignments


def create_topic(cluster: Cluster, name: str, partitions: int, only_checks: bool) -> Error:
    """Create a topic, with one partition by default; return the broker's error."""
    if name_refusal(name) is not None:
        return Error.INVALID_TOPIC_EXCEPTION
    if name in cluster._topics:
        return Error.TOPIC_ALREADY_EXISTS
    if partitions == 0 or not -1 <= partitions <= MOST_PARTITIONS:
        return Error.INVALID_PARTITIONS
    if not only_checks:
        cluster.create_topic(name, max(1, partitions), None)
    return Error.NONE


def delete_topic(cluster: Cluster, name: str) -> Error:
    """Delete a topic; return the broker's error."""
    if name not in cluster._topics:
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    cluster.delete_topic(name)
    return Error.NONE


def add_partitions(cluster: Cluster, name: str, total: int, only_checks: bool) -> Error:
    """Give a topic more partitions; return the broker's error."""
    if name not in cluster._topics:
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    if not len(cluster._topics[name].logs) < total <= MOST_PARTITIONS:
        return Error.INVALID_PARTITIONS
    if not only_checks:
        cluster.add_partitions(name, total)
    return Error.NONE

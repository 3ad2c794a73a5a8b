"""A simulated cluster: topics, a coordinator and a network with faults, on a virtual clock."""

from coterie.testing.cluster.cluster import Cluster
from coterie.testing.cluster.topics import ConsumerRecord, TopicPartition

__all__ = ["Cluster", "ConsumerRecord", "TopicPartition"]

"""The low-level consumer of 0.8.2: brokers with leaders, their answers, and the loop around them.

``cluster`` has the state of brokers, controller and ZooKeeper; ``requests`` a broker's responses;
``steps`` plays a scenario of the format ``coterie-simple08``; ``reader`` is the document's loop as
a class. Sources of the rules: ``MetadataCache``, ``PartitionLeaderSelector``, ``KafkaApis`` and
``SimpleConsumer`` of 0.8.2.2, as ``docs/designs.md`` describes them.
"""

from coterie.designs.simple08.cluster import Cluster
from coterie.designs.simple08.reader import NoLeader, SimpleConsumer, SimpleReader
from coterie.designs.simple08.requests import EARLIEST, LATEST, Gone
from coterie.designs.simple08.steps import run

__all__ = [
    "EARLIEST",
    "LATEST",
    "Cluster",
    "Gone",
    "NoLeader",
    "SimpleConsumer",
    "SimpleReader",
    "run",
]

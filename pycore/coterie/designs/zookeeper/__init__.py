"""ZooKeeper as its clients see it: nodes, watches, sessions and connections.

``tree`` has nodes and one-time watches; ``session`` the service, with ephemeral nodes and sessions
that end at ticks; ``connection`` a client's connection, which is open, held or cut and delivers
events in the order of the changes. No I/O; time is a :class:`coterie.schedule.Schedule`.
"""

from coterie.designs.zookeeper.connection import Connection
from coterie.designs.zookeeper.session import Session, ZooKeeper
from coterie.designs.zookeeper.tree import NodeExists, NoNode, NotEmpty, Tree, ZooKeeperError

__all__ = [
    "Connection",
    "NoNode",
    "NodeExists",
    "NotEmpty",
    "Session",
    "Tree",
    "ZooKeeper",
    "ZooKeeperError",
]

"""ZooKeeper as its clients see it: a tree of nodes, watches, sessions, connections.

``tree`` has nodes and one-time watches, ``session`` the service with its ephemeral nodes and the
ends of sessions at ticks, ``connection`` a client's connection: open, held or cut, with its events
in the order of the changes. No I/O; time is a :class:`coterie.designs.schedule.Schedule`.
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

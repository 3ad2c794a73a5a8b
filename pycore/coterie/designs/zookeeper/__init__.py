"""ZooKeeper as its clients see it: a tree of nodes, watches, sessions, connections."""

"""The consumer of Kafka 0.8.2 over ZooKeeper, and the brokers as it sees them.

``consumer`` is one consumer with its threads. Its parts: ``rebalance`` releases and claims
partitions, ``assignment`` and ``views`` compute its share, ``registration`` is the content of its
id node, ``offsets`` stores offsets, ``fetching`` consumes messages, and ``zkclient`` is its
ZooKeeper client. ``brokers`` is the cluster, ``simulation`` runs a scenario, and ``points`` has the
state at a point. Source of the rules: the classes of 0.8.2.2 that each module names.
"""

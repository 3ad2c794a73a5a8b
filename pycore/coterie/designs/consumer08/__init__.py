"""The consumer of Kafka 0.8.2 over ZooKeeper, and the brokers as it sees them.

``consumer`` is one consumer with its threads, ``rebalance`` what it does to own its share,
``assignment`` and ``views`` what that share is, ``registration`` what it says of itself,
``offsets`` and ``fetching`` what it stores and consumes, ``zkclient`` its ZooKeeper client;
``brokers`` is the cluster, ``simulation`` a whole scenario, ``points`` what is there at a settle.
Source of the rules: the classes of 0.8.2.2 that each module names.
"""

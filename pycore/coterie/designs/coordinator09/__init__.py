"""The first coordinator design (0.9, as planned): one broker assigns a group's partitions.

``messages`` has its requests and responses, ``store`` the data in ZooKeeper, ``consumer`` and
``broker`` the two state machines, ``simulation`` the clock, the network and the crashes.
"""

from coterie.designs.coordinator09.broker import BOUNDARIES
from coterie.designs.coordinator09.simulation import POINTS, CoordinatorSimulation
from coterie.designs.coordinator09.world import CoordinatorSettings

__all__ = ["BOUNDARIES", "POINTS", "CoordinatorSettings", "CoordinatorSimulation"]

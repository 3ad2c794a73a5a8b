"""The assignors ``uniform`` and ``range``: which member shall own which partition.

Members come in the order of their ids, topics by their ids, partitions by number; Kafka takes its
hash order there. Costs: ``uniform`` with equal subscriptions and ``range`` a walk over members and
partitions; ``uniform`` with different subscriptions sorts the subscribers of each topic. A member
whose target does not change keeps the object that it had.
"""
cimport cython

from coterie._core.coordinator.consumer.range_assignor cimport assign_range
from coterie._core.coordinator.consumer.uniform_different cimport assign_unequal
from coterie._core.coordinator.consumer.uniform_equal cimport assign_equal


@cython.final
@cython.freelist(256)
cdef class Subscriber:
    """A member, its topics, and what it had."""


cdef int assign(str assignor, list subscribers, bint homogeneous, list others) except -1:
    """Give each subscriber its target. ``others``: targets of ids that are no members."""
    if not subscribers:
        return 0
    if assignor == "range":
        return assign_range(subscribers, homogeneous)
    if homogeneous:
        return assign_equal(subscribers, others)
    return assign_unequal(subscribers)

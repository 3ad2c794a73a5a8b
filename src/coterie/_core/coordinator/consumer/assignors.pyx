"""The assignors ``uniform`` and ``range``: which member shall own which partition.

Members come in the order of their ids, topics by their ids, partitions by number; Kafka takes its
hash order there. Costs: ``uniform`` with equal subscriptions and ``range`` a walk over members and
partitions; ``uniform`` with different subscriptions sorts the subscribers of each topic. A member
whose target does not change keeps the object that it had.
"""
cimport cython

from coterie._core.coordinator.consumer.image cimport MetadataImage
from coterie._core.coordinator.consumer.numbered_topics cimport sorted_topics
from coterie._core.coordinator.consumer.range_assignor cimport assign_range
from coterie._core.coordinator.consumer.topic_use cimport count_targets
from coterie._core.coordinator.consumer.uniform_different cimport assign_unequal
from coterie._core.coordinator.consumer.uniform_equal cimport assign_equal
from coterie._core.coordinator.consumer.values cimport Assignment, no_partitions


@cython.no_gc                      # no reference cycles
cdef class Subscriber:
    """A member, its topics, and what it had."""

    def __cinit__(self):
        self.previous = no_partitions()


cdef int assign(str assignor, list subscribers, bint homogeneous, dict uses) except -1:
    """Give each subscriber its target. ``uses``: TopicId -> TopicUse of all targets."""
    if not subscribers:
        return 0
    if assignor == "range":
        return assign_range(subscribers, homogeneous)
    if homogeneous:
        return assign_equal(subscribers, uses)
    return assign_unequal(subscribers)


@cython.final
cdef class GroupSpec:
    """Members of a group and what they subscribe to, for an assignment without a coordinator."""

    cdef list subscribers
    cdef dict uses

    def __cinit__(self, dict topics not None, dict members not None):
        # topics: {name: (id, replicas of each partition)}; members: {id: names}, in order of ids
        cdef Subscriber member
        cdef MetadataImage image = MetadataImage()
        cdef dict shared = {}
        image.update((), (), [(name, *topic) for name, topic in topics.items()])
        self.subscribers, self.uses = [], {}
        for member_id, names in members.items():
            if names not in shared:
                shared[names] = tuple(sorted_topics([image.topics[name] for name in names]))
            member = Subscriber.__new__(Subscriber)
            member.member_id = <str?>member_id
            member.topics = shared[names]
            self.subscribers.append(member)

    def assign(self, str assignor not None, bint homogeneous):
        """Assign all partitions."""
        assign(assignor, self.subscribers, homogeneous, self.uses)

    def replay(self):
        """Let the next assignment start from this one."""
        cdef Subscriber member
        self.uses = {}
        for member in self.subscribers:
            member.previous = member.computed
            count_targets(self.uses, <Assignment>member.previous, 1)

    def rows(self):
        """Return {member id: ((topic id, (partition, ...)), ...)} of the last assignment."""
        cdef Subscriber member
        return {member.member_id: (<Assignment?>member.computed).rows()
                for member in self.subscribers}

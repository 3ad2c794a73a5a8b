"""The assignors ``uniform`` and ``range``: which member shall own which partition.

Members come in the order of their ids, topics by their ids, partitions by number; Kafka takes its
hash order there. Costs: ``uniform`` with equal subscriptions and ``range`` a walk over members and
partitions; ``uniform`` with different subscriptions sorts the subscribers of each topic. A member
whose target does not change keeps the object that it had.
"""
cimport cython
from libc.stdint cimport int32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from coterie._core.coordinator.consumer.image cimport MetadataImage
from coterie._core.coordinator.consumer.numbered_topics cimport sorted_topics
from coterie._core.coordinator.consumer.range_assignor cimport assign_range
from coterie._core.coordinator.consumer.uniform_different cimport assign_unequal
from coterie._core.coordinator.consumer.uniform_equal cimport assign_equal
from coterie._core.coordinator.consumer.values cimport Assignment, no_partitions


@cython.no_gc                      # no reference cycles
cdef class Subscriber:
    """A member, its topics, and what it had."""

    def __cinit__(self, str member_id):
        self.member_id = member_id
        self.previous = no_partitions()


@cython.final
@cython.no_gc                      # no reference cycles
cdef class TargetCounts:
    """How many targets have each partition of a topic."""

    def __dealloc__(self):
        free(self.counts)

    cdef int reserve(self, int32_t count) except -1:
        """Have room for so many partitions."""
        cdef int32_t* larger
        if count <= self.count:
            return 0
        larger = <int32_t*>realloc(self.counts, count * sizeof(int32_t))
        if larger == NULL:
            raise MemoryError
        self.counts = larger
        memset(larger + self.count, 0, (count - self.count) * sizeof(int32_t))
        self.count = count


cdef int count_targets(dict targeted, Assignment assignment, int by) except -1:
    """Count the partitions of a target that comes or goes. ``targeted``: TargetCounts by topic."""
    cdef Py_ssize_t n
    cdef int32_t at, before, start = 0
    cdef TargetCounts counts
    for n in range(assignment.topic_count):
        counts = targeted.get(assignment.topics[n])
        if counts is None:
            counts = targeted[assignment.topics[n]] = TargetCounts()
        if assignment.ends[n] > start:
            counts.reserve(assignment.partitions[assignment.ends[n] - 1] + 1)
        for at in range(start, assignment.ends[n]):
            before = counts.counts[assignment.partitions[at]]
            counts.counts[assignment.partitions[at]] = before + by
            counts.taken += (before + by > 0) - (before > 0)
        start = assignment.ends[n]


cdef int assign(str assignor, list subscribers, bint homogeneous, dict targeted) except -1:
    """Give each subscriber its target. ``targeted``: TargetCounts of all present targets."""
    if not subscribers:
        return 0
    if assignor == "range":
        return assign_range(subscribers, homogeneous)
    if homogeneous:
        return assign_equal(subscribers, targeted)
    return assign_unequal(subscribers)


@cython.final
cdef class GroupSpec:
    """Members of a group and what they subscribe to, for an assignment without a coordinator."""

    cdef list subscribers
    cdef dict targeted

    def __cinit__(self, dict topics not None, dict members not None):
        # topics: {name: (id, replicas of each partition)}; members: {id: names}, in order of ids
        cdef Subscriber member
        cdef MetadataImage image = MetadataImage()
        cdef dict shared = {}
        image.update((), (), [(name, *topic) for name, topic in topics.items()])
        self.subscribers, self.targeted = [], {}
        for member_id, names in members.items():
            if names not in shared:
                shared[names] = tuple(sorted_topics([image.topics[name] for name in names]))
            member = Subscriber(<str?>member_id)
            member.topics = shared[names]
            self.subscribers.append(member)

    def assign(self, str assignor not None, bint homogeneous):
        """Assign all partitions."""
        assign(assignor, self.subscribers, homogeneous, self.targeted)

    def replay(self):
        """Let the next assignment start from this one."""
        cdef Subscriber member
        for member in self.subscribers:
            count_targets(self.targeted, <Assignment>member.previous, -1)
            member.previous = member.computed
        for member in self.subscribers:
            count_targets(self.targeted, <Assignment>member.previous, 1)

    def rows(self):
        """Return {member id: ((topic id, (partition, ...)), ...)} of the last assignment."""
        cdef Subscriber member
        return {member.member_id: (<Assignment?>member.computed).rows()
                for member in self.subscribers}

"""The partitions of a group's topics: who owns each, and how many targets have it.

Both are counted while records are applied, so that a heartbeat and an assignor find them without a
walk over the members. One object a topic has both: a group of a few members is small.
Source: modern/consumer/ConsumerGroup.java (addPartitionEpochs, removePartitionEpochs),
ModernGroup.java (invertedTargetAssignment).
"""
cimport cython
from libc.stdint cimport int32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from coterie._core.coordinator.consumer.values cimport Assignment


@cython.final
@cython.no_gc                      # no reference cycles
cdef class TopicUse:
    """The use of each partition of a topic."""

    def __dealloc__(self):
        free(self.partitions)

    cdef int reserve(self, int32_t count) except -1:
        """Have room for so many partitions."""
        cdef PartitionUse* larger
        cdef int32_t n
        if count <= self.count:
            return 0
        larger = <PartitionUse*>realloc(self.partitions, count * sizeof(PartitionUse))
        if larger == NULL:
            raise MemoryError
        self.partitions = larger
        for n in range(self.count, count):
            larger[n].owner_epoch, larger[n].targets = -1, 0
        self.count = count

    cdef bint is_free(self, int32_t partition) noexcept:
        """Whether no member owns a partition or still revokes it."""
        return partition >= self.count or self.partitions[partition].owner_epoch == -1


cdef inline TopicUse use_of(dict uses, Assignment assignment, Py_ssize_t n):
    """The use of the ``n``-th topic of an assignment, with room for its partitions."""
    cdef TopicUse use = uses.get(assignment.topics[n])
    if use is None:
        use = uses[assignment.topics[n]] = TopicUse.__new__(TopicUse)
    if assignment.ends[n] > (assignment.ends[n - 1] if n else 0):
        use.reserve(assignment.partitions[assignment.ends[n] - 1] + 1)
    return use


cdef int count_targets(dict uses, Assignment target, int by) except -1:
    """Count the partitions of a target that comes or goes."""
    cdef Py_ssize_t n
    cdef int32_t at, start = 0
    cdef int32_t* targets
    cdef TopicUse use
    for n in range(target.topic_count):
        use = use_of(uses, target, n)
        for at in range(start, target.ends[n]):
            targets = &use.partitions[target.partitions[at]].targets
            use.targeted += (targets[0] + by > 0) - (targets[0] > 0)
            targets[0] += by
        start = target.ends[n]


cdef int32_t own(dict uses, Assignment assignment, int32_t epoch, bint by_epoch) except -2:
    """Make a member of this epoch the owner of partitions; one that has an owner already, or -1.

    ``by_epoch``: an owner at an earlier epoch is no obstacle.
    """
    cdef Py_ssize_t n
    cdef int32_t at, start = 0
    cdef int32_t* owner
    cdef TopicUse use
    for n in range(assignment.topic_count):
        use = use_of(uses, assignment, n)
        for at in range(start, assignment.ends[n]):
            owner = &use.partitions[assignment.partitions[at]].owner_epoch
            if owner[0] != -1 and not (by_epoch and owner[0] < epoch):
                return assignment.partitions[at]
            owner[0] = epoch
        start = assignment.ends[n]
    return -1


cdef int release(dict uses, Assignment assignment, int32_t epoch, bint by_epoch) except -1:
    """Let partitions have no owner. ``by_epoch``: only those that are owned at this epoch."""
    cdef Py_ssize_t n
    cdef int32_t at, start = 0
    cdef int32_t* owner
    cdef TopicUse use
    for n in range(assignment.topic_count):
        use = uses.get(assignment.topics[n])
        for at in range(start, assignment.ends[n]):
            if use is None or assignment.partitions[at] >= use.count:
                break
            owner = &use.partitions[assignment.partitions[at]].owner_epoch
            if not by_epoch or owner[0] == epoch:
                owner[0] = -1
        start = assignment.ends[n]


cdef dict copied_uses(dict uses):
    """The same uses in objects of their own."""
    cdef TopicUse use, copied
    cdef dict made = {}
    for topic, use in uses.items():
        copied = made[topic] = TopicUse.__new__(TopicUse)
        copied.reserve(use.count)
        memcpy(copied.partitions, use.partitions, use.count * sizeof(PartitionUse))
        copied.targeted = use.targeted
    return made

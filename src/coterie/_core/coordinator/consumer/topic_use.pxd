"""Who owns each partition of a topic, and how many targets have it."""
from libc.stdint cimport int32_t

from coterie._core.coordinator.consumer.values cimport Assignment

cdef struct PartitionUse:
    int32_t owner_epoch            # of the member that owns it or still revokes it, or -1
    int32_t targets                # that have it

cdef class TopicUse:
    cdef PartitionUse* partitions
    cdef int32_t count             # of the partitions that there is room for
    cdef int32_t targeted          # of those that any target has

    cdef int reserve(self, int32_t count) except -1
    cdef bint is_free(self, int32_t partition) noexcept

# ``uses``: TopicId -> TopicUse, of a group
cdef int count_targets(dict uses, Assignment target, int by) except -1
cdef int32_t own(dict uses, Assignment assignment, int32_t epoch, bint by_epoch) except -2
cdef int release(dict uses, Assignment assignment, int32_t epoch, bint by_epoch) except -1
cdef dict copied_uses(dict uses)

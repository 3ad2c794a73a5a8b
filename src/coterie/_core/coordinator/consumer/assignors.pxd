"""The server-side assignors of the consumer protocol, and the topics as they number them."""
cimport cython
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.consumer.values cimport Assignment

# ---- who owns each partition of a topic, and how many targets have it ----------------------------

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
cdef int32_t own(dict uses, Assignment assignment, int32_t epoch, bint by_epoch,
                 bint* taken_over) except -2
cdef int release(dict uses, Assignment assignment, int32_t epoch, bint by_epoch) except -1
cdef dict copied_uses(dict uses)

# ---- topics of one run of an assignor, whose partitions are numbered among all -------------------

cdef struct Run:                   # a topic in this run
    int64_t first                  # of its partitions among all
    int32_t count
    int32_t subscribers
    int64_t first_subscriber       # among those of all topics

cdef class Memory:
    cdef int64_t first[128]        # what small groups need
    cdef Py_ssize_t taken          # bytes of it
    cdef void* blocks[16]
    cdef int count

    cdef void* take(self, Py_ssize_t size) except NULL

cdef list sorted_topics(object topics)
cdef list distinct_topics(list subscribers)
cdef int32_t* number_subscribers(list subscribers, Run* runs, Py_ssize_t topics,
                                 Memory memory) except NULL
cdef int mark(list topics, Run* runs) except -1
cdef int unmark(list topics) except -1
cdef int compare_numbers(const void* one, const void* other) noexcept nogil
cdef Assignment numbered(int64_t* every, int64_t total, list topics, Run* runs, int32_t* ends,
                         int32_t* partitions)

# ---- the assignor ``uniform`` over members with equal subscriptions ------------------------------

cdef int assign_equal(list subscribers, dict uses) except -1

# ---- the assignor ``uniform`` over members with different subscriptions --------------------------

cdef int assign_unequal(list subscribers) except -1

# ---- the assignor ``range`` ----------------------------------------------------------------------

cdef int assign_range(list subscribers, bint homogeneous) except -1

# ---- the server's assignors ----------------------------------------------------------------------


@cython.no_gc                      # here too, or ConsumerMember in its own file would have one
cdef class Subscriber:             # a member as an assignor sees it
    cdef readonly str member_id
    cdef readonly str instance_id
    cdef readonly tuple topics     # TopicIds that exist, in their order
    cdef object previous           # Assignment: its target so far
    cdef object computed           # Assignment: its next target, once computed

cdef int assign(str assignor, list subscribers, bint homogeneous, dict uses) except -1

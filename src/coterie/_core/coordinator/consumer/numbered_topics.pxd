"""Topics of one run of an assignor, whose partitions are numbered among all."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.consumer.values cimport Assignment

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

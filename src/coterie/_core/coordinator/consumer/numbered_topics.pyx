"""Topics of one run of an assignor: their order, their numbers, and memory for the run."""
cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

from coterie._core.coordinator.consumer.values cimport (
    Assignment, TopicId, before, new_assignment)

from functools import cmp_to_key


@cython.final
cdef class Memory:
    """Arrays that go with it."""

    def __dealloc__(self):
        cdef int n
        for n in range(self.count):
            free(self.blocks[n])

    cdef void* take(self, Py_ssize_t size) except NULL:
        cdef void* block = calloc(max(size, 1), 1)
        if block == NULL:
            raise MemoryError
        self.blocks[self.count] = block
        self.count += 1
        return block


cdef int by_id(TopicId one, TopicId other) noexcept:
    return -1 if before(one, other) else before(other, one)


def compare_ids(TopicId one not None, TopicId other not None):
    return by_id(one, other)


cdef list sorted_topics(object topics):
    """Topics in the order of their ids."""
    return sorted(topics, key=cmp_to_key(compare_ids))


cdef int mark(list topics, Run* runs) except -1:
    """Number the topics of a run; how many partitions they have."""
    cdef int64_t total = 0
    cdef Py_ssize_t n
    cdef TopicId topic
    for n in range(len(topics)):
        topic = <TopicId>topics[n]
        topic.mark = n
        runs[n].first = total
        runs[n].count = topic.partition_count
        total += topic.partition_count
    return 0


cdef int unmark(list topics) except -1:
    cdef TopicId topic
    for topic in topics:
        topic.mark = -1
    return 0


cdef int compare_numbers(const void* one, const void* other) noexcept nogil:
    cdef int64_t a = (<const int64_t*>one)[0], b = (<const int64_t*>other)[0]
    return (a > b) - (a < b)


cdef Assignment numbered(int64_t* every, int64_t total, list topics, Run* runs, Memory memory):
    """An assignment of partitions that are numbered among all, in order."""
    cdef int32_t* ends = <int32_t*>memory.take((len(topics) + 1) * sizeof(int32_t))
    cdef int32_t* partitions = <int32_t*>memory.take(total * sizeof(int32_t))
    cdef list named = []
    cdef Py_ssize_t topic = 0
    cdef int64_t n
    for n in range(total):
        while every[n] >= runs[topic].first + runs[topic].count:
            topic += 1
        if not named or named[len(named) - 1] is not topics[topic]:
            named.append(topics[topic])
        partitions[n] = <int32_t>(every[n] - runs[topic].first)
        ends[len(named) - 1] = <int32_t>(n + 1)
    return new_assignment(named, ends, partitions)

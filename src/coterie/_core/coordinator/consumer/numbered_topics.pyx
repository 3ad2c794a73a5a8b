"""Topics of one run of an assignor: their order, their numbers, and memory for the run."""
cimport cython
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

from coterie._core.coordinator.consumer.assignors cimport Subscriber
from coterie._core.coordinator.consumer.values cimport Assignment, TopicId, assignment_of


@cython.final
@cython.freelist(2)
cdef class Memory:
    """Arrays of zeros that go with it."""

    def __dealloc__(self):
        cdef int n
        for n in range(self.count):
            free(self.blocks[n])

    cdef void* take(self, Py_ssize_t size) except NULL:
        cdef void* block = <char*>self.first + self.taken
        if size <= <Py_ssize_t>sizeof(self.first) - self.taken:
            self.taken += (size + 7) & ~7
            return block
        block = calloc(size, 1)
        if block == NULL:
            raise MemoryError
        self.blocks[self.count] = block
        self.count += 1
        return block


def topic_order(TopicId topic not None):
    return topic.upper, topic.lower


cdef list sorted_topics(object topics):
    """Topics in the order of their ids."""
    return sorted(topics, key=topic_order)


cdef list distinct_topics(list subscribers):
    """The topics that any member subscribes to, in the order of their ids."""
    cdef dict seen = {}                    # members that name the same topics share a tuple
    cdef set named = set()
    cdef Subscriber member
    for member in subscribers:
        seen[<Py_ssize_t><void*>member.topics] = member.topics
    for topics in seen.values():
        named.update(topics)
    return sorted_topics(named)


cdef int32_t* number_subscribers(list subscribers, Run* runs, Py_ssize_t topics,
                                 Memory memory) except NULL:
    """The subscribers of each topic by their places, in order, one topic after another."""
    cdef Subscriber member
    cdef TopicId topic
    cdef Run* run
    cdef int32_t* numbers
    cdef int64_t pairs = 0
    cdef Py_ssize_t n
    for member in subscribers:
        for topic in member.topics:
            runs[topic.mark].subscribers += 1
    for n in range(topics):
        runs[n].first_subscriber = pairs
        pairs += runs[n].subscribers
        runs[n].subscribers = 0
    numbers = <int32_t*>memory.take(pairs * sizeof(int32_t))
    for n in range(len(subscribers)):
        for topic in (<Subscriber>subscribers[n]).topics:
            run = &runs[topic.mark]
            numbers[run.first_subscriber + run.subscribers] = <int32_t>n
            run.subscribers += 1
    return numbers


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


cdef int unmark(list topics) except -1:
    cdef TopicId topic
    for topic in topics:
        topic.mark = -1


cdef int compare_numbers(const void* one, const void* other) noexcept nogil:
    cdef int64_t a = (<const int64_t*>one)[0], b = (<const int64_t*>other)[0]
    return (a > b) - (a < b)


cdef Py_ssize_t topic_with(Run* runs, Py_ssize_t low, Py_ssize_t high, int64_t number) noexcept:
    """The topic, from ``low`` on and before ``high``, that a partition is of."""
    cdef Py_ssize_t middle
    if number < runs[low].first + runs[low].count:
        return low
    low += 1
    while high - low > 1:
        middle = (low + high) // 2
        if runs[middle].first > number:
            high = middle
        else:
            low = middle
    return low


cdef Assignment numbered(int64_t* every, int64_t total, list topics, Run* runs, int32_t* ends,
                         int32_t* partitions):
    """An assignment of partitions that are numbered among all, in order.

    ``ends`` and ``partitions``: room for so many topics and partitions.
    """
    cdef tuple named
    cdef Py_ssize_t topic = 0, count = len(topics), found = 0, n
    cdef int64_t at = 0, first, end
    while at < total:                      # a topic at a time
        topic = topic_with(runs, topic, count, every[at])
        first, end = runs[topic].first, runs[topic].first + runs[topic].count
        while at < total and every[at] < end:
            partitions[at] = <int32_t>(every[at] - first)
            at += 1
        ends[found] = <int32_t>at
        found += 1
    named = PyTuple_New(found)
    topic = 0
    for n in range(found):
        topic = topic_with(runs, topic, count, every[ends[n] - 1])
        each = topics[topic]
        Py_INCREF(each)
        PyTuple_SET_ITEM(named, n, each)
    return assignment_of(named, ends, partitions)

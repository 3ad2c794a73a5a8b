"""The assignor ``range``. Cost: a walk over members and partitions.

Source: RangeAssignor.java.
"""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.consumer.assignors cimport Subscriber
from coterie._core.coordinator.consumer.numbered_topics cimport (
    Memory, Run, distinct_topics, mark, number_subscribers, unmark)
from coterie._core.coordinator.consumer.values cimport Assignment, new_assignment

from coterie._core.coordinator.consumer.values import utf16_units


def range_order(Subscriber member not None):
    if member.instance_id is not None:
        return 0, utf16_units(member.instance_id)
    return 1, utf16_units(member.member_id)


cdef list in_range_order(list subscribers):
    """Static members first; the others are in order already."""
    cdef Subscriber member
    for member in subscribers:
        if member.instance_id is not None:
            return sorted(subscribers, key=range_order)
    return subscribers


cdef int assign_range(list subscribers, bint homogeneous) except -1:
    cdef list ordered = in_range_order(subscribers), topics
    cdef Memory memory = Memory()
    cdef Run* runs
    cdef int32_t* who = NULL
    cdef Py_ssize_t n
    topics = (list((<Subscriber>ordered[0]).topics) if homogeneous
              else distinct_topics(subscribers))
    runs = <Run*>memory.take(len(topics) * sizeof(Run))
    mark(topics, runs)
    try:
        if homogeneous:
            for n in range(len(topics)):
                runs[n].subscribers = <int32_t>len(ordered)
        else:
            who = number_subscribers(ordered, runs, len(topics), memory)
        return share_ranges(ordered, topics, runs, who, memory)
    finally:
        unmark(topics)


cdef int share_ranges(list ordered, list topics, Run* runs, int32_t* who,
                      Memory memory) except -1:
    """Give each subscriber of a topic a range of it. ``who``: as numbered; NULL: all of each."""
    cdef Py_ssize_t members = len(ordered), n, m
    cdef int64_t* first = <int64_t*>memory.take((members + 1) * sizeof(int64_t))
    cdef int64_t* first_span = <int64_t*>memory.take((members + 1) * sizeof(int64_t))
    cdef int32_t* partitions
    cdef int32_t* ends
    cdef int32_t* topic_of
    cdef int64_t total = 0, spans = 0
    cdef int32_t start, size, at, k
    cdef Run* run
    cdef Subscriber member
    cdef Assignment made
    for n in range(len(topics)):
        run = &runs[n]
        total += run.count
        for k in range(min(run.count, run.subscribers)):
            m = k if who == NULL else who[run.first_subscriber + k]
            first[m + 1] += run.count // run.subscribers + (k < run.count % run.subscribers)
            first_span[m + 1] += 1
            spans += 1
    for m in range(members):
        first[m + 1] += first[m]
        first_span[m + 1] += first_span[m]
    partitions = <int32_t*>memory.take(total * sizeof(int32_t))
    ends = <int32_t*>memory.take(spans * sizeof(int32_t))
    topic_of = <int32_t*>memory.take(spans * sizeof(int32_t))
    for n in range(len(topics)):
        run = &runs[n]
        start = 0
        for k in range(min(run.count, run.subscribers)):
            m = k if who == NULL else who[run.first_subscriber + k]
            size = run.count // run.subscribers + (k < run.count % run.subscribers)
            for at in range(start, start + size):
                partitions[first[m]] = at
                first[m] += 1
            start += size
            topic_of[first_span[m]] = <int32_t>n
            ends[first_span[m]] = size
            first_span[m] += 1
    total = spans = 0
    for m in range(members):
        member = <Subscriber>ordered[m]
        for n in range(spans + 1, first_span[m]):
            ends[n] += ends[n - 1]
        made = new_assignment([topics[topic_of[n]] for n in range(spans, first_span[m])],
                              ends + spans, partitions + total)
        member.computed = member.previous if made.equals(<Assignment>member.previous) else made
        spans, total = first_span[m], first[m]
    return 0

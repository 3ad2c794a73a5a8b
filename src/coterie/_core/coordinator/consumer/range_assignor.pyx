"""The assignor ``range``. Cost: a walk over members and partitions.

Source: RangeAssignor.java.
"""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.consumer.assignors cimport Subscriber
from coterie._core.coordinator.consumer.numbered_topics cimport Memory, sorted_topics
from coterie._core.coordinator.consumer.values cimport (
    Assignment, TopicId, new_assignment, no_partitions)

from coterie._core.coordinator.consumer.values import utf16_units


def range_order(Subscriber member not None):
    if member.instance_id is not None:
        return 0, utf16_units(member.instance_id), utf16_units(member.member_id)
    return 1, b"", utf16_units(member.member_id)


cdef int assign_range(list subscribers, bint homogeneous) except -1:
    cdef list ordered = sorted(subscribers, key=range_order)
    cdef dict by_topic = {}
    cdef Subscriber member
    cdef TopicId topic
    cdef list who, spans
    cdef dict given = {}
    cdef int32_t start, size, quota, extra, n
    if homogeneous:
        for topic in (<Subscriber>subscribers[0]).topics:
            by_topic[topic] = ordered
    else:
        for member in ordered:
            for topic in member.topics:
                who = by_topic.get(topic)
                if who is None:
                    who = by_topic[topic] = []
                who.append(member)
    for topic in sorted_topics(by_topic):
        who = by_topic[topic]
        quota = topic.partition_count // <int32_t>len(who)
        extra = topic.partition_count % <int32_t>len(who)
        start = 0
        for n in range(<int32_t>len(who)):
            size = quota + (n < extra)
            if size:
                spans = given.get(who[n])
                if spans is None:
                    spans = given[who[n]] = []
                spans.append((topic, start, size))
                start += size
    for member in subscribers:
        member.target = spanned(<Assignment>member.previous, given.get(member))
    return 0


cdef Assignment spanned(Assignment previous, list spans):
    """An assignment of runs of partitions, the one that was there if it is the same."""
    cdef Memory memory
    cdef int32_t* ends
    cdef int32_t* partitions
    cdef int64_t total = 0
    cdef Py_ssize_t n
    cdef int32_t first, size, at, count = 0
    cdef Assignment made
    if spans is None:
        return no_partitions()
    for span in spans:
        total += <int32_t>span[2]
    memory = Memory()
    ends = <int32_t*>memory.take(len(spans) * sizeof(int32_t))
    partitions = <int32_t*>memory.take(total * sizeof(int32_t))
    for n in range(len(spans)):
        first, size = spans[n][1], spans[n][2]
        for at in range(first, first + size):
            partitions[count] = at
            count += 1
        ends[n] = count
    made = new_assignment([span[0] for span in spans], ends, partitions)
    return previous if made.equals(previous) else made

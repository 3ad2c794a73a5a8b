"""The assignor ``uniform`` over members with equal subscriptions.

Cost: a walk over members and partitions.
Source: assignor/UniformHomogeneousAssignmentBuilder.java.
"""
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport qsort

from coterie._core.coordinator.consumer.assignors cimport Subscriber
from coterie._core.coordinator.consumer.numbered_topics cimport (
    Memory, Run, compare_numbers, mark, numbered, unmark)
from coterie._core.coordinator.consumer.topic_use cimport TopicUse
from coterie._core.coordinator.consumer.values cimport (
    Assignment, TopicId, new_assignment, no_partitions)

cdef struct Pool:                  # what is free, and room for the member at hand
    Run* runs
    int64_t* free                  # indices among all; what members give up comes behind it
    int64_t count
    bint complete                  # every topic of any target is one of the run
    int64_t* every                 # indices of what the member gets
    int32_t* ends                  # of what the member gets: as in an Assignment
    int32_t* partitions


cdef int assign_equal(list subscribers, dict uses) except -1:
    cdef list topics = list((<Subscriber>subscribers[0]).topics)
    cdef Memory memory = Memory()
    cdef Run* runs
    cdef Subscriber member
    if not topics:
        for member in subscribers:
            member.computed = no_partitions()
        return 0
    runs = <Run*>memory.take(len(topics) * sizeof(Run))
    mark(topics, runs)
    try:
        return share_equally(subscribers, uses, topics, runs, memory)
    finally:
        unmark(topics)


cdef int find_free(Pool* pool, list topics, dict uses) except -1:
    """Put partitions into the pool that no target has; note whether all targets are of the run."""
    cdef Py_ssize_t n
    cdef int32_t m
    cdef TopicId topic
    cdef TopicUse use
    pool.complete = True
    for topic, use in uses.items():
        if use.targeted and topic.mark < 0:
            pool.complete = False
    for n in range(len(topics)):
        use = uses.get(topics[n])
        if use is not None:
            if use.count <= pool.runs[n].count == use.targeted:
                continue
            use.reserve(pool.runs[n].count)
        for m in range(pool.runs[n].count):
            if use is None or not use.partitions[m].targets:
                pool.free[pool.count] = pool.runs[n].first + m
                pool.count += 1


cdef int64_t keep_share(Subscriber member, int64_t quota, Pool* pool) except -1:
    """Give a member what it had, up to its quota; the partitions that are left of the quota."""
    cdef Assignment previous = <Assignment>member.previous
    if previous.count <= quota and pool.complete:
        member.computed = previous
        return quota - previous.count
    return keep_part(member, previous, quota, pool)


cdef int64_t keep_part(Subscriber member, Assignment previous, int64_t quota,
                       Pool* pool) except -1:
    """Give a member a part of what it had; the partitions that are left of the quota."""
    cdef TopicId topic
    cdef list kept_topics = []
    cdef Py_ssize_t m
    cdef int32_t at, start = 0, count = 0, size
    for m in range(previous.topic_count):
        topic = <TopicId>previous.topics[m]
        if topic.mark >= 0:
            size = <int32_t>min(previous.ends[m] - start, quota)
            for at in range(start, start + size):
                pool.partitions[count] = previous.partitions[at]
                count += 1
            quota -= size
            for at in range(start + size, previous.ends[m]):
                pool.free[pool.count] = pool.runs[topic.mark].first + previous.partitions[at]
                pool.count += 1
            if size:
                pool.ends[len(kept_topics)] = count
                kept_topics.append(topic)
        start = previous.ends[m]
    member.computed = new_assignment(kept_topics, pool.ends, pool.partitions)
    return quota


cdef int share_equally(list subscribers, dict uses, list topics, Run* runs,
                       Memory memory) except -1:
    cdef Py_ssize_t members = len(subscribers), topic_count = len(topics), n
    cdef int64_t total = runs[topic_count - 1].first + runs[topic_count - 1].count
    cdef int64_t each = total // members, extras = total % members, quota, given
    cdef int64_t next_one = 0
    cdef int64_t* quotas = <int64_t*>memory.take(members * sizeof(int64_t))
    cdef Subscriber member
    cdef bint extra
    cdef Pool pool
    pool.runs, pool.count = runs, 0
    pool.free = <int64_t*>memory.take((2 * total + 1) * sizeof(int64_t))
    pool.ends = <int32_t*>memory.take((topic_count + 1) * sizeof(int32_t))
    pool.partitions = <int32_t*>memory.take((total + 1) * sizeof(int32_t))
    pool.every = <int64_t*>memory.take((total + 1) * sizeof(int64_t))
    find_free(&pool, topics, uses)
    for n in range(members):
        member = <Subscriber>subscribers[n]
        quota, extra = each, False
        if extras > 0:
            quota += 1
            extra = True
        quota = keep_share(member, quota, &pool)
        if quota > 0 and extra and members - n > extras:
            quota -= 1
            extra = False
        quotas[n] = quota
        if extra:
            extras -= 1
    for n in range(members):
        given = min(quotas[n], pool.count - next_one)
        if given > 0:
            member = <Subscriber>subscribers[n]
            member.computed = with_more(<Assignment>member.computed, pool.free + next_one, given,
                                        topics, &pool)
            next_one += given
    return 0


cdef Assignment with_more(Assignment had, int64_t* more, int64_t count, list topics, Pool* pool):
    """An assignment with partitions that are numbered among all of a run."""
    cdef int64_t n, first, at = 0
    cdef Py_ssize_t m
    cdef int32_t place, start = 0
    cdef bint ordered = True
    for m in range(had.topic_count):
        first = pool.runs[(<TopicId>had.topics[m]).mark].first
        for place in range(start, had.ends[m]):
            pool.every[at] = first + had.partitions[place]
            at += 1
        start = had.ends[m]
    for n in range(count):
        ordered = ordered and (at == 0 or pool.every[at - 1] < more[n])
        pool.every[at] = more[n]
        at += 1
    if not ordered:
        qsort(pool.every, at, sizeof(int64_t), compare_numbers)
    return numbered(pool.every, at, topics, pool.runs, pool.ends, pool.partitions)

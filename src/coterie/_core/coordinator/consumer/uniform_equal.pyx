"""The assignor ``uniform`` over members with equal subscriptions.

Cost: a walk over members and partitions.
Source: assignor/UniformHomogeneousAssignmentBuilder.java.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport qsort

from coterie._core.coordinator.consumer.assignors cimport Subscriber
from coterie._core.coordinator.consumer.numbered_topics cimport (
    Memory, Run, compare_numbers, mark, numbered, unmark)
from coterie._core.coordinator.consumer.values cimport (
    Assignment, TopicId, new_assignment, no_partitions)

cdef struct Pool:                  # what is free, and room for what a member keeps
    Run* runs
    int64_t* free                  # indices among all; what members give up comes behind it
    int64_t count
    int32_t* ends                  # of what the member at hand keeps: as in an Assignment
    int32_t* kept


cdef int assign_equal(list subscribers, list others) except -1:
    cdef list topics = list((<Subscriber>subscribers[0]).topics)
    cdef Memory memory = Memory()
    cdef Run* runs
    cdef Subscriber member
    if not topics:
        for member in subscribers:
            member.target = no_partitions()
        return 0
    runs = <Run*>memory.take(len(topics) * sizeof(Run))
    mark(topics, runs)
    try:
        return share_equally(subscribers, others, topics, runs, memory)
    finally:
        unmark(topics)


cdef int take_held(Assignment held, Run* runs, uint8_t* taken) noexcept:
    """Partitions that stand in a target already."""
    cdef Py_ssize_t n
    cdef int32_t at, start = 0
    cdef TopicId topic
    for n in range(held.topic_count):
        topic = <TopicId>held.topics[n]
        if topic.mark >= 0:
            for at in range(start, held.ends[n]):
                if held.partitions[at] < runs[topic.mark].count:
                    taken[runs[topic.mark].first + held.partitions[at]] = 1
        start = held.ends[n]
    return 0


cdef int64_t keep_share(Subscriber member, int64_t quota, Pool* pool) except -1:
    """Give a member what it had, up to its quota; the partitions that are left of the quota."""
    cdef Assignment previous = <Assignment>member.previous
    cdef TopicId topic
    cdef list kept_list
    cdef Py_ssize_t m, kept_topics
    cdef int64_t had
    cdef bint whole
    cdef int32_t at, start, size, count
    start = count = 0
    whole = True
    kept_list = None
    kept_topics = 0
    for m in range(previous.topic_count):
        topic = <TopicId>previous.topics[m]
        size = previous.ends[m] - start
        had = count
        if topic.mark < 0:
            whole = False
        elif size <= quota:
            for at in range(start, previous.ends[m]):
                pool.kept[count] = previous.partitions[at]
                count += 1
            quota -= size
        else:
            whole = False
            for at in range(start, previous.ends[m]):
                if quota > 0:
                    pool.kept[count] = previous.partitions[at]
                    count += 1
                    quota -= 1
                else:
                    pool.free[pool.count] = (pool.runs[topic.mark].first
                                             + previous.partitions[at])
                    pool.count += 1
        if count > had:
            if not whole:
                if kept_list is None:
                    kept_list = list(previous.topics[:kept_topics])
                kept_list.append(topic)
            pool.ends[kept_topics] = count
            kept_topics += 1
        start = previous.ends[m]
    if whole:
        member.target = previous
    else:
        if kept_list is None:
            kept_list = list(previous.topics[:kept_topics])
        member.target = new_assignment(kept_list, pool.ends, pool.kept)
    return quota


cdef int share_equally(list subscribers, list others, list topics, Run* runs,
                       Memory memory) except -1:
    cdef Py_ssize_t members = len(subscribers), topic_count = len(topics), n, m
    cdef int64_t total = runs[topic_count - 1].first + runs[topic_count - 1].count
    cdef int64_t each = total // members, extras = total % members, quota, given
    cdef int64_t next_one = 0
    cdef uint8_t* taken = <uint8_t*>memory.take(total)
    cdef int64_t* quotas = <int64_t*>memory.take(members * sizeof(int64_t))
    cdef Subscriber member
    cdef bint extra
    cdef Pool pool
    pool.runs, pool.count = runs, 0
    pool.free = <int64_t*>memory.take((2 * total + 1) * sizeof(int64_t))
    pool.ends = <int32_t*>memory.take((topic_count + 1) * sizeof(int32_t))
    pool.kept = <int32_t*>memory.take((total + 1) * sizeof(int32_t))
    for member in subscribers:
        take_held(<Assignment>member.previous, runs, taken)
    for held in others:
        take_held(<Assignment?>held, runs, taken)
    for n in range(topic_count):
        for m in range(runs[n].count):
            if not taken[runs[n].first + m]:
                pool.free[pool.count] = runs[n].first + m
                pool.count += 1
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
        if quota > 0:
            quotas[n] = quota
        if extra:
            extras -= 1
    for n in range(members):
        given = min(quotas[n], pool.count - next_one)
        if given > 0:
            member = <Subscriber>subscribers[n]
            member.target = with_more(<Assignment>member.target, pool.free + next_one, given,
                                      topics, runs)
            next_one += given
    return 0


cdef Assignment with_more(Assignment had, int64_t* more, int64_t count, list topics, Run* runs):
    """An assignment with partitions that are numbered among all of a run."""
    cdef int64_t total = had.count + count, n, index
    cdef Memory memory = Memory()
    cdef int64_t* every = <int64_t*>memory.take(total * sizeof(int64_t))
    cdef int64_t at = 0
    cdef Py_ssize_t m
    cdef int32_t place, start = 0
    for m in range(had.topic_count):
        index = runs[(<TopicId>had.topics[m]).mark].first
        for place in range(start, had.ends[m]):
            every[at] = index + had.partitions[place]
            at += 1
        start = had.ends[m]
    for n in range(count):
        every[at] = more[n]
        at += 1
    qsort(every, total, sizeof(int64_t), compare_numbers)
    return numbered(every, total, topics, runs, memory)

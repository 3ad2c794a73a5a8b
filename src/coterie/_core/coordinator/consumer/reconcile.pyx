"""The next assignment of a member: what it keeps, gives up, gets, and waits for.

A member gives partitions up first; it gets a partition once no member owns it. ``owned`` is what
the member reports as owned: topic id -> partitions, None without a report. Changes nothing.
Source: modern/consumer/CurrentAssignmentBuilder.java.
"""
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp

from coterie._core.coordinator.codes cimport FENCED_MEMBER_EPOCH, NONE
from coterie._core.coordinator.consumer.group cimport (
    KAFKA_4_1_2, KAFKA_4_2, STABLE_MEMBER, UNRELEASED_PARTITIONS, UNREVOKED_PARTITIONS,
    ConsumerGroup, ConsumerMember, Current, new_current)
from coterie._core.coordinator.consumer.topic_use cimport TopicUse
from coterie._core.coordinator.consumer.values cimport (
    Assignment, TopicId, assignment_of_refs, before, no_partitions)

from coterie._core.coordinator.consumer.parse import assignment_from


cdef bint names_any(dict owned, Assignment assignment) except -1:
    """Whether a request names any partition of an assignment; one without a list names all."""
    cdef Py_ssize_t n
    cdef int32_t at, start = 0
    cdef tuple partitions
    if owned is None:
        return True
    for n in range(assignment.topic_count):
        partitions = owned.get((<TopicId>assignment.topics[n]).raw)
        if partitions is not None:
            for at in range(start, assignment.ends[n]):
                if assignment.partitions[at] in partitions:
                    return True
        start = assignment.ends[n]
    return False


cdef bint all_within(dict owned, Assignment assignment) except -1:
    """Whether all partitions that a request names are of an assignment."""
    cdef Py_ssize_t n
    cdef TopicId topic
    for raw, partitions in owned.items():
        for n in range(assignment.topic_count):
            if (<TopicId>assignment.topics[n]).raw == raw:
                break
        else:
            if partitions:
                return False
            continue
        topic = <TopicId>assignment.topics[n]
        for partition in partitions:
            if not assignment.holds(topic, partition):
                return False
    return True


cdef enum:
    FEW = 128                      # words that the parts of most members fit in

cdef struct Parts:                 # an assignment that is being made
    PyObject** topics              # borrowed: an assignment that is walked has them
    int32_t* ends
    int32_t* partitions
    int32_t count
    int32_t topic_count


cdef inline void begin(Parts* parts, char* memory, Py_ssize_t topics) noexcept:
    parts.topics = <PyObject**>memory
    parts.ends = <int32_t*>(memory + topics * sizeof(PyObject*))
    parts.partitions = parts.ends + topics
    parts.count = parts.topic_count = 0


cdef inline void put(Parts* parts, int32_t partition) noexcept:
    parts.partitions[parts.count] = partition
    parts.count += 1


cdef inline void close(Parts* parts, TopicId topic) noexcept:
    """The partitions of a topic are complete; one without any is left out."""
    if parts.count > (parts.ends[parts.topic_count - 1] if parts.topic_count else 0):
        parts.topics[parts.topic_count] = <PyObject*>topic
        parts.ends[parts.topic_count] = parts.count
        parts.topic_count += 1


cdef bint same(Parts* parts, Assignment other) noexcept:
    cdef Py_ssize_t n
    if parts.topic_count != other.topic_count or parts.count != other.count:
        return False
    if not parts.count:
        return True
    for n in range(parts.topic_count):
        if parts.topics[n] != <PyObject*>other.topics[n]:
            return False
    return (memcmp(parts.ends, other.ends, parts.topic_count * sizeof(int32_t)) == 0
            and memcmp(parts.partitions, other.partitions, parts.count * sizeof(int32_t)) == 0)


cdef Assignment assignment(Parts* parts, Assignment assigned, Assignment target):
    """What was made; equal to what there is, it is the same object."""
    if same(parts, assigned):
        return assigned
    if same(parts, target):
        return target
    return assignment_of_refs(parts.topics, parts.topic_count, parts.ends, parts.partitions)


cdef Current next_current(ConsumerGroup group, ConsumerMember member, int32_t epoch,
                          int32_t target_epoch, Assignment target, dict owned,
                          object subscribed):
    cdef Assignment assigned = member.assigned, pending
    cdef Py_ssize_t topics = assigned.topic_count + target.topic_count
    cdef Py_ssize_t size = (topics * (sizeof(PyObject*) + sizeof(int32_t))
                            + (assigned.count + target.count + 1) * sizeof(int32_t) + 7) & ~7
    cdef PyObject* few[FEW]
    cdef char* memory = <char*>few
    cdef Parts keep, revoke, both
    cdef bint unreleased
    if 3 * size > <Py_ssize_t>sizeof(few):
        memory = <char*>malloc(3 * size)
        if memory == NULL:
            raise MemoryError
    begin(&keep, memory, topics)
    begin(&revoke, memory + size, topics)
    begin(&both, memory + 2 * size, topics)
    try:
        unreleased = divide(group, member, target, subscribed, &keep, &revoke, &both)
        if revoke.count:
            pending = assignment(&revoke, assigned, target)
            if names_any(owned, pending):
                return new_current(UNREVOKED_PARTITIONS, epoch, member.epoch,
                                   assignment(&keep, assigned, target), pending)
        return new_current(UNRELEASED_PARTITIONS if unreleased else STABLE_MEMBER, target_epoch,
                           member.epoch, assignment(&both, assigned, target), no_partitions())
    finally:
        if memory != <char*>few:
            free(memory)


cdef bint divide(ConsumerGroup group, ConsumerMember member, Assignment target,
                 object subscribed, Parts* keep, Parts* revoke, Parts* both) except -1:
    """Walk both assignments by topic and partition; whether some of the target is not free yet."""
    cdef Assignment assigned = member.assigned
    cdef Py_ssize_t a = 0, t = 0
    cdef int32_t at, at_end, to, to_end
    cdef TopicId topic
    cdef TopicUse use
    cdef bint in_assigned, in_target, unreleased = False
    while a < assigned.topic_count or t < target.topic_count:
        in_assigned = a < assigned.topic_count and (
            t == target.topic_count or not before(<TopicId>target.topics[t],
                                                  <TopicId>assigned.topics[a]))
        in_target = t < target.topic_count and (
            a == assigned.topic_count or not before(<TopicId>assigned.topics[a],
                                                    <TopicId>target.topics[t]))
        topic = <TopicId>(assigned.topics[a] if in_assigned else target.topics[t])
        at = at_end = to = to_end = 0
        if in_assigned:
            at, at_end = assigned.ends[a - 1] if a else 0, assigned.ends[a]
            a += 1
        if in_target:
            if subscribed is None or topic.name in subscribed:
                to, to_end = target.ends[t - 1] if t else 0, target.ends[t]
            t += 1
        use = group.uses.get(topic)
        while at < at_end or to < to_end:
            if to == to_end or (at < at_end and assigned.partitions[at] < target.partitions[to]):
                put(revoke, assigned.partitions[at])
                at += 1
            elif at == at_end or target.partitions[to] < assigned.partitions[at]:
                if use is None or use.is_free(target.partitions[to]) or (
                        group.revision >= KAFKA_4_1_2
                        and member.revoking.holds(topic, target.partitions[to])):
                    put(both, target.partitions[to])
                else:
                    unreleased = True
                to += 1
            else:
                put(keep, assigned.partitions[at])
                put(both, assigned.partitions[at])
                at += 1
                to += 1
        close(keep, topic)
        close(revoke, topic)
        close(both, topic)
    return unreleased


cdef Current without_others(ConsumerMember member, object subscribed, dict owned):
    """Revoke what a member has of topics that it subscribes to no longer; None if nothing is."""
    cdef Assignment assigned = member.assigned, revoking = member.revoking, pending
    cdef dict kept = {}, lost = {}
    cdef TopicId topic
    if subscribed is None:
        return None
    for topic, (_, numbers) in zip(revoking.topics, revoking.rows()):
        lost[topic] = list(numbers)
    for topic, (_, numbers) in zip(assigned.topics, assigned.rows()):
        if topic.name in subscribed:
            kept[topic] = list(numbers)
        else:
            lost[topic] = sorted({*lost.get(topic, ()), *numbers})
    if len(kept) == assigned.topic_count:
        return None
    pending = <Assignment>assignment_from(lost)
    if names_any(owned, pending):
        return new_current(UNREVOKED_PARTITIONS, member.epoch, member.previous_epoch,
                           <Assignment>assignment_from(kept), pending)
    return new_current(member.state, member.epoch, member.previous_epoch,
                       <Assignment>assignment_from(kept), revoking)


cdef Current reconciled(ConsumerGroup group, ConsumerMember member, int32_t target_epoch,
                        Assignment target, dict owned, object subscribed, bint changed,
                        int* error):
    """What a member's record says next; None if it stays as it is.

    ``subscribed``: the names of its topics, None before 4.2; ``changed``: they have changed.
    """
    cdef Current made
    error[0] = NONE
    if member.state == STABLE_MEMBER:
        if member.epoch == target_epoch:
            return without_others(member, subscribed, owned) if changed else None
        made = next_current(group, member, member.epoch, target_epoch, target, owned, subscribed)
    elif member.state == UNREVOKED_PARTITIONS:
        if names_any(owned, member.revoking):
            return without_others(member, subscribed, owned) if changed else None
        made = next_current(group, member, member.epoch + (group.revision < KAFKA_4_2),
                            target_epoch, target, owned, subscribed)
    elif member.state == UNRELEASED_PARTITIONS:
        made = next_current(group, member, member.epoch, target_epoch, target, owned, subscribed)
    elif owned is None or any(owned.values()):
        error[0] = FENCED_MEMBER_EPOCH
        return None
    else:
        made = next_current(group, member, target_epoch, target_epoch, target, owned, subscribed)
    if (made.state == member.state and made.epoch == member.epoch
            and made.previous_epoch == member.previous_epoch
            and made.assigned.equals(member.assigned)
            and made.revoking.equals(member.revoking)):
        return None
    return made

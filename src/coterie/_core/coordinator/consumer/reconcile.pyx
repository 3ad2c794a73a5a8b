"""The next assignment of a member: what it keeps, gives up, gets, and waits for.

A member gives partitions up first; it gets a partition once no member owns it. ``owned`` is what
the member reports as owned: topic id -> partitions, None without a report. Changes nothing.
Source: modern/consumer/CurrentAssignmentBuilder.java.
"""
from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc

from coterie._core.coordinator.codes cimport FENCED_MEMBER_EPOCH, NONE
from coterie._core.coordinator.consumer.group cimport (
    KAFKA_4_1_2, KAFKA_4_2, STABLE_MEMBER, UNRELEASED_PARTITIONS, UNREVOKED_PARTITIONS,
    ConsumerGroup, ConsumerMember, Current)
from coterie._core.coordinator.consumer.values cimport (
    Assignment, TopicId, before, new_assignment, no_partitions)

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


cdef struct Parts:                 # an assignment that is being made
    int32_t* ends
    int32_t* partitions
    int32_t count
    int32_t topics


cdef inline void put(Parts* parts, int32_t partition) noexcept:
    parts.partitions[parts.count] = partition
    parts.count += 1


cdef inline int close(Parts* parts, list topics, TopicId topic) except -1:
    """The partitions of a topic are complete; one without any is left out."""
    if parts.count > (parts.ends[parts.topics - 1] if parts.topics else 0):
        topics.append(topic)
        parts.ends[parts.topics] = parts.count
        parts.topics += 1
    return 0


cdef Current next_current(ConsumerGroup group, ConsumerMember member, int32_t epoch,
                          int32_t target_epoch, Assignment target, dict owned,
                          object subscribed):
    cdef Assignment assigned = member.assigned
    cdef int32_t room = assigned.count + target.count
    cdef Py_ssize_t topics = assigned.topic_count + target.topic_count
    cdef int32_t* memory = <int32_t*>malloc(3 * (room + topics + 1) * sizeof(int32_t))
    cdef Parts keep, revoke, both
    cdef list keep_topics = [], revoke_topics = [], both_topics = []
    cdef bint unreleased = False
    if memory == NULL:
        raise MemoryError
    keep.ends, keep.partitions = memory, memory + topics
    revoke.ends, revoke.partitions = keep.partitions + room, keep.partitions + room + topics
    both.ends, both.partitions = revoke.partitions + room, revoke.partitions + room + topics
    keep.count = keep.topics = revoke.count = revoke.topics = both.count = both.topics = 0
    try:
        unreleased = divide(group, member, target, subscribed, &keep, keep_topics, &revoke,
                            revoke_topics,
                            &both, both_topics)
        if revoke.count:
            pending = new_assignment(revoke_topics, revoke.ends, revoke.partitions)
            if names_any(owned, <Assignment>pending):
                return current(UNREVOKED_PARTITIONS, epoch, member.epoch,
                               new_assignment(keep_topics, keep.ends, keep.partitions),
                               <Assignment>pending)
        made = new_assignment(both_topics, both.ends, both.partitions)
    finally:
        free(memory)
    if (<Assignment>made).equals(assigned):
        made = assigned
    return current(UNRELEASED_PARTITIONS if unreleased else STABLE_MEMBER, target_epoch,
                   member.epoch, <Assignment>made, no_partitions())


cdef bint divide(ConsumerGroup group, ConsumerMember member, Assignment target,
                 object subscribed, Parts* keep, list keep_topics, Parts* revoke,
                 list revoke_topics, Parts* both,
                 list both_topics) except -1:
    """Walk both assignments by topic and partition; whether some of the target is not free yet."""
    cdef Assignment assigned = member.assigned
    cdef Py_ssize_t a = 0, t = 0
    cdef int32_t at, at_end, to, to_end
    cdef TopicId topic
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
        while at < at_end or to < to_end:
            if to == to_end or (at < at_end and assigned.partitions[at] < target.partitions[to]):
                put(revoke, assigned.partitions[at])
                at += 1
            elif at == at_end or target.partitions[to] < assigned.partitions[at]:
                if group.owner_epoch(topic, target.partitions[to]) == -1 or (
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
        close(keep, keep_topics, topic)
        close(revoke, revoke_topics, topic)
        close(both, both_topics, topic)
    return unreleased


cdef Current current(int state, int32_t epoch, int32_t previous_epoch, Assignment assigned,
                     Assignment revoking):
    cdef Current made = Current.__new__(Current)
    made.state = state
    made.epoch = epoch
    made.previous_epoch = previous_epoch
    made.assigned = assigned
    made.revoking = revoking
    return made


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
        return current(UNREVOKED_PARTITIONS, member.epoch, member.previous_epoch,
                       <Assignment>assignment_from(kept), pending)
    return current(member.state, member.epoch, member.previous_epoch,
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

"""The target assignment of a group: its assignor's input, and the records of what changed.

Source: TargetAssignmentBuilder.java.
"""
from libc.stdint cimport int32_t

from coterie._core.coordinator.consumer.assignors cimport Subscriber, new_subscriber
from coterie._core.coordinator.consumer.assignors cimport assign as assign_all
from coterie._core.coordinator.consumer.group cimport (
    TARGET, ConsumerGroup, ConsumerMember, new_record, place_of, preferred, target_epoch_record)
from coterie._core.coordinator.consumer.numbered_topics cimport sorted_topics
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol
from coterie._core.coordinator.consumer.values cimport (
    Assignment, MemberFields, Resolved, add_count)


cdef Assignment assign_targets(ConsumerProtocol protocol, ConsumerGroup group,
                               ConsumerMember member, MemberFields fields, ConsumerMember replaced,
                               bint homogeneous, int32_t epoch, list records):
    """Assign all members; return the target of the member that sent the heartbeat."""
    cdef list subscribers = group.subscribers, sources = group.order
    cdef Subscriber own = member.subscriber
    cdef Py_ssize_t n
    cdef bint is_new = False
    if replaced is not None or not member.present:
        own = new_subscriber(member.member_id, member.target)
        if replaced is not None:
            subscribers, sources = list(subscribers), list(sources)
            n = sources.index(replaced)
            del subscribers[n], sources[n]
        n = place_of(sources, member.member_id)
        if n < len(subscribers) and (
                (<Subscriber>subscribers[n]).member_id == member.member_id):
            subscribers, sources = list(subscribers), list(sources)
            subscribers[n] = own
        else:
            is_new = replaced is None      # the group's own lists have it for this assignment
            subscribers.insert(n, own)
            sources.insert(n, None)
    try:
        own.instance_id = fields.instance_id
        assign_subscribers(protocol, group, member, fields, replaced, homogeneous, own,
                           subscribers, sources)
        put_changes(group, replaced, own, subscribers, sources, records)
    finally:
        if is_new:
            del subscribers[n], sources[n]
    records.append(target_epoch_record(epoch))
    if member.present:
        own.instance_id = member.fields.instance_id     # until the member's record is replayed
    return <Assignment>own.target


cdef int assign_subscribers(ConsumerProtocol protocol, ConsumerGroup group, ConsumerMember member,
                            MemberFields fields, ConsumerMember replaced, bint homogeneous,
                            Subscriber own, list subscribers, list sources) except -1:
    """Run the assignor. ``own``: the member that sent the heartbeat, as it will be."""
    cdef Subscriber subscriber
    cdef Py_ssize_t n
    for n in range(1 if homogeneous else len(subscribers)):
        subscriber = <Subscriber>subscribers[n]     # else the topics of the first are all
        subscriber.topics = topics_of(protocol, group, fields if subscriber is own else (
            <ConsumerMember>sources[n]).fields)
    return assign_all(assignor_of(protocol, group, member, fields, replaced), subscribers,
                      homogeneous, group.targeted)


cdef int put_changes(ConsumerGroup group, ConsumerMember replaced, Subscriber own,
                     list subscribers, list sources, list records) except -1:
    """The records of targets that are new or differ."""
    cdef Subscriber subscriber
    cdef ConsumerMember each
    cdef Assignment had
    cdef Py_ssize_t n
    for n in range(len(subscribers)):
        subscriber = <Subscriber>subscribers[n]
        if (subscriber.target is subscriber.previous and subscriber is not own
                and (<Assignment>subscriber.target).count):
            continue
        each = <ConsumerMember>sources[n]
        had = None if each is None else each.target
        if subscriber is own and replaced is not None:
            # The replacement's own record comes first: what it says is what was there.
            had = <Assignment>subscriber.previous if replaced.member_id == (
                subscriber.member_id) else None
        if had is not None and subscriber.target is had:
            continue
        if had is None and group.absent:
            each = group.absent.get(subscriber.member_id)
            had = None if each is None else each.target
        if had is None or not (<Assignment>subscriber.target).equals(had):
            records.append(new_record(TARGET, subscriber.member_id, subscriber.target))
    return 0


cdef tuple topics_of(ConsumerProtocol protocol, ConsumerGroup group, MemberFields fields):
    """Topics that a member subscribes to and that exist, by their ids."""
    if fields.regex and fields.regex in group.resolved:
        return topics_named(
            protocol, fields.names.names | (<Resolved>group.resolved[fields.regex]).topics)
    if fields.names.topics_stamp != protocol.image.stamp:
        fields.names.topics = topics_named(protocol, fields.names.names)
        fields.names.topics_stamp = protocol.image.stamp
    return fields.names.topics


cdef tuple topics_named(ConsumerProtocol protocol, names):
    return tuple(sorted_topics([
        protocol.image.topics[name] for name in names if name in protocol.image.topics]))


cdef str assignor_of(ConsumerProtocol protocol, ConsumerGroup group, ConsumerMember member,
                     MemberFields fields, ConsumerMember replaced):
    """The assignor with the most votes; of several the one whose name sorts first."""
    cdef dict votes = group.assignor_count
    cdef MemberFields had = replaced.fields if replaced is not None else member.fields
    cdef bint counted = replaced is not None or member.present
    if (had.assignor if counted else None) != fields.assignor:
        votes = dict(votes)
        if counted and had.assignor is not None:
            add_count(votes, had.assignor, -1)
        if fields.assignor is not None:
            add_count(votes, fields.assignor, 1)
    return preferred(votes, protocol.assignors)

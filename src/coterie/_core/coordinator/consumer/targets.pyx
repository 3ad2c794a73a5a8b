"""The target assignment of a group: its assignor's input, and the records of what changed.

Source: TargetAssignmentBuilder.java.
"""
from libc.stdint cimport int32_t

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
    cdef list members = group.order
    cdef Py_ssize_t n
    cdef bint is_new = False
    if replaced is not None or not member.present:
        if replaced is not None:
            members = list(members)
            members.remove(replaced)
        n = place_of(members, member.member_id)
        if n < len(members) and (<ConsumerMember>members[n]).member_id == member.member_id:
            members = list(members)
            members[n] = member
        else:
            is_new = replaced is None      # the group's own list has it for this assignment
            members.insert(n, member)
    try:
        member.instance_id = fields.instance_id
        assign_members(protocol, group, member, fields, replaced, homogeneous, members)
        put_changes(group, replaced, member, members, records)
    finally:
        if is_new:
            del members[n]
    records.append(target_epoch_record(epoch))
    member.instance_id = member.fields.instance_id      # until the member's record is replayed
    return <Assignment>member.computed


cdef int assign_members(ConsumerProtocol protocol, ConsumerGroup group, ConsumerMember member,
                        MemberFields fields, ConsumerMember replaced, bint homogeneous,
                        list members) except -1:
    """Run the assignor. ``fields``: those that ``member``, which sent the heartbeat, will have."""
    cdef ConsumerMember each
    cdef Py_ssize_t n
    cdef str assignor = assignor_of(protocol, group, member, fields, replaced)
    # The topics of the first are all; in `range` static members are first.
    for n in range(1 if homogeneous and assignor != "range" else len(members)):
        each = <ConsumerMember>members[n]
        each.topics = topics_of(protocol, group, fields if each is member else each.fields)
    return assign_all(assignor, members, homogeneous, group.uses)


cdef int put_changes(ConsumerGroup group, ConsumerMember replaced, ConsumerMember member,
                     list members, list records) except -1:
    """The records of targets that are new or differ."""
    cdef ConsumerMember each, absent
    cdef Assignment had
    for each in members:
        had = each.target
        if each is member and replaced is not None:
            # The replacement's own record comes first: what it says is what was there.
            had = replaced.target if replaced.member_id == each.member_id else None
        if had is not None and each.computed is had:
            continue
        if had is None:
            absent = group.absent.get(each.member_id)
            had = None if absent is None else absent.target
        if had is None or not (<Assignment>each.computed).equals(had):
            records.append(new_record(TARGET, each.member_id, each.computed))
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

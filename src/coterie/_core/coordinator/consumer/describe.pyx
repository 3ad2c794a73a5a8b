"""ConsumerGroupDescribe: what is committed of each group."""
from libc.stdint cimport int64_t

from coterie._core.coordinator.codes cimport GROUP_ID_NOT_FOUND, NONE
from coterie._core.coordinator.consumer.group cimport ConsumerGroup, ConsumerMember, preferred
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol
from coterie._core.coordinator.consumer.values cimport Assignment, MemberFields, TopicId
from coterie._core.coordinator.runtime cimport CONSUMER, Group

from coterie.operations import NUMBER

cdef int DESCRIBE = NUMBER["consumer_group_describe"]


cdef int answer_describe(ConsumerProtocol protocol, int64_t id, tuple group_ids) except -1:
    return protocol.runtime.respond(id, DESCRIBE, NONE, tuple([
        described(protocol, group_id) for group_id in group_ids]))


cdef tuple described(ConsumerProtocol protocol, str group_id):
    """(id, error, state, epoch, target epoch, assignor, members), of what is committed."""
    cdef int error = protocol.runtime.partitions.refusal(group_id, False)
    cdef Group group
    if error == NONE:
        group = protocol.runtime.writes.committed(group_id)
        if group is not None and group.group_type == CONSUMER:
            return group_row(protocol, <ConsumerGroup>group)
        error = GROUP_ID_NOT_FOUND
    return (group_id, error, "", 0, 0, "", ())


cdef tuple group_row(ConsumerProtocol protocol, ConsumerGroup group):
    """A group as it is."""
    cdef ConsumerMember member
    return (group.group_id, NONE, group.state, group.epoch, group.target_epoch,
            preferred(group.assignor_count, protocol.assignors),
            tuple([described_member(protocol, member) for member in group.order]))


cdef tuple described_member(ConsumerProtocol protocol, ConsumerMember member):
    cdef MemberFields fields = member.fields
    return (member.member_id, fields.instance_id, fields.rack_id, member.epoch,
            fields.client_id, fields.client_host, fields.names.ordered, fields.regex,
            0 if fields.classic is not None else 1, named(protocol, member.assigned),
            named(protocol, member.target))


cdef tuple named(ConsumerProtocol protocol, Assignment assignment):
    """An assignment with names, without topics that are gone."""
    cdef TopicId topic
    cdef list rows = []
    if assignment is None:
        return ()
    for topic, (raw, partitions) in zip(assignment.topics, assignment.rows()):
        if topic.name is not None:
            rows.append((raw, topic.name, partitions))
    return tuple(rows)

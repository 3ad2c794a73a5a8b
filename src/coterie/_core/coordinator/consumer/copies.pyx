"""Copies of consumer groups: what a failed write takes back, and what readers see until then.

What records say is copied. The metadata's refresh deadline is not: in Kafka it is no part of the
timeline and stays when a write fails. Cost: one pass over members, partitions and subscriptions.
Source: ConsumerGroup.java, ModernGroup.java (their timeline fields).
"""
from coterie._core.coordinator.consumer.group cimport (
    ConsumerGroup, ConsumerMember, new_member)
from coterie._core.coordinator.consumer.topic_use cimport copied_uses
from coterie._core.structures.offsets cimport OffsetMap


cdef int copy_state(ConsumerGroup source, ConsumerGroup target) except -1:
    """Make the target what the source is."""
    cdef ConsumerMember member, copied
    target.epoch, target.metadata_hash = source.epoch, source.metadata_hash
    target.target_epoch, target.revision = source.target_epoch, source.revision
    target.instances, target.resolved = dict(source.instances), dict(source.resolved)
    target.names_count, target.regex_count = dict(source.names_count), dict(source.regex_count)
    target.topic_count = dict(source.topic_count)
    target.assignor_count = dict(source.assignor_count)
    target.counted_epoch, target.stable_count = source.counted_epoch, source.stable_count
    target.uses = copied_uses(source.uses)
    target.classic_count, target.homogeneous = source.classic_count, source.homogeneous
    target.has_partition_metadata = source.has_partition_metadata
    target.members, target.absent = {}, {}
    target.order = []
    for member in source.order:
        copied = copied_member(member)
        target.order.append(copied)
        target.members[member.member_id] = copied
    for member in source.absent.values():
        target.absent[member.member_id] = copied_member(member)


cdef ConsumerMember copied_member(ConsumerMember member):
    """A copy of a member without its timers."""
    cdef ConsumerMember copied = new_member(member.member_id)
    copied.fields, copied.state, copied.present = member.fields, member.state, member.present
    copied.instance_id = member.instance_id
    copied.epoch, copied.previous_epoch = member.epoch, member.previous_epoch
    copied.assigned, copied.revoking = member.assigned, member.revoking
    copied.target, copied.previous = member.target, member.previous
    return copied


cdef OffsetMap copied_offsets(OffsetMap offsets):
    """A copy of a group's offsets; None without them. An Offset itself does not change."""
    cdef OffsetMap copied
    if offsets is None:
        return None
    copied = OffsetMap.__new__(OffsetMap)
    copied.count = offsets.count
    copied.topics = {topic: dict(partitions) for topic, partitions in offsets.topics.items()}
    copied.pending_by_producer = {producer: dict(undecided) for producer, undecided in
                                  offsets.pending_by_producer.items()}
    return copied

"""The classic groups of a folded log.

The last metadata record of each group becomes a group. It knows no offsets: the store reads those.
A record that Kafka's loader cannot read raises CorruptData. Cost: one pass over the groups.
Source: GroupMetadataManager.scala (doLoadGroupsAndOffsets). Rules: docs/rules/offsets.md#load.
"""
from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.classic.member cimport MemberMetadata
from coterie._core.coordinator.outputs cimport EMPTY, STABLE

from coterie._core.codec.group_value import read_group_value
from coterie._core.codec.text import decode_utf8
from coterie._core.fold.fold import PartitionFold
from coterie.errors import CorruptData


cpdef GroupMetadata read_group(str group_id, bytes value):
    fields = read_group_value(value)
    cdef GroupMetadata group = GroupMetadata(group_id, fields.current_state_timestamp)
    cdef MemberMetadata member
    group.generation_id = fields.generation
    group.protocol_name = fields.protocol
    for row in fields.members:
        member = read_member(row, fields.protocol_type, group.protocol_name)
        if member.group_instance_id is not None and (
                member.group_instance_id in group.static_members):
            raise CorruptData(f"group instance id {member.group_instance_id!r} twice")
        group.remove_member(member.member_id)
        group.add_member(member, None)
    group.protocol_type = fields.protocol_type
    group.leader_id = fields.leader
    group.state = STABLE if group.members.count else EMPTY
    group.find_subscribed_topics()
    return group


cdef MemberMetadata read_member(fields, str protocol_type, str protocol_name):
    cdef MemberMetadata member = MemberMetadata(
        fields.member_id, fields.group_instance_id, fields.client_id, fields.client_host,
        fields.rebalance_timeout_ms, fields.session_timeout_ms, protocol_type, (),
        fields.assignment)
    member.protocols = ((protocol_name, fields.subscription),)        # the name may be null
    return member


def groups_of(fold):
    """Return the classic groups of a fold, by id in ascending order; they have no offsets."""
    cdef dict groups = {}
    if not isinstance(fold, PartitionFold):
        raise TypeError(f"fold must be a PartitionFold, not {type(fold).__name__}")
    for name, metadata in fold.groups.items():
        if metadata.last.value is not None:
            group_id = decode_utf8(name)
            groups[group_id] = read_group(group_id, metadata.last.value)
    return {group_id: groups[group_id] for group_id in sorted(groups)}

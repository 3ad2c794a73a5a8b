"""A group metadata value as Kafka's loader reads it: what a missing, empty or null field means.

The load of a log and the replay both use it, so they agree. Knows one value; knows no earlier ones
and no clock. Cost: a named tuple for each member.
Source: GroupMetadataManager.readGroupMessageValue, GroupMetadata.loadGroup.
Rules: docs/rules/offsets.md#load.
"""
from collections import namedtuple

from coterie._core.codec.cursor cimport load_i16
from coterie._core.codec.schema cimport value_row

cdef enum:
    KEY_GROUP = 2

GroupValue = namedtuple(
    "GroupValue", "protocol_type generation protocol leader current_state_timestamp members",
    module=__name__)
GroupValue.__doc__ = """A group; an empty protocol type is None."""
MemberValue = namedtuple(
    "MemberValue",
    "member_id group_instance_id client_id client_host session_timeout_ms rebalance_timeout_ms "
    "subscription assignment", module=__name__)
MemberValue.__doc__ = """A member of a group."""


def read_group_value(bytes value not None):
    """Decode a group metadata value of any known version."""
    cdef tuple row = value_row(KEY_GROUP, value)
    cdef bint one_timeout = load_i16(value) == 0
    protocol_type, generation, protocol, leader, timestamp_ms, rows = row[:6]
    members = [member_value(member, one_timeout) for member in rows]
    if leader is None and members:
        leader = members[0].member_id
    return GroupValue(protocol_type or None, generation, protocol, leader, timestamp_ms, members)


cdef object member_value(tuple row, bint one_timeout):
    _, member_id, instance_id, client_id, client_host, rebalance_ms, session_ms = row[:7]
    return MemberValue(
        member_id, instance_id, client_id, client_host, session_ms,
        session_ms if one_timeout else rebalance_ms, row[7], row[8])

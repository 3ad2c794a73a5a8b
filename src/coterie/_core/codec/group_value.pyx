"""A group metadata value as Kafka's loader takes it. See ``group_value.pyi``.

The bytes are read by ``schema``; what a field that is missing, empty or null means is said here,
for a load and for a replay.
Source: GroupMetadataManager.readGroupMessageValue, GroupMetadata.loadGroup.
"""
from collections import namedtuple

from coterie._core.codec.schema cimport group_fields

GroupValue = namedtuple(
    "GroupValue", "protocol_type generation protocol leader current_state_timestamp members",
    module=__name__)
GroupValue.__doc__ = """See ``group_value.pyi``."""
MemberValue = namedtuple(
    "MemberValue",
    "member_id group_instance_id client_id client_host session_timeout_ms rebalance_timeout_ms "
    "subscription assignment", module=__name__)
MemberValue.__doc__ = """See ``group_value.pyi``."""


def read_group_value(bytes value not None):
    """See ``group_value.pyi``."""
    cdef dict fields = group_fields(value)
    members = [member_value(each) for each in fields["members"]]
    leader = fields["leader"]
    if leader is None and members:
        leader = members[0].member_id
    return GroupValue(fields["protocolType"] or None, fields["generation"], fields["protocol"],
                      leader, fields.get("currentStateTimestamp", -1), members)


cdef object member_value(dict fields):
    session_ms = fields["sessionTimeout"]
    return MemberValue(
        fields["memberId"], fields.get("groupInstanceId"), fields["clientId"],
        fields["clientHost"], session_ms, fields.get("rebalanceTimeout", session_ms),
        fields["subscription"], fields["assignment"])

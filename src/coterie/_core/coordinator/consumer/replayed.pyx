"""The state of a consumer group as the records of a log have it.

A replay in bulk applies the last record of each key with the code that a load and a live
coordinator use. It differs in one point: nothing is refused. A log that a broker would not load,
because a partition has two owners or a removed member still has a target, is shown as it is; a
record with an impossible partition is passed over.
Source: ConsumerGroup.java, GroupMetadataManager.java (replay).
"""
from coterie._core.coordinator.consumer.group cimport (
    AS_RECORDED, ConsumerGroup, ConsumerMember, Record, new_group, preferred)
from coterie._core.coordinator.consumer.image cimport MetadataImage
from coterie._core.coordinator.consumer.values cimport (
    Assignment, MemberFields, Resolved, utf16_sorted)

from coterie._core.coordinator.consumer.parse import parse_record
from coterie.errors import CorruptData

# The default of group.consumer.assignors; a log does not have the setting.
cdef tuple ASSIGNORS = ("uniform", "range")


def replayed_group(list records not None):
    """Return what the records of one consumer group make of it."""
    cdef MetadataImage image = MetadataImage()
    cdef ConsumerGroup group = new_group("", AS_RECORDED)
    cdef ConsumerMember member
    cdef Record record
    cdef bytes key, value
    for key, value in records:
        try:
            parsed = parse_record(key, value, image)
        except CorruptData:
            continue
        if parsed is not None:
            record = parsed[1]
            group.apply(record, None)
    return {
        "state": group.state,
        "group_epoch": group.epoch,
        "target_assignment_epoch": max(group.target_epoch, 0),
        "assignor": preferred(group.assignor_count, ASSIGNORS),
        "regular_expressions": {
            regex: list(utf16_sorted((<Resolved>group.resolved[regex]).topics))
            for regex in utf16_sorted(group.resolved)},
        "members": [member_row(member) for member in group.order],
    }


cdef dict member_row(ConsumerMember member):
    cdef MemberFields fields = member.fields
    return {
        "member_id": member.member_id,
        "group_instance_id": fields.instance_id,
        "client_id": fields.client_id,
        "client_host": fields.client_host,
        "session_timeout_ms":
            None if fields.classic is None else fields.classic.session_timeout_ms,
        "rebalance_timeout_ms": fields.rebalance_timeout_ms,
        "subscription": None,      # as a classic member has them
        "assignment": None,
        "rack_id": fields.rack_id,
        "member_epoch": member.epoch,
        "previous_member_epoch": member.previous_epoch,
        "member_state": member.state,
        "subscribed_topics": list(fields.names.ordered),
        "subscribed_regex": fields.regex or None,
        "server_assignor": fields.assignor,
        "upgraded": fields.classic is None,
        "current_assignment": rows_of(member.assigned),
        "pending_revocation": rows_of(member.revoking),
        "target_assignment": rows_of(member.target),
    }


cdef list rows_of(Assignment assignment):
    if assignment is None:
        return []
    return [(raw, list(partitions)) for raw, partitions in assignment.rows()]

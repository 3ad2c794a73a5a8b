"""Load groups of every type: replay the records of the log in their order.

Source: GroupMetadataManager.java (replay, onLoaded).
"""
from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.classic.member cimport MemberMetadata
from coterie._core.coordinator.classic.member_table cimport next_member
from coterie._core.coordinator.consumer.group cimport (
    CLASSIC_GROUP, GROUP_EPOCH, OFFSET, OTHER_GROUP, UNREVOKED_PARTITIONS, ConsumerGroup,
    ConsumerMember, OtherGroup, Record, Timers, new_group)
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol
from coterie._core.coordinator.consumer.values cimport utf16_sorted
from coterie._core.coordinator.outputs cimport BY_SIZE
from coterie._core.coordinator.runtime cimport CLASSIC, CONSUMER, OTHER, Group

from coterie._core.coordinator.classic.load import read_group
from coterie._core.coordinator.consumer.parse import parse_record
from coterie.errors import CorruptData


cdef object load_groups(ConsumerProtocol protocol, rows, load_filter):
    """Replay the records of groups of every type in log order; why that failed, or None.

    After a failure the caller gives the partitions up.
    """
    cdef Group known
    cdef dict classic = {}
    failure = None
    try:
        for _, _, _, _, control, records in rows:
            if not control:
                for key, value in records:
                    replay_bytes(protocol, key, value, load_filter, classic)
        load_classic(protocol, classic)
    except CorruptData as error:
        failure = str(error)
    for group_id in utf16_sorted(protocol.runtime.groups):
        if load_filter is None or load_filter(group_id):
            known = protocol.runtime.find(group_id)
            if known.group_type == CONSUMER:
                take_over(protocol, <ConsumerGroup>known)
            elif known.group_type == CLASSIC:
                take_over_classic(protocol, <GroupMetadata>known)
    return failure


cdef int load_classic(ConsumerProtocol protocol, dict values) except -1:
    """Make the classic groups of their last values; None: only its offsets made the group."""
    cdef GroupMetadata group
    for group_id, value in values.items():
        if value is None:
            group = protocol.rebalances.create_group(group_id)
            group.previous_state = -1
        else:
            protocol.rebalances.take_over(read_group(group_id, value))


cdef int take_over(ConsumerProtocol protocol, ConsumerGroup group) except -1:
    """Show a group that was loaded, and start the timers of its members."""
    cdef ConsumerMember member
    cdef Timers timers
    protocol.show_shape(group.group_id, protocol.shape_of(group.group_id))
    for member in group.order:
        timers = protocol.timers_of(group.group_id, member.member_id)
        protocol.arm_session(timers, protocol.setting(
            group.group_id, "consumer.session.timeout.ms", protocol.session_timeout_ms))
        if member.state == UNREVOKED_PARTITIONS:
            protocol.arm_rebalance(timers, member.epoch, member.fields.rebalance_timeout_ms)


cdef int take_over_classic(ConsumerProtocol protocol, GroupMetadata group) except -1:
    """Start the sessions of a classic group; one that is too large rebalances."""
    cdef MemberMetadata member
    cdef Py_ssize_t place = 0
    while (member := next_member(&group.members, &place)) is not None:
        protocol.rebalances.touch(group, member, member.session_timeout_ms)
    if group.members.count > protocol.classic_max_size:
        return protocol.rebalances.prepare_rebalance(group, BY_SIZE, None)


cdef int replay_bytes(ConsumerProtocol protocol, bytes key, bytes value, object load_filter,
                      dict classic) except -1:
    """Replay one record of any kind; `classic` has the last value of each classic group."""
    cdef Group known
    cdef ConsumerGroup group
    cdef Record record
    parsed = parse_record(key, value, protocol.image)
    if parsed is None:
        return 0
    group_id, record = parsed
    if load_filter is not None and not load_filter(group_id):
        return 0
    known = protocol.runtime.find(group_id)
    if record.kind == OFFSET:
        if not record.tombstone and known is None:
            classic.setdefault(group_id, None)
        return 0
    if record.kind == CLASSIC_GROUP:
        classic.pop(group_id, None)
        if known is not None and known.group_type == CONSUMER:
            protocol.runtime.drop_group(known)
        elif known is not None:
            protocol.runtime.drop_group(known)
        if not record.tombstone:
            classic[group_id] = value
        return 0
    if record.kind == OTHER_GROUP:
        if known is not None and known.group_type == OTHER:
            if record.tombstone:
                protocol.runtime.drop_group(known)
        elif not record.tombstone:
            known = OtherGroup.__new__(OtherGroup, group_id, record.name)
            protocol.runtime.groups[group_id] = known
            protocol.runtime.forget_look_ups()
        return 0
    if not record.tombstone and classic.get(group_id, b"") is None:
        del classic[group_id]          # a group that is only offsets: it becomes this one
    if group_id in classic or (known is not None and known.group_type != CONSUMER):
        if record.tombstone:
            return 0
        raise CorruptData(f"group {group_id!r} is of another type")
    if known is None:
        if record.tombstone:
            return 0
        group = new_group(group_id, protocol.revision)
        protocol.runtime.add_group(group)
    else:
        group = <ConsumerGroup>known
    group.apply(record, protocol.subscriptions)
    if record.kind == GROUP_EPOCH and record.tombstone:
        protocol.runtime.drop_group(group)
    return 0

"""A member's new fields, and what a group reads once the member has them.

Source: GroupMetadataManager.java (consumerGroupHeartbeat), ModernGroup.java.
"""
from libc.stdint cimport int64_t

from coterie._core.coordinator.consumer.group cimport (
    KAFKA_4_1_2, KAFKA_4_2, ConsumerGroup, ConsumerMember)
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol, Heartbeat
from coterie._core.coordinator.consumer.values cimport (
    ClassicPart, MemberFields, Names, Resolved, add_count, no_names)


cdef MemberFields updated_fields(ConsumerProtocol protocol, ConsumerMember member, Heartbeat r):
    """The member's fields with what the request names; the same object if all is as it was."""
    cdef MemberFields had = member.fields, made
    cdef Names names = had.names
    if r.names is not None:
        names = protocol.image.names_of(r.names)
    if (names is had.names and same_classic(had.classic, r.classic)
            and r.client_id == had.client_id
            and r.client_host == had.client_host
            and (r.instance_id is None or r.instance_id == had.instance_id)
            and (r.rack_id is None or r.rack_id == had.rack_id)
            and (r.assignor is None or r.assignor == had.assignor)
            and (r.regex is None or r.regex == had.regex)
            and (r.classic is None or not had.regex or protocol.revision < KAFKA_4_1_2)
            and (r.rebalance_timeout_ms == -1
                 or r.rebalance_timeout_ms == had.rebalance_timeout_ms)):
        return had
    made = copied(had)
    made.classic = r.classic
    made.names = names
    made.client_id, made.client_host = r.client_id, r.client_host
    if r.instance_id is not None:
        made.instance_id = r.instance_id
    if r.rack_id is not None:
        made.rack_id = r.rack_id
    if r.assignor is not None:
        made.assignor = r.assignor
    if r.regex is not None:
        made.regex = r.regex
    elif r.classic is not None and had.regex and protocol.revision >= KAFKA_4_1_2:
        made.regex = ""
    if r.rebalance_timeout_ms != -1:
        made.rebalance_timeout_ms = r.rebalance_timeout_ms
    return made


cdef object subscribed(ConsumerProtocol protocol, ConsumerGroup group, MemberFields fields):
    """Names of the topics that a member subscribes to, which count since 4.2; else None."""
    if protocol.revision < KAFKA_4_2:
        return None
    if not fields.regex or fields.regex not in group.resolved:
        return fields.names.names
    return fields.names.names | (<Resolved>group.resolved[fields.regex]).topics


cdef int64_t hash_with(ConsumerProtocol protocol, ConsumerGroup group, MemberFields had,
                       MemberFields fields, str lost_regex, bint is_new) except? -7:
    """The metadata hash over what the group reads once a member has these fields."""
    cdef set names
    cdef Resolved lost = None
    if lost_regex is not None:
        lost = group.resolved.get(lost_regex)
    if not group.resolved:
        # Often all members name the same topics, before and after.
        if not group.names_count or (len(group.names_count) == 1 and fields.names
                                     in group.names_count):
            return protocol.image.hash_of_names(fields.names)
        if (len(group.names_count) == 1 and not is_new
                and group.names_count.get(had.names) == 1):
            return protocol.image.hash_of_names(fields.names)
    names = set(group.topic_count)
    if not is_new and fields.names is not had.names and group.names_count.get(had.names) == 1:
        for name in had.names.ordered:
            if group.topic_count[name] == 1:
                names.discard(name)
    if lost is not None:
        # A topic may be counted for the member's names, for the expression, and for others.
        for name in lost.topics:
            left = group.topic_count[name] - 1
            if name not in names:
                continue
            if (not is_new and fields.names is not had.names and name in had.names.names
                    and group.names_count.get(had.names) == 1):
                left -= 1
            if left <= 0:
                names.discard(name)
    names.update(fields.names.names)
    return protocol.image.hash_of(names)


cdef bint will_be_homogeneous(ConsumerProtocol protocol, ConsumerGroup group, MemberFields had,
                              MemberFields fields, bint is_new) except -1:
    """Whether the group is, once the member has these fields."""
    cdef dict names_count, regex_count
    if fields is had and not is_new:
        return group.is_homogeneous()
    if not group.regex_count and not fields.regex:
        names_count = group.names_count
        if is_new or fields.names is had.names:
            return not names_count or (len(names_count) == 1 and fields.names in names_count)
    names_count, regex_count = dict(group.names_count), dict(group.regex_count)
    if not is_new:
        add_count(names_count, had.names, -1)
        if had.regex:
            add_count(regex_count, had.regex, -1)
    names_count[fields.names] = names_count.get(fields.names, 0) + 1
    if fields.regex:
        regex_count[fields.regex] = regex_count.get(fields.regex, 0) + 1
    if not regex_count:
        return len(names_count) == 1
    if len(regex_count) > 1 or len(names_count) > 1 or no_names() not in names_count:
        return False
    if next(iter(regex_count.values())) != len(group.members) + is_new:
        return False
    return each_once(group.resolved)


cdef MemberFields copied(MemberFields fields):
    cdef MemberFields made = MemberFields.__new__(MemberFields)
    made.instance_id, made.rack_id = fields.instance_id, fields.rack_id
    made.client_id, made.client_host = fields.client_id, fields.client_host
    made.names, made.regex, made.assignor = fields.names, fields.regex, fields.assignor
    made.rebalance_timeout_ms = fields.rebalance_timeout_ms
    made.classic = fields.classic
    return made


cdef bint same_classic(ClassicPart had, ClassicPart now) except -1:
    if had is None or now is None:
        return had is now
    return (had.session_timeout_ms == now.session_timeout_ms
            and had.protocols == now.protocols)


cdef bint each_once(dict resolved) except -1:
    """Whether no topic is matched by two expressions."""
    cdef set seen = set()
    for one in resolved.values():
        for name in (<Resolved>one).topics:
            if name in seen:
                return False
            seen.add(name)
    return True

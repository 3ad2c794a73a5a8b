"""Conversions between the protocols, and departures, which may cause them."""
from libc.stdint cimport int64_t

from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.consumer.group cimport ConsumerGroup, ConsumerMember, Timers
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol, Heartbeat
from coterie._core.coordinator.consumer.values cimport Assignment, MemberFields, MetadataImage

# ---- classic groups as consumer groups, and back: declarations -----------------------------------

cdef tuple read_subscription(bytes metadata, MetadataImage image)
cdef bytes written_assignment(Assignment assignment, bytes metadata)
cdef list consumer_records(GroupMetadata group, MetadataImage image, int rules)
cdef GroupMetadata classic_group(ConsumerGroup group, object leaving, ConsumerMember replaced,
                                 str new_id, MemberFields fields, int ties, int64_t now_ms)

# ---- upgrades of classic groups to consumer groups, and downgrades -------------------------------

cdef ConsumerGroup upgraded(ConsumerProtocol protocol, GroupMetadata classic, list records)
cdef bint may_downgrade(ConsumerProtocol protocol, ConsumerGroup group, object leaving,
                        Py_ssize_t joining) except -1
cdef tuple downgrade_by(ConsumerProtocol protocol, ConsumerGroup group, Heartbeat r,
                        ConsumerMember member, ConsumerMember replaced, MemberFields fields,
                        bint bump, list records)
cdef int set_successor(ConsumerProtocol protocol, ConsumerGroup group, GroupMetadata classic,
                       str old_id, str new_id, bint rebalances, list records) except -1

# ---- members that leave, are fenced, or whose timers fire ----------------------------------------

cdef tuple leave_group(ConsumerProtocol protocol, ConsumerGroup group, Heartbeat r, list records)
cdef list fence_members(ConsumerProtocol protocol, ConsumerGroup group, list member_ids)
cdef int expire_member(ConsumerProtocol protocol, Timers timers, int kind) except -1

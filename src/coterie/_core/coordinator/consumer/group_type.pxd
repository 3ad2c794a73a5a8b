"""Upgrades of classic groups to consumer groups, and downgrades."""
from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.consumer.group cimport ConsumerGroup, ConsumerMember
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol, Heartbeat
from coterie._core.coordinator.consumer.values cimport MemberFields

cdef ConsumerGroup upgraded(ConsumerProtocol protocol, GroupMetadata classic, list records)
cdef bint may_downgrade(ConsumerProtocol protocol, ConsumerGroup group, object leaving,
                        Py_ssize_t joining) except -1
cdef tuple downgrade_by(ConsumerProtocol protocol, ConsumerGroup group, Heartbeat r,
                        ConsumerMember member, ConsumerMember replaced, MemberFields fields,
                        bint bump, list records)
cdef int set_successor(ConsumerProtocol protocol, ConsumerGroup group, GroupMetadata classic,
                       str old_id, str new_id, bint rebalances, list records) except -1

"""Members that leave, are fenced, or whose timers fire."""
from coterie._core.coordinator.consumer.group cimport ConsumerGroup, Timers
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol, Heartbeat

cdef tuple leave_group(ConsumerProtocol protocol, ConsumerGroup group, Heartbeat r, list records)
cdef list fence_members(ConsumerProtocol protocol, ConsumerGroup group, list member_ids)
cdef int expire_member(ConsumerProtocol protocol, Timers timers, int kind) except -1

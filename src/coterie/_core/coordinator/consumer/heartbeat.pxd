"""Heartbeats of the consumer protocol: find the member, then bring it up to date."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.consumer.group cimport ConsumerGroup
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol, Heartbeat
from coterie._core.coordinator.runtime cimport Group

cdef tuple settled_answer(ConsumerProtocol protocol, Group found, str group_id, str member_id,
                          int32_t epoch, tuple details)
cdef int answer_heartbeat(ConsumerProtocol protocol, int64_t id, Group group,
                          Heartbeat request) except -1
cdef tuple join_classic(ConsumerProtocol protocol, ConsumerGroup group, Heartbeat r, bint id_made,
                        list records)

"""Heartbeats of the consumer protocol, and classic members in consumer groups."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.classic.protocol cimport Joins
from coterie._core.coordinator.consumer.group cimport ConsumerGroup, ConsumerMember
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol, Heartbeat
from coterie._core.coordinator.runtime cimport Group, Request, Runtime

# ---- heartbeats of the consumer protocol: find the member, then bring it up to date --------------

cdef tuple join_classic(ConsumerProtocol protocol, ConsumerGroup group, Heartbeat r, bint id_made,
                        list records)
cdef int register_heartbeats(ConsumerProtocol protocol) except -1
cdef object steady_interval(ConsumerProtocol protocol, Group found, str group_id, str member_id,
                            str instance, int32_t epoch, str client_id, str client_host)

# ---- requests of classic clients to consumer groups: declarations --------------------------------

cdef class ClassicMembers:
    cdef Runtime runtime
    cdef ConsumerProtocol consumer
    cdef Joins joins
    cdef int error                 # why the request at hand is refused

    cdef int join(self, Request request, ConsumerGroup group, str member_id, str instance,
                  tuple details) except -1
    cdef int join_emptied(self, Request request, ConsumerGroup group, str member_id,
                          str instance, tuple details) except -1
    cdef bint supports(self, ConsumerGroup group, str protocol_type, tuple protocols) except -1
    cdef ConsumerMember member_of(self, ConsumerGroup group, str member_id, str instance)
    cdef int sync(self, Request request, ConsumerGroup group, int32_t generation_id,
                  str member_id, str instance, tuple details) except -1
    cdef int heartbeat(self, int64_t id, ConsumerGroup group, int32_t generation_id,
                       str member_id, str instance) except -1
    cdef int leave(self, int64_t id, ConsumerGroup group, tuple leaving) except -1
    cdef bint may_be_released(self, ConsumerGroup group, ConsumerMember member) except -1

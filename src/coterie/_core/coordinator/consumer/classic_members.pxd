"""Requests of classic clients to consumer groups: declarations."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.classic.joins cimport Joins
from coterie._core.coordinator.consumer.group cimport ConsumerGroup, ConsumerMember
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol
from coterie._core.coordinator.runtime cimport Request, Runtime

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

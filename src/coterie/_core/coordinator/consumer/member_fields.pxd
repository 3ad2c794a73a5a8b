"""A member's new fields, and what a group reads once the member has them."""
from libc.stdint cimport int64_t

from coterie._core.coordinator.consumer.group cimport ConsumerGroup, ConsumerMember
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol, Heartbeat
from coterie._core.coordinator.consumer.values cimport MemberFields

cdef MemberFields updated_fields(ConsumerProtocol protocol, ConsumerMember member, Heartbeat r)
cdef object subscribed(ConsumerProtocol protocol, ConsumerGroup group, MemberFields fields)
cdef int64_t hash_with(ConsumerProtocol protocol, ConsumerGroup group, MemberFields had,
                       MemberFields fields, str lost_regex, bint is_new) except? -7
cdef bint will_be_homogeneous(ConsumerProtocol protocol, ConsumerGroup group, MemberFields had,
                              MemberFields fields, bint is_new) except -1

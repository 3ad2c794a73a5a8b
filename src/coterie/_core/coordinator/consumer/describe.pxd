"""ConsumerGroupDescribe: what is committed of each group."""
from libc.stdint cimport int64_t

from coterie._core.coordinator.consumer.group cimport ConsumerGroup
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol

cdef int answer_describe(ConsumerProtocol protocol, int64_t id, tuple group_ids) except -1
cdef tuple group_row(ConsumerProtocol protocol, ConsumerGroup group)

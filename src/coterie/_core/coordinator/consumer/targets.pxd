"""The target assignment of a group: its assignor's input, and the records of what changed."""
from libc.stdint cimport int32_t

from coterie._core.coordinator.consumer.group cimport ConsumerGroup, ConsumerMember
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol
from coterie._core.coordinator.consumer.values cimport Assignment, MemberFields

cdef Assignment assign_targets(ConsumerProtocol protocol, ConsumerGroup group,
                               ConsumerMember member, MemberFields fields, ConsumerMember replaced,
                               bint homogeneous, int32_t epoch, list records)

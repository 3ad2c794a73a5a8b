"""From a member's present assignment towards its target."""
from libc.stdint cimport int32_t

from coterie._core.coordinator.consumer.group cimport ConsumerGroup, ConsumerMember, Current
from coterie._core.coordinator.consumer.values cimport Assignment

cdef Current reconciled(ConsumerGroup group, ConsumerMember member, int32_t target_epoch,
                        Assignment target, dict owned, object subscribed, bint changed,
                        int* error)
cdef bint names_any(dict owned, Assignment assignment) except -1
cdef bint all_within(dict owned, Assignment assignment) except -1

"""Regular expressions of a group: when they are resolved, and the records of the result."""
from coterie._core.coordinator.consumer.group cimport ConsumerGroup
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol
from coterie._core.coordinator.consumer.values cimport MemberFields

cdef bint regex_step(ConsumerProtocol protocol, ConsumerGroup group, MemberFields had,
                     MemberFields fields, list records) except -1
cdef int run_tasks(ConsumerProtocol protocol) except -1

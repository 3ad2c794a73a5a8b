"""Writes of consumer groups: append a batch, replay its records, answer once it is committed."""
from libc.stdint cimport int64_t

from coterie._core.coordinator.consumer.group cimport ConsumerGroup
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol
from coterie._core.coordinator.sink cimport Batch

cdef int write_records(ConsumerProtocol protocol, str group_id, list records) except *
cdef Batch encoded(ConsumerProtocol protocol, str group_id, list records)
cdef int forget_group(ConsumerProtocol protocol, ConsumerGroup group) except -1
cdef int restore_group(ConsumerProtocol protocol, ConsumerGroup group) except -1
cdef int append_batch(ConsumerProtocol protocol, Batch batch, int64_t* position) except *
cdef int write_all(ConsumerProtocol protocol, list writes) except *
cdef int keep_committed(ConsumerProtocol protocol, str group_id) except -1
cdef ConsumerGroup committed_group(ConsumerProtocol protocol, str group_id)
cdef int respond_committed(ConsumerProtocol protocol, int64_t id, int op, payload) except -1
cdef int respond_later(ConsumerProtocol protocol, int64_t id, int op, payload, int late_code,
                       late_payload) except -1
cdef int hold_commits(ConsumerProtocol protocol) except -1
cdef int release_commits(ConsumerProtocol protocol) except -1
cdef int write_error(int code) noexcept

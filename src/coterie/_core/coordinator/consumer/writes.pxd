"""Writes of consumer groups: append a batch, replay its records, answer once it is committed."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.consumer.pending cimport Write
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol
from coterie._core.coordinator.runtime cimport AppendStatus
from coterie._core.coordinator.sink cimport Batch

cdef int write_records(ConsumerProtocol protocol, str group_id, list records) except *
cdef Write begin_write(ConsumerProtocol protocol, str kind, Batch batch, AppendStatus status,
                       tuple group_ids)
cdef Batch encoded(ConsumerProtocol protocol, str group_id, list records)
cdef int show_member(ConsumerProtocol protocol, str group_id, str member_id, int32_t epoch,
                     int code) except -1
cdef int write_all(ConsumerProtocol protocol, list writes) except *
cdef int respond_committed(ConsumerProtocol protocol, tuple group_ids, int64_t id, int op, payload,
                           refused) except -1

"""Writes that are not committed: what waits for them, and what was there before."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.consumer.group cimport ConsumerGroup
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol
from coterie._core.coordinator.runtime cimport AppendOp, Group, Runtime, Writes
from coterie._core.structures.offsets cimport OffsetMap

cdef class PendingWrites(Writes)

cdef class Waiting:                # it is completed once: by a commit, a failure, or in time
    cdef PendingWrites writes      # whose timer it has; None: it waits no longer
    cdef Py_ssize_t slot
    cdef int64_t timer

    cdef int complete(self, int error) except -1
    cdef int completed(self, int error) except -1

cdef class Answer(Waiting):
    cdef Runtime runtime
    cdef int64_t id
    cdef int op
    cdef int code
    cdef object payload
    cdef object refused            # the payload with an error, or a list: keys that each get it

cdef class Before:
    cdef Group group               # what had the id, or None
    cdef ConsumerGroup state       # a copy of it; itself, if it only went; None: no consumer group
    cdef OffsetMap offsets         # a copy, or None

cdef class Write:
    cdef AppendOp op
    cdef set partitions            # of the offsets topic
    cdef dict before               # group id -> Before, of each group that it changes
    cdef list waiting              # for its commit
    cdef list offsets              # Offsets, which get its position
    cdef list gone                 # classic groups that end with its commit
    cdef bint in_log

cdef class PendingWrites(Writes):
    cdef ConsumerProtocol consumer
    cdef int64_t provisional       # the last position before the log has the offset

    cdef int32_t place_of(self, str group_id) except -1
    cdef int64_t next_position(self) except -1
    cdef Write last(self, set partitions)
    cdef set places_of(self, tuple group_ids)
    cdef int wrote_in(self, int32_t partition, int error) except -1
    cdef int keep(self, Write write, str group_id) except -1
    cdef int join(self, Write write, str group_id) except -1
    cdef Before before_of(self, str group_id, bint copied)
    cdef int add_waiting(self, Write write, Waiting waiting) except -1
    cdef Before seen_before(self, str group_id)
    cdef OffsetMap committed_offsets(self, str group_id)
    cdef int wait(self, tuple group_ids, Waiting waiting) except -1
    cdef int commit(self) except -1
    cdef int fail(self, Write failed, int error) except -1
    cdef int put_back(self, str group_id, Before before) except -1
    cdef int take_out(self, Group group) except -1
    cdef set group_ids(self)

cdef PendingWrites pending_writes(ConsumerProtocol protocol)

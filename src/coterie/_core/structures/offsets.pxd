"""Committed offsets of one group: declarations."""
from libc.stdint cimport int32_t, int64_t

cdef enum:
    NO_POSITION = -1               # not appended yet

cdef class Offset:
    cdef readonly int64_t offset
    cdef readonly int32_t leader_epoch        # -1: none
    cdef readonly str metadata
    cdef readonly int64_t commit_timestamp
    cdef readonly int64_t expire_timestamp    # -1: none
    cdef readonly int64_t position            # log offset of its batch; -1: not appended
    cdef bytes topic_id                       # 16 bytes; None: its record has none

    cdef bint same(self, Offset other) noexcept

cdef Offset make_offset(int64_t offset, int32_t leader_epoch, str metadata,
                        int64_t commit_timestamp, int64_t expire_timestamp, int64_t position)

cdef class OffsetMap:
    cdef dict topics                          # topic -> {partition: Offset}: what readers see
    cdef readonly Py_ssize_t count            # offsets in them
    cdef dict pending_plain                         # (topic, partition) -> Offset: plain, in flight
    cdef dict pending_by_producer                     # producer id -> {(topic, partition): Offset}

    cdef bint has_any(self) noexcept
    cdef dict undecided(self, int64_t producer_id)
    cdef dict partitions_of(self, topic)
    cdef Offset find(self, tuple key)
    cdef Offset take(self, tuple key)
    cpdef list keys(self)
    cdef list keys_among(self, dict partitions)
    cdef list pending_among(self, dict partitions)
    cdef int set_offset(self, tuple key, Offset entry) except -1
    cdef int put(self, tuple key, Offset entry) except -1
    # What is committed: rows, whose first field is a key; of each its Offset, or None: left out.
    cdef int prepare(self, tuple rows, list entries) except -1
    cdef int appended(self, tuple rows, list entries, int64_t position, bint waited) except -1
    cdef int failed(self, tuple rows, list entries, bint waited) except -1
    cdef int prepare_txn(self, int64_t producer_id, tuple rows, list entries) except -1
    cdef int appended_txn(self, int64_t producer_id, tuple rows, list entries,
                          int64_t position) except -1
    cdef int failed_txn(self, int64_t producer_id, tuple rows, list entries) except -1
    cdef bint complete_txn(self, int64_t producer_id, bint committed) except -1
    cdef bint unstable(self, tuple key) except -1
    cdef list drop(self, keys)
    cdef list expire_all(self, int64_t now_ms, int64_t retention_ms, bint has_base,
                         int64_t base_ms, keep)
    cdef list take_expired(self, int64_t now_ms, int64_t retention_ms, bint has_base,
                           int64_t base_ms, keep)

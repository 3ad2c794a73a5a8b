"""OffsetCommit from bytes to bytes: declarations."""
from coterie._core.codec.cursor cimport Cursor
from coterie._core.codec.encode cimport Writing
from coterie._core.coordinator.coordinator cimport Coordinator

cdef enum:
    OFFSET_COMMIT = 8

cdef bint answer_commit(Coordinator coordinator, dict topics, Writing* w, int version,
                        Cursor* cur) except -1

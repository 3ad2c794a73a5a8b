"""What a server does often: heartbeats and plain commits, from bytes to answers."""
from coterie._core.codec.cursor cimport Cursor
from coterie._core.codec.layout cimport Writing
from coterie._core.coordinator.coordinator cimport Coordinator

# ---- offsetCommit from bytes to bytes: declarations ----------------------------------------------

cdef enum:
    OFFSET_COMMIT = 8

cdef bint answer_commit(Coordinator coordinator, dict topics, dict ids, Writing* w,
                        int version, Cursor* cur) except -1

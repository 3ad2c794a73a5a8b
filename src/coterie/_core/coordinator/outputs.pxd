"""The outputs of a coordinator, in order: a compact array, with objects for rows that need them."""
from cpython.ref cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t

cdef enum Kind:
    RESPONSE = 0
    TRANSITION = 1
    APPEND = 2
    UNANSWERED = 3
    GROUP = 4                      # a consumer group changed its state, epochs or size
    MEMBER = 5                     # one of its members was reconciled, or fenced for a cause

cdef enum Why:
    REPLACED = 0
    DROPPED = 1

cdef enum State:                   # of a group; the order of STATE_NAMES in outputs.pyx
    EMPTY = 0
    PREPARING_REBALANCE = 1
    COMPLETING_REBALANCE = 2
    STABLE = 3
    DEAD = 4
    MAX_STATES = 5

cdef tuple STATE_NAMES

cdef enum GroupState:              # of a consumer group; the order of CONSUMER_GROUP_STATES
    EMPTY_GROUP = 0
    ASSIGNING = 1
    RECONCILING = 2
    STABLE_GROUP = 3
    NO_GROUP_LEFT = 4
    CLASSIC_INSTEAD = 5

cdef tuple CONSUMER_GROUP_STATES

cdef enum:
    RECONCILED = -1                # of a member; it was not fenced

cdef enum CauseCode:               # as events.Cause
    BY_JOIN = 0
    BY_METADATA_CHANGED = 1
    BY_LEADER_REJOIN = 2
    BY_LEAVE = 3
    BY_SESSION_TIMEOUT = 4
    BY_REBALANCE_TIMEOUT = 5
    BY_SYNC_TIMEOUT = 6
    BY_STATIC_RETURN = 7
    BY_APPEND_FAILED = 8
    BY_SIZE = 9
    BY_FAILOVER = 10
    BY_COMPLETED = 11
    BY_CLEANUP = 12

cdef struct OutputRow:                # 32 bytes
    int64_t at_ms
    int64_t id                     # of the request; a transition's generation, a record's offset,
    #                                a member's epoch; a group's epoch << 32 | target epoch
    PyObject* payload              # owned, or NULL
    int16_t kind
    int16_t op                     # its number; of a transition: from << 8 | to; a GroupState
    int32_t code                   # the error; a transition's cause; why unanswered; a record's
    #                                byte in its batch; why a member was fenced, or RECONCILED;
    #                                the members of a group

cdef class Outputs:
    cdef OutputRow* rows
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t capacity

    cdef object event(self, Py_ssize_t n)
    cpdef clear(self)
    cdef tuple only_answer(self, int64_t id)
    cdef object take_answer(self, int64_t id)
    cdef int reserve(self, Py_ssize_t count) except -1
    cdef int push(self, int kind, int64_t at_ms, int64_t id, int op, int code,
                  object payload) except -1

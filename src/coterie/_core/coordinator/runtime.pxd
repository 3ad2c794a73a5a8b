"""What all protocols of a coordinator share: dispatch, timers, outputs, the log, stored offsets."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.ref cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from coterie._core.codec.cursor cimport load_i32, store
from coterie._core.codec.layout cimport Writing, put_i16, put_i32, put_i64, reserve
from coterie._core.structures.offsets cimport OffsetMap
from coterie._core.structures.timers cimport TimerWheel

# ---- encode the records of offsets; inline helpers for those of groups ---------------------------

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    const uint8_t* PyUnicode_1BYTE_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)

cdef enum:
    LONGEST = 0x7FFF               # bytes of a string: its length is an int16, also on the wire

cdef int put_other_string(Writing* w, str text) except -1
cdef Py_ssize_t begin_offset(Writing* w, str group_id, tuple key) except -1
cdef Batch commit_batch(str group_id, tuple rows, list entries)
cdef Batch tombstones(str group_id, list keys, list group_keys)
cdef Py_ssize_t utf8_length(str text) except -2

cdef inline void copy(uint8_t* to, const uint8_t* raw, Py_ssize_t size) noexcept:
    """Copy bytes. Most texts are short: two moves, which may overlap, cost less than a call."""
    cdef Py_ssize_t n
    if size > 16:
        memcpy(to, raw, size)
    elif size >= 8:
        memcpy(to, raw, 8)
        memcpy(to + size - 8, raw + size - 8, 8)
    else:
        for n in range(size):
            to[n] = raw[n]


cdef inline int put_raw(Writing* w, const void* raw, Py_ssize_t size) except -1:
    copy(reserve(w, size), <const uint8_t*>raw, size)


cdef inline int put_string(Writing* w, str text) except -1:
    cdef Py_ssize_t size
    if text is None:
        return put_i16(w, -1)
    if not PyUnicode_IS_COMPACT_ASCII(text) or PyUnicode_GET_LENGTH(text) > LONGEST:
        return put_other_string(w, text)
    size = PyUnicode_GET_LENGTH(text)
    put_i16(w, <int16_t>size)
    return put_raw(w, PyUnicode_1BYTE_DATA(text), size)


cdef inline int put_bytes(Writing* w, bytes raw) except -1:
    put_i32(w, <int32_t>PyBytes_GET_SIZE(raw))
    return put_raw(w, PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))


cdef inline Py_ssize_t begin_record(Writing* w) except -1:
    """Reserve the sizes; return where they are."""
    cdef Py_ssize_t at = w.size
    put_i64(w, -1)
    return at


cdef inline void end_key(Writing* w, Py_ssize_t at) noexcept:
    store(w.data + at, w.size - at - 8, 4)


cdef inline void end_value(Writing* w, Py_ssize_t at) noexcept:
    store(w.data + at + 4, w.size - at - 8 - load_i32(w.data + at), 4)

# ---- outputs -------------------------------------------------------------------------------------

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

cdef enum State:                   # of a group; the order of STATE_NAMES in runtime.pyx
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

# ---- which partitions of the offsets topic a coordinator owns: declarations ----------------------

cdef enum Availability:
    OWNED = 0
    RESIGNED = 1
    LOADING = 2

cdef class Partitions:
    cdef readonly int32_t count
    cdef readonly int others           # state of all partitions except
    cdef readonly dict exceptions      # partition -> availability

    cdef int check(self, int32_t partition) except -1
    cdef int state_of(self, partition) except -1
    cdef int refusal(self, str group_id, bint empty_is_valid) except -2
    cdef bint is_loading(self, int32_t partition) except -1
    cdef int change(self, int32_t partition, int before, int after) except -1

cdef int32_t partition_of(str group_id, int32_t count) except -1

# ---- the logs that a coordinator writes to: declarations -----------------------------------------

cdef enum:
    LATER = -1                     # the append is finished by `complete`
    FAILED = -2                    # nothing was appended; `failure` is the reason

cdef class Batch:                  # appended as a whole
    cdef str group_id              # of the records; None: a marker, or from a log
    cdef readonly int64_t base_offset          # once it is in a log; before, -1
    cdef int64_t producer_id
    cdef int16_t epoch
    cdef bint transactional
    cdef bint control
    cdef Py_ssize_t count          # of its records
    cdef bytes data                # of each: size of key, size of value (-1: null), key, value

    cdef tuple pair(self, Py_ssize_t at)
    cdef Py_ssize_t after(self, Py_ssize_t at) noexcept
    cdef tuple pairs(self)
    cdef tuple row(self)

cdef Batch new_batch(str group_id, Py_ssize_t count, bytes data)
cdef Batch batch_of(object records)

cdef class Sink:
    cdef readonly object failure   # what a caller's log raised, until `take_failure`

    cdef int64_t append(self, Batch batch, int64_t base_offset) except -3
    cdef bint at_once(self) noexcept
    cdef int check(self, Py_ssize_t count, int64_t base_offset) except -1
    cdef object read(self)

cdef class MemoryLog(Sink):
    cdef list batches              # of Batch, by offset
    cdef readonly int64_t end

    cdef Py_ssize_t place(self, Py_ssize_t count, int64_t base_offset) except -1

cdef class CallerLog(Sink):
    cdef object write              # row of a batch -> offset, or None: later
    cdef object rows               # () -> rows of all batches

cdef class DirectLog(Sink):
    cdef object write              # the fields of a batch -> offset
    cdef object rows               # () -> rows of all batches

# ---- the offsets of all groups: declarations -----------------------------------------------------

cdef class OffsetStore:
    cdef dict maps                 # group id -> OffsetMap
    cdef dict open_groups          # producer id -> {group id: None}: undecided transactions

    cdef OffsetMap find(self, str group_id)
    cdef OffsetMap map_of(self, str group_id)
    cdef int put(self, str group_id, OffsetMap offsets) except -1
    cdef int drop(self, str group_id) except -1
    cdef int open_transaction(self, int64_t producer_id, str group_id) except -1
    cdef int resigned(self, int32_t partition, int32_t count) except -1

# ---- clock, timers, dispatch, outputs and appends, shared by the components of a coordinator -----

cdef enum:
    NO_TIMER = -1
    KIND_BITS = 8                  # of a timer's key; the other bits are its owner's slot
    NO_OWNER = 0                   # the slot without an owner
    MOST_OPERATIONS = 64

cdef enum AppendStatus:
    NOT_WRITTEN                        # it is handed to the sink when the caller says so
    IN_FLIGHT                      # the sink has it, and says later where it stands
    NOT_COMMITTED                  # it is in the log, but readers do not see it yet
    FINISHED                           # it is in the log, or has failed

cdef class Runtime

cdef class Request:
    cdef readonly int64_t id
    cdef readonly int op
    cdef bint answered

cdef enum GroupType:
    NO_GROUP = 0                   # no group has the id, or the operation concerns no single group
    CLASSIC = 1
    CONSUMER = 2
    OTHER = 3                      # of a kind that consumers cannot join; its id is taken
    GROUP_TYPES = 4
    EVERY_TYPE = -1                # of `register`: all of the above

cdef class Group:                  # of any type; derived once per type
    cdef readonly str group_id
    cdef int group_type            # a GroupType; never NO_GROUP

cdef class Operation:              # that is being decided; a coordinator has one
    cdef int number
    cdef int32_t generation_id
    cdef int64_t id
    cdef Group group               # with `group_id`, of a type for which the decider is registered
    cdef str group_id
    cdef str member_id
    cdef str instance
    cdef tuple details

ctypedef int (*Decide)(object component, Operation op) except -1

cdef struct Decider:
    Decide decide                  # NULL: not registered
    PyObject* component            # borrowed from `registered`

cdef class Component:
    cdef Runtime runtime
    cdef int first_kind            # of its timers

    cdef int join_runtime(self, Runtime runtime, int kinds) except -1
    cdef int fired(self, int kind, object owner) except -1
    cdef int resigned(self, int32_t partition) except -1
    cdef object read_log(self, object fold)
    cdef int loaded(self, object content, object load_filter) except -1

cdef class GroupProtocol(Component):
    cdef Group create_group(self, str group_id)
    cdef int check_commit(self, Group group, int32_t generation_id, str member_id, str instance,
                          bint transactional) except? -7
    cdef int check_offset_delete(self, Group group, dict errors) except? -7
    cdef int delete_group(self, Group group) except? -7
    cdef list expire(self, Group group, OffsetMap offsets)
    cdef list end_group(self, Group group, bint has_offsets)
    cdef int drop_group(self, Group group) except -1
    cdef tuple overview(self, Group group)

cdef class AppendOp:
    cdef Runtime runtime           # whose append it is
    cdef readonly str kind
    cdef Batch batch
    cdef readonly bint done
    cdef bint written              # the sink has it and will report its offset
    cdef object write              # what a Writes knows of it, or None

    cdef int on_deferred(self) except -1
    cdef int on_finished(self, int error, int64_t position) except -1

cdef class Writes:                 # those that are not committed, in their order
    cdef readonly list pending
    cdef dict unwritten            # group id -> what was there before a change without a record
    cdef dict unshown              # group id -> what was last shown of one that has no record
    cdef bint holding              # what is written is not committed until `holding` ends

    cdef bint blocks(self, str group_id) except -1
    cdef int begin(self, AppendOp op, AppendStatus status) except -1
    cdef int check_order(self, AppendOp op) except -1
    cdef int finished(self, AppendOp op, int error, int64_t position) except -1
    cdef int wrote(self, str group_id, int error) except -1
    cdef int change_unwritten(self, str group_id) except -1
    cdef int show_ended(self, str group_id) except -1
    cdef int give_up(self, int32_t partition) except -1
    cdef Group committed(self, str group_id)
    cdef int answer_later(self, tuple group_ids, int64_t id, int op, int code, payload,
                          refused) except -1

cdef class Runtime:
    cdef TimerWheel wheel
    cdef readonly Outputs outputs
    cdef readonly Partitions partitions
    cdef readonly Sink sink        # where records go, and where a load finds them
    cdef readonly bint deferred
    cdef bint replaying            # as Kafka 4: records are appended first, then replayed
    cdef Writes writes             # of a coordinator that replays, else None
    cdef dict groups               # group id -> Group
    cdef str last_id               # the last group that was found: requests of a group come
    cdef Group last                # together, and a trace has each id once
    cdef int64_t group_changes     # how many groups were added or dropped
    cdef list protocols            # by GroupType: its GroupProtocol, or None
    cdef list components           # those that joined, in that order
    cdef list handlers             # by kind of timer: the component that it fires at
    cdef Decider deciders[MOST_OPERATIONS][GROUP_TYPES]    # by operation number and group type
    cdef list registered           # the components of `deciders`
    cdef list owners               # by slot: what a timer's key names
    cdef Py_ssize_t* free_slots    # room for all that there are
    cdef Py_ssize_t free_count
    cdef Py_ssize_t capacity
    cdef list appends              # deferred or in flight, begun since `take_appends`
    cdef int fail_error
    cdef int64_t fail_count
    cdef bint strict               # a trace is played: unreadable metadata ends it

    cdef int register(self, str op, object component, Decide decide, int group_type) except -1
    cdef int register_protocol(self, int group_type, GroupProtocol protocol) except -1
    cdef Decider* decider_of(self, int op, int group_type) except NULL
    cdef Group find(self, str group_id)
    cdef list all_groups(self)
    cdef int add_group(self, Group group) except -1
    cdef int drop_group(self, Group group) except -1
    cdef int forget_look_ups(self) except -1
    cdef GroupProtocol protocol_of(self, Group group)
    cdef Py_ssize_t new_slot(self, owner) except -1
    cdef int free_slot(self, Py_ssize_t slot) except -1
    cdef int64_t arm(self, int64_t handle, int kind, Py_ssize_t slot, int64_t delay_ms) except -1
    cdef int disarm(self, int64_t* handle) except -1
    cdef int advance_to(self, int64_t now_ms, bint heeds_signals) except -1
    cdef int ignore_thrown(self, error) except -1
    cdef int answer_thrown(self, error, Request request, payload) except -1
    cdef int respond(self, int64_t id, int op, int code, payload) except -1
    cdef int respond_committed(self, str group_id, int64_t id, int op, int code,
                               payload) except -1
    cdef int answer(self, Request request, int code, payload) except -1
    cdef int abandon(self, Request request, int why) except -1
    cdef AppendStatus write(self, Batch batch, int* error, int64_t* position) except *
    cdef int defer(self, AppendOp op, AppendStatus written) except -1
    cdef int show_append(self, Batch batch, int64_t position) except -1
    cdef int append(self, AppendOp op) except -1
    cdef int settle(self, AppendOp op, int error, int64_t base_offset) except -1

cdef Request new_request(int64_t id, int op)
cdef AppendOp describe(AppendOp op, str kind, Batch batch)

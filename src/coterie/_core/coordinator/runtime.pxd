"""Clock, timers, dispatch, outputs and appends, shared by the components of a coordinator."""
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.outputs cimport Outputs
from coterie._core.coordinator.partitions cimport Partitions
from coterie._core.coordinator.sink cimport Batch, Sink
from coterie._core.structures.offsets cimport OffsetMap
from coterie._core.structures.timers cimport TimerWheel

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

# Decides operation number `op`. `group` is the group with that id, of a type for which the function
# is registered; None if there is none.
ctypedef int (*Decide)(object component, int op, int64_t id, Group group, str group_id,
                       int32_t generation_id, str member_id, str instance,
                       tuple details) except -1

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

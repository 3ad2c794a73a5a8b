"""The consumer protocol (KIP-848): its groups, timers and pending writes, and their load."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.classic.protocol cimport Joins, Rebalances
from coterie._core.coordinator.consumer.group cimport (
    ConsumerGroup, ConsumerMember, Subscriptions, Timers)
from coterie._core.coordinator.consumer.values cimport ClassicPart, MetadataImage
from coterie._core.coordinator.runtime cimport (
    AppendOp, AppendStatus, Batch, Group, GroupProtocol, OffsetStore, Runtime, Writes)
from coterie._core.structures.offsets cimport OffsetMap

# ---- writes that are not committed: what waits for them, and what was there before ---------------

cdef class PendingWrites(Writes)

cdef class Waiting:                # it is completed once: by a commit, a failure, or in time
    cdef PendingWrites writes      # whose timer it has; None: it waits no longer
    cdef Py_ssize_t slot
    cdef int64_t timer

    cdef int complete(self, int error) except -1
    cdef int completed(self, int error) except -1

cdef tuple with_error(object rows, int error)

cdef class Answer(Waiting):
    cdef Runtime runtime
    cdef int64_t id
    cdef int op
    cdef int code
    cdef object payload
    cdef object refused            # the payload with an error, or a list: rows that each get it

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
    cdef dict twice                # group id -> keys and topics of offsets that are listed twice,
    cdef int64_t twice_end         # as long as the log ends here

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
    cdef int list_twice(self, str group_id, keys, bint removed) except -1
    cdef tuple listed(self, str group_id, keys)
    cdef int wait(self, tuple group_ids, Waiting waiting) except -1
    cdef int commit(self) except -1
    cdef int fail(self, Write failed, int error) except -1
    cdef int put_back(self, str group_id, Before before) except -1
    cdef int take_out(self, Group group) except -1
    cdef set group_ids(self)

cdef PendingWrites pending_writes(ConsumerProtocol protocol)

# ---- protocol ------------------------------------------------------------------------------------

cdef enum TimerKind:
    SESSION = 0
    REBALANCE = 1
    COMMIT = 2                     # an answer waits for a commit
    JOIN = 3                       # these two: of classic members
    SYNC = 4
    TIMER_KINDS = 5

cdef enum:
    LEAVE = -1                     # epochs of a request
    LEAVE_FOR_NOW = -2
    REFRESH_MS = 2147483647        # after which metadata is looked at anew

cdef class Heartbeat:              # a request, as the core takes it
    cdef str group_id
    cdef str member_id
    cdef int32_t epoch
    cdef str instance_id
    cdef str rack_id
    cdef int32_t rebalance_timeout_ms
    cdef tuple names               # None: not named
    cdef str regex
    cdef str assignor
    cdef dict owned                # topic id -> partitions; None: not named
    cdef str client_id
    cdef str client_host
    cdef int version
    cdef ClassicPart classic       # of a JoinGroup; None: it is no JoinGroup

cdef struct Shape:                 # of a group, as it is shown
    int state                      # a GroupState; -1: it is no consumer group
    int32_t epoch
    int32_t target_epoch
    Py_ssize_t members

cdef class GroupBefore:
    cdef str group_id
    cdef Shape before

cdef class ConsumerProtocol

# What the modules above decide of timers and tasks (heartbeat.pyx, `register_heartbeats`).
ctypedef int (*ExpireMember)(ConsumerProtocol protocol, Timers timers, int kind) except -1
ctypedef int (*RunTasks)(ConsumerProtocol protocol) except -1

cdef class ConsumerProtocol(GroupProtocol):
    cdef ExpireMember expire_member
    cdef RunTasks run_tasks
    cdef readonly MetadataImage image
    cdef Subscriptions subscriptions
    cdef OffsetStore store
    cdef int64_t session_timeout_ms
    cdef object heartbeat_interval_ms     # an int, which all answers have
    cdef int64_t max_size
    cdef int64_t regex_interval_ms
    cdef int64_t commit_timeout_ms
    cdef int64_t assignment_interval_ms    # between two targets, since 4.3
    cdef readonly tuple assignors
    cdef dict group_configs        # group id -> settings of its own
    cdef dict group_bounds         # setting of a group -> (least, largest)
    cdef dict timers               # group id -> {member id -> Timers}
    cdef list tasks                # resolutions that wait to be run
    cdef bint manual_tasks
    cdef set resolving             # groups with a resolution under way
    cdef Rebalances rebalances     # of classic groups
    cdef int64_t classic_max_size
    cdef GroupBefore touched           # by this event, or None
    cdef dict also_touched         # group id -> GroupBefore, of the others: mostly there is one
    cdef int rules                 # of a Release
    cdef Joins joins               # of classic groups: they share the ids that are made
    cdef str policy                # of conversions
    cdef GroupMetadata successor   # the classic group that the write at hand brings, or None
    cdef bint rebalances_successor
    cdef int error                 # why the request at hand is refused
    cdef ConsumerMember replaced   # the static member that it takes the place of, or None

    cdef int64_t setting(self, str group_id, str name, int64_t otherwise) except? -7
    cdef int show_groups(self) except -1
    cdef GroupBefore touched_now(self, str group_id)
    cdef int touch(self, str group_id) except -1
    cdef Timers find_timers(self, str group_id, str member_id)
    cdef Timers timers_of(self, str group_id, str member_id)
    cdef int arm_session(self, Timers timers, int64_t timeout_ms) except -1
    cdef int arm_rebalance(self, Timers timers, int32_t epoch, int64_t timeout_ms) except -1
    cdef int forget_timers(self, str group_id, str member_id) except -1
    cdef int finish_event(self) except -1
    cdef tuple refuse(self, int error)
    cdef int arm_other(self, Timers timers, int kind, int64_t timeout_ms) except -1
    cdef str new_member_id(self)
    cdef int set_refresh(self, ConsumerGroup group, int64_t at_ms, int32_t epoch) except -1
    cdef Shape shape_of(self, str group_id) except *
    cdef int show_shape(self, str group_id, Shape now) except -1
    cdef int show_change(self, GroupBefore touched) except -1
    cdef int deletion_error(self, Group group) except? -7
    cdef list end_records(self, Group group)
    cdef object expires_since(self, Group group)
    cdef bint subscribes(self, Group group, str topic) except -1
    cdef tuple listed(self, str group_id)

# ---- writes --------------------------------------------------------------------------------------

cdef int write_records(ConsumerProtocol protocol, str group_id, list records) except *
cdef Write begin_write(ConsumerProtocol protocol, str kind, Batch batch, AppendStatus status,
                       tuple group_ids)
cdef Batch encoded(ConsumerProtocol protocol, str group_id, list records)
cdef int show_member(ConsumerProtocol protocol, str group_id, str member_id, int32_t epoch,
                     int code) except -1
cdef int write_all(ConsumerProtocol protocol, list writes) except *
cdef int respond_committed(ConsumerProtocol protocol, tuple group_ids, int64_t id, int op, payload,
                           refused) except -1

# ---- load groups of every type: replay the records of the log in their order ---------------------

cdef object load_groups(ConsumerProtocol protocol, rows, load_filter)

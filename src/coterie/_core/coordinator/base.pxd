"""The ground of the coordinator: clock, timers, output, log. See coordinator_base.pyx."""
from libc.stdint cimport int16_t, int32_t, int64_t

from coterie._core.coordinator.effects cimport Effects
from coterie._core.coordinator.group cimport GroupMetadata, MemberMetadata, PendingId, Request
from coterie._core.coordinator.sink cimport Sink
from coterie._core.structures.timers cimport TimerWheel

cdef enum TimerKind:
    SESSION_TIMER = 0              # of a MemberMetadata
    PENDING_TIMER = 1              # of a PendingId
    JOIN_TIMER = 2                 # of a GroupMetadata, as the next
    SYNC_TIMER = 3
    CLEANUP_TIMER = 4              # of nobody

cdef enum Availability:            # of a partition of the offsets topic
    OWNED = 0
    RESIGNED = 1
    LOADING = 2

cdef enum:
    LONGEST = 0x7FFF               # bytes of a string: its length is an int16, also on the wire
    UUID_TAIL = 37                 # what Kafka adds to the prefix of a member id

cdef enum AppendKind:
    ASSIGNMENT = 0                 # a leader's sync
    STATIC_RETURN = 1
    EMPTY_GENERATION = 2
    PLAIN_COMMIT = 3
    TXN_COMMIT = 4
    TOMBSTONES = 5

cdef enum Code:                    # Kafka's numbers, as in values.Error
    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    KAFKA_STORAGE_ERROR = 56
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    UNSTABLE_OFFSET_COMMIT = 88

cdef enum CauseCode:               # the order of values.Cause
    BY_JOIN = 0
    BY_METADATA = 1
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

cdef class Machine

cdef class AppendOp:
    cdef Machine machine           # whose append it is
    cdef readonly int kind
    cdef GroupMetadata group
    cdef readonly tuple records
    cdef readonly int64_t producer_id
    cdef readonly int16_t producer_epoch
    cdef readonly bint transactional
    cdef readonly bint done
    cdef bint written              # the sink has it: it comes back with its offset
    cdef Request request
    cdef dict entries              # assignments, or offsets
    cdef int32_t generation_id
    cdef MemberMetadata member     # of a static return, as the rest
    cdef str old_id
    cdef str old_leader
    cdef int32_t old_rebalance_ms
    cdef int32_t old_session_ms
    cdef bint skip_assignment
    cdef list answers              # of a commit: [(partition key, error)], in order

cdef class Machine:
    cdef TimerWheel wheel
    cdef readonly Effects effects
    cdef dict groups               # group id -> GroupMetadata
    cdef int availability          # of the partitions of the offsets topic but for
    cdef dict exceptions           # partition -> availability
    cdef int32_t partition_count   # of the offsets topic
    cdef list owners               # by slot: what a timer's key names
    cdef list free_slots
    cdef readonly Sink sink        # where records go, and where a load finds them
    cdef list appends              # those that come back later, begun since the last taking
    cdef readonly bint deferred
    cdef int fail_error
    cdef int64_t fail_count
    cdef object member_ids         # callable, or None for PREFIX-N
    cdef int64_t ids_given
    cdef dict open_groups          # producer id -> {group id: None}
    cdef int64_t initial_delay_ms
    cdef int64_t min_session_ms
    cdef int64_t max_session_ms
    cdef int64_t max_size
    cdef int64_t max_metadata
    cdef int64_t retention_ms
    cdef int64_t check_interval_ms
    cdef bint behaviour_24
    cdef bint periodic_cleanup
    cdef int users                 # see `begin_change`
    cdef bint strict               # a trace is played: metadata on which Kafka throws ends it
    cdef bint ties_as_kafka
    cdef readonly int64_t session_evictions    # members that were removed, by why
    cdef readonly int64_t rebalance_evictions
    cdef readonly int64_t sync_evictions

    cdef Py_ssize_t new_slot(self, owner) except -1
    cdef int free_slot(self, Py_ssize_t slot) except -1
    cdef int64_t arm(self, int64_t handle, int kind, Py_ssize_t slot, int64_t delay_ms) except -1
    cdef int disarm(self, int64_t* handle) except -1
    cdef int advance_to(self, int64_t now_ms, bint heeds_signals) except -1
    cdef int fired(self, int kind, object owner) except -1
    cdef int respond(self, int64_t id, int op, int code, payload) except -1
    cdef int answer(self, Request request, int code, payload) except -1
    cdef int abandon(self, Request request, int why) except -1
    cdef int transition(self, GroupMetadata group, int state, int cause, str member_id) except -1
    cdef int entered(self, GroupMetadata group, int before, int cause, str member_id) except -1
    cdef int status(self, str group_id, bint empty_is_valid) except -2
    cdef int state_of(self, partition) except -1
    cdef bint is_loading(self) except -1
    cdef GroupMetadata create_group(self, str group_id)
    cdef int drop_group(self, GroupMetadata group) except -1
    cdef str new_member_id(self, GroupMetadata group, str prefix)
    cdef str asked_id(self, GroupMetadata group, str prefix)
    cdef int touch(self, GroupMetadata group, MemberMetadata member, int64_t delay_ms) except -1
    cdef int append(self, AppendOp op) except -1
    cdef int settle(self, AppendOp op, int error, int64_t base_offset) except -1
    cdef int finished(self, AppendOp op, int error, int64_t position) except -1

cdef int32_t partition_of(str group_id, int32_t count) except -1
cdef AppendOp make_append(int kind, GroupMetadata group, tuple records)
cdef int group_error(int code) noexcept
cdef int commit_error(int code) noexcept
cdef Py_ssize_t utf8_length(str text) except -2

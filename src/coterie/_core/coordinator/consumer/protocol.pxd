"""Consumer groups of a coordinator: their state, timers, and what other components ask of them."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.classic.joins cimport Joins
from coterie._core.coordinator.classic.rebalance cimport Rebalances
from coterie._core.coordinator.consumer.group cimport (
    ConsumerGroup, ConsumerMember, Subscriptions, Timers)
from coterie._core.coordinator.consumer.image cimport MetadataImage
from coterie._core.coordinator.consumer.values cimport ClassicPart
from coterie._core.coordinator.offset_store cimport OffsetStore
from coterie._core.coordinator.runtime cimport Group, GroupProtocol

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

cdef class Touched:
    cdef str group_id
    cdef Shape before

cdef class ConsumerProtocol(GroupProtocol):
    cdef readonly MetadataImage image
    cdef Subscriptions subscriptions
    cdef OffsetStore store
    cdef int64_t session_timeout_ms
    cdef object heartbeat_interval_ms     # an int, which all answers have
    cdef int64_t max_size
    cdef int64_t regex_interval_ms
    cdef int64_t commit_timeout_ms
    cdef readonly tuple assignors
    cdef dict group_configs        # group id -> settings of its own
    cdef dict timers               # group id -> {member id -> Timers}
    cdef list tasks                # resolutions that wait to be run
    cdef bint manual_tasks
    cdef set resolving             # groups with a resolution under way
    cdef Rebalances rebalances     # of classic groups
    cdef int64_t classic_max_size
    cdef Touched touched           # by this event, or None
    cdef dict also_touched         # group id -> Touched, of the others: mostly there is one
    cdef int revision              # of the rules
    cdef Joins joins               # of classic groups: they share the ids that are made
    cdef str policy                # of conversions
    cdef GroupMetadata successor   # the classic group that the write at hand brings, or None
    cdef bint rebalances_successor
    cdef int error                 # why the request at hand is refused
    cdef ConsumerMember replaced   # the static member that it takes the place of, or None

    cdef int64_t setting(self, str group_id, str name, int64_t otherwise) except? -7
    cdef int show_groups(self) except -1
    cdef Touched touched_now(self, str group_id)
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
    cdef int show_change(self, Touched touched) except -1
    cdef int check_member_commit(self, ConsumerGroup group, int32_t generation_id, str member_id,
                                 str instance, bint transactional, int version) except? -7
    cdef int deletion_error(self, Group group) except? -7
    cdef list end_records(self, Group group)
    cdef object expires_since(self, Group group)
    cdef bint subscribes(self, Group group, str topic) except -1
    cdef tuple listed(self, str group_id)

"""The consumer protocol: heartbeats, timers, records and the answers to them."""
from libc.stdint cimport int16_t, int32_t, int64_t

from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.classic.joins cimport Joins
from coterie._core.coordinator.classic.rebalance cimport Rebalances
from coterie._core.coordinator.consumer.assignors cimport Subscriber
from coterie._core.coordinator.consumer.group cimport (
    ConsumerGroup, ConsumerMember, Record, Subscriptions, Timers)
from coterie._core.coordinator.consumer.image cimport MetadataImage
from coterie._core.coordinator.consumer.values cimport Assignment, ClassicPart, MemberFields
from coterie._core.coordinator.offset_store cimport OffsetStore
from coterie._core.coordinator.runtime cimport Group, GroupProtocol
from coterie._core.coordinator.sink cimport Batch

cdef enum TimerKind:
    SESSION = 0
    REBALANCE = 1
    COMMIT = 2                     # an answer waits for a commit
    JOIN = 3                       # these two: of classic members
    SYNC = 4
    TIMER_KINDS = 5

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

cdef class ConsumerProtocol(GroupProtocol):
    cdef readonly MetadataImage image
    cdef Subscriptions subscriptions
    cdef OffsetStore store
    cdef int64_t session_timeout_ms
    cdef int64_t heartbeat_interval_ms
    cdef int64_t max_size
    cdef int64_t regex_interval_ms
    cdef int64_t commit_timeout_ms
    cdef readonly tuple assignors
    cdef dict group_configs        # group id -> settings of its own
    cdef dict timers               # (group id, member id) -> Timers
    cdef list tasks                # resolutions that wait to be run
    cdef bint manual_tasks
    cdef set resolving             # groups with a resolution under way
    cdef Rebalances rebalances     # of classic groups
    cdef int64_t classic_max_size
    cdef bint holding              # commits are held: answers wait, readers see what was before
    cdef list held                 # (id, op, code, payload) of answers that wait
    cdef dict committed            # group id -> Group before what is not committed, or None
    cdef dict committed_offsets    # of the same groups: key -> Offset
    cdef dict touched              # group id -> shape before this event
    cdef int revision              # of the rules
    cdef Joins joins               # of classic groups: they share the ids that are made
    cdef str policy                # of conversions
    cdef GroupMetadata successor   # the classic group that the write at hand brings, or None
    cdef bint rebalances_successor
    cdef int error                 # why the request at hand is refused
    cdef ConsumerMember replaced   # the static member that it takes the place of, or None

    cdef int heartbeat(self, int64_t id, Group group, Heartbeat request) except -1
    cdef int check_request(self, Heartbeat request) except -1
    cdef tuple join_or_heartbeat(self, Group group, Heartbeat request, list records)
    cdef ConsumerMember find_member(self, ConsumerGroup group, Heartbeat request)
    cdef int check_epoch(self, ConsumerMember member, Heartbeat request) except -1
    cdef MemberFields updated_fields(self, ConsumerMember member, Heartbeat request)
    cdef tuple update(self, ConsumerGroup group, Heartbeat request, ConsumerMember member,
                      ConsumerMember replaced, bint is_new, list records)
    cdef int64_t hash_with(self, ConsumerGroup group, MemberFields before, MemberFields after,
                           str lost_regex, bint is_new) except? -7
    cdef Assignment assign(self, ConsumerGroup group, ConsumerMember member, MemberFields fields,
                           ConsumerMember replaced, bint homogeneous, int32_t epoch, list records)
    cdef bint will_be_homogeneous(self, ConsumerGroup group, MemberFields before,
                                  MemberFields after, bint is_new) except -1
    cdef bint regex_step(self, ConsumerGroup group, MemberFields before, MemberFields after,
                         list records) except -1
    cdef int start_resolution(self, str group_id, object regexes) except -1
    cdef int finish_resolution(self, str group_id, dict patterns) except -1
    cdef tuple leave(self, ConsumerGroup group, Heartbeat request, list records)
    cdef list fence(self, ConsumerGroup group, list member_ids)
    cdef int64_t setting(self, str group_id, str name, int64_t otherwise) except? -7
    cdef int write_records(self, str group_id, list records) except *
    cdef int append_batch(self, Batch batch, int64_t* position) except *
    cdef int write_all(self, list writes) except *
    cdef int replay(self, str group_id, list records) except -1
    cdef int replay_classic(self, str group_id, Record record) except -1
    cdef int respond_committed(self, int64_t id, int op, payload) except -1
    cdef int respond_later(self, int64_t id, int op, payload, int late_code,
                           late_payload) except -1
    cdef int show_groups(self) except -1
    cdef int touch(self, str group_id) except -1
    cdef Timers timers_of(self, str group_id, str member_id)
    cdef int arm_session(self, Timers timers, int64_t timeout_ms) except -1
    cdef int arm_rebalance(self, Timers timers, int32_t epoch, int64_t timeout_ms) except -1
    cdef int forget_timers(self, str group_id, str member_id) except -1
    cdef int expire_member(self, Timers timers, int kind) except -1
    cdef ConsumerGroup committed_group(self, str group_id)
    cdef int finish_event(self) except -1
    cdef tuple refuse(self, int error)
    cdef ConsumerGroup upgraded(self, GroupMetadata classic, list records)
    cdef bint may_downgrade(self, ConsumerGroup group, object leaving,
                            Py_ssize_t joining) except -1
    cdef tuple join_classic(self, ConsumerGroup group, Heartbeat r, bint id_made, list records)
    cdef ConsumerMember successor_of(self, ConsumerMember old, str member_id)
    cdef object subscribed(self, ConsumerGroup group, MemberFields fields)
    cdef tuple downgrade_by(self, ConsumerGroup group, Heartbeat r, ConsumerMember member,
                            ConsumerMember replaced, MemberFields fields, int32_t epoch,
                            bint bump, list records)
    cdef int set_successor(self, ConsumerGroup group, GroupMetadata classic, str old_id,
                           str new_id, bint rebalances, list records) except -1
    cdef Batch encoded(self, str group_id, list records)
    cdef int write_downgrade(self, Batch batch) except *
    cdef int forget_group(self, ConsumerGroup group) except -1
    cdef int restore_group(self, ConsumerGroup group) except -1
    cdef int arm_other(self, Timers timers, int kind, int64_t timeout_ms) except -1
    cdef str new_member_id(self)
    cdef int replace_member(self, ConsumerGroup group, ConsumerMember old, ConsumerMember member,
                            list records) except -1
    cdef int set_refresh(self, ConsumerGroup group, int64_t at_ms, int32_t epoch) except -1
    cdef tuple topics_named(self, names)
    cdef tuple topics_of(self, ConsumerGroup group, MemberFields fields)
    cdef str assignor_of(self, ConsumerGroup group, ConsumerMember member, MemberFields fields,
                         ConsumerMember replaced)
    cdef int keep_committed(self, str group_id) except -1
    cdef tuple shape_of(self, str group_id)
    cdef list group_tombstones(self, ConsumerGroup group)
    cdef int check_member_commit(self, ConsumerGroup group, int32_t generation_id, str member_id,
                                 str instance, bint transactional, int version) except? -7
    cdef int deletion_error(self, Group group) except? -7
    cdef list end_records(self, Group group)
    cdef object expires_since(self, Group group)
    cdef bint subscribes(self, Group group, str topic) except -1
    cdef tuple listed(self, str group_id)
    cdef int load_classic(self, dict values) except -1
    cdef int take_over(self, ConsumerGroup group) except -1
    cdef int take_over_classic(self, GroupMetadata group) except -1
    cdef int describe(self, int64_t id, tuple group_ids) except -1
    cdef tuple described(self, str group_id)
    cdef tuple described_member(self, ConsumerMember member)
    cdef tuple named(self, Assignment assignment)
    cdef int replay_bytes(self, bytes key, bytes value, object load_filter,
                          dict classic) except -1

cdef int write_error(int code) noexcept

"""Consumer groups: their members, counts and records, and the replay of these records."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.codec.layout cimport Writing
from coterie._core.coordinator.consumer.assignors cimport Subscriber
from coterie._core.coordinator.consumer.values cimport (
    Assignment, MemberFields, MetadataImage, Names, Resolved, TopicId)
from coterie._core.coordinator.runtime cimport Group
from coterie._core.structures.offsets cimport OffsetMap

# ---- A consumer group and its members, and what each record does to them -------------------------

cdef enum MemberState:             # as a record has it
    STABLE_MEMBER = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN_STATE = 127

cdef enum Rule:                    # what releases differ in: docs/rules/releases.md#consumer-groups
    AS_RECORDED = 1 << 0           # of no broker: a log is shown as it is, nothing is refused
    OWNERS_BY_EPOCH = 1 << 1       # an owner at an earlier epoch is no obstacle
    OWN_PENDING_IS_FREE = 1 << 2   # for the member that gives it up
    LOST_REGEX_BUMPS = 1 << 3      # a member without its expression raises the epoch
    CLASSIC_JOIN_ENDS_REGEX = 1 << 4
    EPOCH_0_PASSES = 1 << 5        # as the epoch of a known member's heartbeat
    ACKNOWLEDGED_EPOCH_STAYS = 1 << 6  # until the target is reached
    ONLY_SUBSCRIBED = 1 << 7       # partitions of other topics are given up before the next target
    DISABLED_JOINS = 1 << 8        # policy "disabled": no classic client joins a consumer group
    EPOCHS_FROM_1 = 1 << 9         # a group begins at epoch 1; only a change bumps it
    ASSIGNMENT_INTERVAL = 1 << 10  # between two targets: they may stay behind the epoch
    PARTITION_EPOCHS = 1 << 11     # each partition has its epoch, and commits go by it
    DELETED_BY_ID = 1 << 12        # offsets of deleted topics, by the topic id of their record
    PENDING_IS_SHOWN = 1 << 13     # as assigned, in descriptions
    UNREADABLE_IS_REFUSED = 1 << 14    # metadata of a classic client that joins
    ASSIGNOR_BUMPS = 1 << 15       # another winner of the votes is another epoch
    EMPTIED_HAS_TARGET = 1 << 16   # the target epoch follows when the last members go
    KNOWN_INSTANCE_HAS_ROOM = 1 << 17  # in a full group
    OLD_INSTANCE_IS_FREED = 1 << 18    # by a member record with another one
    INHERITED_TARGET_STAYS = 1 << 19   # of a replaced member: it is not written twice
    TXN_TOPIC_IDS = 1 << 20        # transactional commits have topic ids (version 6)
    CLAMPED_CONFIG = 1 << 21       # a group's settings, into the broker's bounds

cdef enum Release:                 # one row each: the rules that it has
    KAFKA_4_1 = 0
    KAFKA_4_1_2 = (OWNERS_BY_EPOCH | OWN_PENDING_IS_FREE | LOST_REGEX_BUMPS
                   | CLASSIC_JOIN_ENDS_REGEX)
    KAFKA_4_2_0 = (KAFKA_4_1_2 | EPOCH_0_PASSES | ACKNOWLEDGED_EPOCH_STAYS | ONLY_SUBSCRIBED)
    KAFKA_4_2 = KAFKA_4_2_0 | DISABLED_JOINS       # of 4.2.2
    KAFKA_4_3 = (KAFKA_4_2_0 | EPOCHS_FROM_1 | ASSIGNMENT_INTERVAL | PARTITION_EPOCHS
                 | DELETED_BY_ID | PENDING_IS_SHOWN | CLAMPED_CONFIG)
    KAFKA_4_3_1 = KAFKA_4_3 | DISABLED_JOINS
    KAFKA_4_4 = (KAFKA_4_3_1 | UNREADABLE_IS_REFUSED | ASSIGNOR_BUMPS | EMPTIED_HAS_TARGET
                 | KNOWN_INSTANCE_HAS_ROOM | OLD_INSTANCE_IS_FREED | INHERITED_TARGET_STAYS
                 | TXN_TOPIC_IDS)

cdef enum RecordKind:              # the versions of the keys
    OFFSET = 1
    CLASSIC_GROUP = 2
    GROUP_EPOCH = 3
    PARTITION_METADATA = 4
    MEMBER = 5
    TARGET_EPOCH = 6
    TARGET = 7
    CURRENT = 8
    OTHER_GROUP = 11               # of share and of streams groups: any of their versions
    REGEX = 16

cdef class OtherGroup(Group):      # of a type that consumers cannot join
    cdef readonly str kind

cdef class Timers:                 # of one member id of a group; they outlive both
    cdef readonly str group_id
    cdef readonly str member_id
    cdef Py_ssize_t slot
    cdef int64_t session
    cdef int64_t rebalance
    cdef int64_t join
    cdef int64_t sync
    cdef int32_t rebalance_epoch   # of the member when its rebalance timer was armed

cdef class Current:                # what a current-assignment record says
    cdef int32_t epoch
    cdef int32_t previous_epoch
    cdef int state
    cdef Assignment assigned
    cdef Assignment revoking

cdef class Record:                 # one to append and to replay
    cdef int kind
    cdef bint tombstone
    cdef str name                  # a member id, or a regular expression
    cdef object value              # MemberFields, Current, Assignment, Resolved
    cdef int32_t epoch
    cdef int64_t hash
    cdef int64_t at_ms             # of a target epoch: when it was computed; 0: unknown

cdef class ConsumerMember(Subscriber):
    cdef readonly MemberFields fields
    cdef readonly int32_t epoch
    cdef readonly int32_t previous_epoch
    cdef readonly int state
    cdef Assignment assigned
    cdef Assignment revoking
    cdef Assignment target         # None: the group has none of this member
    cdef bint present              # there is a member record; a target may come without
    cdef Timers timers
    cdef tuple answer              # of a heartbeat that changes nothing, or None
    cdef tuple last_steady_heartbeat  # its details, or None

cdef class ConsumerGroup(Group):
    cdef readonly int32_t epoch
    cdef readonly int64_t metadata_hash
    cdef readonly int32_t target_epoch
    cdef int64_t target_ms         # when the target was computed; 0: unknown
    cdef readonly dict members     # member id -> ConsumerMember that is present
    cdef list order                # of them, by member id
    cdef dict absent               # member id -> ConsumerMember that only has a target
    cdef readonly dict instances
    cdef readonly dict resolved    # in the order of their first records
    cdef dict names_count          # Names -> members
    cdef dict regex_count          # regular expression -> members
    cdef dict topic_count          # topic name -> members and resolved expressions that have it
    cdef Py_ssize_t shared_topics  # of these, with more than one
    cdef dict assignor_count
    cdef int32_t counted_epoch     # of `stable_count`, counted anew when the target epoch moves
    cdef Py_ssize_t stable_count   # members that are reconciled to that epoch
    cdef dict uses                 # TopicId -> TopicUse
    cdef Py_ssize_t classic_count  # members that speak the classic protocol
    cdef bint has_partition_metadata
    cdef bint homogeneous
    cdef bint taken_over           # a partition, from an owner that may have it yet
    cdef int rules                 # of a Release
    cdef int resolved_bits         # of the slots of Kafka's table of resolved expressions
    cdef Resolved first            # in this table, as first_resolved() found it,
    cdef bint knows_first          # since when nothing was resolved or removed
    cdef int64_t refresh_ms        # the metadata refresh deadline: time and epoch
    cdef int32_t refresh_epoch

    cdef int state_number(self) except -1
    cdef bint is_homogeneous(self) except -1
    cdef int apply(self, Record record, Subscriptions subscriptions) except -1
    cdef int apply_member(self, Record record, Subscriptions subscriptions) except -1
    cdef int apply_current(self, Record record) except -1
    cdef int apply_target(self, Record record) except -1
    cdef int apply_regex(self, Record record, Subscriptions subscriptions) except -1
    cdef int count_fields(self, MemberFields fields, int by, Subscriptions subscriptions) except -1
    cdef int count_topic(self, str name, int by, Subscriptions subscriptions) except -1
    cdef void count_stable(self, ConsumerMember member, int by) noexcept
    cdef int release_all(self, ConsumerMember member) except -1
    cdef Resolved first_resolved(self)
    cdef int own_all(self, Assignment assignment, int32_t epoch) except -1

cdef class Subscriptions:          # of all groups: which topics any of them reads
    cdef MetadataImage image
    cdef dict groups               # topic name -> group ids, as a tuple or a set
    cdef tuple before, after       # of the last topic that `reader` began to read
    cdef str reader

    cdef int begin(self, str topic, str group_id) except -1
    cdef bint end(self, str topic, str group_id) except -1
    cdef int finish(self, str topic, str group_id) except -1
    cdef tuple readers(self, str topic)

cdef Timers new_timers(str group_id, str member_id)
cdef Py_ssize_t place_of(list members, str member_id) except -1
cdef str preferred(dict votes, tuple assignors)
cdef ConsumerGroup new_group(str group_id, int rules)
cdef ConsumerMember new_member(str member_id)
cdef Record new_record(int kind, str name, object value)
cdef Current new_current(int state, int32_t epoch, int32_t previous_epoch, Assignment assigned,
                         Assignment revoking)
cdef Record tombstone(int kind, str name)
cdef list group_tombstones(ConsumerGroup group)
cdef Record epoch_record(int32_t epoch, int64_t digest)
cdef Record target_epoch_record(int32_t epoch, int64_t at_ms)

# ---- records of consumer groups as bytes ---------------------------------------------------------

cdef int put_records(Writing* w, str group_id, list records) except -1

# ---- copies of consumer groups: declarations -----------------------------------------------------

cdef int copy_state(ConsumerGroup source, ConsumerGroup target) except -1
cdef OffsetMap copied_offsets(OffsetMap offsets)

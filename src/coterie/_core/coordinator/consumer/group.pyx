"""Consumer groups: their members, counts and records, and the replay of these records.

A record changes a group in one place, in a load as after an append.
Source: ConsumerGroup.java, GroupMetadataManager.java (replay).
"""
cimport cython
from base64 import urlsafe_b64decode
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from coterie._core.codec.compression import java_hash
from coterie._core.codec.cursor cimport coterie_be32, load_i32, store
from coterie._core.codec.layout cimport Writing, put_i16, put_i32, put_i64, put_uvarint, reserve
from coterie._core.codec.layout import decode_utf8
from coterie._core.codec.schema import decode_key, decode_value
from coterie._core.coordinator.consumer.assignors cimport copied_uses, count_targets, own, release
from coterie._core.coordinator.consumer.values cimport (
    Assignment, ClassicPart, MemberFields, MetadataImage, Resolved, TopicId, add_count,
    new_assignment, no_names, no_partitions, utf16_before, utf16_sorted)
from coterie._core.coordinator.runtime cimport (
    ASSIGNING, CONSUMER, CONSUMER_GROUP_STATES, EMPTY_GROUP, OTHER, RECONCILING, STABLE_GROUP,
    Group, PyUnicode_1BYTE_DATA, PyUnicode_GET_LENGTH, PyUnicode_IS_COMPACT_ASCII, put_raw)
from coterie._core.structures.collector cimport PyObject_GC_UnTrack
from coterie._core.structures.offsets cimport OffsetMap

from coterie.errors import CorruptData


# ---- A consumer group and its members; each record that the log may hold, replayed ---------------
# State changes in ``apply`` alone: live, in a load and in a replay of a log. What would take a walk
# over all members is counted while records are applied: subscriptions, votes of assignors, members
# that are reconciled, owners of partitions. Makes no record and knows no clock.
# Source: modern/consumer/ConsumerGroup.java, ConsumerGroupMember.java, GroupMetadataManager.java
# (replay).

cdef enum:
    SHARED_MAX = 64                # groups of a shared tuple

cdef dict NOTHING = {}             # of all groups: where most have nothing, until they have


cdef inline dict writable(dict found):
    """A dict that a group may change: its own, in the place of NOTHING."""
    return {} if found is NOTHING else found


@cython.final
@cython.no_gc                      # no reference cycles
@cython.freelist(64)
cdef class Timers:
    """The timers of a member id in a group."""

    def __cinit__(self):
        self.session = self.rebalance = self.join = self.sync = -1


cdef Timers new_timers(str group_id, str member_id):
    cdef Timers timers = Timers.__new__(Timers)
    timers.group_id = group_id
    timers.member_id = member_id
    return timers


@cython.final
@cython.no_gc                      # no reference cycles
@cython.freelist(64)
cdef class Current:
    """What a record of a current assignment says."""


cdef Current new_current(int state, int32_t epoch, int32_t previous_epoch, Assignment assigned,
                         Assignment revoking):
    cdef Current made = Current.__new__(Current)
    made.state = state
    made.epoch = epoch
    made.previous_epoch = previous_epoch
    made.assigned = assigned
    made.revoking = revoking
    return made


@cython.final
@cython.no_gc                      # no reference cycles
@cython.freelist(64)
cdef class Record:
    """A record of one group: its key's kind and name, and its value."""


cdef Record new_record(int kind, str name, object value):
    cdef Record record = Record.__new__(Record)
    record.kind = kind
    record.name = name
    record.value = value
    return record


cdef Record tombstone(int kind, str name):
    cdef Record record = Record.__new__(Record)
    record.kind = kind
    record.name = name
    record.tombstone = True
    return record


@cython.final
cdef class OtherGroup(Group):
    """A share or streams group: all that is known of it is that its id is taken."""

    def __cinit__(self, str group_id, str kind):
        self.group_id = group_id
        self.group_type = OTHER
        self.kind = kind


@cython.final
cdef class Subscriptions:
    """Which groups read a topic; the hash of one that none reads is forgotten.

    Topics that the same groups began to read at once share a tuple: a set for each of 190,000
    names in one heartbeat took 0.3 s. A set serves many groups.
    """

    def __cinit__(self, MetadataImage image not None):
        self.image = image
        self.groups = {}
        self.before = self.after = ()

    cdef int begin(self, str topic, str group_id) except -1:
        cdef object known = self.groups.get(topic, ())
        if isinstance(known, set):
            (<set>known).add(group_id)
            return 0
        if known is not self.before or group_id is not self.reader:
            self.before, self.reader = <tuple>known, group_id
            self.after = self.before if group_id in self.before else self.before + (group_id,)
        self.groups[topic] = self.after if len(self.after) <= SHARED_MAX else set(self.after)

    cdef bint end(self, str topic, str group_id) except -1:
        """End what a group reads; whether it was the last one."""
        cdef object known = self.groups.get(topic, ())
        if group_id == self.reader:      # a removed group leaves nothing behind
            self.before, self.after, self.reader = (), (), None
        if group_id not in known:
            return False
        if len(known) == 1:
            del self.groups[topic]
            return True
        if isinstance(known, set):
            (<set>known).discard(group_id)
        else:
            self.groups[topic] = tuple([each for each in known if each != group_id])
        return False

    cdef int finish(self, str topic, str group_id) except -1:
        if self.end(topic, group_id):
            self.image.forget_hash(topic)

    cdef tuple readers(self, str topic):
        return tuple(self.groups.get(topic, ()))


@cython.final
@cython.no_gc                      # no reference cycles
cdef class ConsumerMember(Subscriber):
    """A member of a consumer group."""

    def __cinit__(self):
        self.previous_epoch = -1
        self.assigned = self.revoking = no_partitions()
        self.fields = UNNAMED

    @property
    def assignment(self):
        """The assigned partitions: ((topic id, partitions), ...)."""
        return self.assigned.rows()


cdef MemberFields unnamed_fields():
    cdef MemberFields fields = MemberFields.__new__(MemberFields)
    fields.client_id = fields.client_host = fields.regex = ""
    fields.names = no_names()
    fields.rebalance_timeout_ms = -1
    return fields


cdef MemberFields UNNAMED = unnamed_fields()


cdef ConsumerMember new_member(str member_id):
    cdef ConsumerMember member = ConsumerMember.__new__(ConsumerMember)
    member.member_id = member_id
    return member


cdef ConsumerGroup new_group(str group_id, int rules):
    cdef ConsumerGroup group = ConsumerGroup.__new__(ConsumerGroup)
    group.group_id = group_id
    group.rules = rules
    if rules & EPOCHS_FROM_1:
        group.epoch = group.target_epoch = 1       # which no record says
    return group


cdef int take_instance(ConsumerGroup group, ConsumerMember member) except -1:
    """Let the member have its instance id, as each of its records does."""
    if member.instance_id is not None:
        group.instances = writable(group.instances)
        group.instances[member.instance_id] = member.member_id


@cython.final
@cython.no_gc                      # no reference cycles
cdef class ConsumerGroup(Group):
    """A consumer group."""

    def __cinit__(self):
        self.group_type = CONSUMER
        self.members = {}
        self.order = []
        PyObject_GC_UnTrack(self.order)
        self.absent = self.instances = self.resolved = NOTHING
        self.regex_count = self.assignor_count = NOTHING
        self.names_count, self.topic_count, self.uses = {}, {}, {}
        self.homogeneous = True
        self.resolved_bits = 1

    cdef int state_number(self) except -1:
        cdef ConsumerMember member
        if not self.members:
            return EMPTY_GROUP
        if self.epoch > self.target_epoch:
            return ASSIGNING
        if self.counted_epoch != self.target_epoch:
            self.counted_epoch, self.stable_count = self.target_epoch, 0
            for member in self.order:
                self.count_stable(member, 1)
        if self.stable_count != len(self.members):
            return RECONCILING
        return STABLE_GROUP

    @property
    def state(self):
        """The state's name."""
        return (<tuple>CONSUMER_GROUP_STATES[self.state_number()])[1]

    cdef bint is_homogeneous(self) except -1:
        """Whether all members subscribe alike: to the same names, or by the same expression."""
        if not self.regex_count:
            return len(self.names_count) <= 1
        if len(self.regex_count) > 1 or len(self.names_count) > 1:
            return False
        if next(iter(self.regex_count.values())) != len(self.members):
            return False
        if no_names() not in self.names_count:
            return False
        return self.shared_topics == 0

    cdef int apply(self, Record record, Subscriptions subscriptions) except -1:
        """Replay a record; CorruptData where Kafka's replay throws."""
        if record.kind == CURRENT:
            return self.apply_current(record)
        if record.kind == TARGET:
            return self.apply_target(record)
        if record.kind == MEMBER:
            return self.apply_member(record, subscriptions)
        if record.kind == TARGET_EPOCH:
            if record.tombstone and not self.rules & AS_RECORDED and any_target(self):
                raise CorruptData(f"group {self.group_id!r}: a target epoch is removed while there "
                                  "are targets")
            self.target_epoch = -1 if record.tombstone else record.epoch
            self.target_ms = record.at_ms
        elif record.kind == GROUP_EPOCH:
            if record.tombstone:
                if not self.rules & AS_RECORDED and (
                        self.members or any_target(self) or self.target_epoch != -1):
                    raise CorruptData(f"group {self.group_id!r} is removed while it has members, "
                                      "targets or a target epoch")
            else:
                self.epoch = record.epoch
                self.metadata_hash = record.hash
        elif record.kind == REGEX:
            return self.apply_regex(record, subscriptions)
        elif record.kind == PARTITION_METADATA:
            self.has_partition_metadata = not record.tombstone

    cdef int apply_member(self, Record record, Subscriptions subscriptions) except -1:
        cdef ConsumerMember member = self.members.get(record.name)
        cdef MemberFields fields, had = None
        if record.tombstone:
            if member is None:
                return 0
            if not self.rules & AS_RECORDED and member.epoch != -1:
                raise CorruptData(f"group {self.group_id!r}: member {record.name!r} is removed "
                                  "before its assignment")
            if not self.rules & AS_RECORDED and member.target is not None:
                raise CorruptData(f"group {self.group_id!r}: member {record.name!r} is removed "
                                  "before its target")
            del self.members[record.name]
            del self.order[place_of(self.order, record.name)]
            self.count_stable(member, -1)
            self.count_fields(member.fields, -1, subscriptions)
            if member.instance_id is not None:     # whoever has it by now
                self.instances.pop(member.instance_id, None)
            self.homogeneous = self.is_homogeneous()
            return 0
        fields = <MemberFields?>record.value
        if member is not None:
            had = member.fields
            self.release_all(member)
        else:
            member = self.absent.pop(record.name, None)
            if member is None:
                member = new_member(record.name)
            member.present = True
            self.members[record.name] = member
            self.order.insert(place_of(self.order, record.name), member)
            self.count_stable(member, 1)
        # The new ones first: a topic that stays is never without a reader.
        self.count_fields(fields, 1, subscriptions)
        if had is not None:
            self.count_fields(had, -1, subscriptions)
        member.fields = fields
        member.last_steady_heartbeat = None
        member.instance_id = fields.instance_id
        if had is not None and self.rules & OLD_INSTANCE_IS_FREED and (
                had.instance_id is not None):
            self.instances.pop(had.instance_id, None)
        take_instance(self, member)
        self.homogeneous = self.is_homogeneous()
        if had is not None:
            self.own_all(member.assigned, member.epoch)
            self.own_all(member.revoking, member.epoch)

    cdef int apply_current(self, Record record) except -1:
        cdef ConsumerMember member = self.members.get(record.name)
        cdef Current current
        if member is None:
            if record.tombstone:
                return 0
            self.apply_member(new_record(MEMBER, record.name, UNNAMED), None)
            member = self.members[record.name]
        self.count_stable(member, -1)
        self.release_all(member)
        member.answer = None
        if record.tombstone:
            member.epoch = member.previous_epoch = -1
            member.state = STABLE_MEMBER
            member.assigned = member.revoking = no_partitions()
        else:
            current = <Current?>record.value
            member.epoch = current.epoch
            member.previous_epoch = current.previous_epoch
            member.state = current.state
            member.assigned = current.assigned
            member.revoking = current.revoking
        self.count_stable(member, 1)
        take_instance(self, member)
        # Expressions may have come and gone since, which alone does not count (updateMember).
        self.homogeneous = self.is_homogeneous()
        if not record.tombstone:
            self.own_all(member.assigned, member.epoch)
            self.own_all(member.revoking, member.epoch)

    cdef int apply_target(self, Record record) except -1:
        cdef ConsumerMember member = self.members.get(record.name)
        if member is None:
            member = self.absent.get(record.name)
        if member is not None and member.target is not None and not self.rules & AS_RECORDED:
            count_targets(self.uses, member.target, -1)
        if record.tombstone:
            if member is not None:
                member.target, member.previous = None, no_partitions()
                self.absent.pop(record.name, None)
            return 0
        if member is None:
            self.absent = writable(self.absent)
            member = self.absent[record.name] = new_member(record.name)
        member.target = member.previous = <Assignment?>record.value
        if not self.rules & AS_RECORDED:
            count_targets(self.uses, member.target, 1)

    cdef int apply_regex(self, Record record, Subscriptions subscriptions) except -1:
        cdef Resolved before = self.resolved.get(record.name)
        self.knows_first = False
        if record.tombstone:
            self.resolved.pop(record.name, None)
        else:
            if 3 * (len(self.resolved) + 1) > 4 << self.resolved_bits:
                self.resolved_bits += 1
            self.resolved = writable(self.resolved)
            self.resolved[record.name] = <Resolved?>record.value
            for name in (<Resolved>record.value).topics:
                self.count_topic(name, 1, subscriptions)
        if before is not None:
            for name in before.topics:
                self.count_topic(name, -1, subscriptions)

    cdef Resolved first_resolved(self):
        """The first value in Kafka's table of resolved expressions, or None.

        Its slots are ordered by the upper bits of a product of the hash; in a slot, what was added
        last is first. The table grows with the records that it takes, and never shrinks. Source:
        BaseHashTable.java (findSlot, baseAddOrReplace), SnapshottableHashTable.java
        (CurrentIterator).
        """
        cdef Resolved first = None
        cdef uint64_t lowest = 0, slot
        if self.knows_first:  # a heartbeat must not hash all of them
            return self.first
        for regex, resolved in self.resolved.items():
            slot = <uint64_t><int64_t><int32_t>java_hash(regex) * 0x9E3779B97F4A7C15ULL
            slot >>= 64 - self.resolved_bits
            if first is None or slot <= lowest:
                first, lowest = <Resolved>resolved, slot
        self.first, self.knows_first = first, True
        return first

    cdef int count_fields(self, MemberFields fields, int by, Subscriptions subscriptions) except -1:
        """Count what a member's record says: its names, expression, assignor and protocol."""
        cdef Py_ssize_t had = self.names_count.get(fields.names, 0)
        add_count(self.names_count, fields.names, by)
        # Members mostly name the same topics, so each set counts once for all that name it.
        if had == 0 or had + by == 0:
            for name in fields.names.ordered:
                self.count_topic(name, by, subscriptions)
        if fields.regex:
            self.regex_count = writable(self.regex_count)
            add_count(self.regex_count, fields.regex, by)
        if fields.assignor is not None:
            self.assignor_count = writable(self.assignor_count)
            add_count(self.assignor_count, fields.assignor, by)
        if fields.classic is not None:
            self.classic_count += by

    cdef int count_topic(self, str name, int by, Subscriptions subscriptions) except -1:
        cdef Py_ssize_t count = self.topic_count.get(name, 0)
        self.shared_topics += (count + by > 1) - (count > 1)
        if count + by:
            self.topic_count[name] = count + by
        else:
            del self.topic_count[name]
        if subscriptions is not None:
            if not count:
                subscriptions.begin(name, self.group_id)
            elif not count + by:
                subscriptions.finish(name, self.group_id)

    cdef void count_stable(self, ConsumerMember member, int by) noexcept:
        if member.state == STABLE_MEMBER and member.epoch == self.counted_epoch:
            self.stable_count += by

    cdef int release_all(self, ConsumerMember member) except -1:
        """Let what a member has and revokes have no owner."""
        if not self.rules & AS_RECORDED:
            # Since 4.1.2, only those partitions that are owned at the member's epoch.
            release(self.uses, member.assigned, member.epoch, (self.rules & OWNERS_BY_EPOCH) != 0)
            release(self.uses, member.revoking, member.epoch, (self.rules & OWNERS_BY_EPOCH) != 0)

    cdef int own_all(self, Assignment assignment, int32_t epoch) except -1:
        """Make a member of this epoch the owner of partitions."""
        cdef int32_t owned = -1
        if not self.rules & AS_RECORDED:
            owned = own(self.uses, assignment, epoch, (self.rules & OWNERS_BY_EPOCH) != 0,
                        &self.taken_over)
        if owned >= 0:
            raise CorruptData(f"group {self.group_id!r}: partition {owned} of a topic "
                              "has two owners")


cdef Py_ssize_t place_of(list members, str member_id) except -1:
    """Where a member of this id stands, or would stand, among members by their ids."""
    cdef Py_ssize_t low = 0, high = len(members), middle
    while low < high:
        middle = (low + high) // 2
        if utf16_before((<ConsumerMember>members[middle]).member_id, member_id):
            low = middle + 1
        else:
            high = middle
    return low


cdef str preferred(dict votes, tuple assignors):
    """The assignor with the most votes, the first by name of several; without votes the default."""
    if not votes:
        return assignors[0]
    if len(votes) == 1:
        return next(iter(votes))
    return min(votes, key=lambda name: (-votes[name], name))


cdef bint any_target(ConsumerGroup group) except -1:
    """Whether any member, or an id without a member, has a target."""
    cdef ConsumerMember member
    if group.absent:
        return True
    for member in group.order:
        if member.target is not None:
            return True
    return False


cdef list group_tombstones(ConsumerGroup group):
    """The records that end a group; its offsets go before them."""
    cdef ConsumerMember member
    cdef list records = [tombstone(CURRENT, member.member_id) for member in group.order]
    for member_id in utf16_sorted([*group.members, *group.absent]):
        records.append(tombstone(TARGET, member_id))
    records.append(tombstone(TARGET_EPOCH, None))
    records += [tombstone(MEMBER, member.member_id) for member in group.order]
    records += [tombstone(REGEX, regex) for regex in utf16_sorted(group.resolved)]
    records.append(tombstone(PARTITION_METADATA, None))
    records.append(tombstone(GROUP_EPOCH, None))
    return records


cdef Record epoch_record(int32_t epoch, int64_t digest):
    cdef Record record = new_record(GROUP_EPOCH, None, None)
    record.epoch = epoch
    record.hash = digest
    return record


cdef Record target_epoch_record(int32_t epoch, int64_t at_ms):
    cdef Record record = new_record(TARGET_EPOCH, None, None)
    record.epoch = epoch
    record.at_ms = at_ms
    return record


# ---- records of consumer groups from their bytes, for a load -------------------------------------
# What no consumer group is concerned by is None: offsets, unknown kinds. A value that cannot be
# read, or of an unknown version, is CorruptData, as Kafka's serde throws.
# Source: GroupCoordinatorRecordSerde.java. Rules: docs/rules/log-format.md#keys.

# A group takes 8 bytes for each partition of a topic, so a damaged number must not count.
LAST_PARTITION = 9_999_999

# Versions of the keys that make a group of another type.
OTHER_GROUPS = dict.fromkeys((10, 11, 12, 13, 14), "share") | dict.fromkeys(
    (17, 18, 19, 20, 21, 22, 23), "streams")
OTHER_EPOCHS = (11, 17)            # without the record of its epoch there is no such group


cdef Assignment assignment_of(list rows, MetadataImage image, object epoch):
    """An assignment of decoded rows; of a topic that comes twice the last counts.

    ``epoch``: of the partitions of a row that has none for each; None: they need none.
    """
    cdef dict by_topic = {}
    for row in rows:
        numbers = row["partitions"]
        if numbers:
            if min(numbers) < 0 or max(numbers) > LAST_PARTITION:
                raise CorruptData(f"no topic has partitions {min(numbers)} to {max(numbers)}")
            topic = image.topic_id(urlsafe_b64decode(row["topicId"] + "=="))
            if epoch is None:
                by_topic[topic] = sorted(set(numbers))
                continue
            epochs = row.get("assignmentEpochs")
            if epochs is None or len(epochs) != len(numbers):
                epochs = [epoch] * len(numbers)
            by_topic[topic] = dict(sorted(zip(numbers, epochs)))
    return assignment_from(by_topic, epoch is not None)


def assignment_from(dict by_topic not None, bint with_epochs):
    """Make an assignment of sorted partitions by TopicId; each topic has some.

    ``with_epochs``: the partitions of a topic are a dict that has the epoch of each.
    """
    cdef list ordered
    cdef int32_t* ends
    cdef int32_t* partitions
    cdef int32_t* epochs = NULL
    cdef int32_t count = 0, total = 0
    cdef Py_ssize_t n
    if not by_topic:
        return no_partitions()
    ordered = sorted(by_topic, key=order_of)
    for numbers in by_topic.values():
        total += <int32_t>len(numbers)
    ends = <int32_t*>malloc((len(ordered) + 2 * total) * sizeof(int32_t))
    if ends == NULL:
        raise MemoryError
    partitions = ends + len(ordered)
    if with_epochs:
        epochs = partitions + total
    try:
        for n in range(len(ordered)):
            for number in by_topic[ordered[n]]:
                partitions[count] = number
                if epochs != NULL:
                    epochs[count] = by_topic[ordered[n]][number]
                count += 1
            ends[n] = count
        return new_assignment(ordered, ends, partitions, epochs)
    finally:
        free(ends)


def order_of(TopicId topic not None):
    return topic.upper, topic.lower


def parse_record(bytes key, bytes value, MetadataImage image not None, bint with_epochs):
    """Return (group id, Record) of a record of a consumer group or a classic one; else None.

    ``with_epochs``: assigned partitions have the epochs at which they were assigned.
    """
    cdef int kind
    cdef Record record
    cdef Current current
    if key is None or len(key) < 2:
        return None
    kind = int.from_bytes(key[:2], "big", signed=True)
    if kind in (0, OFFSET):
        return decode_key(key)["data"]["group"], (
            tombstone(OFFSET, None) if value is None else new_record(OFFSET, None, None))
    if kind in OTHER_GROUPS and (value is not None or kind in OTHER_EPOCHS):
        size = int.from_bytes(key[2:4], "big")
        return decode_utf8(key[4:4 + size]), (
            tombstone(OTHER_GROUP, None) if value is None
            else new_record(OTHER_GROUP, OTHER_GROUPS[kind], None))
    if kind not in (CLASSIC_GROUP, GROUP_EPOCH, PARTITION_METADATA, MEMBER, TARGET_EPOCH, TARGET,
                    CURRENT, REGEX):
        return None
    fields = decode_key(key)["data"]
    group_id = fields.get("groupId", fields.get("group"))
    name = fields.get("memberId", fields.get("regularExpression"))
    if value is None:
        return group_id, tombstone(kind, name)
    record = new_record(kind, name, None)
    if kind in (CLASSIC_GROUP, PARTITION_METADATA):
        return group_id, record
    data = decode_value(kind, value)["data"]
    if kind == GROUP_EPOCH:
        record.epoch = data["epoch"]
        record.hash = data.get("metadataHash", 0)
    elif kind == TARGET_EPOCH:
        record.epoch = data["assignmentEpoch"]
        record.at_ms = data.get("assignmentTimestamp", 0)
    elif kind == TARGET:
        record.value = assignment_of(data["topicPartitions"], image, None)
    elif kind == CURRENT:
        current = Current.__new__(Current)
        current.epoch, current.previous_epoch = data["memberEpoch"], data["previousMemberEpoch"]
        current.state = data["state"] if data["state"] in (0, 1, 2) else 127
        epoch = max(current.epoch, 0) if with_epochs else None
        current.assigned = assignment_of(data["assignedPartitions"], image, epoch)
        current.revoking = assignment_of(data["partitionsPendingRevocation"], image, epoch)
        record.value = current
    elif kind == REGEX:
        record.value = resolved_of(data)
    else:
        record.value = fields_of(data, image)
    return group_id, record


cdef Resolved resolved_of(dict data):
    cdef Resolved made = Resolved.__new__(Resolved)
    made.topics = frozenset(data["topics"])
    made.version, made.at_ms = data["version"], data["timestamp"]
    return made


cdef MemberFields fields_of(dict data, MetadataImage image):
    cdef MemberFields made = MemberFields.__new__(MemberFields)
    cdef ClassicPart part
    made.instance_id, made.rack_id = data["instanceId"], data["rackId"]
    made.client_id, made.client_host = data["clientId"], data["clientHost"]
    made.names = image.names_of(tuple(data["subscribedTopicNames"]))
    made.regex = data["subscribedTopicRegex"]
    made.rebalance_timeout_ms = data["rebalanceTimeoutMs"]
    made.assignor = data["serverAssignor"]
    classic = data.get("classicMemberMetadata")
    if classic is not None:
        part = made.classic = ClassicPart.__new__(ClassicPart)
        part.session_timeout_ms = classic["sessionTimeoutMs"]
        part.protocols = tuple([(one["name"], one["metadata"])
                                for one in classic["supportedProtocols"]])
    return made


# ---- encode the records of consumer groups: keys 2 to 8 and 16, values of version 0 --------------
# Cost: one pass, one copy. The layouts are those of the table of messages (``schemas.txt``), which
# a test holds these functions to; a heartbeat of a large group cannot pay for a walk over the
# table.
# Source: GroupCoordinatorRecordHelpers.java. Rules: docs/rules/log-format.md#keys.

cdef inline int put_short(Writing* w, str text) except -1:
    """A string of a key: two bytes of length."""
    cdef bytes raw
    if PyUnicode_IS_COMPACT_ASCII(text):
        put_i16(w, <int16_t>PyUnicode_GET_LENGTH(text))
        return put_raw(w, PyUnicode_1BYTE_DATA(text), PyUnicode_GET_LENGTH(text))
    raw = text.encode("utf-8", "replace")
    put_i16(w, <int16_t>PyBytes_GET_SIZE(raw))
    return put_raw(w, PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))


cdef inline int put_compact(Writing* w, str text) except -1:
    """A string of a value, which may be null."""
    cdef bytes raw
    if text is None:
        return put_uvarint(w, 0)
    if PyUnicode_IS_COMPACT_ASCII(text):
        put_uvarint(w, <unsigned int>(PyUnicode_GET_LENGTH(text) + 1))
        return put_raw(w, PyUnicode_1BYTE_DATA(text), PyUnicode_GET_LENGTH(text))
    raw = text.encode("utf-8", "replace")
    put_uvarint(w, <unsigned int>(PyBytes_GET_SIZE(raw) + 1))
    return put_raw(w, PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))


cdef inline int put_i8(Writing* w, int value) except -1:
    reserve(w, 1)[0] = <uint8_t>value


cdef int put_partitions(Writing* w, Assignment assignment) except -1:
    cdef Py_ssize_t n
    cdef int32_t at, start = 0
    cdef uint8_t* to
    cdef uint32_t raw
    put_uvarint(w, <unsigned int>(assignment.topic_count + 1))
    for n in range(assignment.topic_count):
        put_raw(w, PyBytes_AS_STRING((<TopicId>assignment.topics[n]).raw), 16)
        put_uvarint(w, <unsigned int>(assignment.ends[n] - start + 1))
        to = reserve(w, 4 * (assignment.ends[n] - start))
        for at in range(start, assignment.ends[n]):
            raw = coterie_be32(<uint32_t>assignment.partitions[at])
            memcpy(to, &raw, 4)
            to += 4
        if assignment.epochs == NULL:
            put_uvarint(w, 0)
        else:
            put_epochs(w, assignment.epochs + start, assignment.ends[n] - start)
        start = assignment.ends[n]


cdef int put_epochs(Writing* w, const int32_t* epochs, int32_t count) except -1:
    """The tagged field of a topic's assigned partitions: the epoch of each."""
    cdef int32_t at
    cdef unsigned int size = 1, number = <unsigned int>(count + 1)
    while number > 127:
        number >>= 7
        size += 1
    put_uvarint(w, 1)
    put_uvarint(w, 0)
    put_uvarint(w, size + 4 * <unsigned int>count)
    put_uvarint(w, <unsigned int>(count + 1))
    for at in range(count):
        put_i32(w, epochs[at])


cdef int put_classic(Writing* w, ClassicPart part) except -1:
    """The tagged field of a member: null too is written."""
    cdef bytes body
    put_uvarint(w, 1)
    put_uvarint(w, 0)
    if part is None:
        put_uvarint(w, 1)
        return put_i8(w, 0)
    body = classic_part(part)
    put_uvarint(w, <unsigned int>PyBytes_GET_SIZE(body))
    return put_raw(w, PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body))


cdef bytes classic_part(ClassicPart part):
    cdef list parts = [b"\x01", part.session_timeout_ms.to_bytes(4, "big", signed=True),
                       uvarint(len(part.protocols) + 1)]
    for name, metadata in part.protocols:
        raw = name.encode("utf-8", "replace")
        parts += [uvarint(len(raw) + 1), raw, uvarint(len(metadata) + 1), metadata, b"\0"]
    parts.append(b"\0")
    return b"".join(parts)


cdef bytes uvarint(unsigned int value):
    cdef list parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


cdef int put_tagged(Writing* w, int64_t value) except -1:
    """A number as the only tagged field."""
    put_uvarint(w, 1)
    put_uvarint(w, 0)
    put_uvarint(w, 8)
    return put_i64(w, value)


cdef int put_value(Writing* w, Record record) except -1:
    cdef MemberFields fields
    cdef Current current
    cdef Resolved resolved
    if record.kind == CLASSIC_GROUP:
        return put_raw(w, PyBytes_AS_STRING(<bytes>record.value),
                       PyBytes_GET_SIZE(<bytes>record.value))
    put_i16(w, 0)
    if record.kind == CURRENT:
        current = <Current>record.value
        put_i32(w, current.epoch)
        put_i32(w, current.previous_epoch)
        put_i8(w, current.state)
        put_partitions(w, current.assigned)
        put_partitions(w, current.revoking)
    elif record.kind == TARGET:
        put_partitions(w, <Assignment>record.value)
    elif record.kind == MEMBER:
        fields = <MemberFields>record.value
        put_compact(w, fields.instance_id)
        put_compact(w, fields.rack_id)
        put_compact(w, fields.client_id)
        put_compact(w, fields.client_host)
        put_uvarint(w, <unsigned int>(len(fields.names.ordered) + 1))
        for name in fields.names.ordered:
            put_compact(w, <str>name)
        put_compact(w, fields.regex)
        put_i32(w, fields.rebalance_timeout_ms)
        put_compact(w, fields.assignor)
        return put_classic(w, fields.classic)
    elif record.kind == TARGET_EPOCH:
        put_i32(w, record.epoch)
        if record.at_ms:
            return put_tagged(w, record.at_ms)
    elif record.kind == GROUP_EPOCH:
        put_i32(w, record.epoch)
        if record.hash:
            return put_tagged(w, record.hash)
    elif record.kind == REGEX:
        resolved = <Resolved>record.value
        put_uvarint(w, <unsigned int>(len(resolved.topics) + 1))
        for name in utf16_sorted(resolved.topics):
            put_compact(w, <str>name)
        put_i64(w, resolved.version)
        put_i64(w, resolved.at_ms)
    return put_uvarint(w, 0)                   # no tagged field


cdef int put_records(Writing* w, str group_id, list records) except -1:
    """Write the records of a group, each behind the sizes of its key and its value."""
    cdef Record record
    cdef Py_ssize_t at, first = w.size, size = 0
    cdef uint8_t* to
    for record in records:
        at = w.size
        if size == 0:
            put_i64(w, -1)
            put_i16(w, <int16_t>record.kind)
            put_short(w, group_id)
            size = w.size - at
        else:                                  # but for sizes and kind the same bytes
            to = reserve(w, size)
            memcpy(to, w.data + first, size)
            store(to, -1, 8)
            store(to + 8, record.kind, 2)
        if record.name is not None:
            put_short(w, record.name)
        store(w.data + at, w.size - at - 8, 4)
        if not record.tombstone:
            put_value(w, record)
            store(w.data + at + 4, w.size - at - 8 - load_i32(w.data + at), 4)


# ---- copies --------------------------------------------------------------------------------------
# Copies of consumer groups: what a failed write takes back, and what readers see until then.
# What records say is copied. The metadata's refresh deadline is not: in Kafka it is no part of the
# timeline and stays when a write fails. Cost: one pass over members, partitions and subscriptions.
# Source: ConsumerGroup.java, ModernGroup.java (their timeline fields).

cdef int copy_state(ConsumerGroup source, ConsumerGroup target) except -1:
    """Make the target what the source is."""
    cdef ConsumerMember member, copied
    target.epoch, target.metadata_hash = source.epoch, source.metadata_hash
    target.target_epoch, target.target_ms = source.target_epoch, source.target_ms
    target.rules, target.resolved_bits = source.rules, source.resolved_bits
    target.instances, target.resolved = dict(source.instances), dict(source.resolved)
    target.first, target.knows_first = source.first, source.knows_first
    target.names_count, target.regex_count = dict(source.names_count), dict(source.regex_count)
    target.topic_count = dict(source.topic_count)
    target.shared_topics = source.shared_topics
    target.assignor_count = dict(source.assignor_count)
    target.counted_epoch, target.stable_count = source.counted_epoch, source.stable_count
    target.uses = copied_uses(source.uses)
    target.classic_count, target.homogeneous = source.classic_count, source.homogeneous
    target.has_partition_metadata = source.has_partition_metadata
    target.taken_over = source.taken_over
    target.members, target.absent = {}, {}
    target.order = []
    for member in source.order:
        copied = copied_member(member)
        target.order.append(copied)
        target.members[member.member_id] = copied
    for member in source.absent.values():
        target.absent[member.member_id] = copied_member(member)


cdef ConsumerMember copied_member(ConsumerMember member):
    """A copy of a member without its timers."""
    cdef ConsumerMember copied = new_member(member.member_id)
    copied.fields, copied.state, copied.present = member.fields, member.state, member.present
    copied.instance_id = member.instance_id
    copied.epoch, copied.previous_epoch = member.epoch, member.previous_epoch
    copied.assigned, copied.revoking = member.assigned, member.revoking
    copied.target, copied.previous = member.target, member.previous
    return copied


cdef OffsetMap copied_offsets(OffsetMap offsets):
    """A copy of a group's offsets; None without them. An Offset itself does not change."""
    cdef OffsetMap copied
    if offsets is None:
        return None
    copied = OffsetMap.__new__(OffsetMap)
    copied.count = offsets.count
    copied.topics = {topic: dict(partitions) for topic, partitions in offsets.topics.items()}
    copied.pending_by_producer = {producer: dict(undecided) for producer, undecided in
                                  offsets.pending_by_producer.items()}
    return copied


# ---- the state of a consumer group as the records of a log have it -------------------------------
# A replay applies records with the code that a load and a live coordinator use: those of a log in
# order, or the last record of each key. It differs in one point: nothing is refused. A log that a
# broker would not load, because a partition has two owners or a removed member still has a target,
# is shown as it is.
# Source: ConsumerGroup.java, GroupMetadataManager.java (replay).

# The default of group.consumer.assignors; a log does not have the setting.
cdef tuple ASSIGNORS = ("uniform", "range")


@cython.final
cdef class ReplayedGroup:
    """A consumer group that takes the records of a log, one by one."""

    cdef MetadataImage image
    cdef ConsumerGroup group

    def __cinit__(self):
        self.image = MetadataImage()
        self.group = new_group("", AS_RECORDED)

    def take(self, bytes key not None, bytes value):
        """Apply a record; return its member id or regular expression, None: it has neither."""
        cdef Record record
        parsed = parse_record(key, value, self.image, False)
        if parsed is None:
            return None
        record = parsed[1]
        self.group.apply(record, None)
        return record.name

    @property
    def state(self):
        """The state's name."""
        return self.group.state

    @property
    def group_epoch(self):
        """The epoch of the last epoch record, 0 before the first."""
        return self.group.epoch

    @property
    def metadata_hash(self):
        """The hash of the subscribed topics' metadata; 0: no such topic exists."""
        return self.group.metadata_hash

    @property
    def target_assignment_epoch(self):
        """The epoch for which the target assignment was computed."""
        return max(self.group.target_epoch, 0)

    @property
    def assignor(self):
        """The assignor with the most votes; without votes the first of Kafka's default."""
        return preferred(self.group.assignor_count, ASSIGNORS)

    @property
    def votes(self):
        """The number of members that name an assignor."""
        return sum(self.group.assignor_count.values())

    @property
    def subscribed_topics(self):
        """The names of the topics that members name, and of their resolved expressions."""
        return frozenset(self.group.topic_count)

    @property
    def regular_expressions(self):
        """Resolved regular expression -> topic names."""
        return {
            regex: list(utf16_sorted((<Resolved>self.group.resolved[regex]).topics))
            for regex in utf16_sorted(self.group.resolved)}

    def member(self, str member_id not None):
        """Return the row of a member, None: there is no such member."""
        found = self.group.members.get(member_id)
        return None if found is None else member_row(found)

    def members(self):
        """Return the rows of all members, by member id."""
        return [member_row(member) for member in self.group.order]


cdef dict member_row(ConsumerMember member):
    cdef MemberFields fields = member.fields
    return {
        "member_id": member.member_id,
        "group_instance_id": fields.instance_id,
        "client_id": fields.client_id,
        "client_host": fields.client_host,
        "session_timeout_ms":
            None if fields.classic is None else fields.classic.session_timeout_ms,
        "rebalance_timeout_ms": fields.rebalance_timeout_ms,
        "subscription": None,      # as a classic member has them
        "assignment": None,
        "rack_id": fields.rack_id,
        "member_epoch": member.epoch,
        "previous_member_epoch": member.previous_epoch,
        "member_state": member.state,
        "subscribed_topics": list(fields.names.ordered),
        "subscribed_regex": fields.regex or None,
        "server_assignor": fields.assignor,
        "upgraded": fields.classic is None,
        "current_assignment": rows_of(member.assigned),
        "pending_revocation": rows_of(member.revoking),
        "target_assignment": rows_of(member.target),
    }


cdef list rows_of(Assignment assignment):
    if assignment is None:
        return []
    return [(raw, list(partitions)) for raw, partitions in assignment.rows()]

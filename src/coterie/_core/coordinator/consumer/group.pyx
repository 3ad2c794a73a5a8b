"""A consumer group and its members; each record that the log may hold, replayed.

State changes in ``apply`` alone: live, in a load and in a replay of a log. What would take a walk
over all members is counted while records are applied: subscriptions, votes of assignors, members
that are reconciled, owners of partitions. Makes no record and knows no clock.
Source: modern/consumer/ConsumerGroup.java, ConsumerGroupMember.java,
GroupMetadataManager.java (replay).
"""
cimport cython
from libc.stdint cimport int32_t

from coterie._core.coordinator.consumer.image cimport MetadataImage
from coterie._core.coordinator.consumer.topic_use cimport count_targets, own, release
from coterie._core.coordinator.consumer.values cimport (
    Assignment, MemberFields, Resolved, add_count, no_names, no_partitions, utf16_before,
    utf16_sorted)
from coterie._core.coordinator.outputs cimport (
    ASSIGNING, CONSUMER_GROUP_STATES, EMPTY_GROUP, RECONCILING, STABLE_GROUP)
from coterie._core.coordinator.runtime cimport CONSUMER, OTHER, Group
from coterie._core.structures.collector cimport PyObject_GC_UnTrack

from coterie.errors import CorruptData

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
    """Which groups read a topic; the hash of one that none reads is forgotten."""

    def __cinit__(self, MetadataImage image not None):
        self.image = image
        self.groups = {}

    cdef int begin(self, str topic, str group_id) except -1:
        cdef set groups = self.groups.get(topic)
        if groups is None:
            groups = self.groups[topic] = set()
        groups.add(group_id)

    cdef int finish(self, str topic, str group_id) except -1:
        cdef set groups = self.groups.get(topic)
        if groups is not None:
            groups.discard(group_id)
            if not groups:
                del self.groups[topic]
                self.image.forget_hash(topic)


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


cdef ConsumerGroup new_group(str group_id, int revision):
    cdef ConsumerGroup group = ConsumerGroup.__new__(ConsumerGroup)
    group.group_id = group_id
    group.revision = revision
    return group


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
        return max(self.topic_count.values(), default=1) == 1

    cdef int apply(self, Record record, Subscriptions subscriptions) except -1:
        """Replay a record; CorruptData where Kafka's replay throws."""
        if record.kind == CURRENT:
            return self.apply_current(record)
        if record.kind == TARGET:
            return self.apply_target(record)
        if record.kind == MEMBER:
            return self.apply_member(record, subscriptions)
        if record.kind == TARGET_EPOCH:
            if record.tombstone and self.revision < AS_RECORDED and any_target(self):
                raise CorruptData(f"group {self.group_id!r}: a target epoch is removed while there "
                                  "are targets")
            self.target_epoch = -1 if record.tombstone else record.epoch
        elif record.kind == GROUP_EPOCH:
            if record.tombstone:
                if self.revision < AS_RECORDED and (
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
            if self.revision < AS_RECORDED and member.epoch != -1:
                raise CorruptData(f"group {self.group_id!r}: member {record.name!r} is removed "
                                  "before its assignment")
            if self.revision < AS_RECORDED and member.target is not None:
                raise CorruptData(f"group {self.group_id!r}: member {record.name!r} is removed "
                                  "before its target")
            del self.members[record.name]
            del self.order[place_of(self.order, record.name)]
            self.count_stable(member, -1)
            self.count_fields(member.fields, -1, subscriptions)
            if self.instances.get(member.fields.instance_id) == record.name:
                del self.instances[member.fields.instance_id]
            self.homogeneous = self.is_homogeneous()
            return 0
        fields = <MemberFields?>record.value
        if member is not None:
            had = member.fields
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
        member.settled = None
        member.instance_id = fields.instance_id
        if fields.instance_id is not None:
            self.instances = writable(self.instances)
            self.instances[fields.instance_id] = record.name
        self.homogeneous = self.is_homogeneous()

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
        if not record.tombstone:
            self.own_all(member.assigned, member.epoch)
            self.own_all(member.revoking, member.epoch)

    cdef int apply_target(self, Record record) except -1:
        cdef ConsumerMember member = self.members.get(record.name)
        if member is None:
            member = self.absent.get(record.name)
        if member is not None and member.target is not None and self.revision < AS_RECORDED:
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
        if self.revision < AS_RECORDED:
            count_targets(self.uses, member.target, 1)

    cdef int apply_regex(self, Record record, Subscriptions subscriptions) except -1:
        cdef Resolved before = self.resolved.pop(record.name, None)
        if not record.tombstone:
            self.resolved = writable(self.resolved)
            self.resolved[record.name] = <Resolved?>record.value
            for name in (<Resolved>record.value).topics:
                self.count_topic(name, 1, subscriptions)
        if before is not None:
            for name in before.topics:
                self.count_topic(name, -1, subscriptions)

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
        cdef bint had = name in self.topic_count
        add_count(self.topic_count, name, by)
        if subscriptions is not None:
            if not had:
                subscriptions.begin(name, self.group_id)
            elif name not in self.topic_count:
                subscriptions.finish(name, self.group_id)

    cdef void count_stable(self, ConsumerMember member, int by) noexcept:
        if member.state == STABLE_MEMBER and member.epoch == self.counted_epoch:
            self.stable_count += by

    cdef int release_all(self, ConsumerMember member) except -1:
        """Let what a member has and revokes have no owner."""
        if self.revision < AS_RECORDED:
            # Since 4.1.2, only those partitions that are owned at the member's epoch.
            release(self.uses, member.assigned, member.epoch, self.revision >= KAFKA_4_1_2)
            release(self.uses, member.revoking, member.epoch, self.revision >= KAFKA_4_1_2)

    cdef int own_all(self, Assignment assignment, int32_t epoch) except -1:
        """Make a member of this epoch the owner of partitions."""
        cdef int32_t owned = -1
        if self.revision < AS_RECORDED:
            owned = own(self.uses, assignment, epoch, self.revision >= KAFKA_4_1_2)
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
    targets = [member.member_id for member in group.order if member.target is not None]
    for member_id in utf16_sorted([*targets, *group.absent]):
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


cdef Record target_epoch_record(int32_t epoch):
    cdef Record record = new_record(TARGET_EPOCH, None, None)
    record.epoch = epoch
    return record

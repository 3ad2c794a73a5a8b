"""The consumer protocol (KIP-848): heartbeats, leaves, timers, and the records they make.

A request makes records and a response. The records are appended as one batch and replayed; nothing
else changes a group. Timers, refresh deadlines and resolutions are no part of the log: they stay
when an append fails. A heartbeat that changes nothing costs two look-ups and a timer.
Source: GroupMetadataManager.java (consumerGroupHeartbeat), OffsetMetadataManager.java.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t

from coterie._core.codec.encode cimport Writing, begin, end, written
from coterie._core.coordinator.codes cimport (
    COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, FENCED_INSTANCE_ID,
    FENCED_MEMBER_EPOCH, GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, GROUP_SUBSCRIBED_TO_TOPIC,
    ILLEGAL_GENERATION, INVALID_FETCH_SIZE, INVALID_REGULAR_EXPRESSION, INVALID_REQUEST,
    KAFKA_STORAGE_ERROR, MESSAGE_TOO_LARGE, NETWORK_EXCEPTION, NONE, NON_EMPTY_GROUP,
    NOT_COORDINATOR, NOT_ENOUGH_REPLICAS, NOT_LEADER_OR_FOLLOWER, REBALANCE_IN_PROGRESS,
    RECORD_LIST_TOO_LARGE, REQUEST_TIMED_OUT, STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID,
    UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC_OR_PARTITION, UNRELEASED_INSTANCE_ID, UNSUPPORTED_ASSIGNOR,
    UNSUPPORTED_VERSION)
from coterie._core.coordinator.consumer.assignors cimport Subscriber
from coterie._core.coordinator.consumer.assignors cimport assign as assign_all
from coterie._core.coordinator.consumer.conversion cimport classic_group, consumer_records
from coterie._core.coordinator.consumer.group cimport (
    CLASSIC_GROUP, CURRENT, GROUP_EPOCH, KAFKA_4_1_0, KAFKA_4_1_2, KAFKA_4_2, MEMBER, OFFSET,
    OTHER_GROUP, PARTITION_METADATA, REGEX, TARGET, TARGET_EPOCH, UNREVOKED_PARTITIONS, OtherGroup,
    ConsumerGroup, ConsumerMember, Current, Record, Subscriptions, Timers, new_group,
    new_subscriber, new_member, new_record, tombstone)
from coterie._core.coordinator.consumer.image cimport MetadataImage
from coterie._core.coordinator.consumer.reconcile cimport all_within, reconciled
from coterie._core.coordinator.consumer.records cimport put_records
from coterie._core.coordinator.consumer.values cimport (
    Assignment, ClassicPart, MemberFields, Names, Resolved, TopicId, no_names, no_partitions,
    utf16_sorted)
from coterie._core.coordinator.offset_store cimport OffsetStore
from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.classic.group_records cimport group_batch
from coterie._core.coordinator.classic.joins cimport Joins
from coterie._core.coordinator.classic.member cimport MemberMetadata
from coterie._core.coordinator.classic.member_table cimport next_member
from coterie._core.coordinator.classic.rebalance cimport Rebalances
from coterie._core.coordinator.outputs cimport BY_LEAVE, BY_SIZE, EMPTY, GROUP, STABLE
from coterie._core.coordinator.partitions cimport partition_of
from coterie._core.coordinator.records cimport begin_offset
from coterie._core.coordinator.runtime cimport (
    CLASSIC, CONSUMER, EVERY_TYPE, FINISHED, NO_GROUP, NO_TIMER, OTHER, Group, GroupProtocol,
    Request, Runtime)
from coterie._core.coordinator.sink cimport FAILED, Batch, batch_of, new_batch
from coterie._core.structures.offsets cimport OffsetMap

from coterie._core.coordinator.consumer.group import GROUP_STATES
from coterie._core.coordinator.consumer.values import utf16_units
from coterie._core.coordinator.consumer.parse import parse_record
from coterie._core.coordinator.consumer.regexes import compile_regex, matching
from coterie._core.coordinator.classic.load import read_group
from coterie.errors import CorruptData, CoterieError
from coterie.operations import NUMBER

cdef int HEARTBEAT = NUMBER["consumer_group_heartbeat"]
cdef int DESCRIBE = NUMBER["consumer_group_describe"]

cdef dict REVISIONS = {"4.1": KAFKA_4_1_0, "4.1.2": KAFKA_4_1_2, "4.2": KAFKA_4_2}

cdef enum:
    LEAVE = -1
    LEAVE_FOR_NOW = -2
    RETRY_MS = 500                 # after the write of a timer failed
    REFRESH_MS = 2147483647        # after which metadata is looked at anew
    REGEX_PAUSE_MS = 10000         # between two resolutions


cdef int write_error(int code) noexcept:
    """What a failed write of a consumer group is answered as."""
    if code in (UNKNOWN_TOPIC_OR_PARTITION, NOT_ENOUGH_REPLICAS, REQUEST_TIMED_OUT):
        return COORDINATOR_NOT_AVAILABLE
    if code in (NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR):
        return NOT_COORDINATOR
    if code in (MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_FETCH_SIZE):
        return UNKNOWN_SERVER_ERROR
    if code == NETWORK_EXCEPTION:
        return COORDINATOR_LOAD_IN_PROGRESS
    return code


@cython.final
@cython.freelist(16)
cdef class Heartbeat:
    """A ConsumerGroupHeartbeat request."""


cdef int decide_heartbeat(component, int op, int64_t id, Group group, str group_id,
                          int32_t generation_id, str member_id, str instance,
                          tuple details) except -1:
    cdef Heartbeat request = Heartbeat.__new__(Heartbeat)
    request.group_id = group_id
    request.member_id = member_id
    request.epoch = generation_id
    request.instance_id = instance
    (request.rack_id, request.rebalance_timeout_ms, request.names, request.regex,
     request.assignor, request.owned, request.client_id, request.client_host,
     request.version) = details
    return (<ConsumerProtocol>component).heartbeat(id, group, request)


cdef int decide_describe(component, int op, int64_t id, Group group, str group_id,
                         int32_t generation_id, str member_id, str instance,
                         tuple details) except -1:
    return (<ConsumerProtocol>component).describe(id, details)


cdef int decide_hold_commits(component, int op, int64_t id, Group group, str group_id,
                             int32_t generation_id, str member_id, str instance,
                             tuple details) except -1:
    (<ConsumerProtocol>component).hold_commits()
    return 0


cdef int decide_release_commits(component, int op, int64_t id, Group group, str group_id,
                                int32_t generation_id, str member_id, str instance,
                                tuple details) except -1:
    (<ConsumerProtocol>component).release_commits()
    return 0


cdef int decide_run_tasks(component, int op, int64_t id, Group group, str group_id,
                          int32_t generation_id, str member_id, str instance,
                          tuple details) except -1:
    (<ConsumerProtocol>component).run_tasks()
    return (<ConsumerProtocol>component).show_groups()


cdef int decide_metadata(component, int op, int64_t id, Group group, str group_id,
                         int32_t generation_id, str member_id, str instance,
                         tuple details) except -1:
    (<ConsumerProtocol>component).update_metadata(*details)
    return 0


cdef int decide_group_config(component, int op, int64_t id, Group group, str group_id,
                             int32_t generation_id, str member_id, str instance,
                             tuple details) except -1:
    (<ConsumerProtocol>component).configure_group(group_id, details[0])
    return 0


cdef int decide_append_raw(component, int op, int64_t id, Group group, str group_id,
                           int32_t generation_id, str member_id, str instance,
                           tuple details) except -1:
    cdef ConsumerProtocol protocol = <ConsumerProtocol>component
    if protocol.runtime.sink.append(batch_of((details,)), -1) == FAILED:
        raise CoterieError("append_raw: the log has not taken the record")
    return 0


cdef Record epoch_record(int32_t epoch, int64_t digest):
    cdef Record record = new_record(GROUP_EPOCH, None, None)
    record.epoch = epoch
    record.hash = digest
    return record


cdef Record target_epoch_record(int32_t epoch):
    cdef Record record = new_record(TARGET_EPOCH, None, None)
    record.epoch = epoch
    return record


cdef MemberFields copied(MemberFields fields):
    cdef MemberFields made = MemberFields.__new__(MemberFields)
    made.instance_id, made.rack_id = fields.instance_id, fields.rack_id
    made.client_id, made.client_host = fields.client_id, fields.client_host
    made.names, made.regex, made.assignor = fields.names, fields.regex, fields.assignor
    made.rebalance_timeout_ms = fields.rebalance_timeout_ms
    made.classic = fields.classic
    return made


@cython.final
cdef class ConsumerProtocol(GroupProtocol):
    """Consumer groups of a coordinator."""

    def __cinit__(self, Runtime runtime not None, OffsetStore store not None,
                  Rebalances rebalances not None, Joins joins not None, settings):
        self.join_runtime(runtime, TIMER_KINDS)
        self.joins = joins
        self.revision = REVISIONS[settings["coterie.behaviour"]]
        self.policy = settings["group.consumer.migration.policy"]
        self.rebalances = rebalances
        self.classic_max_size = settings["group.max.size"]
        self.store = store
        self.image = MetadataImage()
        self.subscriptions = Subscriptions(self.image)
        self.session_timeout_ms = settings["group.consumer.session.timeout.ms"]
        self.heartbeat_interval_ms = settings["group.consumer.heartbeat.interval.ms"]
        self.max_size = settings["group.consumer.max.size"]
        self.regex_interval_ms = settings["group.consumer.regex.refresh.interval.ms"]
        self.commit_timeout_ms = settings["offsets.commit.timeout.ms"]
        self.assignors = tuple(settings["group.consumer.assignors"])
        self.manual_tasks = settings["coterie.tasks"] == "manual"
        self.group_configs, self.timers, self.committed, self.touched = {}, {}, {}, {}
        self.committed_offsets, self.resolving = {}, set()
        self.tasks, self.held = [], []
        runtime.register_protocol(CONSUMER, self)
        runtime.register("consumer_group_heartbeat", self, decide_heartbeat, EVERY_TYPE)
        runtime.register("consumer_group_describe", self, decide_describe, NO_GROUP)
        runtime.register("hold_commits", self, decide_hold_commits, NO_GROUP)
        runtime.register("release_commits", self, decide_release_commits, NO_GROUP)
        runtime.register("run_tasks", self, decide_run_tasks, NO_GROUP)
        runtime.register("metadata", self, decide_metadata, NO_GROUP)
        runtime.register("group_config", self, decide_group_config, EVERY_TYPE)
        runtime.register("append_raw", self, decide_append_raw, NO_GROUP)

    # ---- requests --------------------------------------------------------------------------------

    cdef int heartbeat(self, int64_t id, Group group, Heartbeat request) except -1:
        cdef list records = []
        cdef tuple payload = None
        cdef int error = self.check_request(request)
        if error == NONE:
            error = self.runtime.partitions.refusal(request.group_id, False)
        if error == NONE:
            self.error = NONE
            payload = self.join_or_heartbeat(group, request, records)
            error = self.error
        if error == NONE and records:
            error = write_error(self.write_records(request.group_id, records))
        if error != NONE:
            self.runtime.respond(id, HEARTBEAT, error, None)
        else:
            self.respond_committed(id, HEARTBEAT, payload)
        return self.finish_event()

    cdef int finish_event(self) except -1:
        """Run what the event started, then show which groups changed."""
        if self.tasks and not self.manual_tasks:
            self.run_tasks()
        if self.touched:
            self.show_groups()
        return 0

    cdef int check_request(self, Heartbeat r) except -1:
        """What is wrong with a request by itself."""
        if not r.member_id and (r.version >= 1 or r.epoch > 0 or r.epoch == LEAVE):
            return INVALID_REQUEST
        if not r.group_id or r.instance_id == "" or r.rack_id == "":
            return INVALID_REQUEST
        if r.epoch == 0 and (r.rebalance_timeout_ms == -1 or r.owned is None or r.owned
                             or (r.names is None and r.regex is None)):
            return INVALID_REQUEST
        if r.epoch < LEAVE_FOR_NOW or (r.epoch == LEAVE_FOR_NOW and r.instance_id is None):
            return INVALID_REQUEST
        if r.assignor is not None and r.assignor not in self.assignors:
            return UNSUPPORTED_ASSIGNOR
        return NONE

    cdef tuple refuse(self, int error):
        self.error = error
        return None

    cdef tuple join_or_heartbeat(self, Group found, Heartbeat r, list records):
        """Find the member, then update it; the payload of the response."""
        cdef ConsumerGroup group = None
        cdef ConsumerMember member, replaced = None
        cdef bint is_new
        if found is not None and found.group_type == CONSUMER:
            group = <ConsumerGroup>found
        if r.epoch < 0:
            if group is None:
                return self.refuse(GROUP_ID_NOT_FOUND)
            return self.leave(group, r, records)
        if group is None:
            if r.epoch != 0:
                return self.refuse(GROUP_ID_NOT_FOUND)
            if found is not None:
                if found.group_type != CLASSIC:
                    return self.refuse(GROUP_ID_NOT_FOUND)
                if (<GroupMetadata>found).state == EMPTY:
                    records.append(tombstone(CLASSIC_GROUP, None))
                else:
                    group = self.upgraded(<GroupMetadata>found, records)
                    if group is None:
                        return None
            if group is None:
                group = new_group(r.group_id, self.revision)
        if len(group.members) >= self.max_size and r.member_id not in group.members:
            return self.refuse(GROUP_MAX_SIZE_REACHED)
        if not r.member_id:
            r.member_id = self.new_member_id()
        self.replaced = None
        member = self.find_member(group, r)
        if member is None:
            return None
        replaced, self.replaced = self.replaced, None
        is_new = replaced is None and not member.present
        if replaced is not None:
            self.replace_member(group, replaced, member, records)
        return self.update(group, r, member, replaced, is_new, records)

    cdef ConsumerGroup upgraded(self, GroupMetadata classic, list records):
        """A classic group as a consumer group, and its records; None, and why not."""
        cdef ConsumerGroup group
        cdef ConsumerMember member
        cdef MemberMetadata waiting
        cdef Py_ssize_t place = 0
        cdef Request request
        if (self.policy not in ("upgrade", "bidirectional") or classic.protocol_type != "consumer"
                or classic.members.count > self.max_size):
            self.error = GROUP_ID_NOT_FOUND
            return None
        while (waiting := next_member(&classic.members, &place)) is not None:
            if waiting.awaiting_join is not None:
                request = waiting.awaiting_join
                waiting.awaiting_join = None
                classic.num_members_awaiting_join -= 1
                self.runtime.answer(request, REBALANCE_IN_PROGRESS, waiting.member_id)
            if waiting.awaiting_sync is not None:
                request = waiting.awaiting_sync
                waiting.awaiting_sync = None
                self.runtime.answer(request, REBALANCE_IN_PROGRESS, None)
        if classic.protocol_name is None:
            self.error = UNKNOWN_SERVER_ERROR      # Kafka throws before a first generation
            return None
        try:
            records += consumer_records(classic, self.image)
        except CorruptData:
            self.error = GROUP_ID_NOT_FOUND
            return None
        group = new_group(classic.group_id, self.revision)
        for record in records:
            if (<Record>record).kind != CLASSIC_GROUP:
                group.apply(<Record>record, None)
        for member in group.order:
            self.arm_session(self.timers_of(group.group_id, member.member_id),
                             member.fields.classic.session_timeout_ms)
        return group

    cdef bint may_downgrade(self, ConsumerGroup group, object leaving,
                            Py_ssize_t joining) except -1:
        """Whether the group becomes a classic one when these members go and classic ones join."""
        cdef ConsumerMember member
        cdef Py_ssize_t left = joining
        if self.policy not in ("downgrade", "bidirectional") or not (
                group.classic_count or joining):
            return False
        for member in group.order:
            if member.member_id not in leaving:
                if member.fields.classic is None:
                    return False
                left += 1
        return 0 < left <= self.classic_max_size

    cdef tuple join_classic(self, ConsumerGroup group, Heartbeat r, bint id_made, list records):
        """Let a classic client join: see ``update``; None, and why not."""
        cdef ConsumerMember member = group.members.get(r.member_id), old = None
        cdef str known
        self.error = NONE
        if r.instance_id is None:
            if member is None:
                member = new_member(r.member_id)
            return self.update(group, r, member, None, not member.present, records)
        known = group.instances.get(r.instance_id)
        if not id_made:
            if known is None:
                return self.refuse(UNKNOWN_MEMBER_ID)
            if known != r.member_id:
                return self.refuse(FENCED_INSTANCE_ID)
            return self.update(group, r, member, None, False, records)
        if known is None:
            return self.update(group, r, new_member(r.member_id), None, True, records)
        old = group.members[known]
        member = self.successor_of(old, r.member_id)
        self.replace_member(group, old, member, records)
        return self.update(group, r, member, old, False, records)

    cdef ConsumerMember successor_of(self, ConsumerMember old, str member_id):
        """A static member under a new id: all of the old one's, at epoch 0."""
        cdef ConsumerMember member = new_member(member_id)
        member.fields, member.state = old.fields, old.state
        member.assigned, member.revoking, member.target = old.assigned, old.revoking, old.target
        member.epoch = member.previous_epoch = 0
        return member

    cdef str new_member_id(self):
        """The next of the ids that a coordinator makes: 0x4000 and the number as an id's halves."""
        self.joins.ids_given += 1
        return uuid_text(0x4000, self.joins.ids_given)

    cdef ConsumerMember find_member(self, ConsumerGroup group, Heartbeat r):
        cdef ConsumerMember member = group.members.get(r.member_id), old
        cdef str known
        if r.instance_id is None:
            if member is None:
                if r.epoch != 0:
                    self.error = UNKNOWN_MEMBER_ID
                    return None
                member = new_member(r.member_id)
            self.error = self.check_epoch(member, r)
            return member if self.error == NONE else None
        known = group.instances.get(r.instance_id)
        if r.epoch == 0:
            if known is None:
                return new_member(r.member_id) if member is None else member
            old = group.members[known]
            if old.fields.classic is None and old.epoch != LEAVE_FOR_NOW:
                self.error = UNRELEASED_INSTANCE_ID
                return None
            self.replaced = old
            return self.successor_of(old, r.member_id)
        if known is None:
            self.error = UNKNOWN_MEMBER_ID
        elif known != r.member_id:
            self.error = FENCED_INSTANCE_ID
        else:
            self.error = self.check_epoch(member, r)
        return member if self.error == NONE else None

    cdef int check_epoch(self, ConsumerMember member, Heartbeat r) except -1:
        if r.epoch == member.epoch or (r.epoch == 0 and self.revision >= KAFKA_4_2):
            return NONE
        if (r.epoch < member.epoch and r.epoch == member.previous_epoch and r.owned is not None
                and all_within(r.owned, member.assigned)):
            return NONE
        return FENCED_MEMBER_EPOCH

    cdef int replace_member(self, ConsumerGroup group, ConsumerMember old, ConsumerMember member,
                            list records) except -1:
        """A static member comes back under another id, or its own."""
        cdef Current current = Current.__new__(Current)
        current.epoch = current.previous_epoch = 0
        current.state, current.assigned, current.revoking = (
            member.state, member.assigned, member.revoking)
        records += (
            tombstone(CURRENT, old.member_id), tombstone(TARGET, old.member_id),
            tombstone(MEMBER, old.member_id), new_record(MEMBER, member.member_id, member.fields),
            new_record(TARGET, member.member_id,
                       no_partitions() if old.target is None else old.target),
            new_record(CURRENT, member.member_id, current))
        return 0

    cdef MemberFields updated_fields(self, ConsumerMember member, Heartbeat r):
        """The member's fields with what the request names; the same object if all is as it was."""
        cdef MemberFields had = member.fields, made
        cdef Names names = had.names
        if r.names is not None:
            names = self.image.names_of(r.names)
        if (names is had.names and same_classic(had.classic, r.classic)
                and r.client_id == had.client_id
                and r.client_host == had.client_host
                and (r.instance_id is None or r.instance_id == had.instance_id)
                and (r.rack_id is None or r.rack_id == had.rack_id)
                and (r.assignor is None or r.assignor == had.assignor)
                and (r.regex is None or r.regex == had.regex)
                and (r.classic is None or not had.regex or self.revision < KAFKA_4_1_2)
                and (r.rebalance_timeout_ms == -1
                     or r.rebalance_timeout_ms == had.rebalance_timeout_ms)):
            return had
        made = copied(had)
        made.classic = r.classic
        made.names = names
        made.client_id, made.client_host = r.client_id, r.client_host
        if r.instance_id is not None:
            made.instance_id = r.instance_id
        if r.rack_id is not None:
            made.rack_id = r.rack_id
        if r.assignor is not None:
            made.assignor = r.assignor
        if r.regex is not None:
            made.regex = r.regex
        elif r.classic is not None and had.regex and self.revision >= KAFKA_4_1_2:
            made.regex = ""
        if r.rebalance_timeout_ms != -1:
            made.rebalance_timeout_ms = r.rebalance_timeout_ms
        return made

    cdef tuple update(self, ConsumerGroup group, Heartbeat r, ConsumerMember member,
                      ConsumerMember replaced, bint is_new, list records):
        """Bring the member, the group's epoch, the targets and the assignment up to date."""
        cdef MemberFields had = member.fields
        cdef MemberFields fields = self.updated_fields(member, r)
        cdef int32_t epoch = group.epoch, target_epoch = group.target_epoch
        cdef int64_t digest, interval_ms
        cdef bint bump, homogeneous = group.homogeneous
        cdef Assignment target
        cdef Current current
        cdef ConsumerMember holder
        cdef str lost_regex = None
        cdef Timers timers
        cdef int error = NONE
        if fields is not had or is_new:
            records.append(new_record(MEMBER, member.member_id, fields))
        bump = group.epoch == 0 or fields.names is not had.names
        if (r.classic is None or self.revision >= KAFKA_4_1_2) and (
                fields.regex or had.regex or group.regex_count):
            bump |= self.regex_step(group, had, fields, records)
            if self.error != NONE:
                return None
            if had.regex and had.regex != fields.regex and group.regex_count.get(had.regex) == 1:
                lost_regex = had.regex
        if bump or self.runtime.wheel.clock_ms >= group.refresh_ms or epoch < group.refresh_epoch:
            digest = self.hash_with(group, had, fields, lost_regex, is_new)
            homogeneous = self.will_be_homogeneous(group, had, fields, is_new)
            if bump or digest != group.metadata_hash:
                epoch += 1
                records.append(epoch_record(epoch, digest))
            self.set_refresh(group, self.runtime.wheel.clock_ms + REFRESH_MS, epoch)
            if group.has_partition_metadata:
                records.append(tombstone(PARTITION_METADATA, None))
        if r.classic is not None and replaced is not None and self.may_downgrade(
                group, (replaced.member_id,), 1):
            return self.downgrade_by(group, r, member, replaced, fields, epoch, bump, records)
        if epoch > target_epoch:
            target = self.assign(group, member, fields, replaced, homogeneous, epoch, records)
            target_epoch = epoch
        else:
            holder = member
            if fields.instance_id is not None and replaced is None:
                holder = group.members.get(group.instances.get(fields.instance_id, ""), member)
            target = no_partitions() if holder.target is None else holder.target
        current = reconciled(group, member, target_epoch, target, r.owned,
                             self.subscribed(group, fields), fields.names is not had.names
                             or (fields.regex or "") != (had.regex or ""), &error)
        if error != NONE:
            return self.refuse(error)
        timers = member.timers if member.timers is not None else (
            self.timers_of(group.group_id, member.member_id))
        if current is not None:
            records.append(new_record(CURRENT, member.member_id, current))
            if r.classic is not None:
                pass                       # its join and sync timers are enough
            elif current.state == UNREVOKED_PARTITIONS:
                self.arm_rebalance(timers, current.epoch, fields.rebalance_timeout_ms)
            else:
                self.runtime.disarm(&timers.rebalance)
        interval_ms = self.heartbeat_interval_ms
        if r.classic is not None:
            pass                           # its session starts when the join is written
        elif self.group_configs:
            self.arm_session(timers, self.setting(
                group.group_id, "consumer.session.timeout.ms", self.session_timeout_ms))
            interval_ms = self.setting(group.group_id, "consumer.heartbeat.interval.ms",
                                       interval_ms)
        else:
            self.arm_session(timers, self.session_timeout_ms)
        return heartbeat_answer(member, current, r, interval_ms)

    cdef object subscribed(self, ConsumerGroup group, MemberFields fields):
        """Names of the topics that a member subscribes to, which count since 4.2; else None."""
        if self.revision < KAFKA_4_2:
            return None
        if not fields.regex or fields.regex not in group.resolved:
            return fields.names.names
        return fields.names.names | (<Resolved>group.resolved[fields.regex]).topics

    cdef tuple downgrade_by(self, ConsumerGroup group, Heartbeat r, ConsumerMember member,
                            ConsumerMember replaced, MemberFields fields, int32_t epoch,
                            bint bump, list records):
        """A classic client replaces the last static member of the consumer protocol."""
        cdef Current current = None
        cdef int error = NONE
        cdef bint renamed = fields.names is not replaced.fields.names
        cdef GroupMetadata classic
        cdef int32_t generation = member.epoch
        if epoch == group.target_epoch:
            current = reconciled(group, member, group.target_epoch,
                                 no_partitions() if member.target is None else member.target,
                                 r.owned, self.subscribed(group, fields), False, &error)
            if error != NONE:
                return self.refuse(error)
        if current is not None:
            records.append(new_record(CURRENT, member.member_id, current))
            generation = current.epoch
        classic = classic_group(group, (), replaced, member.member_id, fields,
                                self.runtime.wheel.clock_ms)
        classic.generation_id = epoch
        self.set_successor(group, classic, replaced.member_id, member.member_id, renamed, records)
        return (member.member_id, generation, 0, None)

    cdef int set_successor(self, ConsumerGroup group, GroupMetadata classic, str old_id,
                           str new_id, bint rebalances, list records) except -1:
        """Add the records of a downgrade; `write_records` puts the classic group in force."""
        cdef Record record
        for record in self.group_tombstones(group):
            if record.name is not None and record.name == old_id and record.kind != REGEX:
                record.name = new_id
            records.append(record)
        if new_id is not None:
            sort_names(records)
        records.append(new_record(CLASSIC_GROUP, None, group_batch(classic, None).pair(0)[1]))
        self.successor, self.rebalances_successor = classic, rebalances
        return 0

    cdef int set_refresh(self, ConsumerGroup group, int64_t at_ms, int32_t epoch) except -1:
        """When metadata is looked at anew; a group that is not stored yet keeps it, too."""
        group.refresh_ms, group.refresh_epoch = at_ms, epoch
        return 0

    cdef int64_t hash_with(self, ConsumerGroup group, MemberFields had, MemberFields fields,
                           str lost_regex, bint is_new) except? -7:
        """The metadata hash over what the group reads once a member has these fields."""
        cdef set names
        cdef Resolved lost = None
        if lost_regex is not None:
            lost = group.resolved.get(lost_regex)
        if not group.resolved:
            # Often all members name the same topics, before and after.
            if not group.names_count or (len(group.names_count) == 1 and fields.names
                                         in group.names_count):
                return self.image.hash_of_names(fields.names)
            if (len(group.names_count) == 1 and not is_new
                    and group.names_count.get(had.names) == 1):
                return self.image.hash_of_names(fields.names)
        names = set(group.topic_count)
        if not is_new and fields.names is not had.names and group.names_count.get(had.names) == 1:
            for name in had.names.ordered:
                if group.topic_count[name] == 1:
                    names.discard(name)
        if lost is not None:
            # A topic may be counted for the member's names, for the expression, and for others.
            for name in lost.topics:
                left = group.topic_count[name] - 1
                if name not in names:
                    continue
                if (not is_new and fields.names is not had.names and name in had.names.names
                        and group.names_count.get(had.names) == 1):
                    left -= 1
                if left <= 0:
                    names.discard(name)
        names.update(fields.names.names)
        return self.image.hash_of(names)

    cdef bint will_be_homogeneous(self, ConsumerGroup group, MemberFields had, MemberFields fields,
                                  bint is_new) except -1:
        """Whether the group is, once the member has these fields."""
        cdef dict names_count, regex_count
        if fields is had and not is_new:
            return group.is_homogeneous()
        if not group.regex_count and not fields.regex:
            names_count = group.names_count
            if is_new or fields.names is had.names:
                return not names_count or (len(names_count) == 1 and fields.names in names_count)
        names_count, regex_count = dict(group.names_count), dict(group.regex_count)
        if not is_new:
            drop_one(names_count, had.names)
            if had.regex:
                drop_one(regex_count, had.regex)
        names_count[fields.names] = names_count.get(fields.names, 0) + 1
        if fields.regex:
            regex_count[fields.regex] = regex_count.get(fields.regex, 0) + 1
        if not regex_count:
            return len(names_count) == 1
        if len(regex_count) > 1 or len(names_count) > 1 or no_names() not in names_count:
            return False
        if next(iter(regex_count.values())) != len(group.members) + is_new:
            return False
        return each_once(group.resolved)

    # ---- assignment ------------------------------------------------------------------------------

    cdef Assignment assign(self, ConsumerGroup group, ConsumerMember member, MemberFields fields,
                           ConsumerMember replaced, bint homogeneous, int32_t epoch, list records):
        """Assign all members; the target of the one that asked."""
        cdef list subscribers = group.subscribers, sources = group.order, others = []
        cdef ConsumerMember each
        cdef Subscriber subscriber, own = member.subscriber
        cdef Assignment had
        cdef Py_ssize_t n
        if replaced is not None or not member.present:
            subscribers, sources = list(subscribers), list(sources)
            own = new_subscriber(member.member_id, member.target)
            if replaced is not None:
                n = sources.index(replaced)
                del subscribers[n], sources[n]
            n = place_of(subscribers, member.member_id)
            if n < len(subscribers) and (
                    (<Subscriber>subscribers[n]).member_id == member.member_id):
                subscribers[n] = own
            else:
                subscribers.insert(n, own)
                sources.insert(n, None)
        own.instance_id = fields.instance_id
        for n in range(1 if homogeneous else len(subscribers)):
            subscriber = <Subscriber>subscribers[n]     # else the topics of the first are all
            subscriber.topics = self.topics_of(group, fields if subscriber is own else (
                <ConsumerMember>sources[n]).fields)
        for each in group.absent.values():
            others.append(each.target)
        assign_all(self.assignor_of(group, member, fields, replaced), subscribers, homogeneous,
                   others)
        for n in range(len(subscribers)):
            subscriber = <Subscriber>subscribers[n]
            each = <ConsumerMember>sources[n]
            had = None if each is None else each.target
            if subscriber is own and replaced is not None:
                # The replacement's own record comes first: what it says is what was there.
                had = <Assignment>subscriber.previous if replaced.member_id == (
                    subscriber.member_id) else None
            if had is not None and subscriber.target is had:
                continue
            if had is None and group.absent:
                each = group.absent.get(subscriber.member_id)
                had = None if each is None else each.target
            if had is None or not (<Assignment>subscriber.target).equals(had):
                records.append(new_record(TARGET, subscriber.member_id, subscriber.target))
        records.append(target_epoch_record(epoch))
        if member.present:
            own.instance_id = member.fields.instance_id     # until the member's record is replayed
        return <Assignment>own.target

    cdef tuple topics_of(self, ConsumerGroup group, MemberFields fields):
        """Topics that a member subscribes to and that exist, by their ids."""
        if fields.regex and fields.regex in group.resolved:
            return self.topics_named(
                fields.names.names | (<Resolved>group.resolved[fields.regex]).topics)
        if fields.names.topics_stamp != self.image.stamp:
            fields.names.topics = self.topics_named(fields.names.names)
            fields.names.topics_stamp = self.image.stamp
        return fields.names.topics

    cdef tuple topics_named(self, names):
        found = [self.image.topics[name] for name in names if name in self.image.topics]
        found.sort(key=topic_order)
        return tuple(found)

    cdef str assignor_of(self, ConsumerGroup group, ConsumerMember member, MemberFields fields,
                         ConsumerMember replaced):
        """The assignor with the most votes; of several the one whose name sorts first."""
        cdef dict votes = group.assignor_count
        cdef MemberFields had = replaced.fields if replaced is not None else member.fields
        cdef bint counted = replaced is not None or member.present
        if (had.assignor if counted else None) != fields.assignor:
            votes = dict(votes)
            if counted and had.assignor is not None:
                drop_one(votes, had.assignor)
            if fields.assignor is not None:
                votes[fields.assignor] = votes.get(fields.assignor, 0) + 1
        return preferred(votes, self.assignors)

    # ---- regular expressions ---------------------------------------------------------------------

    cdef bint regex_step(self, ConsumerGroup group, MemberFields had, MemberFields fields,
                         list records) except -1:
        """Resolve expressions where that is due; whether the group's epoch has to rise."""
        cdef bint bump = False, refresh = False
        cdef dict regexes = group.regex_count
        cdef Resolved last = None
        cdef int64_t now_ms = self.runtime.wheel.clock_ms
        if (had.regex or "") != (fields.regex or ""):
            regexes = dict(regexes)
            if had.regex and regexes.get(had.regex) is not None:
                if regexes[had.regex] == 1:
                    records.append(tombstone(REGEX, had.regex))
                drop_one(regexes, had.regex)
            if had.regex and not fields.regex and self.revision >= KAFKA_4_1_2:
                bump = True
            if fields.regex:
                if fields.regex in regexes:
                    bump = fields.regex in group.resolved
                elif not compile_regex(fields.regex):
                    self.error = INVALID_REGULAR_EXPRESSION
                    return False
                else:
                    refresh = True
                regexes[fields.regex] = regexes.get(fields.regex, 0) + 1
        if (not refresh and not group.regex_count) or group.group_id in self.resolving:
            return bump
        for resolved in group.resolved.values():
            last = <Resolved>resolved
            break
        if last is not None and now_ms <= last.at_ms + REGEX_PAUSE_MS:
            return bump
        if (len(regexes) != len(group.resolved)
                or (0 if last is None else last.version) < self.image.version_with_new_topics
                or (last is not None and now_ms > last.at_ms + self.regex_interval_ms)):
            refresh = True
        if refresh and regexes:
            self.start_resolution(group.group_id, regexes)
        return bump

    cdef int start_resolution(self, str group_id, object regexes) except -1:
        self.resolving.add(group_id)
        self.tasks.append((group_id, tuple(regexes)))
        return 0

    def run_tasks(self):
        """Run the resolutions that were started; each writes by itself."""
        cdef list tasks = self.tasks
        self.tasks = []
        for group_id, regexes in tasks:
            self.finish_resolution(group_id, {
                regex: matching(regex, self.image.topics) for regex in regexes})

    cdef int finish_resolution(self, str group_id, dict found) except -1:
        cdef Group known = self.runtime.find(group_id)
        cdef ConsumerGroup group
        cdef Resolved resolved, had
        cdef bint bump = False
        cdef list records = []
        cdef dict after
        cdef int64_t digest
        self.resolving.discard(group_id)
        if known is None or known.group_type != CONSUMER:
            return 0
        group = <ConsumerGroup>known
        after = dict(group.topic_count)
        for regex in utf16_sorted(found):
            if regex not in group.regex_count:
                continue
            had = group.resolved.get(regex)
            resolved = Resolved.__new__(Resolved)
            resolved.topics = frozenset(found[regex])
            resolved.version = self.image.version
            resolved.at_ms = self.runtime.wheel.clock_ms
            if (frozenset() if had is None else had.topics) != resolved.topics:
                bump = True
            for name in () if had is None else had.topics:
                drop_one(after, name)
            for name in resolved.topics:
                after[name] = after.get(name, 0) + 1
            records.append(new_record(REGEX, regex, resolved))
        digest = self.image.hash_of(after)
        if bump or digest != group.metadata_hash:
            records.append(epoch_record(group.epoch + 1, digest))
            self.set_refresh(group, self.runtime.wheel.clock_ms + REFRESH_MS, group.epoch + 1)
        if records:
            self.write_records(group_id, records)
        return 0

    # ---- leaves and fencing ----------------------------------------------------------------------

    cdef tuple leave(self, ConsumerGroup group, Heartbeat r, list records):
        cdef ConsumerMember member = group.members.get(r.member_id)
        cdef Current current
        if r.instance_id is None:
            if member is None:
                return self.refuse(UNKNOWN_MEMBER_ID)
        elif r.instance_id not in group.instances:
            return self.refuse(UNKNOWN_MEMBER_ID)
        elif group.instances[r.instance_id] != r.member_id:
            return self.refuse(FENCED_INSTANCE_ID)
        if r.epoch == LEAVE:
            records += self.fence(group, [r.member_id])
        else:
            current = Current.__new__(Current)
            current.epoch, current.previous_epoch = LEAVE_FOR_NOW, member.previous_epoch
            current.state, current.assigned = member.state, member.assigned
            current.revoking = no_partitions()
            records.append(new_record(CURRENT, r.member_id, current))
        return (r.member_id, r.epoch, 0, None)

    cdef list fence(self, ConsumerGroup group, list member_ids):
        """Records that remove members; their timers are cancelled.

        If only classic members are left the group becomes a classic one: then none is cancelled.
        """
        cdef list records = []
        cdef dict names_count = dict(group.names_count), regexes = dict(group.regex_count)
        cdef dict topics = dict(group.topic_count)
        cdef MemberFields fields
        cdef list lost = []
        if self.may_downgrade(group, member_ids, 0):
            self.set_successor(
                group, classic_group(group, member_ids, None, None, None,
                                     self.runtime.wheel.clock_ms), None, None, True, records)
            return records
        for member_id in utf16_sorted(member_ids):
            records += (tombstone(CURRENT, member_id), tombstone(TARGET, member_id),
                        tombstone(MEMBER, member_id))
            self.forget_timers(group.group_id, member_id)
            fields = (<ConsumerMember>group.members[member_id]).fields
            if names_count[fields.names] == 1:
                for name in fields.names.ordered:
                    drop_one(topics, name)
            drop_one(names_count, fields.names)
            if fields.regex:
                if regexes[fields.regex] == 1:
                    lost.append(fields.regex)
                drop_one(regexes, fields.regex)
        for regex in utf16_sorted(lost):
            records.append(tombstone(REGEX, regex))
            if regex in group.resolved:
                for name in (<Resolved>group.resolved[regex]).topics:
                    drop_one(topics, name)
        if len(names_count) == 1 and not group.resolved:
            digest = self.image.hash_of_names(<Names>next(iter(names_count)))
        else:
            digest = self.image.hash_of(topics)
        records.append(epoch_record(group.epoch + 1, digest))
        return records

    # ---- writes ----------------------------------------------------------------------------------

    cdef int write_records(self, str group_id, list records) except *:
        """Append the records of a request as one batch and replay them; the log's error."""
        cdef Batch batch = self.encoded(group_id, records)
        cdef int error
        cdef int64_t position
        self.touch(group_id)
        if self.successor is not None:
            return self.write_downgrade(batch)
        error = self.append_batch(batch, &position)
        if error == NONE:
            if self.holding:
                self.keep_committed(group_id)
            self.replay(group_id, records)
        return error

    cdef Batch encoded(self, str group_id, list records):
        """The records of a group as a batch."""
        cdef Writing w
        begin(&w)
        try:
            put_records(&w, group_id, records)
            return new_batch(group_id, len(records), written(&w))
        finally:
            end(&w)

    cdef int write_downgrade(self, Batch batch) except *:
        """Put a classic group in place of the consumer group; take it back if the write fails."""
        cdef GroupMetadata classic = self.successor
        cdef ConsumerGroup group = <ConsumerGroup?>self.runtime.find(classic.group_id)
        cdef bint rebalances = self.rebalances_successor
        cdef MemberMetadata member
        cdef Py_ssize_t place = 0
        cdef int error
        cdef int64_t position
        self.successor = None
        self.keep_committed(group.group_id)
        self.forget_group(group)
        self.rebalances.take_over(classic)
        while (member := next_member(&classic.members, &place)) is not None:
            self.rebalances.touch(classic, member, member.session_timeout_ms)
        if rebalances:
            self.rebalances.prepare_rebalance(classic, BY_LEAVE, None)
        error = self.append_batch(batch, &position)
        if error != NONE:
            self.rebalances.drop_group(classic)
            self.restore_group(group)
        return error

    cdef int forget_group(self, ConsumerGroup group) except -1:
        """Take a group out; it may come back."""
        self.runtime.drop_group(group)
        for name in group.topic_count:
            self.subscriptions.finish(name, group.group_id)
        return 0

    cdef int restore_group(self, ConsumerGroup group) except -1:
        self.runtime.add_group(group)
        for name in group.topic_count:
            self.subscriptions.begin(name, group.group_id)
        return 0

    cdef int append_batch(self, Batch batch, int64_t* position) except *:
        """Append a batch; the log's error."""
        cdef int error
        if self.runtime.write(batch, &error, position) != FINISHED:
            raise CoterieError("a coordinator of 4.1 needs a log that writes at once")
        return error

    cdef int write_all(self, list writes) except *:
        """Append tombstones of offsets and records of several groups as one batch.

        ``writes``: (group id, keys of offsets, records) by group. Return the log's error.
        """
        cdef Writing w
        cdef Batch batch
        cdef int error
        cdef int64_t position
        cdef Py_ssize_t count = 0
        cdef OffsetMap offsets
        begin(&w)
        try:
            for group_id, keys, records in writes:
                for key in keys:
                    begin_offset(&w, group_id, <tuple>key)
                put_records(&w, group_id, records)
                count += len(<list>keys) + len(<list>records)
            batch = new_batch(None, count, written(&w))
        finally:
            end(&w)
        if not count:
            return NONE
        for group_id, _, _ in writes:
            self.touch(group_id)
        error = self.append_batch(batch, &position)
        if error != NONE:
            return error
        for group_id, keys, records in writes:
            self.keep_committed(group_id)
            offsets = self.store.find(group_id)
            if offsets is not None:
                offsets.drop(keys)
                if not offsets.has_any():
                    self.store.drop(group_id)
            if records:
                self.replay(group_id, records)
        return NONE

    cdef int replay(self, str group_id, list records) except -1:
        """Apply records that were written; the group comes and goes with them."""
        cdef Group known = self.runtime.find(group_id)
        cdef ConsumerGroup group = None
        cdef Record record
        if known is not None and known.group_type == CONSUMER:
            group = <ConsumerGroup>known
        for record in records:
            if record.kind == CLASSIC_GROUP:
                self.replay_classic(group_id, record)
                group = None
                continue
            if group is None:
                group = new_group(group_id, self.revision)
                self.runtime.add_group(group)
            group.apply(record, self.subscriptions)
            if record.kind == GROUP_EPOCH and record.tombstone:
                self.runtime.drop_group(group)
                group = None
        return 0

    cdef int replay_classic(self, str group_id, Record record) except -1:
        """A tombstone of a classic group's metadata removes the group of whatever type."""
        cdef Group known = self.runtime.find(group_id)
        if known is None:
            return 0
        if known.group_type == CLASSIC:
            return self.runtime.protocol_of(known).drop_group(known)
        return self.runtime.drop_group(known)

    cdef int keep_committed(self, str group_id) except -1:
        """While commits are held, readers see the group and its offsets as they were."""
        cdef Group known
        cdef OffsetMap offsets
        if not self.holding or group_id in self.committed:
            return 0
        known = self.runtime.find(group_id)
        offsets = self.store.find(group_id)
        self.committed_offsets[group_id] = {} if offsets is None else dict(offsets.items())
        self.committed[group_id] = known if known is None or known.group_type != CONSUMER else (
            (<ConsumerGroup>known).copy())
        return 0

    cdef ConsumerGroup committed_group(self, str group_id):
        """The group as readers of the committed state see it; None without one."""
        cdef Group known
        if self.holding and group_id in self.committed:
            known = <Group>self.committed[group_id]
        else:
            known = self.runtime.find(group_id)
        if known is None or known.group_type != CONSUMER:
            return None
        return <ConsumerGroup>known

    cdef int respond_committed(self, int64_t id, int op, payload) except -1:
        """Answer once what was written so far is committed."""
        if self.holding:
            return self.respond_later(id, op, payload, COORDINATOR_NOT_AVAILABLE, None)
        return self.runtime.respond(id, op, NONE, payload)

    cdef int respond_later(self, int64_t id, int op, payload, int late_code,
                           late_payload) except -1:
        """Answer when commits are released; the other answer once the time for that is over."""
        slot = self.runtime.new_slot((id, op, late_code, late_payload))
        handle = self.runtime.arm(NO_TIMER, self.first_kind + COMMIT, slot,
                                  self.commit_timeout_ms)
        self.held.append((id, op, NONE, payload, slot, handle))
        return 0

    def hold_commits(self):
        """Let answers to writes wait from now on."""
        self.holding = True

    def release_commits(self):
        """Commit all that was written, and answer what waits for it."""
        cdef list held = self.held
        cdef int64_t handle
        self.holding = False
        self.held, self.committed, self.committed_offsets = [], {}, {}
        for id, op, code, payload, slot, timer in held:
            handle = timer
            self.runtime.disarm(&handle)
            self.runtime.free_slot(slot)
            self.runtime.respond(id, op, code, payload)

    # ---- what is shown ---------------------------------------------------------------------------

    cdef tuple shape_of(self, str group_id):
        cdef Group known = self.runtime.find(group_id)
        cdef ConsumerGroup group
        if known is None or known.group_type != CONSUMER:
            return None
        group = <ConsumerGroup>known
        return (group.state_number(), group.epoch, group.target_epoch, len(group.members))

    cdef int touch(self, str group_id) except -1:
        """Remember what a group looked like before this event."""
        if group_id not in self.touched:
            self.touched[group_id] = self.shape_of(group_id)
        return 0

    cdef int show_groups(self) except -1:
        """Show each group whose state, epochs or size changed in this event."""
        cdef tuple now
        cdef dict touched = self.touched
        self.touched = {}
        for group_id in sorted(touched) if len(touched) > 1 else touched:
            now = self.shape_of(group_id)
            if now == touched[group_id]:
                continue
            if now is None:
                known = self.runtime.find(group_id)
                row = (group_id, "none" if known is None else "classic", None, 0, 0, 0)
            else:
                row = (group_id, "consumer", GROUP_STATES[now[0]], *now[1:])
            self.runtime.outputs.push(GROUP, self.runtime.wheel.clock_ms, 0, 0, 0, row)
        return 0

    # ---- timers ----------------------------------------------------------------------------------

    cdef int64_t setting(self, str group_id, str name, int64_t otherwise) except? -7:
        """A setting of the group's own, or the broker's."""
        config = self.group_configs.get(group_id)
        value = None if config is None else config.get(name)
        return otherwise if value is None else value

    cdef Timers timers_of(self, str group_id, str member_id):
        """The timers of a member id; they outlive the member, and may come before it."""
        cdef Timers timers = self.timers.get((group_id, member_id))
        cdef Group known
        cdef ConsumerMember member
        if timers is None:
            timers = Timers(group_id, member_id)
            timers.slot = self.runtime.new_slot(timers)
            self.timers[group_id, member_id] = timers
        known = self.runtime.find(group_id)
        if known is not None and known.group_type == CONSUMER:
            member = (<ConsumerGroup>known).members.get(member_id)
            if member is not None:
                member.timers = timers
        return timers

    cdef int arm_session(self, Timers timers, int64_t timeout_ms) except -1:
        timers.session = self.runtime.arm(timers.session, self.first_kind + SESSION, timers.slot,
                                          timeout_ms)
        return 0

    cdef int arm_rebalance(self, Timers timers, int32_t epoch, int64_t timeout_ms) except -1:
        self.runtime.disarm(&timers.rebalance)
        timers.rebalance_epoch = epoch
        timers.rebalance = self.runtime.arm(NO_TIMER, self.first_kind + REBALANCE, timers.slot,
                                            timeout_ms)
        return 0

    cdef int arm_other(self, Timers timers, int kind, int64_t timeout_ms) except -1:
        """Arm a classic member's join or sync timer."""
        cdef int64_t* handle = &timers.join if kind == JOIN else &timers.sync
        handle[0] = self.runtime.arm(handle[0], self.first_kind + kind, timers.slot, timeout_ms)
        return 0

    cdef int forget_timers(self, str group_id, str member_id) except -1:
        cdef Timers timers = self.timers.pop((group_id, member_id), None)
        if timers is not None:
            self.runtime.disarm(&timers.session)
            self.runtime.disarm(&timers.rebalance)
            self.runtime.disarm(&timers.join)
            self.runtime.disarm(&timers.sync)
            self.runtime.free_slot(timers.slot)
        return 0

    cdef int fired(self, int kind, object owner) except -1:
        cdef int64_t id
        cdef int op
        if kind == COMMIT:
            id, op, code, payload = owner
            for row in self.held:
                if row[0] == id:
                    self.held.remove(row)
                    self.runtime.free_slot(row[4])
                    break
            return self.runtime.respond(id, op, code, payload)
        self.expire_member(<Timers?>owner, kind)
        return self.finish_event()

    cdef int expire_member(self, Timers timers, int kind) except -1:
        """A session ended, or a member did not give up its partitions in time."""
        cdef Group known = self.runtime.find(timers.group_id)
        cdef ConsumerMember member = None
        cdef Timers kept
        if kind == SESSION:
            timers.session = NO_TIMER
        elif kind == REBALANCE:
            timers.rebalance = NO_TIMER
        elif kind == JOIN:
            timers.join = NO_TIMER
        else:
            timers.sync = NO_TIMER
        if known is not None and known.group_type == CONSUMER:
            member = (<ConsumerGroup>known).members.get(timers.member_id)
        if member is None or (kind == REBALANCE and member.epoch != timers.rebalance_epoch):
            if (timers.session == NO_TIMER and timers.rebalance == NO_TIMER
                    and timers.join == NO_TIMER and timers.sync == NO_TIMER) and (
                    self.timers.get((timers.group_id, timers.member_id)) is timers):
                self.forget_timers(timers.group_id, timers.member_id)
                if member is not None:
                    member.timers = None
            return 0
        records = self.fence(<ConsumerGroup>known, [timers.member_id])
        if self.write_records(timers.group_id, records) != NONE:
            member.timers = None
            kept = self.timers_of(timers.group_id, timers.member_id)
            if kind == SESSION:
                self.arm_session(kept, RETRY_MS)
            elif kind != REBALANCE:
                self.arm_other(kept, kind, RETRY_MS)
            else:
                self.arm_rebalance(kept, timers.rebalance_epoch, RETRY_MS)
        return 0

    # ---- what operations of every group type ask -------------------------------------------------

    cdef Group create_group(self, str group_id):
        """Groups that are only offsets are classic."""
        return self.runtime.protocol_of(None).create_group(group_id)

    cdef int check_member_commit(self, ConsumerGroup group, int32_t generation_id, str member_id,
                                 str instance, bint transactional, int version) except? -7:
        """The error of a commit by this member."""
        cdef ConsumerMember member
        if transactional and not member_id and generation_id == -1 and instance is None:
            return NONE
        if generation_id < 0 and not group.members:
            return NONE
        member = group.members.get(member_id)
        if member is None:
            return UNKNOWN_MEMBER_ID
        if not transactional and member.fields.classic is None and version < 9:
            return UNSUPPORTED_VERSION
        if member.epoch == generation_id:
            return NONE
        if transactional or member.fields.classic is not None:
            return ILLEGAL_GENERATION
        return STALE_MEMBER_EPOCH

    cdef int check_offset_delete(self, Group group, dict errors) except? -7:
        for key in errors:
            if key[0] in (<ConsumerGroup>group).topic_count:
                errors[key] = GROUP_SUBSCRIBED_TO_TOPIC
        return NONE

    cdef int deletion_error(self, Group group) except? -7:
        """Why a group of any type must stay."""
        if group.group_type == CONSUMER:
            return NON_EMPTY_GROUP if (<ConsumerGroup>group).members else NONE
        if group.group_type == CLASSIC:
            return NONE if (<GroupMetadata>group).state == EMPTY else NON_EMPTY_GROUP
        return GROUP_ID_NOT_FOUND

    cdef list end_records(self, Group group):
        """The records that end a group of any type; its offsets go before them."""
        if group.group_type == CONSUMER:
            return self.group_tombstones(<ConsumerGroup>group)
        return [tombstone(CLASSIC_GROUP, None)]

    cdef object expires_since(self, Group group):
        """Since when a group's offsets age: -1: their commits; None: they do not expire now."""
        cdef GroupMetadata classic
        if group.group_type != CLASSIC:
            return -1
        classic = <GroupMetadata>group
        if classic.protocol_type is None:
            return -1
        if classic.state == EMPTY:
            return classic.current_state_timestamp
        if (classic.state == STABLE and classic.protocol_type == "consumer"
                and classic.subscribed_topics is not None):
            return -1
        return None

    cdef bint subscribes(self, Group group, str topic) except -1:
        """Whether a group reads a topic, so that its offsets stay."""
        cdef GroupMetadata classic
        if group.group_type == CONSUMER:
            return topic in (<ConsumerGroup>group).topic_count
        if group.group_type != CLASSIC:
            return False
        classic = <GroupMetadata>group
        if classic.subscribed_topics is None:
            return classic.protocol_type == "consumer"
        return topic in classic.subscribed_topics

    cdef tuple listed(self, str group_id):
        """(group id, protocol type, state, type) of what is committed; None: there is no group."""
        cdef Group group = self.runtime.find(group_id)
        if self.holding and group_id in self.committed:
            group = <Group>self.committed[group_id]
        if group is None:
            return None
        if group.group_type == OTHER:
            return (group_id, (<OtherGroup>group).kind, "Empty", (<OtherGroup>group).kind)
        if group.group_type == CLASSIC:
            return (*self.runtime.protocol_of(group).overview(group), "classic")
        return (group_id, "consumer", (<ConsumerGroup>group).state, "consumer")

    cdef list group_tombstones(self, ConsumerGroup group):
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

    cdef tuple overview(self, Group group):
        return (group.group_id, "consumer", (<ConsumerGroup>group).state)

    # ---- describe --------------------------------------------------------------------------------

    cdef int describe(self, int64_t id, tuple group_ids) except -1:
        return self.runtime.respond(id, DESCRIBE, NONE, tuple([
            self.described(group_id) for group_id in group_ids]))

    cdef tuple described(self, str group_id):
        """(id, error, state, epoch, target epoch, assignor, members), of what is committed."""
        cdef int error = self.runtime.partitions.refusal(group_id, False)
        cdef ConsumerGroup group = None
        cdef ConsumerMember member
        if error == NONE:
            group = self.committed_group(group_id)
            if group is None:
                error = GROUP_ID_NOT_FOUND
        if group is None:
            return (group_id, error, "", 0, 0, "", ())
        return (group_id, NONE, group.state, group.epoch, group.target_epoch,
                preferred(group.assignor_count, self.assignors),
                tuple([self.described_member(member) for member in group.order]))

    cdef tuple described_member(self, ConsumerMember member):
        cdef MemberFields fields = member.fields
        return (member.member_id, fields.instance_id, fields.rack_id, member.epoch,
                fields.client_id, fields.client_host, fields.names.ordered, fields.regex,
                0 if fields.classic is not None else 1, self.named(member.assigned),
                self.named(member.target))

    cdef tuple named(self, Assignment assignment):
        """An assignment with names, without topics that are gone."""
        cdef TopicId topic
        cdef list rows = []
        if assignment is None:
            return ()
        for topic, (raw, partitions) in zip(assignment.topics, assignment.rows()):
            if topic.name is not None:
                rows.append((raw, topic.name, partitions))
        return tuple(rows)

    # ---- election --------------------------------------------------------------------------------

    cdef int resigned(self, int32_t partition) except -1:
        """Forget the groups of a partition; timers, tasks and deadlines go with them."""
        cdef int32_t count = self.runtime.partitions.count
        cdef Group group
        cdef int64_t handle
        for group in self.runtime.all_groups():
            if group.group_type == CONSUMER and (
                    partition < 0 or partition_of(group.group_id, count) == partition):
                self.runtime.drop_group(group)
                for name in list((<ConsumerGroup>group).topic_count):
                    self.subscriptions.finish(name, group.group_id)
        for group_id, member_id in list(self.timers):
            if partition < 0 or partition_of(group_id, count) == partition:
                self.forget_timers(group_id, member_id)
        for row in self.held:
            handle = row[5]
            self.runtime.disarm(&handle)
            self.runtime.free_slot(row[4])
        self.held, self.committed, self.committed_offsets, self.holding = [], {}, {}, False
        self.tasks = [task for task in self.tasks
                      if partition >= 0 and partition_of(task[0], count) != partition]
        self.resolving = {task[0] for task in self.tasks}
        self.image.forget_hashes()
        return 0

    def load(self, rows, load_filter):
        """Replay the records of groups of every type in log order; why that failed, or None.

        After a failure the caller gives the partitions up.
        """
        cdef Group known
        cdef dict classic = {}
        failure = None
        try:
            for _, _, _, _, control, records in rows:
                if not control:
                    for key, value in records:
                        self.replay_bytes(key, value, load_filter, classic)
            self.load_classic(classic)
        except CorruptData as error:
            failure = str(error)
        for group_id in utf16_sorted(self.runtime.groups):
            if load_filter is None or load_filter(group_id):
                known = self.runtime.find(group_id)
                if known.group_type == CONSUMER:
                    self.take_over(<ConsumerGroup>known)
                elif known.group_type == CLASSIC:
                    self.take_over_classic(<GroupMetadata>known)
        return failure

    cdef int load_classic(self, dict values) except -1:
        """Make the classic groups of their last values; None: only its offsets made the group."""
        for group_id, value in values.items():
            if value is None:
                self.rebalances.create_group(group_id)
            else:
                self.rebalances.take_over(read_group(group_id, value))
        return 0

    cdef int take_over(self, ConsumerGroup group) except -1:
        """Show a group that was loaded, and start the timers of its members."""
        cdef ConsumerMember member
        cdef Timers timers
        self.runtime.outputs.push(
            GROUP, self.runtime.wheel.clock_ms, 0, 0, 0,
            (group.group_id, "consumer", group.state, group.epoch, group.target_epoch,
             len(group.members)))
        for member in group.order:
            timers = self.timers_of(group.group_id, member.member_id)
            self.arm_session(timers, self.setting(
                group.group_id, "consumer.session.timeout.ms", self.session_timeout_ms))
            if member.state == UNREVOKED_PARTITIONS:
                self.arm_rebalance(timers, member.epoch, member.fields.rebalance_timeout_ms)
        return 0

    cdef int take_over_classic(self, GroupMetadata group) except -1:
        """Start the sessions of a classic group; one that is too large rebalances."""
        cdef MemberMetadata member
        cdef Py_ssize_t place = 0
        while (member := next_member(&group.members, &place)) is not None:
            self.rebalances.touch(group, member, member.session_timeout_ms)
        if group.members.count > self.classic_max_size:
            return self.rebalances.prepare_rebalance(group, BY_SIZE, None)
        return 0

    cdef int replay_bytes(self, bytes key, bytes value, object load_filter,
                          dict classic) except -1:
        """Replay one record of any kind; `classic` has the last value of each classic group."""
        cdef Group known
        cdef ConsumerGroup group
        cdef Record record
        parsed = parse_record(key, value, self.image)
        if parsed is None:
            return 0
        group_id, record = parsed
        if load_filter is not None and not load_filter(group_id):
            return 0
        known = self.runtime.find(group_id)
        if record.kind == OFFSET:
            if not record.tombstone and known is None:
                classic.setdefault(group_id, None)
            return 0
        if record.kind == CLASSIC_GROUP:
            classic.pop(group_id, None)
            if known is not None:
                self.runtime.drop_group(known)
            if not record.tombstone:
                classic[group_id] = value
            return 0
        if record.kind == OTHER_GROUP:
            if not record.tombstone:
                known = OtherGroup.__new__(OtherGroup, group_id, record.name)
                self.runtime.groups[group_id] = known
            return 0
        if not record.tombstone and classic.get(group_id, b"") is None:
            del classic[group_id]          # a group that is only offsets: it becomes this one
        if group_id in classic or (known is not None and known.group_type != CONSUMER):
            if record.tombstone:
                return 0
            raise CorruptData(f"group {group_id!r} is of another type")
        if known is None:
            if record.tombstone:
                return 0
            group = new_group(group_id, self.revision)
            self.runtime.add_group(group)
        else:
            group = <ConsumerGroup>known
        group.apply(record, self.subscriptions)
        if record.kind == GROUP_EPOCH and record.tombstone:
            self.runtime.drop_group(group)
        return 0

    # ---- metadata --------------------------------------------------------------------------------

    def update_metadata(self, brokers, deleted, topics):
        """Apply a new image: see ``MetadataImage.update``."""
        cdef set changed = self.image.update(brokers, deleted, topics)
        cdef ConsumerGroup group
        for name in changed:
            for group_id in self.subscriptions.groups.get(name, ()):
                group = <ConsumerGroup?>self.runtime.find(group_id)
                self.set_refresh(group, 0, 0)

    def configure_group(self, str group_id not None, dict config not None):
        """Replace the settings that a group has of its own."""
        self.group_configs[group_id] = config


cdef tuple heartbeat_answer(ConsumerMember member, Current current, Heartbeat r,
                            int64_t interval_ms):
    """The payload: member id, epoch, interval, and the assignment if it is to be shown."""
    cdef int32_t epoch = member.epoch if current is None else current.epoch
    cdef Assignment assigned = member.assigned if current is None else current.assigned
    if (r.epoch == 0 or (r.rebalance_timeout_ms != -1 and r.owned is not None
                         and (r.names is not None or r.regex is not None))
            or not assigned.equals(member.assigned)):
        return (member.member_id, epoch, interval_ms, assigned)
    if current is not None:
        return (member.member_id, epoch, interval_ms, None)
    if member.answer is None or member.answer_interval_ms != interval_ms:
        member.answer = (member.member_id, epoch, interval_ms, None)
        member.answer_interval_ms = interval_ms
    return member.answer


cdef bint same_classic(ClassicPart had, ClassicPart now) except -1:
    if had is None or now is None:
        return had is now
    return (had.session_timeout_ms == now.session_timeout_ms
            and had.protocols == now.protocols)


cdef int sort_names(list records) except -1:
    """Sort each run of tombstones of members, once one has another name."""
    cdef Py_ssize_t start = 0, stop, count = len(records)
    cdef Record record
    while start < count:
        record = <Record>records[start]
        stop = start + 1
        while (stop < count and record.tombstone and (<Record>records[stop]).tombstone
                and (<Record>records[stop]).kind == record.kind):
            stop += 1
        if stop > start + 1:
            records[start:stop] = sorted(records[start:stop], key=name_order)
        start = stop
    return 0


def name_order(Record record not None):
    return utf16_units(record.name)


cdef int drop_one(dict counts, object name) except -1:
    """Take one from a count; one that is 0 goes."""
    cdef object left = counts[name] - 1
    if left:
        counts[name] = left
    else:
        del counts[name]
    return 0


cdef bint each_once(dict resolved) except -1:
    """Whether no topic is matched by two expressions."""
    cdef set seen = set()
    for one in resolved.values():
        for name in (<Resolved>one).topics:
            if name in seen:
                return False
            seen.add(name)
    return True


cdef str preferred(dict votes, tuple assignors):
    if not votes:
        return assignors[0]
    if len(votes) == 1:
        return next(iter(votes))
    return min(votes, key=lambda name: (-votes[name], name))


cdef Py_ssize_t place_of(list subscribers, str member_id) except -1:
    """Where a member id belongs among subscribers, which are in order."""
    cdef bytes units = member_id.encode("utf-16-be", "surrogatepass")
    cdef Py_ssize_t low = 0, high = len(subscribers), middle
    while low < high:
        middle = (low + high) // 2
        other = (<Subscriber>subscribers[middle]).member_id.encode("utf-16-be", "surrogatepass")
        if other < units:
            low = middle + 1
        else:
            high = middle
    return low


def topic_order(TopicId topic not None):
    return topic.upper, topic.lower


cdef str uuid_text(int64_t upper, int64_t number):
    """The text of an id: its 16 bytes in URL-safe base64 without padding."""
    from base64 import urlsafe_b64encode

    raw = upper.to_bytes(8, "big") + ((1 << 63) + number).to_bytes(8, "big")
    return urlsafe_b64encode(raw).decode().rstrip("=")

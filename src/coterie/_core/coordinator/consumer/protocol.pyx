"""The consumer protocol (KIP-848): the state of its groups, their timers, and its requests.

`heartbeat.pyx`, `departures.pyx` and `resolutions.pyx` make records and responses. `writes.pyx`
appends the records of a request as one batch and replays them; nothing else changes a group.
Timers, refresh deadlines and resolutions are no part of the log: they stay when an append fails.
Source: GroupMetadataManager.java (consumerGroupHeartbeat), OffsetMetadataManager.java.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t

from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.classic.joins cimport Joins
from coterie._core.coordinator.classic.rebalance cimport Rebalances
from coterie._core.coordinator.codes cimport (
    GROUP_ID_NOT_FOUND, GROUP_SUBSCRIBED_TO_TOPIC, ILLEGAL_GENERATION, NONE, NON_EMPTY_GROUP,
    REQUEST_TIMED_OUT, STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION)
from coterie._core.coordinator.consumer.departures cimport expire_member
from coterie._core.coordinator.consumer.describe cimport answer_describe
from coterie._core.coordinator.consumer.group cimport (
    CLASSIC_GROUP, KAFKA_4_1_0, KAFKA_4_1_2, KAFKA_4_2, ConsumerGroup, ConsumerMember, OtherGroup,
    Subscriptions, Timers, group_tombstones, new_timers, tombstone)
from coterie._core.coordinator.consumer.heartbeat cimport answer_heartbeat, settled_answer
from coterie._core.coordinator.consumer.image cimport MetadataImage
from coterie._core.coordinator.consumer.load cimport load_groups
from coterie._core.coordinator.consumer.pending cimport (
    PendingWrites, Waiting, pending_writes)
from coterie._core.coordinator.consumer.resolutions cimport run_tasks
from coterie._core.coordinator.offset_store cimport OffsetStore
from coterie._core.coordinator.outputs cimport (
    CLASSIC_INSTEAD, EMPTY, GROUP, NO_GROUP_LEFT, STABLE)
from coterie._core.coordinator.partitions cimport partition_of
from coterie._core.coordinator.runtime cimport (
    CLASSIC, CONSUMER, EVERY_TYPE, NO_GROUP, NO_TIMER, OTHER, Group, GroupProtocol, Runtime)
from coterie._core.coordinator.sink cimport FAILED, batch_of
from coterie._core.structures.collector cimport PyObject_GC_UnTrack

from coterie.errors import CoterieError

cdef dict REVISIONS = {"4.1": KAFKA_4_1_0, "4.1.2": KAFKA_4_1_2, "4.2": KAFKA_4_2}


@cython.final
@cython.no_gc                      # no reference cycles
@cython.freelist(16)
cdef class Heartbeat:
    """A ConsumerGroupHeartbeat request."""


@cython.final
@cython.no_gc                      # a text and numbers
@cython.freelist(16)
cdef class Touched:
    """A group that the event at hand may change, as it was before."""


cdef int decide_heartbeat(component, int op, int64_t id, Group group, str group_id,
                          int32_t generation_id, str member_id, str instance,
                          tuple details) except -1:
    cdef ConsumerProtocol protocol = <ConsumerProtocol>component
    cdef Heartbeat request
    cdef tuple payload
    if instance is None:
        payload = settled_answer(protocol, group, group_id, member_id, generation_id, details)
        if payload is not None:
            return protocol.runtime.respond_committed(group_id, id, op, NONE, payload)
    request = Heartbeat.__new__(Heartbeat)
    request.group_id = group_id
    request.member_id = member_id
    request.epoch = generation_id
    request.instance_id = instance
    (request.rack_id, request.rebalance_timeout_ms, request.names, request.regex,
     request.assignor, request.owned, request.client_id, request.client_host,
     request.version) = details
    return answer_heartbeat(protocol, id, group, request)


cdef int decide_describe(component, int op, int64_t id, Group group, str group_id,
                         int32_t generation_id, str member_id, str instance,
                         tuple details) except -1:
    return answer_describe(<ConsumerProtocol>component, id, details)


cdef int decide_hold_commits(component, int op, int64_t id, Group group, str group_id,
                             int32_t generation_id, str member_id, str instance,
                             tuple details) except -1:
    (<ConsumerProtocol>component).runtime.writes.holding = True
    return 0


cdef int decide_release_commits(component, int op, int64_t id, Group group, str group_id,
                                int32_t generation_id, str member_id, str instance,
                                tuple details) except -1:
    cdef PendingWrites writes = pending_writes(<ConsumerProtocol>component)
    writes.holding = False
    writes.commit()
    return (<ConsumerProtocol>component).finish_event()


cdef int decide_run_tasks(component, int op, int64_t id, Group group, str group_id,
                          int32_t generation_id, str member_id, str instance,
                          tuple details) except -1:
    run_tasks(<ConsumerProtocol>component)
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
        self.group_configs, self.timers, self.also_touched = {}, {}, {}
        self.tasks, self.resolving = [], set()
        runtime.writes = PendingWrites(self)
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

    cdef int finish_event(self) except -1:
        """Run what the event started, then show which groups changed."""
        if self.tasks and not self.manual_tasks:
            run_tasks(self)
        if self.touched is not None:
            self.show_groups()

    cdef tuple refuse(self, int error):
        self.error = error
        return None

    cdef str new_member_id(self):
        """The next of the ids that a coordinator makes: 0x4000 and the number as an id's halves."""
        self.joins.ids_given += 1
        return uuid_text(0x4000, self.joins.ids_given)

    cdef int set_refresh(self, ConsumerGroup group, int64_t at_ms, int32_t epoch) except -1:
        """Set when the metadata is checked next, also for a group that is not stored yet."""
        group.refresh_ms, group.refresh_epoch = at_ms, epoch

    # ---- what is shown ---------------------------------------------------------------------------

    cdef Shape shape_of(self, str group_id) except *:
        cdef Group known = self.runtime.find(group_id)
        cdef ConsumerGroup group
        cdef Shape shape = Shape(-1, 0, 0, 0)
        if known is not None and known.group_type == CONSUMER:
            group = <ConsumerGroup>known
            shape.state, shape.members = group.state_number(), len(group.members)
            shape.epoch, shape.target_epoch = group.epoch, group.target_epoch
        return shape

    cdef Touched touched_now(self, str group_id):
        """A group as it is now."""
        cdef Touched touched = Touched.__new__(Touched)
        touched.group_id, touched.before = group_id, self.shape_of(group_id)
        return touched

    cdef int touch(self, str group_id) except -1:
        """Remember what a group looked like before this event."""
        cdef Touched touched
        if self.touched is not None and (
                group_id == self.touched.group_id or group_id in self.also_touched):
            return 0
        touched = pending_writes(self).unshown.pop(group_id, None) or self.touched_now(group_id)
        if self.touched is None:
            self.touched = touched
        else:
            self.also_touched[group_id] = touched

    cdef int show_groups(self) except -1:
        """Show each group whose state, epochs or size changed in this event."""
        cdef Touched only = self.touched
        cdef dict touched = self.also_touched
        self.touched = None
        if not touched:
            return 0 if only is None else self.show_change(only)
        self.also_touched = {}
        touched[only.group_id] = only
        for group_id in sorted(touched):
            self.show_change(<Touched>touched[group_id])

    cdef int show_change(self, Touched touched) except -1:
        cdef str group_id = touched.group_id
        cdef Shape before = touched.before, now = self.shape_of(group_id)
        if (now.state == before.state and now.epoch == before.epoch
                and now.target_epoch == before.target_epoch and now.members == before.members):
            return 0
        return self.show_shape(group_id, now)

    cdef int show_shape(self, str group_id, Shape now) except -1:
        if now.state < 0:
            now.state = NO_GROUP_LEFT if self.runtime.find(group_id) is None else CLASSIC_INSTEAD
        return self.runtime.outputs.push(
            GROUP, self.runtime.wheel.clock_ms,
            <int64_t>now.epoch << 32 | <uint32_t>now.target_epoch, now.state, now.members, group_id)

    # ---- timers ----------------------------------------------------------------------------------

    cdef int64_t setting(self, str group_id, str name, int64_t otherwise) except? -7:
        """A setting of the group's own, or the broker's."""
        config = self.group_configs.get(group_id)
        value = None if config is None else config.get(name)
        return otherwise if value is None else value

    cdef Timers find_timers(self, str group_id, str member_id):
        """The timers of a member id, or None."""
        cdef dict timers = self.timers.get(group_id)
        return None if timers is None else timers.get(member_id)

    cdef Timers timers_of(self, str group_id, str member_id):
        """The timers of a member id; they outlive the member, and may come before it."""
        cdef Timers timers = self.find_timers(group_id, member_id)
        cdef dict others
        cdef Group known
        cdef ConsumerMember member
        if timers is None:
            timers = new_timers(group_id, member_id)
            timers.slot = self.runtime.new_slot(timers)
            others = self.timers.get(group_id)
            if others is None:
                others = self.timers[group_id] = {}
                PyObject_GC_UnTrack(self.timers)   # a dict is tracked again with each dict in it
            others[member_id] = timers
        known = self.runtime.find(group_id)
        if known is not None and known.group_type == CONSUMER:
            member = (<ConsumerGroup>known).members.get(member_id)
            if member is not None:
                member.timers = timers
        return timers

    cdef int arm_session(self, Timers timers, int64_t timeout_ms) except -1:
        timers.session = self.runtime.arm(timers.session, self.first_kind + SESSION, timers.slot,
                                          timeout_ms)

    cdef int arm_rebalance(self, Timers timers, int32_t epoch, int64_t timeout_ms) except -1:
        self.runtime.disarm(&timers.rebalance)
        timers.rebalance_epoch = epoch
        timers.rebalance = self.runtime.arm(NO_TIMER, self.first_kind + REBALANCE, timers.slot,
                                            timeout_ms)

    cdef int arm_other(self, Timers timers, int kind, int64_t timeout_ms) except -1:
        """Arm a classic member's join or sync timer."""
        cdef int64_t* handle = &timers.join if kind == JOIN else &timers.sync
        handle[0] = self.runtime.arm(handle[0], self.first_kind + kind, timers.slot, timeout_ms)

    cdef int forget_timers(self, str group_id, str member_id) except -1:
        cdef Timers timers = self.find_timers(group_id, member_id)
        cdef dict others
        cdef Group known
        cdef ConsumerMember member
        if timers is not None:
            known = self.runtime.find(group_id)
            if known is not None and known.group_type == CONSUMER:
                member = (<ConsumerGroup>known).members.get(member_id)
                if member is not None:     # it stays if its removal cannot be written
                    member.timers = None
            others = self.timers[group_id]
            del others[member_id]
            if not others:
                del self.timers[group_id]
            self.runtime.disarm(&timers.session)
            self.runtime.disarm(&timers.rebalance)
            self.runtime.disarm(&timers.join)
            self.runtime.disarm(&timers.sync)
            self.runtime.free_slot(timers.slot)

    cdef int fired(self, int kind, object owner) except -1:
        cdef Waiting late
        if kind == COMMIT:
            late = <Waiting?>owner
            late.timer = NO_TIMER
            late.complete(REQUEST_TIMED_OUT)
            return self.finish_event()
        expire_member(self, <Timers?>owner, kind)
        return self.finish_event()

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
            return group_tombstones(<ConsumerGroup>group)
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
        cdef Group group = self.runtime.writes.committed(group_id)
        if group is None:
            return None
        if group.group_type == OTHER:
            return (group_id, (<OtherGroup>group).kind, "Empty", (<OtherGroup>group).kind)
        if group.group_type == CLASSIC:
            return (*self.runtime.protocol_of(group).overview(group), "classic")
        return (group_id, "consumer", (<ConsumerGroup>group).state, "consumer")

    cdef tuple overview(self, Group group):
        return (group.group_id, "consumer", (<ConsumerGroup>group).state)

    # ---- election --------------------------------------------------------------------------------

    cdef int resigned(self, int32_t partition) except -1:
        """Forget the groups of a partition; timers, tasks and deadlines go with them."""
        cdef int32_t count = self.runtime.partitions.count
        cdef Group group
        for group in self.runtime.all_groups():
            if group.group_type != CLASSIC and (
                    partition < 0 or partition_of(group.group_id, count) == partition):
                self.runtime.drop_group(group)
        self.subscriptions.groups = {
            name: left for name, group_ids in self.subscriptions.groups.items()
            if (left := {group_id for group_id in group_ids if partition >= 0
                         and partition_of(group_id, count) != partition})}
        for group_id in list(self.timers):
            if partition < 0 or partition_of(group_id, count) == partition:
                for member_id in list(self.timers[group_id]):
                    self.forget_timers(group_id, member_id)
        self.tasks = [task for task in self.tasks
                      if partition >= 0 and partition_of(task[0], count) != partition]
        self.resolving = {task[0] for task in self.tasks}
        self.image.forget_hashes()

    def load(self, rows, load_filter):
        """Replay the records of groups of every type in log order; why that failed, or None."""
        return load_groups(self, rows, load_filter)

    # ---- metadata --------------------------------------------------------------------------------

    def update_metadata(self, brokers, deleted, topics):
        """Apply a new image: see ``MetadataImage.update``."""
        cdef set changed = self.image.update(brokers, deleted, topics)
        cdef Group group
        for name in changed:
            for group_id in self.subscriptions.groups.get(name, ()):
                group = self.runtime.find(group_id)
                if group is not None and group.group_type == CONSUMER:
                    self.set_refresh(<ConsumerGroup>group, 0, 0)

    def configure_group(self, str group_id not None, dict config not None):
        """Replace the settings that a group has of its own."""
        self.group_configs[group_id] = config

cdef str uuid_text(int64_t upper, int64_t number):
    """The text of an id: its 16 bytes in URL-safe base64 without padding."""
    from base64 import urlsafe_b64encode

    raw = upper.to_bytes(8, "big") + ((1 << 63) + number).to_bytes(8, "big")
    return urlsafe_b64encode(raw).decode().rstrip("=")

"""The consumer protocol (KIP-848): its groups, timers and pending writes, and their load.

The records of a request are appended as one batch and replayed; nothing else changes a group.
Timers, refresh deadlines and resolutions are no part of the log: they stay when an append fails.
Source: GroupMetadataManager.java, CoordinatorRuntime.java.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t

from coterie._core.codec.layout cimport Writing, begin as begin_writing, end, written
from coterie._core.coordinator.classic.group cimport GroupMetadata, MemberMetadata, next_member
from coterie._core.coordinator.classic.protocol cimport Joins, Rebalances
from coterie._core.coordinator.classic.protocol import read_group
from coterie._core.coordinator.codes cimport (
    COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, GROUP_SUBSCRIBED_TO_TOPIC, NONE,
    NON_EMPTY_GROUP, NOT_COORDINATOR, NOT_ENOUGH_REPLICAS, REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC_OR_PARTITION, write_error)
from coterie._core.coordinator.consumer.group cimport (
    CLAMPED_CONFIG, CLASSIC_GROUP, CURRENT, GROUP_EPOCH, KAFKA_4_1, KAFKA_4_1_2,
    KAFKA_4_2, KAFKA_4_3, KAFKA_4_3_1, KAFKA_4_4, OFFSET, OTHER_GROUP, PARTITION_EPOCHS,
    STABLE_MEMBER, UNREVOKED_PARTITIONS, ConsumerGroup, ConsumerMember, Current, OtherGroup, Record,
    Subscriptions, Timers, copied_offsets, copy_state, group_tombstones, new_group, new_timers,
    put_records, tombstone)
from coterie._core.coordinator.consumer.group import parse_record
from coterie._core.coordinator.consumer.values cimport MetadataImage, utf16_sorted
from coterie._core.coordinator.runtime cimport (
    BY_LEAVE, BY_SIZE, CLASSIC, CLASSIC_INSTEAD, CONSUMER, EMPTY, EVERY_TYPE, FAILED, FINISHED,
    GROUP, MEMBER, NOT_COMMITTED, NO_GROUP, NO_GROUP_LEFT, NO_TIMER, OTHER, RECONCILED, STABLE,
    AppendOp, AppendStatus, Batch, Group, GroupProtocol, MemoryLog, OffsetStore, Runtime, Writes,
    batch_of, begin_offset, describe, new_batch, partition_of, Operation)
from coterie._core.coordinator.runtime import KafkaThrows
from coterie._core.structures.collector cimport PyObject_GC_UnTrack
from coterie._core.structures.offsets cimport Offset, OffsetMap

from coterie.errors import CorruptData, CoterieError
from coterie.base.operations import NUMBER


# ---- writes that are not committed: who waits for them, and what was there before ----------------
# The records of a write are replayed at once, so the coordinator decides by the newest state. Until
# the write is committed, readers see what was there before, and answers wait. If it fails, it is
# taken back with those that came after it in its partitions of the offsets topic. Kept for that: a
# copy of each group that a write changes, and of its offsets. Nothing is copied while appends
# finish within the call.
#
# Some changes have no record: a commit of which nothing is written may make a group. Readers see it
# once the next write of its partition is committed; if that fails, the group goes.
# Source: CoordinatorRuntime.java, SnapshottableCoordinator.java, SnapshotRegistry.java. Rules:
# docs/rules/consumer-groups.md#writes.

cdef int HEARTBEAT = NUMBER["heartbeat"], OFFSET_FETCH = NUMBER["offset_fetch"]
cdef int64_t FIRST_PROVISIONAL = <int64_t>1 << 61      # after all offsets of a log


cdef PendingWrites pending_writes(ConsumerProtocol protocol):
    return <PendingWrites>protocol.runtime.writes


cdef class Waiting:
    """What waits for a commit (Kafka's DeferredEvent)."""

    cdef int complete(self, int error) except -1:
        """Let it go on, unless it did before."""
        cdef PendingWrites writes = self.writes
        if writes is None:
            return 0
        self.writes = None
        writes.consumer.runtime.disarm(&self.timer)
        writes.consumer.runtime.free_slot(self.slot)
        return self.completed(error)

    cdef int completed(self, int error) except -1:
        raise NotImplementedError


cdef tuple with_error(object rows, int error):
    """Rows of a key and an error with this error."""
    return tuple([(row[0], error, *row[2:]) for row in rows])


cdef class Answer(Waiting):
    """An answer."""

    cdef int completed(self, int error) except -1:
        if error == NONE:
            return self.runtime.respond(self.id, self.op, self.code, self.payload)
        # GroupCoordinatorService.handleOffsetFetchException has its own
        if self.op == OFFSET_FETCH and error in (
                UNKNOWN_TOPIC_OR_PARTITION, NOT_ENOUGH_REPLICAS, REQUEST_TIMED_OUT):
            error = NOT_COORDINATOR
        else:
            error = write_error(error)
        if type(self.refused) is list:
            return self.runtime.respond(self.id, self.op, NONE, with_error(self.refused, error))
        if self.op == HEARTBEAT and error == COORDINATOR_LOAD_IN_PROGRESS:
            error = NONE
        return self.runtime.respond(self.id, self.op, error, self.refused)


@cython.final
cdef class Finished(Waiting):
    """What an append of a classic group leads to."""

    cdef AppendOp append

    cdef int completed(self, int error) except -1:
        try:
            return self.append.on_finished(error, -1)
        except KafkaThrows as thrown:           # in Kafka in the thread of the append
            return self.append.runtime.ignore_thrown(thrown)


@cython.final
cdef class Before:
    """A group and its offsets before a write."""


@cython.final
cdef class Write:
    """A write that is not committed."""


@cython.final
cdef class PendingWrites(Writes):
    """The writes of a coordinator that are not committed."""

    def __cinit__(self, ConsumerProtocol consumer not None):
        self.consumer = consumer
        self.pending, self.unwritten, self.unshown, self.twice = [], {}, {}, {}
        self.provisional = FIRST_PROVISIONAL

    cdef int32_t place_of(self, str group_id) except -1:
        return partition_of(group_id, self.consumer.runtime.partitions.count)

    cdef int64_t next_position(self) except -1:
        """A provisional offset: after all offsets of the log, in order."""
        self.provisional += 1
        return self.provisional

    cdef set places_of(self, tuple group_ids):
        """The partitions of the groups; of a marker without groups an only partition."""
        if self.consumer.runtime.partitions.count == 1:
            return {0}
        return {self.place_of(group_id) for group_id in group_ids}

    cdef Write last(self, set partitions):
        """The last write in these partitions, or None."""
        for write in reversed(self.pending):
            if not partitions.isdisjoint((<Write>write).partitions):
                return <Write>write
        return None

    cdef bint blocks(self, str group_id) except -1:
        """Whether a record of this group that is written now is not committed at once."""
        return self.holding or group_id is None or (
            len(self.pending) > 0 and self.last({self.place_of(group_id)}) is not None)

    # ---- a write begins --------------------------------------------------------------------------

    cdef int begin(self, AppendOp op, AppendStatus status) except -1:
        """Take a write that has not finished."""
        cdef Write write = Write.__new__(Write)
        cdef Finished finished
        write.op, op.write = op, write
        write.partitions, write.before = set(), {}
        write.waiting, write.offsets, write.gone = [], [], []
        write.in_log = status == NOT_COMMITTED
        self.pending.append(write)
        if op.batch.group_id is not None:
            self.join(write, op.batch.group_id)
        if type(op) is not AppendOp:
            finished = Finished.__new__(Finished)
            finished.append = op
            self.add_waiting(write, finished)

    cdef int join(self, Write write, str group_id) except -1:
        """Let a write be one of the group's partition; what has no record is committed with it."""
        cdef int32_t partition = self.place_of(group_id)
        write.partitions.add(partition)
        for each in list(self.unwritten):
            if self.place_of(each) == partition:
                write.before.setdefault(each, self.unwritten.pop(each))

    cdef int keep(self, Write write, str group_id) except -1:
        """Keep a group as it is before a write changes it."""
        self.join(write, group_id)
        if group_id not in write.before and not (
                write.in_log and self.seen_before(group_id) is not None):
            write.before[group_id] = self.before_of(group_id, True)

    cdef int change_unwritten(self, str group_id) except -1:
        """Remember a group before it comes or goes without a record."""
        if group_id not in self.unwritten:
            self.unwritten[group_id] = self.before_of(group_id, False)

    cdef Before before_of(self, str group_id, bint copied):
        cdef Before before = Before.__new__(Before)
        before.group = self.consumer.runtime.find(group_id)
        before.offsets = copied_offsets(self.consumer.store.find(group_id))
        if before.group is not None and before.group.group_type == CONSUMER:
            before.state = <ConsumerGroup>before.group
            if copied:
                before.state = new_group(group_id, self.consumer.rules)
                copy_state(<ConsumerGroup>before.group, before.state)
        return before

    cdef int wrote(self, str group_id, int error) except -1:
        """Commit or take back the changes without a record in the group's partition."""
        return 0 if group_id is None else self.wrote_in(self.place_of(group_id), error)

    cdef int wrote_in(self, int32_t partition, int error) except -1:
        for each in [each for each in self.unwritten if self.place_of(each) == partition]:
            before = self.unwritten.pop(each)
            if error != NONE:
                self.put_back(each, <Before>before)

    cdef int show_ended(self, str group_id) except -1:
        """Show that a group ended without a record, now that one of its id is written."""
        cdef GroupBefore touched = self.unshown.pop(group_id, None)
        return 0 if touched is None else self.consumer.show_change(touched)

    # ---- what waits ------------------------------------------------------------------------------

    cdef int add_waiting(self, Write write, Waiting waiting) except -1:
        cdef ConsumerProtocol consumer = self.consumer
        waiting.writes = self
        waiting.slot = consumer.runtime.new_slot(waiting)
        waiting.timer = consumer.runtime.arm(NO_TIMER, consumer.first_kind + COMMIT, waiting.slot,
                                             consumer.commit_timeout_ms)
        write.waiting.append(waiting)

    cdef int wait(self, tuple group_ids, Waiting waiting) except -1:
        """Let it go on once all that the groups have written is committed."""
        cdef Write write = self.last(self.places_of(group_ids)) if self.pending else None
        return waiting.completed(NONE) if write is None else self.add_waiting(write, waiting)

    cdef int answer_later(self, tuple group_ids, int64_t id, int op, int code, payload,
                          refused) except -1:
        """Answer once what is pending in the partitions of the groups is committed."""
        cdef Answer answer = Answer.__new__(Answer)
        answer.runtime = self.consumer.runtime
        answer.id, answer.op, answer.code = id, op, code
        answer.payload, answer.refused = payload, refused
        return self.wait(group_ids, answer)

    # ---- what readers see ------------------------------------------------------------------------

    cdef Before seen_before(self, str group_id):
        """What readers see of a group that was changed since; None: the group as it is."""
        for write in self.pending:
            if group_id in (<Write>write).before:
                return <Before>(<Write>write).before[group_id]
        return <Before>self.unwritten.get(group_id)

    cdef Group committed(self, str group_id):
        """The group as readers of the committed state see it."""
        cdef Before before = self.seen_before(group_id)
        if before is None:
            return self.consumer.runtime.find(group_id)
        return before.group if before.state is None else before.state

    cdef OffsetMap committed_offsets(self, str group_id):
        cdef Before before = self.seen_before(group_id)
        return self.consumer.store.find(group_id) if before is None else before.offsets

    cdef int list_twice(self, str group_id, keys, bint removed) except -1:
        """List the offsets that a failed append would have changed twice until the next commit.

        What is taken back is both in Kafka's newest table and in that of the snapshot before, and a
        reader walks both; so with a topic whose last offset was removed. Source:
        SnapshottableHashTable.java (HistoricalIterator, executeRevert).
        """
        cdef OffsetMap offsets = self.consumer.store.find(group_id)
        cdef set found
        if offsets is None or not isinstance(self.consumer.runtime.sink, MemoryLog):
            return 0
        if self.twice_end != (<MemoryLog>self.consumer.runtime.sink).end:
            self.twice, self.twice_end = {}, (<MemoryLog>self.consumer.runtime.sink).end
        found = self.twice.setdefault(group_id, set())
        found.update([key for key in keys if offsets.find(<tuple?>key) is not None])
        if removed:
            found.update([topic for topic, partitions in offsets.topics.items()
                          if all([(topic, number) in found for number in partitions])])

    cdef tuple listed(self, str group_id, keys):
        """Keys of all offsets in order, some of them several times."""
        cdef set found = self.twice.get(group_id)
        if found is None or self.twice_end != (<MemoryLog>self.consumer.runtime.sink).end:
            return tuple(sorted(keys))
        return tuple([key for key in sorted(keys)
                      for _ in range((1 + (key in found)) * (1 + (key[0] in found)))])

    cdef set group_ids(self):
        """The ids of all groups that there are or were before."""
        cdef set found = {*self.consumer.runtime.groups, *self.unwritten}
        for write in self.pending:
            found.update((<Write>write).before)
        return found

    # ---- a write ends ----------------------------------------------------------------------------

    cdef int check_order(self, AppendOp op) except -1:
        """Refuse to append a batch before an earlier one of its partitions."""
        for write in self.pending if op.write is not None else ():
            if write is op.write:
                break
            if not (<Write>write).in_log and not (
                    (<Write>write).partitions.isdisjoint((<Write>op.write).partitions)):
                raise CoterieError("an earlier append of the same partition of the offsets topic "
                                   "has not finished: since Kafka 4 they finish in their order")

    cdef int finished(self, AppendOp op, int error, int64_t position) except -1:
        """Commit a write that is in the log, or take it back with those after it."""
        cdef Write write = <Write>op.write
        if write is None:                  # its partition was given up: only the log has it
            return 0
        if error != NONE:
            self.fail(write, error)
        else:
            write.in_log = True
            for offset in write.offsets:
                (<Offset>offset).position = position
            self.commit()
        return self.consumer.finish_event()

    cdef int commit(self) except -1:
        """Commit the logged writes that no uncommitted one precedes."""
        cdef Write write
        cdef set blocked = set()
        if self.holding:
            return 0
        for each in list(self.pending):
            write = <Write>each
            if write not in self.pending:  # what waited for one before it has committed it
                continue
            if not write.in_log or not blocked.isdisjoint(write.partitions):
                blocked |= write.partitions
                continue
            self.pending.remove(write)
            for group in write.gone:
                self.consumer.rebalances.drop_group(<GroupMetadata>group)
            for waiting in write.waiting:
                (<Waiting>waiting).complete(NONE)

    cdef int fail(self, Write failed, int error) except -1:
        """Take a write back, and those that came after it in its partitions."""
        cdef Write write
        cdef list lost = []
        cdef set partitions = set(failed.partitions)
        for each in self.pending[self.pending.index(failed):]:
            write = <Write>each
            if write is failed or not partitions.isdisjoint(write.partitions):
                lost.append(write)
                partitions |= write.partitions
        self.pending = [write for write in self.pending if write not in lost]
        for group_id in [each for each in self.unwritten
                         if self.place_of(each) in partitions]:
            self.put_back(group_id, <Before>self.unwritten.pop(group_id))
        for each in reversed(lost):
            write = <Write>each
            write.op.done = True
            for group_id, before in write.before.items():
                self.put_back(group_id, <Before>before)
        for each in lost:
            for waiting in (<Write>each).waiting:
                (<Waiting>waiting).complete(error)

    cdef int put_back(self, str group_id, Before before) except -1:
        """Let a group and its offsets be what they were."""
        cdef ConsumerProtocol consumer = self.consumer
        cdef Group known = consumer.runtime.find(group_id)
        cdef ConsumerGroup group
        cdef ConsumerMember member
        consumer.touch(group_id)
        if known is None or known is not before.group or known.group_type == CONSUMER:
            if known is not None:
                self.take_out(known)
            if before.group is not None:
                consumer.runtime.add_group(before.group)
                if before.group.group_type == CLASSIC:
                    consumer.rebalances.forget_expired_ids(<GroupMetadata>before.group)
        if before.state is not None:
            group = <ConsumerGroup>before.group
            if before.state is not group:
                copy_state(before.state, group)
            for name in group.topic_count:
                consumer.subscriptions.begin(name, group_id)
            for member in group.order:
                member.timers = consumer.find_timers(group_id, member.member_id)
        consumer.store.drop(group_id)
        if before.offsets is not None:
            consumer.store.put(group_id, before.offsets)

    cdef int take_out(self, Group group) except -1:
        """Take a group out. Hashes of topics stay; so do a classic group's timers, as in Kafka."""
        cdef GroupMetadata classic
        if group.group_type == CONSUMER:
            for name in (<ConsumerGroup>group).topic_count:
                self.consumer.subscriptions.end(name, group.group_id)
        elif group.group_type == CLASSIC:
            classic = <GroupMetadata>group
            if not classic.members.count and not classic.pending_members:
                return self.consumer.rebalances.drop_group(classic)
        return self.consumer.runtime.drop_group(group)

    cdef int give_up(self, int32_t partition) except -1:
        """Forget the writes of a partition that was given up; -1: all. The log may have them."""
        cdef Write write
        cdef list lost = [write for write in self.pending
                          if partition < 0 or partition in (<Write>write).partitions]
        self.pending = [write for write in self.pending if write not in lost]
        self.twice = {}
        self.unwritten = {} if partition < 0 else {
            group_id: before for group_id, before in self.unwritten.items()
            if self.place_of(group_id) != partition}
        self.unshown = {} if partition < 0 else {
            group_id: touched for group_id, touched in self.unshown.items()
            if self.place_of(group_id) != partition}
        for each in lost:
            write = <Write>each
            for waiting in write.waiting:
                (<Waiting>waiting).complete(NOT_COORDINATOR)
            write.op.write = None


# ---- the consumer protocol (KIP-848): the state of its groups, their timers, and its requests ----
# `heartbeat.pyx`, `departures.pyx` and `resolutions.pyx` make records and responses. `writes.pyx`
# appends the records of a request as one batch and replays them; nothing else changes a group.
# Timers, refresh deadlines and resolutions are no part of the log: they stay when an append fails.
# Source: GroupMetadataManager.java (consumerGroupHeartbeat), OffsetMetadataManager.java.

cdef dict RELEASES = {
    "4.1": KAFKA_4_1, "4.1.2": KAFKA_4_1_2, "4.2": KAFKA_4_2, "4.3": KAFKA_4_3,
    "4.3.1": KAFKA_4_3_1, "4.4": KAFKA_4_4}


@cython.final
@cython.no_gc                      # no reference cycles
@cython.freelist(16)
cdef class Heartbeat:
    """A ConsumerGroupHeartbeat request."""


@cython.final
@cython.no_gc                      # a text and numbers
@cython.freelist(16)
cdef class GroupBefore:
    """A group that the event at hand may change, as it was before."""


cdef int decide_hold_commits(component, Operation op) except -1:
    (<ConsumerProtocol>component).runtime.writes.holding = True
    return 0


cdef int decide_release_commits(component, Operation op) except -1:
    cdef PendingWrites writes = pending_writes(<ConsumerProtocol>component)
    writes.holding = False
    writes.commit()
    return (<ConsumerProtocol>component).finish_event()


cdef int decide_group_config(component, Operation op) except -1:
    (<ConsumerProtocol>component).configure_group(op.group_id, op.details[0])
    return 0


cdef int decide_append_raw(component, Operation op) except -1:
    cdef ConsumerProtocol protocol = <ConsumerProtocol>component
    if protocol.runtime.sink.append(batch_of((op.details,)), -1) == FAILED:
        raise CoterieError("append_raw: the log has not taken the record")
    return 0


@cython.final
cdef class ConsumerProtocol(GroupProtocol):
    """Consumer groups of a coordinator."""

    def __cinit__(self, Runtime runtime not None, OffsetStore store not None,
                  Rebalances rebalances not None, Joins joins not None, settings):
        self.join_runtime(runtime, TIMER_KINDS)
        self.joins = joins
        self.rules = RELEASES[settings["coterie.behaviour"]]
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
        self.assignment_interval_ms = settings["group.consumer.assignment.interval.ms"]
        self.assignors = tuple(settings["group.consumer.assignors"])
        self.group_bounds = {
            f"consumer.{name}": (settings[f"group.consumer.min.{name}"],
                                 settings[f"group.consumer.max.{name}"])
            for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")}
        self.manual_tasks = settings["coterie.tasks"] == "manual"
        self.group_configs, self.timers, self.also_touched = {}, {}, {}
        self.tasks, self.resolving = [], set()
        runtime.writes = PendingWrites(self)
        runtime.register_protocol(CONSUMER, self)
        runtime.register("hold_commits", self, decide_hold_commits, NO_GROUP)
        runtime.register("release_commits", self, decide_release_commits, NO_GROUP)
        runtime.register("group_config", self, decide_group_config, EVERY_TYPE)
        runtime.register("append_raw", self, decide_append_raw, NO_GROUP)

    # ---- requests --------------------------------------------------------------------------------

    cdef int finish_event(self) except -1:
        """Run what the event started, then show which groups changed."""
        if self.tasks and not self.manual_tasks:
            self.run_tasks(self)
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

    cdef GroupBefore touched_now(self, str group_id):
        """A group as it is now."""
        cdef GroupBefore touched = GroupBefore.__new__(GroupBefore)
        touched.group_id, touched.before = group_id, self.shape_of(group_id)
        return touched

    cdef int touch(self, str group_id) except -1:
        """Remember what a group looked like before this event."""
        cdef GroupBefore touched
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
        cdef GroupBefore only = self.touched
        cdef dict touched = self.also_touched
        self.touched = None
        if not touched:
            return 0 if only is None else self.show_change(only)
        self.also_touched = {}
        touched[only.group_id] = only
        for group_id in sorted(touched):
            self.show_change(<GroupBefore>touched[group_id])

    cdef int show_change(self, GroupBefore touched) except -1:
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
        self.expire_member(self, <Timers?>owner, kind)
        return self.finish_event()

    # ---- what operations of every group type ask -------------------------------------------------

    cdef Group create_group(self, str group_id):
        """Groups that are only offsets are classic."""
        return self.runtime.protocol_of(None).create_group(group_id)

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
        for name in list(self.subscriptions.groups):
            for group_id in self.subscriptions.readers(name):
                if partition < 0 or partition_of(group_id, count) == partition:
                    self.subscriptions.end(name, group_id)
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
        """Apply a new image: see ``MetadataImage.update``; (id, name) of topics that are gone."""
        cdef list gone = []
        cdef set changed = self.image.update(brokers, deleted, topics, gone)
        cdef Group group
        for name in changed:
            for group_id in self.subscriptions.readers(name):
                group = self.runtime.find(group_id)
                if group is not None and group.group_type == CONSUMER:
                    self.set_refresh(<ConsumerGroup>group, 0, 0)
        return gone

    def configure_group(self, str group_id not None, dict config not None):
        """Replace the settings that a group has of its own."""
        if self.rules & CLAMPED_CONFIG:
            config = {name: min(max(value, self.group_bounds[name][0]), self.group_bounds[name][1])
                      for name, value in config.items()}
        self.group_configs[group_id] = config

cdef str uuid_text(int64_t upper, int64_t number):
    """The text of an id: its 16 bytes in URL-safe base64 without padding."""
    from base64 import urlsafe_b64encode

    raw = upper.to_bytes(8, "big") + ((1 << 63) + number).to_bytes(8, "big")
    return urlsafe_b64encode(raw).decode().rstrip("=")


# ---- writes --------------------------------------------------------------------------------------
# Writes of consumer groups: append a batch, replay its records, answer once it is committed.
# What is not committed yet is in `pending.pyx`.

cdef int write_records(ConsumerProtocol protocol, str group_id, list records) except *:
    """Append the records of a request as one batch and replay them; the log's error."""
    cdef Batch batch = encoded(protocol, group_id, records)
    cdef AppendStatus status
    cdef Write write = None
    cdef int error
    cdef int64_t position
    protocol.touch(group_id)
    if protocol.successor is not None:
        return write_downgrade(protocol, batch)
    if may_not_replay(protocol, group_id) and not try_records(protocol, group_id, records):
        protocol.runtime.writes.wrote(group_id, UNKNOWN_SERVER_ERROR)
        return UNKNOWN_SERVER_ERROR
    status = protocol.runtime.write(batch, &error, &position)
    if error != NONE:
        try_records(protocol, group_id, records)
        return error
    if status != FINISHED:
        write = begin_write(protocol, "consumer_group", batch, status, (group_id,))
    replay_records(protocol, group_id, records, write)
    return NONE


cdef bint may_not_replay(ConsumerProtocol protocol, str group_id) except -1:
    """Whether records of a group may be refused: a load met two owners of a partition."""
    cdef Group known = protocol.runtime.find(group_id)
    return known is not None and known.group_type == CONSUMER and (
        (<ConsumerGroup>known).taken_over)


cdef bint try_records(ConsumerProtocol protocol, str group_id, list records) except -1:
    """Replay records that are not written on a copy of their group; whether that is possible.

    Kafka replays records before it appends them. What they did is taken back if one throws or the
    append fails, but for the cache of topics' hashes. Source: CoordinatorRuntime.java (append).
    """
    cdef Group known = protocol.runtime.find(group_id)
    cdef ConsumerGroup tried
    cdef Record record
    if known is None or known.group_type != CONSUMER:
        return True
    tried = new_group(group_id, protocol.rules)
    copy_state(<ConsumerGroup>known, tried)
    for record in records:
        names = set(tried.topic_count)
        try:
            tried.apply(record, None)
        except CorruptData:
            return False
        for name in names.difference(tried.topic_count):
            if protocol.subscriptions.readers(name) == (group_id,):
                protocol.image.forget_hash(name)
    return True


cdef Write begin_write(ConsumerProtocol protocol, str kind, Batch batch, AppendStatus status,
                       tuple group_ids):
    """Begin a write that is not committed at once, before its records are replayed."""
    cdef AppendOp op = describe(AppendOp.__new__(AppendOp), kind, batch)
    protocol.runtime.defer(op, status)
    for group_id in group_ids:
        pending_writes(protocol).keep(<Write>op.write, group_id)
    return <Write>op.write


cdef Batch encoded(ConsumerProtocol protocol, str group_id, list records):
    """The records of a group as a batch."""
    cdef Writing w
    begin_writing(&w)
    try:
        put_records(&w, group_id, records)
        return new_batch(group_id, len(records), written(&w))
    finally:
        end(&w)


cdef int write_downgrade(ConsumerProtocol protocol, Batch batch) except *:
    """Put a classic group in place of the consumer group; take it back if the write fails."""
    cdef GroupMetadata classic = protocol.successor
    cdef ConsumerGroup group = <ConsumerGroup?>protocol.runtime.find(classic.group_id)
    cdef bint rebalances = protocol.rebalances_successor
    cdef MemberMetadata member
    cdef Py_ssize_t place = 0
    cdef int error
    cdef int64_t position
    cdef AppendStatus status
    protocol.successor = None
    protocol.runtime.writes.change_unwritten(group.group_id)
    # As in Kafka its topics are still counted as read, so their hashes stay.
    protocol.runtime.drop_group(group)
    protocol.rebalances.take_over(classic)
    while (member := next_member(&classic.members, &place)) is not None:
        protocol.rebalances.touch(classic, member, member.session_timeout_ms)
    if rebalances:
        protocol.rebalances.prepare_rebalance(classic, BY_LEAVE, None)
    status = protocol.runtime.write(batch, &error, &position)
    if error != NONE:
        protocol.rebalances.drop_group(classic)
    elif status != FINISHED:
        begin_write(protocol, "downgrade", batch, status, ())
    return error


cdef int write_all(ConsumerProtocol protocol, list writes) except *:
    """Append tombstones of offsets and records of several groups as one batch.

    ``writes``: (group id, keys of offsets, records) by group. Return the log's error.
    """
    cdef Writing w
    cdef Batch batch
    cdef AppendStatus status
    cdef Write write = None
    cdef int error
    cdef int64_t position
    cdef Py_ssize_t count = 0
    cdef OffsetMap offsets
    cdef tuple group_ids = tuple([row[0] for row in writes])
    begin_writing(&w)
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
    for group_id in group_ids:
        protocol.touch(group_id)
    status = protocol.runtime.write(batch, &error, &position)
    if status != FINISHED:
        write = begin_write(protocol, "tombstones", batch, status, group_ids)
    else:
        for group_id in group_ids:
            protocol.runtime.writes.wrote(group_id, error)
    if error != NONE:
        for group_id, keys, _ in writes:
            pending_writes(protocol).list_twice(group_id, keys, True)
        return error
    for group_id, keys, records in writes:
        offsets = protocol.store.find(group_id)
        if offsets is not None:
            offsets.drop(keys)
            if not offsets.has_any():
                protocol.store.drop(group_id)
        if records:
            replay_records(protocol, group_id, records, write)
    if status == NOT_COMMITTED:            # it may be that nothing is before it
        pending_writes(protocol).commit()
    return NONE


cdef int replay_records(ConsumerProtocol protocol, str group_id, list records,
                        Write write) except -1:
    """Apply records that were written; the group comes and goes with them."""
    cdef Group known = protocol.runtime.find(group_id)
    cdef ConsumerGroup group = None
    cdef Current current
    cdef Record record
    if known is not None and known.group_type == CONSUMER:
        group = <ConsumerGroup>known
    for record in records:
        if record.kind == CLASSIC_GROUP:
            replay_classic(protocol, group_id, write)
            group = None
            continue
        if group is None:
            group = new_group(group_id, protocol.rules)
            protocol.runtime.add_group(group)
        group.apply(record, protocol.subscriptions)
        if record.kind == CURRENT and not record.tombstone:
            current = <Current>record.value
            if current.state == STABLE_MEMBER and current.epoch == group.target_epoch:
                show_member(protocol, group_id, record.name, current.epoch, RECONCILED)
        elif record.kind == GROUP_EPOCH and record.tombstone:
            protocol.runtime.drop_group(group)
            group = None
    return 0


cdef int show_member(ConsumerProtocol protocol, str group_id, str member_id, int32_t epoch,
                     int code) except -1:
    """Show that a member is reconciled, or why it was fenced."""
    return protocol.runtime.outputs.push(MEMBER, protocol.runtime.wheel.clock_ms, epoch, 0, code,
                                         (group_id, member_id))


cdef int replay_classic(ConsumerProtocol protocol, str group_id, Write write) except -1:
    """A tombstone of a classic group's metadata removes the group of whatever type."""
    cdef Group known = protocol.runtime.find(group_id)
    if known is None:
        return 0
    if known.group_type == CLASSIC:
        if write is None:
            return protocol.runtime.protocol_of(known).drop_group(known)
        write.gone.append(known)           # with its timers, which do nothing until it comes back
    return protocol.runtime.drop_group(known)


cdef int respond_committed(ConsumerProtocol protocol, tuple group_ids, int64_t id, int op, payload,
                           refused) except -1:
    """Answer once what the groups have written so far is committed.

    ``refused``: the payload if that fails, or a list of rows that each get the error.
    """
    if protocol.runtime.writes.pending:
        return protocol.runtime.writes.answer_later(group_ids, id, op, NONE, payload, refused)
    return protocol.runtime.respond(id, op, NONE, payload)


# ---- load groups of every type: replay the records of the log in their order ---------------------
# Source: GroupMetadataManager.java (replay, onLoaded).

cdef object load_groups(ConsumerProtocol protocol, rows, load_filter):
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
                    replay_bytes(protocol, key, value, load_filter, classic)
        load_classic(protocol, classic)
    except CorruptData as error:
        failure = str(error)
    for group_id in utf16_sorted(protocol.runtime.groups):
        if load_filter is None or load_filter(group_id):
            known = protocol.runtime.find(group_id)
            if known.group_type == CONSUMER:
                take_over(protocol, <ConsumerGroup>known)
            elif known.group_type == CLASSIC:
                take_over_classic(protocol, <GroupMetadata>known)
    return failure


cdef int load_classic(ConsumerProtocol protocol, dict values) except -1:
    """Make the classic groups of their last values; None: only its offsets made the group."""
    cdef GroupMetadata group
    for group_id, value in values.items():
        if value is None:
            group = protocol.rebalances.create_group(group_id)
            group.previous_state = -1
        else:
            protocol.rebalances.take_over(read_group(group_id, value))


cdef int take_over(ConsumerProtocol protocol, ConsumerGroup group) except -1:
    """Show a group that was loaded, and start the timers of its members."""
    cdef ConsumerMember member
    cdef Timers timers
    protocol.show_shape(group.group_id, protocol.shape_of(group.group_id))
    for member in group.order:
        timers = protocol.timers_of(group.group_id, member.member_id)
        protocol.arm_session(timers, protocol.setting(
            group.group_id, "consumer.session.timeout.ms", protocol.session_timeout_ms))
        if member.state == UNREVOKED_PARTITIONS:
            protocol.arm_rebalance(timers, member.epoch, member.fields.rebalance_timeout_ms)


cdef int take_over_classic(ConsumerProtocol protocol, GroupMetadata group) except -1:
    """Start the sessions of a classic group; one that is too large rebalances."""
    cdef MemberMetadata member
    cdef Py_ssize_t place = 0
    while (member := next_member(&group.members, &place)) is not None:
        protocol.rebalances.touch(group, member, member.session_timeout_ms)
    if group.members.count > protocol.classic_max_size:
        return protocol.rebalances.prepare_rebalance(group, BY_SIZE, None)


cdef int replay_bytes(ConsumerProtocol protocol, bytes key, bytes value, object load_filter,
                      dict classic) except -1:
    """Replay one record of any kind; `classic` has the last value of each classic group."""
    cdef Group known
    cdef ConsumerGroup group
    cdef Record record
    parsed = parse_record(key, value, protocol.image, (protocol.rules & PARTITION_EPOCHS) != 0)
    if parsed is None:
        return 0
    group_id, record = parsed
    if load_filter is not None and not load_filter(group_id):
        return 0
    known = protocol.runtime.find(group_id)
    if record.kind == OFFSET:
        if not record.tombstone and known is None:
            classic.setdefault(group_id, None)
        return 0
    if record.kind == CLASSIC_GROUP:
        classic.pop(group_id, None)
        if known is not None and known.group_type == CONSUMER:
            protocol.runtime.drop_group(known)
        elif known is not None:
            protocol.runtime.drop_group(known)
        if not record.tombstone:
            classic[group_id] = value
        return 0
    if record.kind == OTHER_GROUP:
        if known is not None and known.group_type == OTHER:
            if record.tombstone:
                protocol.runtime.drop_group(known)
        elif not record.tombstone:
            known = OtherGroup.__new__(OtherGroup, group_id, record.name)
            protocol.runtime.groups[group_id] = known
            protocol.runtime.forget_look_ups()
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
        group = new_group(group_id, protocol.rules)
        protocol.runtime.add_group(group)
    else:
        group = <ConsumerGroup>known
    group.apply(record, protocol.subscriptions)
    if record.kind == GROUP_EPOCH and record.tombstone:
        protocol.runtime.drop_group(group)
    return 0

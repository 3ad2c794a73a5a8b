"""Writes that are not committed: who waits for them, and what was there before.

The records of a write are replayed at once, so the coordinator decides by the newest state. Until
the write is committed, readers see what was there before, and answers wait. If it fails, it is
taken back with those that came after it in its partitions of the offsets topic. Kept for that: a
copy of each group that a write changes, and of its offsets. Nothing is copied while appends finish
within the call.

Some changes have no record: a commit of which nothing is written may make a group. Readers see it
once the next write of its partition is committed; if that fails, the group goes.
Source: CoordinatorRuntime.java, SnapshottableCoordinator.java, SnapshotRegistry.java.
Rules: docs/rules/consumer-groups.md#writes.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.codes cimport (
    COORDINATOR_LOAD_IN_PROGRESS, NONE, NOT_COORDINATOR, NOT_ENOUGH_REPLICAS, REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_OR_PARTITION, write_error)
from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.consumer.copies cimport copied_offsets, copy_state
from coterie._core.coordinator.consumer.group cimport ConsumerGroup, ConsumerMember, new_group
from coterie._core.coordinator.consumer.protocol cimport COMMIT, ConsumerProtocol, Touched
from coterie._core.coordinator.partitions cimport partition_of
from coterie._core.coordinator.runtime cimport (
    CLASSIC, CONSUMER, NOT_COMMITTED, NO_TIMER, AppendOp, AppendStatus, Group, Writes)
from coterie._core.structures.offsets cimport Offset, OffsetMap

from coterie._core.coordinator.runtime import Thrown
from coterie.errors import CoterieError
from coterie.operations import NUMBER

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
            return self.runtime.respond(self.id, self.op, NONE, tuple([
                (key, error) for key in self.refused]))
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
        except Thrown as thrown:           # in Kafka in the thread of the append
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
        self.pending, self.unwritten, self.unshown = [], {}, {}
        self.provisional = FIRST_PROVISIONAL

    cdef int32_t place_of(self, str group_id) except -1:
        return partition_of(group_id, self.consumer.runtime.partitions.count)

    cdef int64_t next_position(self) except -1:
        """A position for what the log does not have yet: after all that it has, in order."""
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
                before.state = new_group(group_id, self.consumer.revision)
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
        cdef Touched touched = self.unshown.pop(group_id, None)
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
        """Commit what is in the log and has no earlier write before it that is not."""
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
        cdef set readers
        cdef GroupMetadata classic
        if group.group_type == CONSUMER:
            for name in (<ConsumerGroup>group).topic_count:
                readers = <set?>self.consumer.subscriptions.groups[name]
                readers.discard(group.group_id)
                if not readers:
                    del self.consumer.subscriptions.groups[name]
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

"""Writes of consumer groups: append a batch, replay its records, answer once it is committed.

What is not committed yet is in `pending.pyx`.
"""
from libc.stdint cimport int32_t, int64_t

from coterie._core.codec.encode cimport Writing, begin, end, written
from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.classic.member cimport MemberMetadata
from coterie._core.coordinator.classic.member_table cimport next_member
from coterie._core.coordinator.codes cimport NONE
from coterie._core.coordinator.consumer.copies cimport copy_state
from coterie._core.coordinator.consumer.group cimport (
    CLASSIC_GROUP, CURRENT, GROUP_EPOCH, STABLE_MEMBER, ConsumerGroup, Current, Record, new_group)
from coterie._core.coordinator.consumer.pending cimport Write, pending_writes
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol
from coterie._core.coordinator.consumer.records cimport put_records
from coterie._core.coordinator.outputs cimport BY_LEAVE, MEMBER, RECONCILED
from coterie._core.coordinator.records cimport begin_offset
from coterie._core.coordinator.runtime cimport (
    CLASSIC, CONSUMER, FINISHED, NOT_COMMITTED, AppendOp, AppendStatus, Group, describe)
from coterie._core.coordinator.sink cimport Batch, new_batch
from coterie._core.structures.offsets cimport OffsetMap


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
    status = protocol.runtime.write(batch, &error, &position)
    if error != NONE:
        forget_unread(protocol, group_id, records)
        return error
    if status != FINISHED:
        write = begin_write(protocol, "consumer_group", batch, status, (group_id,))
    replay_records(protocol, group_id, records, write)
    return NONE


cdef int forget_unread(ConsumerProtocol protocol, str group_id, list records) except -1:
    """Forget the hashes that a write would have, which failed.

    Kafka replays records before it appends them. What they did is taken back, but for the cache of
    topics' hashes.
    """
    cdef Group known = protocol.runtime.find(group_id)
    cdef ConsumerGroup tried
    cdef Record record
    if known is None or known.group_type != CONSUMER:
        return 0
    tried = new_group(group_id, protocol.revision)
    copy_state(<ConsumerGroup>known, tried)
    for record in records:
        names = set(tried.topic_count)
        tried.apply(record, None)
        for name in names.difference(tried.topic_count):
            if protocol.subscriptions.groups.get(name) == {group_id}:
                protocol.image.forget_hash(name)


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
    begin(&w)
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
    for group_id in group_ids:
        protocol.touch(group_id)
    status = protocol.runtime.write(batch, &error, &position)
    if status != FINISHED:
        write = begin_write(protocol, "tombstones", batch, status, group_ids)
    else:
        for group_id in group_ids:
            protocol.runtime.writes.wrote(group_id, error)
    if error != NONE:
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
            group = new_group(group_id, protocol.revision)
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

    ``refused``: the payload if that fails, or a list of keys that each get the error.
    """
    if protocol.runtime.writes.pending:
        return protocol.runtime.writes.answer_later(group_ids, id, op, NONE, payload, refused)
    return protocol.runtime.respond(id, op, NONE, payload)

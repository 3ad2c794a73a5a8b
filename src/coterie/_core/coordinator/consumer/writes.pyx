"""Writes of consumer groups: append a batch, replay its records, answer once it is committed.

While commits are held, answers to writes wait, and readers see the groups as they were.
"""
from libc.stdint cimport int64_t

from coterie._core.codec.encode cimport Writing, begin, end, written
from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.classic.member cimport MemberMetadata
from coterie._core.coordinator.classic.member_table cimport next_member
from coterie._core.coordinator.codes cimport (
    COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, INVALID_FETCH_SIZE,
    KAFKA_STORAGE_ERROR, MESSAGE_TOO_LARGE, NETWORK_EXCEPTION, NONE, NOT_COORDINATOR,
    NOT_ENOUGH_REPLICAS, NOT_LEADER_OR_FOLLOWER, RECORD_LIST_TOO_LARGE, REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC_OR_PARTITION)
from coterie._core.coordinator.consumer.group cimport (
    CLASSIC_GROUP, GROUP_EPOCH, ConsumerGroup, Record, new_group)
from coterie._core.coordinator.consumer.protocol cimport COMMIT, ConsumerProtocol
from coterie._core.coordinator.consumer.records cimport put_records
from coterie._core.coordinator.outputs cimport BY_LEAVE
from coterie._core.coordinator.records cimport begin_offset
from coterie._core.coordinator.runtime cimport CLASSIC, CONSUMER, FINISHED, NO_TIMER, Group
from coterie._core.coordinator.sink cimport Batch, new_batch
from coterie._core.structures.offsets cimport OffsetMap

from coterie.errors import CoterieError


cdef int write_records(ConsumerProtocol protocol, str group_id, list records) except *:
    """Append the records of a request as one batch and replay them; the log's error."""
    cdef Batch batch = encoded(protocol, group_id, records)
    cdef int error
    cdef int64_t position
    protocol.touch(group_id)
    if protocol.successor is not None:
        return write_downgrade(protocol, batch)
    error = append_batch(protocol, batch, &position)
    if error == NONE:
        if protocol.holding:
            keep_committed(protocol, group_id)
        replay_records(protocol, group_id, records)
    return error


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
    protocol.successor = None
    keep_committed(protocol, group.group_id)
    forget_group(protocol, group)
    protocol.rebalances.take_over(classic)
    while (member := next_member(&classic.members, &place)) is not None:
        protocol.rebalances.touch(classic, member, member.session_timeout_ms)
    if rebalances:
        protocol.rebalances.prepare_rebalance(classic, BY_LEAVE, None)
    error = append_batch(protocol, batch, &position)
    if error != NONE:
        protocol.rebalances.drop_group(classic)
        restore_group(protocol, group)
    return error


cdef int forget_group(ConsumerProtocol protocol, ConsumerGroup group) except -1:
    """Take a group out; it may come back."""
    protocol.runtime.drop_group(group)
    for name in group.topic_count:
        protocol.subscriptions.finish(name, group.group_id)
    return 0


cdef int restore_group(ConsumerProtocol protocol, ConsumerGroup group) except -1:
    protocol.runtime.add_group(group)
    for name in group.topic_count:
        protocol.subscriptions.begin(name, group.group_id)
    return 0


cdef int append_batch(ConsumerProtocol protocol, Batch batch, int64_t* position) except *:
    """Append a batch; the log's error."""
    cdef int error
    if protocol.runtime.write(batch, &error, position) != FINISHED:
        raise CoterieError("a coordinator of 4.1 needs a log that writes at once")
    return error


cdef int write_all(ConsumerProtocol protocol, list writes) except *:
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
        protocol.touch(group_id)
    error = append_batch(protocol, batch, &position)
    if error != NONE:
        return error
    for group_id, keys, records in writes:
        keep_committed(protocol, group_id)
        offsets = protocol.store.find(group_id)
        if offsets is not None:
            offsets.drop(keys)
            if not offsets.has_any():
                protocol.store.drop(group_id)
        if records:
            replay_records(protocol, group_id, records)
    return NONE


cdef int replay_records(ConsumerProtocol protocol, str group_id, list records) except -1:
    """Apply records that were written; the group comes and goes with them."""
    cdef Group known = protocol.runtime.find(group_id)
    cdef ConsumerGroup group = None
    cdef Record record
    if known is not None and known.group_type == CONSUMER:
        group = <ConsumerGroup>known
    for record in records:
        if record.kind == CLASSIC_GROUP:
            replay_classic(protocol, group_id, record)
            group = None
            continue
        if group is None:
            group = new_group(group_id, protocol.revision)
            protocol.runtime.add_group(group)
        group.apply(record, protocol.subscriptions)
        if record.kind == GROUP_EPOCH and record.tombstone:
            protocol.runtime.drop_group(group)
            group = None
    return 0


cdef int replay_classic(ConsumerProtocol protocol, str group_id, Record record) except -1:
    """A tombstone of a classic group's metadata removes the group of whatever type."""
    cdef Group known = protocol.runtime.find(group_id)
    if known is None:
        return 0
    if known.group_type == CLASSIC:
        return protocol.runtime.protocol_of(known).drop_group(known)
    return protocol.runtime.drop_group(known)


cdef int keep_committed(ConsumerProtocol protocol, str group_id) except -1:
    """While commits are held, readers see the group and its offsets as they were."""
    cdef Group known
    cdef OffsetMap offsets
    if not protocol.holding or group_id in protocol.committed:
        return 0
    known = protocol.runtime.find(group_id)
    offsets = protocol.store.find(group_id)
    protocol.committed_offsets[group_id] = {} if offsets is None else dict(offsets.items())
    protocol.committed[group_id] = known if known is None or known.group_type != CONSUMER else (
        (<ConsumerGroup>known).copy())
    return 0


cdef ConsumerGroup committed_group(ConsumerProtocol protocol, str group_id):
    """The group as readers of the committed state see it; None without one."""
    cdef Group known
    if protocol.holding and group_id in protocol.committed:
        known = <Group>protocol.committed[group_id]
    else:
        known = protocol.runtime.find(group_id)
    if known is None or known.group_type != CONSUMER:
        return None
    return <ConsumerGroup>known


cdef int respond_committed(ConsumerProtocol protocol, int64_t id, int op, payload) except -1:
    """Answer once what was written so far is committed."""
    if protocol.holding:
        return respond_later(protocol, id, op, payload, COORDINATOR_NOT_AVAILABLE, None)
    return protocol.runtime.respond(id, op, NONE, payload)


cdef int respond_later(ConsumerProtocol protocol, int64_t id, int op, payload, int late_code,
                       late_payload) except -1:
    """Answer when commits are released; the other answer once the time for that is over."""
    slot = protocol.runtime.new_slot((id, op, late_code, late_payload))
    handle = protocol.runtime.arm(NO_TIMER, protocol.first_kind + COMMIT, slot,
                                  protocol.commit_timeout_ms)
    protocol.held.append((id, op, NONE, payload, slot, handle))
    return 0


cdef int hold_commits(ConsumerProtocol protocol) except -1:
    """Let answers to writes wait from now on."""
    protocol.holding = True
    return 0


cdef int release_commits(ConsumerProtocol protocol) except -1:
    """Commit all that was written, and answer what waits for it."""
    cdef list held = protocol.held
    cdef int64_t handle
    protocol.holding = False
    protocol.held, protocol.committed, protocol.committed_offsets = [], {}, {}
    for id, op, code, payload, slot, timer in held:
        handle = timer
        protocol.runtime.disarm(&handle)
        protocol.runtime.free_slot(slot)
        protocol.runtime.respond(id, op, code, payload)
    return 0


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

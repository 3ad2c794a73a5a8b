"""OffsetCommit, TxnOffsetCommit, markers, OffsetFetch, deletions, clean-up, describe and list.

A commit is ((topic, partition), offset, leader epoch, metadata, commit time or None, expiry or -1)
for each partition. What is kept and shown is the OffsetMap's business; here are the checks, the
appends and the order: groups by id, tombstones by topic, then partition.
Source: GroupCoordinator.scala, GroupMetadataManager.scala; rules: coordinator.md, sections 13 to
15, and offsets.md.
"""
from libc.stdint cimport int16_t, int32_t, int64_t

from coterie._core.coordinator.base cimport (
    BY_CLEANUP, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, GROUP_ID_NOT_FOUND,
    GROUP_SUBSCRIBED_TO_TOPIC, ILLEGAL_GENERATION, LONGEST, NONE, NON_EMPTY_GROUP,
    OFFSET_METADATA_TOO_LARGE, PLAIN_COMMIT, REBALANCE_IN_PROGRESS, TOMBSTONES, TXN_COMMIT,
    UNKNOWN_MEMBER_ID, UNKNOWN_SERVER_ERROR, UNSTABLE_OFFSET_COMMIT, AppendOp, commit_error,
    make_append, utf8_length)
from coterie._core.coordinator.members cimport Members
from coterie._core.coordinator.effects cimport (
    DELETE_GROUPS, DESCRIBE_GROUP, LIST_GROUPS, OFFSET_DELETE, OFFSET_FETCH, TXN_OFFSET_COMMIT)
from coterie._core.coordinator.group_records cimport group_key, offset_key, offset_value
from coterie._core.coordinator.sink cimport FAILED
from coterie._core.coordinator.group cimport (
    COMPLETING_REBALANCE, DEAD, EMPTY, STABLE, STATE_NAMES, GroupMetadata, MemberMetadata,
    Request)
from coterie._core.structures.offsets cimport Offset, expiry_rule, make_offset

from coterie.errors import ArgumentError
from coterie.values import GroupOverview, GroupSummary

cdef enum:
    NO_PRODUCER = -1
    NO_EPOCH = -1

# key and value of a transaction marker: version 0, then the type; version 0, coordinator epoch
MARKERS = {True: (b"\0\0\0\1", b"\0\0\0\0\0\0"), False: (b"\0\0\0\0", b"\0\0\0\0\0\0")}


cdef Py_ssize_t utf16_length(str text):
    """Java's String.length: characters beyond the first plane count twice."""
    cdef Py_ssize_t length = len(text)
    cdef Py_UCS4 character
    if not text.isascii():
        for character in text:
            length += character > 0xFFFF
    return length


cdef class Offsets(Members):
    """See ``coordinator.pyi``."""

    cdef int commit(self, Request request, str group_id, int32_t generation_id, str member_id,
                    str instance, tuple wanted, int64_t producer_id, int16_t epoch) except -1:
        cdef bint transactional = request.op == TXN_OFFSET_COMMIT
        cdef int error = self.status(group_id, not transactional)
        cdef GroupMetadata group = None
        cdef MemberMetadata member
        cdef dict last = {entry[0]: entry for entry in wanted}    # of equals the last counts
        self.check_metadata(last)
        if error == NONE:
            group = <GroupMetadata>self.groups.get(group_id)
            if group is None and not transactional and generation_id >= 0:
                error = ILLEGAL_GENERATION
            elif group is None:
                group = self.create_group(group_id)      # it stays, whatever is answered
        if error == NONE:
            error = self.check_commit(group, generation_id, member_id, instance, transactional)
        if error == NONE and not transactional and group.state != EMPTY:
            if group.state == COMPLETING_REBALANCE:
                error = REBALANCE_IN_PROGRESS
            else:
                member = group.get(member_id)
                self.touch(group, member, member.session_timeout_ms)
        if error != NONE:
            return self.answer(request, NONE, tuple([(key, error) for key in last]))
        # Without a producer Kafka stores even a transaction's offsets as plain ones.
        return self.store(request, group, last, producer_id, epoch,
                          transactional and producer_id != NO_PRODUCER)

    cdef int check_metadata(self, dict wanted) except -1:
        """Refuse what is short enough for the setting and too long for a record."""
        if 3 * self.max_metadata <= LONGEST:     # no text of so many units has more bytes
            return 0
        for key, row in wanted.items():
            if utf16_length(row[3]) <= self.max_metadata and utf8_length(row[3]) > LONGEST:
                raise ArgumentError(f"the metadata of {key} has {utf8_length(row[3])} bytes; a "
                                    f"record holds {LONGEST} at most")
        return 0

    cdef int check_commit(self, GroupMetadata group, int32_t generation_id, str member_id,
                          str instance, bint transactional) except? -7:
        cdef int error
        if group.state == DEAD:
            return COORDINATOR_NOT_AVAILABLE
        if generation_id < 0 and group.state == EMPTY:
            return NONE
        if generation_id >= 0 or member_id or instance is not None:
            error = self.check_member(group, member_id, instance)
            if error == NONE and generation_id != group.generation_id:
                error = ILLEGAL_GENERATION
            return error
        return NONE if transactional else UNKNOWN_MEMBER_ID

    cdef int store(self, Request request, GroupMetadata group, dict wanted, int64_t producer_id,
                   int16_t epoch, bint transactional) except -1:
        cdef dict entries = {}
        cdef list answers = []
        cdef list records = []
        cdef Offset entry
        cdef AppendOp op
        for key, row in wanted.items():
            if utf16_length(row[3]) > self.max_metadata:
                answers.append((key, OFFSET_METADATA_TOO_LARGE))
                continue
            entry = make_offset(row[1], row[2], row[3],
                                self.wheel.clock_ms if row[4] is None else row[4], row[5], -1)
            entries[key] = entry
            answers.append((key, NONE))
            records.append((offset_key(group.group_id, key[0], key[1]), offset_value(entry)))
        if not entries:
            return self.answer(request, NONE, tuple(answers))
        if transactional and epoch == NO_EPOCH:
            # Kafka throws, in MemoryRecordsBuilder, before it has kept anything.
            return self.answer(request, NONE, tuple([
                (key, UNKNOWN_SERVER_ERROR) for key in wanted]))
        op = make_append(TXN_COMMIT if transactional else PLAIN_COMMIT, group, tuple(records))
        op.request = request
        op.entries = entries
        op.answers = answers
        if transactional:
            op.transactional = True
            op.producer_id = producer_id
            op.producer_epoch = epoch
            self.open_groups.setdefault(producer_id, {})[group.group_id] = None
            group.offsets.prepare_txn(producer_id, entries)
        else:
            group.offsets.prepare(entries)
        return self.append(op)

    cdef int committed(self, AppendOp op, int error, int64_t position) except -1:
        cdef GroupMetadata group = op.group
        if group.state != DEAD:
            if op.kind == TXN_COMMIT:
                if error == NONE:
                    group.offsets.appended_txn(op.producer_id, op.entries, position)
                else:
                    group.offsets.failed_txn(op.producer_id, op.entries)
            elif error == NONE:
                group.offsets.appended(op.entries, position)
            else:
                group.offsets.failed(op.entries)
        error = commit_error(error)
        return self.answer(op.request, NONE, tuple([
            (key, error if code == NONE else code) for key, code in op.answers]))

    cdef int end_txn(self, int64_t producer_id, bint committed) except -1:
        cdef GroupMetadata group
        cdef dict belonging
        if self.sink.append((MARKERS[committed],), producer_id, 0, True, True, -1) == FAILED:
            return 0                       # the groups hear of a marker that was written
        belonging = <dict>self.open_groups.get(producer_id)
        for group_id in sorted(belonging or ()):
            group = <GroupMetadata>self.groups.get(group_id)
            if group is None or group.state == DEAD:
                continue
            if not group.offsets.complete_txn(producer_id, committed):
                return 0               # Kafka throws: a marker before the append came back
            del belonging[group_id]
        if belonging is not None and not belonging:
            del self.open_groups[producer_id]
        return 0

    cdef int fetch(self, int64_t id, str group_id, tuple keys, bint stable) except -1:
        cdef int error = self.status(group_id, True)
        cdef GroupMetadata group
        cdef Offset entry
        cdef list found = []
        if error != NONE:
            return self.respond(id, OFFSET_FETCH, error, None)
        group = <GroupMetadata>self.groups.get(group_id)
        if group is not None and group.state == DEAD:
            group = None
        if keys is None:
            keys = () if group is None else tuple(group.offsets.keys())
        for key in dict.fromkeys(keys):
            entry = None
            error = NONE
            if group is not None:
                if stable and group.offsets.unstable(key):
                    error = UNSTABLE_OFFSET_COMMIT
                else:
                    entry = group.offsets.find(key)
            found.append((key[0], key[1], -1, -1, "", error) if entry is None else
                         (key[0], key[1], entry.offset, entry.leader_epoch, entry.metadata,
                          error))
        return self.respond(id, OFFSET_FETCH, NONE, tuple(found))

    cdef int delete_offsets(self, int64_t id, str group_id, tuple keys) except -1:
        cdef int error = self.status(group_id, False)
        cdef GroupMetadata group
        cdef dict answers = {key: NONE for key in keys}
        if error == NONE:
            group = <GroupMetadata>self.groups.get(group_id)
            if group is None or group.state == DEAD:
                error = GROUP_ID_NOT_FOUND
            elif group.state != EMPTY:
                if group.protocol_type != "consumer":
                    error = NON_EMPTY_GROUP
                else:
                    for key in answers:
                        if (group.subscribed_topics is None
                                or key[0] in group.subscribed_topics):
                            answers[key] = GROUP_SUBSCRIBED_TO_TOPIC
        if error != NONE:
            return self.respond(id, OFFSET_DELETE, error, None)
        eligible = [key for key, code in answers.items() if code == NONE]
        if eligible:
            self.bury(group, group.offsets.drop(eligible))
        return self.respond(id, OFFSET_DELETE, NONE, tuple(answers.items()))

    cdef int delete_groups(self, int64_t id, tuple group_ids) except -1:
        cdef int error
        cdef GroupMetadata group
        cdef list answers = []
        for group_id in dict.fromkeys(group_ids):
            error = self.status(group_id, True)
            if error == NONE:
                group = <GroupMetadata>self.groups.get(group_id)
                if group is None or group.state == DEAD:
                    error = GROUP_ID_NOT_FOUND
                elif group.state != EMPTY:
                    error = NON_EMPTY_GROUP
                else:
                    self.transition(group, DEAD, BY_CLEANUP, None)
                    self.bury(group, group.offsets.drop(group.offsets.keys()))
            answers.append((group_id, error))
        return self.respond(id, DELETE_GROUPS, NONE, tuple(answers))

    cdef int delete_partitions(self, tuple keys) except -1:
        cdef GroupMetadata group
        for group_id in sorted(self.groups):
            group = <GroupMetadata>self.groups[group_id]
            self.bury(group, group.offsets.drop(keys))
        return 0

    cdef int clean_up(self) except -1:
        cdef GroupMetadata group
        for group_id in sorted(self.groups):
            group = <GroupMetadata>self.groups[group_id]
            self.bury(group, self.expired_of(group))
        return 0

    cdef list expired_of(self, GroupMetadata group):
        """Take out of the group what has expired by its protocol type and state."""
        cdef str rule = expiry_rule(group.protocol_type, group.state == EMPTY,
                                    group.state == STABLE or self.behaviour_24,
                                    group.current_state_timestamp,
                                    group.subscribed_topics is not None)
        if rule is None:
            return []
        return group.offsets.expire_all(
            self.wheel.clock_ms, self.retention_ms, rule == "empty_since",
            group.current_state_timestamp,
            group.subscribed_topics if rule == "not_subscribed" else None)

    cdef int bury(self, GroupMetadata group, list removed) except -1:
        """The end of every clean-up: tombstones for what was removed, and for a group that ends."""
        cdef list tombstones
        if group.state == EMPTY and not group.offsets.has_any():
            self.transition(group, DEAD, BY_CLEANUP, None)
        removed.sort()
        tombstones = [(offset_key(group.group_id, key[0], key[1]), None) for key in removed]
        if group.state == DEAD:
            self.drop_group(group)
            if group.generation_id > 0:
                tombstones.append((group_key(group.group_id), None))
        if tombstones:
            return self.append(make_append(TOMBSTONES, group, tuple(tombstones)))
        return 0

    cdef int describe(self, int64_t id, str group_id) except -1:
        cdef int error = self.status(group_id, True)
        if error != NONE:
            return self.respond(id, DESCRIBE_GROUP, error, None)
        group = self.groups.get(group_id)
        return self.respond(id, DESCRIBE_GROUP, NONE, GroupSummary("Dead", "", "", ())
                            if group is None else group.summary())

    cdef int list_groups(self, int64_t id, tuple states) except -1:
        cdef set wanted = {state.lower() for state in states}
        cdef list found = []
        cdef GroupMetadata group
        for group_id in sorted(self.groups):
            group = <GroupMetadata>self.groups[group_id]
            if not wanted or STATE_NAMES[group.state].lower() in wanted:
                found.append(GroupOverview(group_id, group.protocol_type or "",
                                           STATE_NAMES[group.state]))
        return self.respond(id, LIST_GROUPS, COORDINATOR_LOAD_IN_PROGRESS
                            if self.is_loading() else NONE, tuple(found))

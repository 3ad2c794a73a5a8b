"""What happened to one group, record by record of its metadata. See ``generations.pyi``.

Knows values, not their places in the topic. A group keeps its first and last record whole, for
the pieces before and after, and of those between only what changed. Two values are compared by
their bytes; only what differs becomes Python objects, so that a rebalance of a large group in
which nobody came or went costs a walk and no more.
"""
cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp

from coterie._core.codec.cursor cimport (
    OK, Cursor, Status, read_bytes32, read_compact, read_i16, read_i32, read_i64, read_string16,
    read_uvarint, skip_tags)

from coterie._core.codec.text import decode_utf8
from coterie.errors import CorruptData, shown

GENERATION_FIELDS = (
    "log_offset", "timestamp", "tombstone", "protocol_type", "generation", "protocol", "leader",
    "current_state_timestamp", "member_count", "joined", "left", "replaced",
    "subscription_changed", "leader_changed", "protocol_changed", "previous_generation",
    "since_previous_ms")

cdef struct Span:
    const uint8_t* at            # NULL: null
    int32_t size

cdef struct MemberSpan:
    Span member_id
    Span instance_id
    Span subscription


cdef inline Status read_text(Cursor* cur, bint compact, Span* out) noexcept nogil:
    return (read_compact(cur, &out.at, &out.size) if compact
            else read_string16(cur, &out.at, &out.size))


cdef inline Status read_blob(Cursor* cur, bint compact, Span* out) noexcept nogil:
    return (read_compact(cur, &out.at, &out.size) if compact
            else read_bytes32(cur, &out.at, &out.size))


cdef inline bint same(const Span* one, const Span* other) noexcept nogil:
    if one.at == NULL or other.at == NULL:
        return one.at == other.at
    return one.size == other.size and memcmp(one.at, other.at, one.size) == 0


cdef inline object text_of(const Span* span):
    return None if span.at == NULL else decode_utf8(span.at[:span.size])


@cython.final
cdef class GroupView:
    """The spans of one group metadata value, which it keeps alive; of a tombstone, none."""
    cdef bytes value
    cdef Span protocol_type, protocol, leader
    cdef int32_t generation, count
    cdef int64_t state_timestamp
    cdef MemberSpan* members

    def __cinit__(self, bytes value):
        cdef Cursor cur
        self.value = value
        self.state_timestamp = -1
        if value is None:
            return
        cur.at = value
        cur.end = cur.at + len(value)
        if self.parse(&cur) != OK:
            raise CorruptData("a group metadata value that cannot be read", kind="value")

    def __dealloc__(self):
        free(self.members)

    cdef Status parse(self, Cursor* cur) except *:
        """As `check_group_value`, which the value has passed; every read is checked again."""
        cdef int16_t version
        cdef uint32_t raw
        cdef int32_t count = 0, i
        cdef bint compact
        cdef Status status = read_i16(cur, &version)
        if status != OK:
            return status
        compact = version == 4
        status = read_text(cur, compact, &self.protocol_type)
        if status == OK:
            status = read_i32(cur, &self.generation)
        if status == OK:
            status = read_text(cur, compact, &self.protocol)
        if status == OK:
            status = read_text(cur, compact, &self.leader)
        if status == OK and version >= 2:
            status = read_i64(cur, &self.state_timestamp)
        if status != OK:
            return status
        if compact:
            status = read_uvarint(cur, &raw)
            count = <int32_t>(raw - 1)
        else:
            status = read_i32(cur, &count)
        if status != OK or count < 0 or count > cur.end - cur.at:
            return Status.TRUNCATED
        self.members = <MemberSpan*>malloc((count + 1) * sizeof(MemberSpan))
        if self.members == NULL:
            raise MemoryError
        for i in range(count):
            status = read_member(cur, version, &self.members[i])
            if status != OK:
                return status
        self.count = count
        return OK

    cdef dict by_id(self):
        cdef int32_t i
        cdef MemberSpan* member
        cdef dict found = {}
        for i in range(self.count):
            member = &self.members[i]
            found[text_of(&member.member_id)] = (
                text_of(&member.instance_id) or None,
                member.subscription.at[:member.subscription.size])
        return found


cdef Status read_member(Cursor* cur, int version, MemberSpan* out) noexcept nogil:
    cdef bint compact = version == 4
    cdef Span other
    cdef int32_t number
    cdef Status status = read_text(cur, compact, &out.member_id)
    out.instance_id.at = NULL
    if status == OK and version >= 3:
        status = read_text(cur, compact, &out.instance_id)
    if status == OK:
        status = read_text(cur, compact, &other)                   # client id
    if status == OK:
        status = read_text(cur, compact, &other)                   # client host
    if status == OK and version >= 1:
        status = read_i32(cur, &number)                            # rebalance timeout
    if status == OK:
        status = read_i32(cur, &number)                            # session timeout
    if status == OK:
        status = read_blob(cur, compact, &out.subscription)
    if status == OK:
        status = read_blob(cur, compact, &other)                   # assignment
    if status == OK and compact:
        status = skip_tags(cur)
    if status == OK and (out.member_id.at == NULL or out.subscription.at == NULL):
        return Status.NEGATIVE
    return status


class GroupLog:
    """See ``generations.pyi``."""

    __slots__ = ("_view", "changes", "first", "last")

    def __init__(self):
        self.first = self.last = self._view = None
        self.changes = []

    def __getstate__(self):
        return (self.first, self.last, self.changes)

    def __setstate__(self, state):
        self.first, self.last, self.changes = state
        self._view = None

    def add(self, log_offset, timestamp, bytes value):
        """See ``generations.pyi``."""
        record = (log_offset, timestamp, value)
        view = GroupView(value)
        if self.first is None:
            self.first = record
        else:
            self.changes.append(change(self.last, self._last_view(), record, view))
        self.last, self._view = record, view

    def _last_view(self):
        return GroupView(self.last[2]) if self._view is None else self._view

    def copy(self):
        """See ``generations.pyi``."""
        twin = GroupLog()
        twin.__setstate__((self.first, self.last, list(self.changes)))
        return twin

    def absorb(self, later):
        """See ``generations.pyi``."""
        if not isinstance(later, GroupLog):
            raise TypeError(f"later must be a GroupLog, not {shown(later)}")
        self.changes.append(
            change(self.last, self._last_view(), later.first, GroupView(later.first[2])))
        self.changes.extend(later.changes)
        self.last, self._view = later.last, None

    def generations(self):
        """See ``generations.pyi``."""
        return [change(None, None, self.first, GroupView(self.first[2])), *self.changes]


cdef bint same_members(GroupView before, GroupView after) noexcept:
    """The same ids, instance ids and subscriptions in the same order."""
    cdef int32_t i
    if before.count != after.count:
        return False
    for i in range(after.count):
        if not (same(&before.members[i].member_id, &after.members[i].member_id)
                and same(&before.members[i].instance_id, &after.members[i].instance_id)
                and same(&before.members[i].subscription, &after.members[i].subscription)):
            return False
    return True


cdef tuple compare_members(dict old, dict new):
    """(joined, left, replaced, subscription_changed), each in the order of its record."""
    was_static = {instance: member_id for member_id, (instance, _) in old.items() if instance}
    replaced, joined = [], []
    for member_id, (instance, _) in new.items():
        if member_id in old:
            continue
        if instance and instance in was_static and was_static[instance] not in new:
            replaced.append((instance, was_static[instance], member_id))
        else:
            joined.append(member_id)
    gone = {old_id for _, old_id, _ in replaced}
    left = [member_id for member_id in old if member_id not in new and member_id not in gone]
    became = {new_id: old_id for _, old_id, new_id in replaced}
    changed = [member_id for member_id, (_, subscription) in new.items()
               if became.get(member_id, member_id) in old
               and old[became.get(member_id, member_id)][1] != subscription]
    return joined, left, replaced, changed


cdef tuple change(tuple previous, GroupView before, tuple record, GroupView after):
    """One row of ``generations``, as the tuple of ``GENERATION_FIELDS``."""
    cdef bint first = previous is None or previous[2] is None
    cdef bint gone = record[2] is None
    cdef tuple members
    if before is not None and same_members(before, after):
        members = ([], [], [], [])
    else:
        members = compare_members({} if before is None else before.by_id(), after.by_id())
    since = None
    if previous is not None and previous[1] >= 0 and record[1] >= 0:
        since = record[1] - previous[1]
    return (
        record[0], None if record[1] < 0 else record[1], gone,
        text_of(&after.protocol_type), None if gone else after.generation,
        text_of(&after.protocol), text_of(&after.leader),
        None if after.state_timestamp < 0 else after.state_timestamp, after.count, *members,
        not first and not same(&before.leader, &after.leader),
        not first and not same(&before.protocol, &after.protocol),
        None if first else before.generation, since)

"""The generations of a group: what each record of its metadata changed.

The log of a group stores its first and its last record whole, because pieces of a log are joined
there. Of every other record it stores the difference to the record before. Values are compared as
bytes, and only members that differ become Python objects.
Knows values; knows no batches and no commits. Cost: a record in which no member changed costs one
walk over its members; pickled, 57 bytes.
"""
from collections import namedtuple

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcmp

from coterie._core.codec.cursor cimport OK, Status
from coterie._core.codec.layout cimport MAX_FIELDS, Layout
from coterie._core.codec.schema cimport slot_of, value_layout, walk_group
from coterie._core.codec.walk cimport Span, number_at
from coterie._core.fold.commit cimport KEY_GROUP

from coterie._core.codec.text import decode_utf8
from coterie.errors import CorruptData, CoterieError, shown

MetadataRecord = namedtuple("MetadataRecord", "log_offset timestamp value", module=__name__)
MetadataRecord.__doc__ = """A record of group metadata as it stands in the log."""
Generation = namedtuple(
    "Generation",
    "log_offset timestamp tombstone protocol_type generation protocol leader "
    "current_state_timestamp member_count joined left replaced subscription_changed "
    "leader_changed protocol_changed previous_generation since_previous_ms", module=__name__)
Generation.__doc__ = """A group at a metadata record, and what changed since the record before."""
cdef object new_tuple = tuple.__new__    # takes a third of the time of a named tuple's own

cdef enum:                           # flags of a packed row
    TOMBSTONE = 1
    LEADER_CHANGED = 2
    PROTOCOL_CHANGED = 4
    NO_TIMESTAMP = 8
    NO_GENERATION = 16
    NO_STATE_TIMESTAMP = 32
    NO_PREVIOUS = 64
    NO_SINCE = 128

cdef Layout GROUP_METADATA = value_layout(KEY_GROUP)
cdef Layout MEMBER = <Layout?>GROUP_METADATA.below("members")
cdef int PROTOCOL_TYPE = slot_of(GROUP_METADATA, "protocolType")
cdef int GENERATION = slot_of(GROUP_METADATA, "generation")
cdef int PROTOCOL = slot_of(GROUP_METADATA, "protocol")
cdef int LEADER = slot_of(GROUP_METADATA, "leader")
cdef int STATE_TIMESTAMP = slot_of(GROUP_METADATA, "currentStateTimestamp")
cdef int MEMBERS = slot_of(GROUP_METADATA, "members")
cdef int MEMBER_ID = slot_of(MEMBER, "memberId")
cdef int INSTANCE_ID = slot_of(MEMBER, "groupInstanceId")
cdef int SUBSCRIPTION = slot_of(MEMBER, "subscription")


cdef inline bint same(const Span* a, const Span* b) noexcept nogil:
    if a.at == NULL or b.at == NULL:
        return a.at == b.at
    return a.size == b.size and memcmp(a.at, b.at, a.size) == 0


cdef inline object text_of(const Span* span):
    return None if span.at == NULL else decode_utf8(span.at[:span.size])


@cython.final
cdef class GroupView:
    """The fields of a group metadata value as spans of its bytes; a tombstone has none."""

    def __cinit__(self, bytes value):
        cdef Span fields[MAX_FIELDS]
        cdef Status status
        self.value = value
        self.state_timestamp = -1
        if value is None:
            return
        self.members.slot = MEMBERS
        status = walk_group(value, len(value), fields, &self.members)
        if self.members.failed:
            raise MemoryError
        if status != OK:
            raise CorruptData("a group metadata value that cannot be read", kind="value")
        self.protocol_type, self.protocol = fields[PROTOCOL_TYPE], fields[PROTOCOL]
        self.leader = fields[LEADER]
        self.generation = <int32_t>number_at(&fields[GENERATION], -1)
        self.state_timestamp = number_at(&fields[STATE_TIMESTAMP], -1)

    def __dealloc__(self):
        free(self.members.spans)

    cdef inline const Span* member(self, int32_t number) noexcept:
        """The fields of a member, by slot."""
        return &self.members.spans[<Py_ssize_t>number * self.members.width]

    cdef dict by_id(self):
        cdef int32_t i
        cdef const Span* member
        cdef dict members = {}
        for i in range(self.members.count):
            member = self.member(i)
            members[text_of(&member[MEMBER_ID])] = (
                text_of(&member[INSTANCE_ID]),
                member[SUBSCRIPTION].at[:member[SUBSCRIPTION].size])
        return members


class GroupLog:
    """The metadata records of one group, in log order."""

    __slots__ = ("_view", "changes", "first", "last")

    def __init__(self):
        self.first = self.last = self._view = None
        self.changes = []

    def __getstate__(self):
        return (self.first, self.last, pack(self.changes))

    def __setstate__(self, state):
        self.first, self.last, packed = state
        self.changes = unpack(packed)
        self._view = None

    def add(self, log_offset, timestamp, bytes value):
        """Add the next record."""
        add_generation(self, log_offset, timestamp, GroupView(value))

    def _last_view(self):
        return GroupView(self.last.value) if self._view is None else self._view

    def copy(self):
        """Return an independent copy."""
        copied = GroupLog()
        copied.first, copied.last, copied.changes = self.first, self.last, list(self.changes)
        return copied

    def absorb(self, later):
        """Append the records of a later piece of the log."""
        if not isinstance(later, GroupLog):
            raise TypeError(f"later must be a GroupLog, not {shown(later)}")
        first = later.first
        self.changes.append(change(self.last.timestamp, self._last_view(), first.log_offset,
                                   first.timestamp, GroupView(first.value)))
        self.changes.extend(later.changes)
        self.last, self._view = later.last, None

    def generations(self):
        """Return a row for each record."""
        first = self.first
        return [change(-1, None, first.log_offset, first.timestamp, GroupView(first.value)),
                *self.changes]


cdef packed struct Packed:       # a generation without its lists of members; see `pack_row`
    int64_t log_offset, timestamp, state_timestamp, since_previous_ms
    int32_t generation, previous_generation, member_count
    int32_t protocol_type, protocol, leader                  # indexes in a list of texts
    uint8_t flags


cdef tuple pack(list rows):
    """Turn generations into few objects, as a pickle takes a microsecond for each tuple and text.

    Most texts are repeated, so a text is its index in a list. In most records no member changed, so
    only the lists of the other rows are there, by the row's number.
    """
    cdef dict places = {}
    cdef dict changed = {}
    cdef Py_ssize_t i, count = len(rows)
    cdef bytes numbers = PyBytes_FromStringAndSize(NULL, count * <Py_ssize_t>sizeof(Packed))
    cdef Packed* at = <Packed*>PyBytes_AS_STRING(numbers)
    for i in range(count):
        lists = pack_row(rows[i], &at[i], places)
        if lists is not None:
            changed[i] = lists
    return numbers, list(places), changed


cdef tuple pack_row(object row, Packed* to, dict places):
    """Fill `to`; return the lists of members, or None if all are empty."""
    if not isinstance(row, tuple):
        raise TypeError(f"a generation must be a Generation, not {shown(row)}")
    (log_offset, timestamp, tombstone, protocol_type, generation, protocol, leader,
     state_timestamp, member_count, joined, left, replaced, subscription_changed, leader_changed,
     protocol_changed, previous_generation, since_previous_ms) = <tuple>row
    to.log_offset, to.member_count = log_offset, member_count
    to.timestamp = 0 if timestamp is None else timestamp
    to.state_timestamp = 0 if state_timestamp is None else state_timestamp
    to.since_previous_ms = 0 if since_previous_ms is None else since_previous_ms
    to.generation = 0 if generation is None else generation
    to.previous_generation = 0 if previous_generation is None else previous_generation
    to.protocol_type = places.setdefault(protocol_type, len(places))
    to.protocol = places.setdefault(protocol, len(places))
    to.leader = places.setdefault(leader, len(places))
    to.flags = (
        (TOMBSTONE if tombstone else 0) | (LEADER_CHANGED if leader_changed else 0)
        | (PROTOCOL_CHANGED if protocol_changed else 0)
        | (NO_TIMESTAMP if timestamp is None else 0)
        | (NO_GENERATION if generation is None else 0)
        | (NO_STATE_TIMESTAMP if state_timestamp is None else 0)
        | (NO_PREVIOUS if previous_generation is None else 0)
        | (NO_SINCE if since_previous_ms is None else 0))
    if joined or left or replaced or subscription_changed:
        return joined, left, replaced, subscription_changed
    return None


cdef list unpack(tuple packed):
    """Turn the values of `pack` into generations; they may have been changed on their way."""
    cdef bytes numbers
    cdef list texts
    cdef dict changed
    numbers, texts, changed = packed
    cdef Py_ssize_t i, count = len(numbers) // <Py_ssize_t>sizeof(Packed)    # `len` raises for None
    cdef const Packed* at = <const Packed*>PyBytes_AS_STRING(numbers)
    cdef list rows = []
    if count * <Py_ssize_t>sizeof(Packed) != len(numbers):
        raise CoterieError("generations of a partial state are cut off")
    for i in range(count):
        rows.append(unpack_row(&at[i], texts, changed.get(i)))
    return rows


cdef object unpack_row(const Packed* row, list texts, tuple lists):
    cdef int flags = row.flags
    if lists is None:
        lists = ([], [], [], [])
    elif len(lists) != 4:
        raise CoterieError("a generation of a partial state does not have four lists of members")
    return new_tuple(Generation, (
        row.log_offset, None if flags & NO_TIMESTAMP else row.timestamp,
        (flags & TOMBSTONE) != 0, text_at(texts, row.protocol_type),
        None if flags & NO_GENERATION else row.generation, text_at(texts, row.protocol),
        text_at(texts, row.leader), None if flags & NO_STATE_TIMESTAMP else row.state_timestamp,
        row.member_count, *lists, (flags & LEADER_CHANGED) != 0, (flags & PROTOCOL_CHANGED) != 0,
        None if flags & NO_PREVIOUS else row.previous_generation,
        None if flags & NO_SINCE else row.since_previous_ms))


cdef object text_at(list texts, int32_t place):
    if not 0 <= place < len(texts):
        raise CoterieError("a generation of a partial state names a text that is not there")
    return texts[place]


cdef int add_generation(object log, object log_offset, object timestamp,
                        GroupView view) except -1:
    """Add the next record to a GroupLog."""
    cdef object record = new_tuple(MetadataRecord, (log_offset, timestamp, view.value))
    if log.first is None:
        log.first = record
    else:
        log.changes.append(
            change(log.last.timestamp, log._last_view(), log_offset, timestamp, view))
    log.last, log._view = record, view
    return 0


cdef bint same_members(GroupView before, GroupView after) noexcept:
    """Whether ids, instance ids and subscriptions are the same, in the same order."""
    cdef const Span* old
    cdef const Span* new
    cdef int32_t i
    if before.members.count != after.members.count:
        return False
    for i in range(after.members.count):
        old, new = before.member(i), after.member(i)
        if not (same(&old[MEMBER_ID], &new[MEMBER_ID])
                and same(&old[INSTANCE_ID], &new[INSTANCE_ID])
                and same(&old[SUBSCRIPTION], &new[SUBSCRIPTION])):
            return False
    return True


cdef tuple compare_members(dict old, dict new):
    """Return (joined, left, replaced, subscription_changed), each in the order of its record."""
    was_static = {instance: member_id for member_id, (instance, _) in old.items() if instance}
    replaced, joined = [], []
    for member_id, (instance, _) in new.items():
        if member_id in old:
            continue
        if instance in was_static and was_static[instance] not in new:
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


cdef object change(object before_ms, GroupView before, object log_offset, object after_ms,
                   GroupView after):
    """Make the Generation of a record: its changes since the record before."""
    cdef bint first = before is None or before.value is None
    cdef bint gone = after.value is None
    cdef tuple members
    if before is not None and same_members(before, after):
        members = ([], [], [], [])
    else:
        members = compare_members({} if before is None else before.by_id(), after.by_id())
    since = None
    if before is not None and before_ms >= 0 and after_ms >= 0:
        since = after_ms - before_ms
    return new_tuple(Generation, (
        log_offset, None if after_ms < 0 else after_ms, gone,
        text_of(&after.protocol_type), None if gone else after.generation,
        text_of(&after.protocol), text_of(&after.leader),
        None if after.state_timestamp < 0 else after.state_timestamp, after.members.count, *members,
        not first and not same(&before.leader, &after.leader),
        not first and not same(&before.protocol, &after.protocol),
        None if first else before.generation, since))

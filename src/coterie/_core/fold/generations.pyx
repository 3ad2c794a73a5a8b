"""What happened to one group, record by record of its metadata. See ``generations.pyi``.

Knows values, not their places in the topic. A group keeps its first and last record whole, for
the pieces before and after, and of those between only what changed. Two values are compared by
their bytes; only what differs becomes Python objects, so that a rebalance of a large group in
which nobody came or went costs a walk and no more.
"""
from collections import namedtuple

cimport cython
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcmp

from coterie._core.codec.cursor cimport OK, Status
from coterie._core.codec.fields cimport slot_of, versions_of
from coterie._core.codec.walk cimport MOST_FIELDS, Span, Versions, number_at, walk_value
from coterie._core.fold.commit cimport KEY_GROUP

from coterie._core.codec.fields import GROUP_METADATA, MEMBER
from coterie._core.codec.text import decode_utf8
from coterie.errors import CorruptData, shown

MetadataRecord = namedtuple("MetadataRecord", "log_offset timestamp value", module=__name__)
MetadataRecord.__doc__ = """See ``generations.pyi``."""
Generation = namedtuple(
    "Generation",
    "log_offset timestamp tombstone protocol_type generation protocol leader "
    "current_state_timestamp member_count joined left replaced subscription_changed "
    "leader_changed protocol_changed previous_generation since_previous_ms", module=__name__)
Generation.__doc__ = """See ``generations.pyi``."""
cdef tuple TEXTS = tuple(Generation._fields.index(name) for name in (
    "protocol_type", "protocol", "leader"))
cdef Py_ssize_t JOINED = Generation._fields.index("joined")  # and three lists more, next to it
cdef object make = tuple.__new__     # what a named tuple's own maker calls: a third of its time

cdef const Versions* VALUES = versions_of(KEY_GROUP)
cdef int PROTOCOL_TYPE = slot_of(GROUP_METADATA, "protocolType")
cdef int GENERATION = slot_of(GROUP_METADATA, "generation")
cdef int PROTOCOL = slot_of(GROUP_METADATA, "protocol")
cdef int LEADER = slot_of(GROUP_METADATA, "leader")
cdef int STATE_TIMESTAMP = slot_of(GROUP_METADATA, "currentStateTimestamp")
cdef int MEMBERS = slot_of(GROUP_METADATA, "members")
cdef int MEMBER_ID = slot_of(MEMBER, "memberId")
cdef int INSTANCE_ID = slot_of(MEMBER, "groupInstanceId")
cdef int SUBSCRIPTION = slot_of(MEMBER, "subscription")


cdef inline bint same(const Span* one, const Span* other) noexcept nogil:
    if one.at == NULL or other.at == NULL:
        return one.at == other.at
    return one.size == other.size and memcmp(one.at, other.at, one.size) == 0


cdef inline object text_of(const Span* span):
    return None if span.at == NULL else decode_utf8(span.at[:span.size])


@cython.final
cdef class GroupView:
    """The spans of one group metadata value, which it keeps alive; of a tombstone, none."""

    def __cinit__(self, bytes value):
        cdef Span fields[MOST_FIELDS]
        cdef Status status
        self.value = value
        self.state_timestamp = -1
        if value is None:
            return
        self.members.slot = MEMBERS
        status = walk_value(value, len(value), VALUES, fields, &self.members)
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
        cdef dict found = {}
        for i in range(self.members.count):
            member = self.member(i)
            found[text_of(&member[MEMBER_ID])] = (
                text_of(&member[INSTANCE_ID]) or None,
                member[SUBSCRIPTION].at[:member[SUBSCRIPTION].size])
        return found


class GroupLog:
    """See ``generations.pyi``."""

    __slots__ = ("_view", "changes", "first", "last")

    def __init__(self):
        self.first = self.last = self._view = None
        self.changes = []

    def __getstate__(self):
        return (self.first, self.last, columns_of(self.changes))

    def __setstate__(self, state):
        self.first, self.last, columns = state
        self.changes = rows_of(columns) if columns else []
        self._view = None

    def add(self, log_offset, timestamp, bytes value):
        """See ``generations.pyi``."""
        note(self, log_offset, timestamp, GroupView(value))

    def _last_view(self):
        return GroupView(self.last.value) if self._view is None else self._view

    def copy(self):
        """See ``generations.pyi``."""
        twin = GroupLog()
        twin.first, twin.last, twin.changes = self.first, self.last, list(self.changes)
        return twin

    def absorb(self, later):
        """See ``generations.pyi``."""
        if not isinstance(later, GroupLog):
            raise TypeError(f"later must be a GroupLog, not {shown(later)}")
        first = later.first
        self.changes.append(change(self.last.timestamp, self._last_view(), first.log_offset,
                                   first.timestamp, GroupView(first.value)))
        self.changes.extend(later.changes)
        self.last, self._view = later.last, None

    def generations(self):
        """See ``generations.pyi``."""
        first = self.first
        return [change(-1, None, first.log_offset, first.timestamp, GroupView(first.value)),
                *self.changes]


cdef tuple columns_of(list rows):
    """Generations as columns, for a pickle: it spends a microsecond on each tuple, list and text.

    Most texts are repeated, so a text is its place in a list; and in most records nobody came or
    went, so only the other rows' lists are kept, by the row's number.
    """
    cdef dict words = {}
    cdef dict changed = {}
    cdef list columns
    cdef Py_ssize_t i, n
    if not rows:
        return ()
    for i, row in enumerate(rows):
        if row[JOINED] or row[JOINED + 1] or row[JOINED + 2] or row[JOINED + 3]:
            changed[i] = row[JOINED:JOINED + 4]
    columns = list(zip(*rows))
    for n in TEXTS:
        columns[n] = [words.setdefault(text, len(words)) for text in columns[n]]
    del columns[JOINED:JOINED + 4]
    return columns, list(words), changed


cdef list rows_of(tuple packed):
    """The generations of :func:`columns_of`."""
    cdef list columns, words
    cdef dict changed
    cdef Py_ssize_t n
    columns, words, changed = packed
    for n in TEXTS:
        columns[n] = [words[place] for place in columns[n]]
    members = [changed.get(n) or ([], [], [], []) for n in range(len(columns[0]))]
    columns[JOINED:JOINED] = zip(*members)
    return [make(Generation, row) for row in zip(*columns)]


cdef int note(object log, object log_offset, object timestamp, GroupView view) except -1:
    """Take the next record of a GroupLog."""
    cdef object record = make(MetadataRecord, (log_offset, timestamp, view.value))
    if log.first is None:
        log.first = record
    else:
        log.changes.append(
            change(log.last.timestamp, log._last_view(), log_offset, timestamp, view))
    log.last, log._view = record, view
    return 0


cdef bint same_members(GroupView before, GroupView after) noexcept:
    """The same ids, instance ids and subscriptions in the same order."""
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


cdef object change(object before_ms, GroupView before, object log_offset, object after_ms,
                   GroupView after):
    """What a record changed since the one before: a Generation."""
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
    return make(Generation, (
        log_offset, None if after_ms < 0 else after_ms, gone,
        text_of(&after.protocol_type), None if gone else after.generation,
        text_of(&after.protocol), text_of(&after.leader),
        None if after.state_timestamp < 0 else after.state_timestamp, after.members.count, *members,
        not first and not same(&before.leader, &after.leader),
        not first and not same(&before.protocol, &after.protocol),
        None if first else before.generation, since))

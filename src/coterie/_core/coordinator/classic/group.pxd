"""Groups of the classic protocol: members, states, votes, and their records."""
from cpython.dict cimport PyDict_DelItem, PyDict_GetItemWithError, PyDict_Next, PyDict_SetItem
from cpython.ref cimport PyObject, Py_CLEAR, Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint64_t

from coterie._core.codec.schema cimport Readable
from coterie._core.coordinator.runtime cimport Batch, Group, Request
from coterie._core.structures.votes cimport ProtocolCounts

# ---- A member, and an id that was handed out: declarations ---------------------------------------

cdef class PendingId:
    cdef str group_id
    cdef str member_id
    cdef int64_t timer
    cdef Py_ssize_t slot

cdef class MemberMetadata:
    cdef readonly str member_id
    cdef readonly str group_instance_id
    cdef readonly str client_id
    cdef readonly str client_host
    cdef readonly str protocol_type
    cdef readonly tuple protocols              # ((name, bytes), ...) in order of preference
    cdef readonly int32_t rebalance_timeout_ms
    cdef readonly int32_t session_timeout_ms
    cdef readonly bytes assignment
    cdef readonly bint is_new
    cdef bint pending_sync                     # joined in this generation, not synced
    cdef Request awaiting_join
    cdef Request awaiting_sync
    cdef str group_id                          # of its group, or None
    cdef int64_t timer                         # handle of the session timer, or NO_TIMER
    cdef Py_ssize_t slot                       # owner of its timer

    cdef bytes metadata_of(self, str protocol)

cdef MemberMetadata new_member(str member_id, str instance, tuple protocols, str protocol_type,
                               int32_t rebalance_ms, int32_t session_ms)
cdef MemberMetadata a_member(object value)
cdef str numbered_id(str prefix, int64_t number)

# ---- the members of a group, by id, in the order of adding. Header only --------------------------

cdef extern from *:
    """
    /* The last bytes of an id, and its length: most ids differ in them. */
    static inline uint64_t coterie_id_end(PyObject* id) {
        size_t size = (size_t)PyUnicode_GET_LENGTH(id) * (size_t)PyUnicode_KIND(id);
        const char* data = (const char*)PyUnicode_DATA(id);
        uint64_t end = 0;
        if (size >= 8) memcpy(&end, data + size - 8, 8);  /* of a fixed size it is one move */
        else memcpy(&end, data, size);
        return end ^ (uint64_t)size << 56;
    }
    static inline int coterie_same_text(PyObject* a, PyObject* b) {
        const char *x, *y;
        size_t size;
        uint64_t p, q, r, s;
        if (a == b) return 1;
        if (PyUnicode_GET_LENGTH(a) != PyUnicode_GET_LENGTH(b)
            || PyUnicode_KIND(a) != PyUnicode_KIND(b)) return 0;
        x = (const char*)PyUnicode_DATA(a), y = (const char*)PyUnicode_DATA(b);
        size = (size_t)PyUnicode_GET_LENGTH(a) * (size_t)PyUnicode_KIND(a);
        if (size < 8 || size > 16) return memcmp(x, y, size) == 0;
        memcpy(&p, x, 8), memcpy(&q, y, 8);
        memcpy(&r, x + size - 8, 8), memcpy(&s, y + size - 8, 8);
        return p == q && r == s;
    }
    """
    uint64_t coterie_id_end(object id) noexcept
    bint coterie_same_text(object a, object b) noexcept

cdef enum:
    FEW = 4

cdef struct MemberTable:
    Py_ssize_t count
    Py_ssize_t first_place         # in the dict; no member is left before it
    PyObject* many                 # id -> member, owned; NULL: they are in `few`
    PyObject* few[FEW]             # owned
    uint64_t ends[FEW]             # of their ids


cdef inline Py_ssize_t row_of(const MemberTable* table, str member_id) noexcept:
    """Return the row of this id; -1: there is none."""
    cdef uint64_t end = coterie_id_end(member_id)
    cdef Py_ssize_t n
    for n in range(table.count):
        if table.ends[n] == end and coterie_same_text(
                (<MemberMetadata>table.few[n]).member_id, member_id):
            return n
    return -1


cdef inline MemberMetadata find_member(const MemberTable* table, str member_id):
    """Return the member with this id, or None."""
    cdef Py_ssize_t n
    cdef PyObject* item
    if member_id is None:
        return None
    if table.many == NULL:
        n = row_of(table, member_id)
        return None if n < 0 else <MemberMetadata>table.few[n]
    item = PyDict_GetItemWithError(<object>table.many, member_id)
    return None if item == NULL else <MemberMetadata>item


cdef inline bint has_member(const MemberTable* table, str member_id) except -1:
    return find_member(table, member_id) is not None


cdef inline MemberMetadata next_member(const MemberTable* table, Py_ssize_t* place):
    """Return the next member; `place` is 0 at first. None at the end."""
    cdef PyObject* member = NULL
    if table.many != NULL:
        PyDict_Next(<object>table.many, place, NULL, &member)
        return None if member == NULL else <MemberMetadata>member
    if place[0] >= table.count:
        return None
    place[0] += 1
    return <MemberMetadata>table.few[place[0] - 1]


cdef inline list list_members(const MemberTable* table):
    cdef list members = []
    cdef Py_ssize_t place = 0
    cdef MemberMetadata member = next_member(table, &place)
    while member is not None:
        members.append(member)
        member = next_member(table, &place)
    return members


cdef inline int put_member(MemberTable* table, str member_id, MemberMetadata member) except -1:
    """Add a member at the end; it replaces one with the same id in its place."""
    cdef Py_ssize_t n
    cdef PyObject* before
    cdef dict many
    if table.many == NULL:
        n = row_of(table, member_id)
        if n >= 0:
            before = table.few[n]
            Py_INCREF(member)
            table.few[n] = <PyObject*>member
            Py_DECREF(<object>before)
            return 0
        if table.count < FEW:
            Py_INCREF(member)
            table.few[table.count] = <PyObject*>member
            table.ends[table.count] = coterie_id_end(member_id)
            table.count += 1
            return 0
        many = {other.member_id: other for other in list_members(table)}
        many[member_id] = member
        clear_members(table)
        Py_INCREF(many)
        table.many = <PyObject*>many
    else:
        PyDict_SetItem(<object>table.many, member_id, member)
    table.count = len(<dict>table.many)
    table.first_place = 0         # an insertion may move the entries of a dict


cdef inline MemberMetadata pop_member(MemberTable* table, str member_id):
    """Remove and return the member with this id, or None."""
    cdef MemberMetadata member
    cdef Py_ssize_t n
    if table.many != NULL:
        member = find_member(table, member_id)
        if member is not None:
            PyDict_DelItem(<object>table.many, member_id)
            table.count -= 1
            if table.count == 0:
                clear_members(table)
        return member
    n = -1 if member_id is None else row_of(table, member_id)
    if n < 0:
        return None
    member = <MemberMetadata>table.few[n]
    Py_DECREF(member)              # the row's reference; `member` has its own
    table.count -= 1
    while n < table.count:
        table.few[n] = table.few[n + 1]
        table.ends[n] = table.ends[n + 1]
        n += 1
    return member


cdef inline MemberMetadata first_member(MemberTable* table):
    """Return the first member in the order of adding, or None.

    The search in a dict continues from the last result. From the start it would pass all removed
    entries each time, when members leave in the order of adding.
    """
    cdef PyObject* member = NULL
    if table.many == NULL:
        return None if table.count == 0 else <MemberMetadata>table.few[0]
    PyDict_Next(<object>table.many, &table.first_place, NULL, &member)
    if member == NULL:
        return None
    table.first_place -= 1        # it is only read
    return <MemberMetadata>member


cdef inline int clear_members(MemberTable* table) except -1:
    cdef Py_ssize_t n, count = 0 if table.many != NULL else table.count
    table.count = table.first_place = 0
    Py_CLEAR(table.many)
    for n in range(count):
        Py_DECREF(<object>table.few[n])

# ---- the topics that members subscribe to: declarations ------------------------------------------

cdef frozenset topics_of(const MemberTable* members, str protocol_name, Readable* status)

# ---- A classic group: declarations for the coordinator -------------------------------------------

cdef enum JoinKind:
    NO_JOIN = 0
    PLAIN_JOIN = 1
    INITIAL_JOIN = 2

cdef class GroupMetadata(Group):
    cdef bint made                             # __init__ has run; it must not run again
    cdef int state
    cdef int previous_state                    # Dead at first; -1: only its offsets were loaded
    cdef readonly int64_t current_state_timestamp   # -1: none (an old record)
    cdef readonly str protocol_type
    cdef readonly str protocol_name
    cdef readonly int32_t generation_id
    cdef readonly str leader_id
    cdef MemberTable members                        # in order of adding
    cdef dict static_members                   # group instance id -> member id
    cdef dict pending_members                  # member id -> PendingId
    cdef readonly Py_ssize_t num_members_awaiting_join
    cdef ProtocolCounts counts
    cdef Py_ssize_t num_pending_sync           # members with `pending_sync`
    cdef dict renamed_sync                     # member ids instead of those, once one was renamed
    cdef readonly bint new_member_added
    cdef readonly frozenset subscribed_topics  # None: unknown

    cdef int ties                              # of `Ties`
    cdef Py_ssize_t slot
    cdef int join_kind                         # the rebalance's unfinished operations
    cdef int64_t join_timer
    cdef int64_t join_delay_ms
    cdef int64_t join_remaining_ms
    cdef int64_t sync_timer
    cdef int32_t sync_generation

    cdef MemberMetadata get(self, str member_id)
    cdef bint can_go_to(self, int state) noexcept
    cdef int enter(self, int state, int64_t now_ms) except -1
    cdef bint supports(self, str protocol_type, tuple protocols) except -1
    cdef int add_member(self, MemberMetadata member, Request join) except -1
    cdef MemberMetadata remove_member(self, str member_id)
    cdef int change_member(self, MemberMetadata member, tuple protocols, int32_t rebalance_ms,
                           int32_t session_ms, Request join) except -1
    cdef int rename_member(self, MemberMetadata member, str new_id) except -1
    cdef bint is_led_by(self, str member_id) noexcept
    cdef bint elect(self) except -1
    cdef str vote(self)
    cdef int64_t rebalance_timeout(self) noexcept
    cdef int next_generation(self, int64_t now_ms) except -1
    cdef Readable subscribe(self) except *
    cdef tuple member_list(self)
    cdef bint awaits_sync(self) noexcept
    cdef int await_sync(self, MemberMetadata member) except -1
    cdef int forget_sync(self, MemberMetadata member) except -1
    cdef int forget_syncs(self) except -1
    cdef list pending_sync(self)

cdef GroupMetadata new_group(str group_id, int64_t now_ms)
cdef int check_member(GroupMetadata group, str member_id, str instance) except? -7
cdef MemberMetadata static_member(GroupMetadata group, str instance)


cdef inline bint knows_id(GroupMetadata group, str member_id) except -1:
    """Whether a member has or had this id, or it was handed out."""
    return (has_member(&group.members, member_id) or member_id in group.pending_members
            or member_id in group.renamed_sync)

# ---- the record of a classic group: its declarations ---------------------------------------------

cdef bytes group_key(str group_id)
cdef Batch empty_group_batch(GroupMetadata group, Batch before)
cdef Batch group_batch(GroupMetadata group, dict assignments)
cdef bytes assignment_of(dict assignments, str member_id, Py_ssize_t* place)

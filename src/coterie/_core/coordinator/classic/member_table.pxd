"""The members of a group, by id, in the order of adding. Header only.

Up to FEW members are rows, searched by the last bytes of the id. Most groups are small, and a dict
and its hashes would cost them more than all of their other work. A larger group uses a dict until
its last member is removed.
"""
from cpython.dict cimport PyDict_DelItem, PyDict_GetItemWithError, PyDict_Next, PyDict_SetItem
from cpython.ref cimport Py_CLEAR, Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport uint64_t

from coterie._core.coordinator.classic.member cimport MemberMetadata

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

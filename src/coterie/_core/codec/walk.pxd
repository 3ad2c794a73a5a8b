"""One message of the tables of ``fields``, walked: where each field lies. Header only.

Nothing is copied or raised, and nothing allocated but for `Rows`; it needs no GIL. What a table
says of a field stands in a Step, what one version of a message has in a Plan. No length and no
count is used before it was held against the bytes that are left. Recursion is as deep as a table.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport realloc
from libc.string cimport memset

from coterie._core.codec.cursor cimport (
    BEYOND, NEGATIVE, OK, TRUNCATED, Cursor, Status, load_i16, load_i32, load_i64, read_bytes32,
    read_compact, read_i8, read_i16, read_i32, read_span, read_string16, read_uvarint, remaining)

cdef enum Op:
    INT8 = 0
    INT16 = 1
    UINT16 = 2
    INT32 = 3
    INT64 = 4
    UUID = 5
    STRING = 6
    BYTES = 7
    ARRAY = 8
    STRUCT = 9

cdef enum:
    MOST_FIELDS = 16         # of one struct in all its versions; `fields` holds its tables to it
    MOST_VERSIONS = 16       # of one message

cdef struct Plan

cdef struct Span:
    const uint8_t* at        # NULL: null, or no field of this version
    int32_t size             # bytes; of an array: elements, the first of which lies there

cdef struct Step:            # one field
    Op op
    bint nullable
    int width                # bytes, where every value has as many
    int slot                 # its number among the fields of all versions
    int tag                  # -1: in its place; else the tag that it is written under
    const Plan* inner        # of a struct its fields, of an array those of an element

cdef struct Plan:            # what one version has
    int count
    int tagged_count
    int slots                # fields of all versions
    bint flexible            # compact lengths
    bint tagged              # ends with tagged fields
    Step* steps              # in their order on disk, then those with a tag

cdef struct Rows:            # the elements of one array of the message
    int slot                 # of the array
    int width                # spans of an element; written by the walk
    int32_t count
    int32_t room
    bint failed              # no memory
    Span* spans              # whoever asked for them frees them

cdef struct Versions:        # of one message, by number
    int count
    const Plan* plans[MOST_VERSIONS]


cdef inline Status take(Cursor* cur, const Step* step, bint flexible, Span* out) noexcept nogil:
    """A field that is no struct. Of an array the count is read and no element."""
    cdef uint32_t raw
    cdef Status status
    if step.width:
        if cur.end - cur.at < step.width:
            return TRUNCATED
        out.at, out.size = cur.at, step.width
        cur.at += step.width
        return OK
    if flexible and step.op != ARRAY:
        status = read_compact(cur, &out.at, &out.size)
    elif step.op == STRING:
        status = read_string16(cur, &out.at, &out.size)
    elif step.op == BYTES:
        status = read_bytes32(cur, &out.at, &out.size)
    else:
        if flexible:
            status = read_uvarint(cur, &raw)
            out.size = <int32_t>(raw - 1)
        else:
            status = read_i32(cur, &out.size)
        if status == OK and out.size > remaining(cur):
            return BEYOND                  # every element takes a byte at least
        out.at = NULL if out.size < 0 else cur.at
    return NEGATIVE if status == OK and out.at == NULL and not step.nullable else status


cdef inline Status walk_field(Cursor* cur, const Step* step, bint flexible,
                              Span* out, Rows* rows) noexcept nogil:
    cdef Span inner[MOST_FIELDS]
    cdef int8_t present
    cdef int32_t _i
    cdef Status status
    if step.op == STRUCT:
        if step.nullable:
            status = read_i8(cur, &present)
            if status != OK or present < 0:
                out.at = NULL
                return status
        out.at, out.size = cur.at, 1
        return walk(cur, step.inner, inner, NULL)
    status = take(cur, step, flexible, out)
    if status == OK and step.op == ARRAY:
        for _i in range(out.size):
            status = walk(cur, step.inner, row_of(rows, step, inner), NULL)
            if status != OK:
                break
    return status


cdef inline Span* row_of(Rows* rows, const Step* step, Span* unwanted) noexcept nogil:
    """Where the next element of an array goes."""
    cdef void* grown
    if rows == NULL or rows.slot != step.slot or rows.failed:
        return unwanted
    rows.width = step.inner.slots
    if rows.count == rows.room:
        # As many as were walked, not as many as a count says: that one is anybody's.
        grown = realloc(rows.spans, <size_t>(2 * rows.room + 8) * rows.width * sizeof(Span))
        if grown == NULL:
            rows.failed = True
            return unwanted
        rows.spans = <Span*>grown
        rows.room = 2 * rows.room + 8
    rows.count += 1
    return &rows.spans[<Py_ssize_t>(rows.count - 1) * rows.width]


cdef inline Status walk(Cursor* cur, const Plan* plan, Span* out, Rows* rows) noexcept nogil:
    """The fields of a struct, into `plan.slots` spans; into `rows`, if any, an array's elements."""
    cdef const Step* step
    cdef Status status
    cdef int i
    memset(out, 0, plan.slots * sizeof(Span))
    for i in range(plan.count):
        step = &plan.steps[i]
        if step.op < ARRAY:
            status = take(cur, step, plan.flexible, &out[step.slot])
        else:
            status = walk_field(cur, step, plan.flexible, &out[step.slot], rows)
        if status != OK:
            return status
    return walk_tags(cur, plan, out) if plan.tagged else OK


cdef inline Status walk_tags(Cursor* cur, const Plan* plan, Span* out) noexcept nogil:
    """The fields after the last. Kafka's readers take those that they know as they come, and do
    not look at the size."""
    cdef uint32_t count, tag = 0, size = 0, present
    cdef const uint8_t* start
    cdef const Step* step
    cdef Span inner[MOST_FIELDS]
    cdef Status status = read_uvarint(cur, &count)
    while status == OK and count > 0:
        status = read_uvarint(cur, &tag)
        if status == OK:
            status = read_uvarint(cur, &size)
        if status != OK:
            break
        step = known_tag(plan, tag)
        if step == NULL:
            status = read_span(cur, size, &start)
        elif step.op == STRUCT:
            status = read_uvarint(cur, &present)
            if status == OK and present:
                out[step.slot].at, out[step.slot].size = cur.at, 1
                status = walk(cur, step.inner, inner, NULL)
        else:
            status = walk_field(cur, step, True, &out[step.slot], NULL)
        count -= 1
    return status


cdef inline const Step* known_tag(const Plan* plan, uint32_t tag) noexcept nogil:
    cdef int i
    for i in range(plan.count, plan.count + plan.tagged_count):
        if <uint32_t>plan.steps[i].tag == tag:
            return &plan.steps[i]
    return NULL


cdef inline Status walk_value(const uint8_t* value, Py_ssize_t size, const Versions* versions,
                              Span* out, Rows* rows) noexcept nogil:
    """A value that begins with its version. An unknown one answers NEGATIVE."""
    cdef Cursor cur
    cdef int16_t version
    cur.at, cur.end = value, value + size
    cdef Status status = read_i16(&cur, &version)
    if status != OK:
        return status
    if version < 0 or version >= versions.count:
        return NEGATIVE
    return walk(&cur, versions.plans[version], out, rows)


cdef inline int64_t number_at(const Span* span, int64_t absent) noexcept nogil:
    """What a span of a signed number says."""
    if span.at == NULL:
        return absent
    if span.size == 8:
        return load_i64(span.at)
    if span.size == 4:
        return load_i32(span.at)
    return load_i16(span.at) if span.size == 2 else <int8_t>span.at[0]

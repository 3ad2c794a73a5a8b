"""Find the fields of a message by its layout, as spans of its bytes. Header only: inlined.

Accepts the same bytes as `decode`, without Python objects and without the GIL. Copies and raises
nothing, and allocates only for `Rows`. Every length and count is compared with the remaining bytes
before it is used. Recursion is as deep as the layout.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport realloc
from libc.string cimport memset

from coterie._core.codec.cursor cimport (
    BEYOND, NEGATIVE, OK, TRUNCATED, Cursor, Status, load_i16, load_i32, load_i64, read_bytes32,
    read_compact, read_count, read_i8, read_i16, read_span, read_tag, read_text_span, read_uvarint,
    remaining)
from coterie._core.codec.layout cimport LIST, MAX_FIELDS, STRING, STRUCT, Kind, Plan, Step

cdef enum:
    MAX_VERSIONS = 16        # of one message

cdef struct Span:
    const uint8_t* at        # NULL: null, or the version lacks the field
    int32_t size             # bytes; for a list: number of elements, the first of which is at `at`

cdef struct Rows:            # the elements of one list of the message; the caller frees `spans`
    int slot                 # of the list
    int width                # spans of an element; set by the walk
    int32_t count
    int32_t room
    bint failed              # no memory
    Span* spans

cdef struct Versions:        # of one message, by number
    int count
    const Plan* plans[MAX_VERSIONS]


cdef inline Status take(Cursor* cur, const Step* step, bint flexible, Span* out) noexcept nogil:
    """Take a field that is neither a list nor a struct."""
    if not step.width:
        return take_bytes(cur, step.kind, step.nullable, flexible, out)
    if cur.end - cur.at < step.width:
        return TRUNCATED
    out.at, out.size = cur.at, step.width
    cur.at += step.width
    return OK


cdef inline Status take_bytes(Cursor* cur, Kind kind, bint nullable, bint flexible,
                              Span* out) noexcept nogil:
    """Take a text or bytes."""
    cdef Status status
    if kind == STRING:
        status = read_text_span(cur, flexible, &out.at, &out.size)
    elif flexible:
        status = read_compact(cur, &out.at, &out.size)
    else:
        status = read_bytes32(cur, &out.at, &out.size)
    return NEGATIVE if status == OK and out.at == NULL and not nullable else status


cdef inline Status walk_field(Cursor* cur, const Step* step, bint flexible,
                              Span* out, Rows* rows) noexcept nogil:
    cdef int8_t present
    cdef Status status
    if step.kind == LIST:
        return walk_list(cur, step, flexible, out, rows)
    if step.kind != STRUCT:
        return take(cur, step, flexible, out)
    if step.nullable:
        status = read_i8(cur, &present)
        if status != OK or present < 0:
            out.at = NULL                  # a tag may come twice
            return status
    return walk_struct(cur, step.inner, out)


cdef inline Status walk_struct(Cursor* cur, const Plan* plan, Span* out) noexcept nogil:
    cdef Span inner[MAX_FIELDS]
    out.at, out.size = cur.at, 1
    return walk(cur, plan, inner, NULL)


cdef inline Status walk_list(Cursor* cur, const Step* step, bint flexible,
                             Span* out, Rows* rows) noexcept nogil:
    cdef Span inner[MAX_FIELDS]
    cdef Span* into
    cdef int32_t _i
    cdef Status status = read_count(cur, flexible, &out.size)
    if status != OK:
        return status
    if out.size < 0:
        out.at = NULL
        return OK if step.nullable else NEGATIVE
    if <int64_t>out.size * (step.width or 1) > remaining(cur):
        return BEYOND                      # every element takes at least a byte
    out.at = cur.at
    if step.width:
        cur.at += <Py_ssize_t>out.size * step.width
        return OK
    for _i in range(out.size):
        into = row_for(rows, step, inner)
        if step.item == STRUCT:
            status = walk(cur, step.inner, into, NULL)
        else:
            status = take_bytes(cur, step.item, False, flexible, into)
        if status != OK:
            break
    return status


cdef inline Span* row_for(Rows* rows, const Step* step, Span* unused) noexcept nogil:
    """Return the spans of the next element: a new row, or `unused` if no row is requested."""
    cdef void* grown
    if rows == NULL or rows.slot != step.slot or rows.failed:
        return unused
    rows.width = step.inner.slots if step.item == STRUCT else 1
    if rows.count == rows.room:
        # Grows with the elements that were found, because a hostile count may be any number.
        grown = realloc(rows.spans, <size_t>(2 * rows.room + 8) * rows.width * sizeof(Span))
        if grown == NULL:
            rows.failed = True
            return unused
        rows.spans = <Span*>grown
        rows.room = 2 * rows.room + 8
    rows.count += 1
    return &rows.spans[<Py_ssize_t>(rows.count - 1) * rows.width]


cdef inline Status walk(Cursor* cur, const Plan* plan, Span* out, Rows* rows) noexcept nogil:
    """Fill `out` with the fields of a struct; `rows`, unless NULL, with the elements of a list."""
    cdef const Step* step
    cdef Status status
    cdef int i
    memset(out, 0, plan.slots * sizeof(Span))
    for i in range(plan.count):
        step = &plan.steps[i]
        if step.kind < STRUCT:
            status = take(cur, step, plan.flexible, &out[step.slot])
        else:
            status = walk_field(cur, step, plan.flexible, &out[step.slot], rows)
        if status != OK:
            return status
    return walk_tags(cur, plan, out) if plan.flexible else OK


cdef inline Status walk_tags(Cursor* cur, const Plan* plan, Span* out) noexcept nogil:
    """Take the tagged fields at the end of a struct, as `decode` does."""
    cdef uint32_t count, tag = 0, size = 0, present = 0
    cdef const uint8_t* start
    cdef const Step* step
    cdef int32_t left
    cdef Status status = read_uvarint(cur, &count)
    left = <int32_t>count
    while status == OK and left > 0:
        status = read_tag(cur, &tag, &size)
        if status != OK:
            break
        step = known_tag(plan, tag)
        if step == NULL:
            status = read_span(cur, <int32_t>size, &start)
        elif step.always:
            status = read_uvarint(cur, &present)
            if status == OK and present:
                status = walk_struct(cur, step.inner, &out[step.slot])
        else:
            status = walk_field(cur, step, True, &out[step.slot], NULL)
        left -= 1
    return status


cdef inline const Step* known_tag(const Plan* plan, uint32_t tag) noexcept nogil:
    cdef int i
    for i in range(plan.count, plan.count + plan.tagged_count):
        if <uint32_t>plan.steps[i].tag == tag:
            return &plan.steps[i]
    return NULL


cdef inline Status walk_value(const uint8_t* value, Py_ssize_t size, const Versions* versions,
                              Span* out, Rows* rows) noexcept nogil:
    """Find the fields of a value that begins with its version. NEGATIVE: an unknown version."""
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
    """Return the signed number in a span, or `absent` if the span is NULL."""
    if span.at == NULL:
        return absent
    if span.size == 8:
        return load_i64(span.at)
    if span.size == 4:
        return load_i32(span.at)
    return load_i16(span.at) if span.size == 2 else <int8_t>span.at[0]

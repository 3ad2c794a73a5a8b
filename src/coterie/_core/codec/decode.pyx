"""Bytes to plain Python values by a layout: dicts or tuples, lists, str, bytes, numbers.

Safe on any bytes. A length is compared with the remaining bytes before memory is reserved, a list
is no longer than the bytes allow, and recursion is as deep as the layout. Bytes that do not parse
raise ``WireError`` for a frame, ``CorruptData`` for a record.
Knows kinds of fields; knows no message by name. Cost: a Python object for each value that is not in
the dict already.
Source: Kafka's generated readers (MessageDataGenerator, ByteUtils).
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_Copy, PyDict_SetItem
from cpython.exc cimport PyErr_Clear
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

from coterie._core.codec.cursor cimport (
    NEGATIVE, OK, OVERLONG, TOO_LONG, TRUNCATED, Cursor, Status, load_i16, load_i32, load_i64,
    read_bytes32, read_compact, read_count, read_i8, read_span, read_tag, read_text_span,
    read_uvarint, remaining)
from coterie._core.codec.layout cimport (
    BOOL, BYTES, FLOAT64, INT8, INT16, INT32, INT64, LIST, MAX_FIELDS, STRING, STRUCT, UINT16,
    UUID, Field, Kind, Layout, Seen, Step, default_of)

from coterie._core.codec.text import decode_utf8
from coterie.errors import CorruptData, WireError

cdef extern from *:
    const Py_ssize_t PY_SSIZE_T_MAX
    # Declared without an exception, which Cython would save and restore for each text.
    PyObject* utf8_or_null "PyUnicode_DecodeUTF8" (const char* at, Py_ssize_t size,
                                                   const char* errors)

cdef enum:
    SMALL = 256                # numbers of which Python has one object each

cdef tuple small = tuple(range(SMALL))   # indexing costs less than a call
cdef const char* LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


cdef Reading reading(const uint8_t* at, Py_ssize_t size, Source source) noexcept nogil:
    cdef Reading r
    memset(&r, 0, sizeof(r))
    r.start = r.cur.at = at
    r.cur.end = at + size
    r.source = source
    r.elements = PY_SSIZE_T_MAX
    return r


cdef object read_struct(Reading* r, Layout layout):
    """Read a struct: a dict, or a tuple if `r.rows`."""
    if r.rows:
        return read_row(r, layout)
    return struct_after(r, layout, layout.blank if r.fill else layout.keys, layout.first, NULL)


cdef list read_structs(Reading* r, Layout layout, Py_ssize_t count):
    """Read a list of structs. Each begins as a copy of the one before, and only values that differ
    are set, because setting a key takes four times as long as comparing its bytes. In a Metadata
    response the rest of the time goes to three lists and four keys a partition, and to freeing
    them; kio makes slotted objects and tuples instead."""
    cdef Seen seen[MAX_FIELDS]
    cdef list structs = PyList_New(count)
    cdef dict base = layout.blank if r.fill else layout.keys
    cdef dict before = base, struct
    cdef Py_ssize_t n
    memcpy(seen, layout.first, layout.plan.count * sizeof(Seen))
    for n in range(count):
        r.tagged = False
        struct = struct_after(r, layout, before, seen, seen)
        set_item(structs, n, struct)
        before = struct
        if r.tagged:                         # the next one may lack these fields
            before = base
            memcpy(seen, layout.first, layout.plan.count * sizeof(Seen))
    return structs


cdef dict struct_after(Reading* r, Layout layout, dict before, const Seen* old, Seen* new):
    """Read a struct into a copy of `before`, whose values are `old`; unless NULL, `new` gets its
    values."""
    cdef dict struct = PyDict_Copy(before)
    cdef const Step* step
    cdef Field field
    cdef bint flexible = layout.plan.flexible
    cdef int n
    if r.fill:
        for field in layout.fresh:
            struct[field.name] = default_of(field, True)
    for n in range(layout.plan.count):
        step = &layout.plan.steps[n]
        if step.kind < UUID:
            take_number(r, step, struct, &old[n], &new[n] if new != NULL else NULL)
        elif step.kind == STRING:
            take_string(r, step, flexible, struct, &old[n], &new[n] if new != NULL else NULL)
        else:
            PyDict_SetItem(struct, <object>step.name, read_field(r, step, flexible))
    if flexible and not skip_no_tags(r):
        read_tags(r, layout, struct)
        r.tagged = True
    return struct


cdef inline bint skip_no_tags(Reading* r) noexcept nogil:
    """Skip the count of tagged fields if it is 0, as it mostly is; False: it is not."""
    if r.cur.at < r.cur.end and r.cur.at[0] == 0:
        r.cur.at += 1
        return True
    return False


cdef tuple read_row(Reading* r, Layout layout):
    """Read a struct as a tuple. Fields that the version lacks, and tagged fields that are not in
    the bytes, have their default."""
    cdef tuple row = PyTuple_New(layout.plan.slots)
    cdef const Step* step
    cdef Field field
    cdef bint flexible = layout.plan.flexible
    cdef int n
    for n in range(layout.plan.count):
        step = &layout.plan.steps[n]
        if step.kind < STRING:
            set_slot(row, step.slot, read_fixed(r, step))
        elif step.kind == STRING:
            set_slot(row, step.slot, read_string(r, step, step.nullable, flexible))
        else:
            set_slot(row, step.slot, read_field(r, step, flexible))
    for n in range(layout.plan.slots - layout.plan.count):
        field = <Field>PyTuple_GET_ITEM(layout.absent, n)
        set_slot(row, field.step.slot, row_default(field))
    if flexible and not skip_no_tags(r):
        return read_row_tags(r, layout, row)
    return row


cdef tuple read_row_tags(Reading* r, Layout layout, tuple row):
    cdef dict tagged = {}
    cdef list slots
    cdef Field field
    read_tags(r, layout, tagged)
    slots = list(row)
    for field in layout.tagged:
        if field.name in tagged:
            slots[field.step.slot] = tagged[field.name]
    return tuple(slots)


cdef inline int set_slot(tuple row, Py_ssize_t n, object value) except -1:
    Py_INCREF(value)
    PyTuple_SET_ITEM(row, n, value)
    return 0


cdef object row_default(Field field):
    """Return a missing field's value in a row; a struct is None, as if it were null."""
    if not field.made:
        return field.default
    return [] if field.step.kind == LIST else None


cdef inline int take_number(Reading* r, const Step* step, dict struct, const Seen* old,
                            Seen* new) except -1:
    """Set a number in `struct`, unless it equals the old value."""
    cdef int64_t number
    if r.cur.end - r.cur.at < step.width:
        raise refused(r, <str>step.name, TRUNCATED)
    number = number_at(r.cur.at, step.kind)
    r.cur.at += step.width
    if number != old.number:
        PyDict_SetItem(struct, <object>step.name, number_of(number, step.kind))
        if new != NULL:
            new.number = number
    return 0


cdef inline int take_string(Reading* r, const Step* step, bint flexible, dict struct,
                            const Seen* old, Seen* new) except -1:
    """Set a text in `struct`, unless its bytes equal the old ones."""
    cdef const uint8_t* at
    cdef int32_t size = string_size(r, step, step.nullable, flexible, &at)
    if size == old.number and (size <= 0 or memcmp(at, old.at, size) == 0):
        return 0
    PyDict_SetItem(struct, <object>step.name, read_text(at, size) if size >= 0 else None)
    if new != NULL:
        new.number, new.at = size, at
    return 0


cdef object read_field(Reading* r, const Step* step, bint flexible):
    cdef int8_t present
    cdef Status status
    if step.kind == LIST:
        return read_list(r, step, flexible)
    if step.kind == BYTES:
        return read_bytes(r, step, step.nullable, flexible)
    if step.kind == STRING:
        return read_string(r, step, step.nullable, flexible)
    if step.kind < STRING:
        return read_fixed(r, step)
    if step.nullable:
        status = read_i8(&r.cur, &present)
        if status != OK:
            raise refused(r, <str>step.name, status)
        if present < 0:
            return None
    return read_struct(r, (<Field>step.field).layout)


cdef inline object read_fixed(Reading* r, const Step* step):
    cdef const uint8_t* at = r.cur.at
    if r.cur.end - at < step.width:
        raise refused(r, <str>step.name, TRUNCATED)
    r.cur.at += step.width
    return fixed_at(at, step.kind)


cdef object read_list(Reading* r, const Step* step, bint flexible):
    """Read a list. Memory for its elements is reserved only if they fit the remaining bytes; in a
    frame, which anybody may send, by the fewest bytes that an element takes. The format allows no
    closer bound, so a list of the smallest structs may take up to 150 bytes of memory for each byte
    (`tests/wire/test_hostile_frames.py`)."""
    cdef Layout layout = (<Field>step.field).layout
    cdef int32_t count
    cdef Py_ssize_t n, left, least = 1
    cdef list items
    cdef Status status = read_count(&r.cur, flexible, &count)
    if status != OK:
        raise refused(r, <str>step.name, status)
    if count < 0:
        if step.nullable:
            return None
        raise refused(r, <str>step.name, NEGATIVE)
    if count > r.elements:
        raise broken(r, f"{<str>step.name}: {count} elements, more than were requested")
    r.elements -= count
    left = remaining(&r.cur)
    if step.item == STRUCT and r.source == FRAME:
        least = layout.least
    if count * least > left:
        raise broken(r, f"{<str>step.name}: {count} elements, {left} bytes left")
    if count * <Py_ssize_t>step.width > left:
        r.cur.at += left - left % step.width     # the error names the place of the cut element
        raise refused(r, <str>step.name, TRUNCATED)
    if step.item == STRUCT and not r.rows:
        return read_structs(r, layout, count)
    items = PyList_New(count)
    if step.item == STRUCT:
        for n in range(count):
            set_item(items, n, read_row(r, layout))
    elif step.item == STRING:
        for n in range(count):
            set_item(items, n, read_string(r, step, False, flexible))
    elif step.item == BYTES:
        for n in range(count):
            set_item(items, n, read_bytes(r, step, False, flexible))
    else:                                    # the bytes of all elements are there
        for n in range(count):
            set_item(items, n, fixed_at(r.cur.at + n * step.width, step.item))
        r.cur.at += count * step.width
    return items


cdef inline int set_item(list items, Py_ssize_t n, object value) except -1:
    Py_INCREF(value)
    PyList_SET_ITEM(items, n, value)
    return 0


cdef object read_string(Reading* r, const Step* step, bint nullable, bint flexible):
    cdef const uint8_t* at
    cdef int32_t size = string_size(r, step, nullable, flexible, &at)
    return read_text(at, size) if size >= 0 else None


cdef inline int32_t string_size(Reading* r, const Step* step, bint nullable, bint flexible,
                                const uint8_t** at) except -2:
    """Return the size of a text, -1 for null, and fill in its address."""
    cdef int32_t size
    cdef Status status = read_text_span(&r.cur, flexible, at, &size)
    if status == OK and size < 0 and not nullable:
        status = NEGATIVE
    if status != OK:
        raise refused(r, <str>step.name, status)
    return size


cdef object read_bytes(Reading* r, const Step* step, bint nullable, bint flexible):
    cdef const uint8_t* at
    cdef int32_t size
    cdef Status status
    if flexible:
        status = read_compact(&r.cur, &at, &size)
    else:
        status = read_bytes32(&r.cur, &at, &size)
    if status == OK and size < 0 and not nullable:
        status = NEGATIVE
    if status != OK:
        raise refused(r, <str>step.name, status)
    return PyBytes_FromStringAndSize(<const char*>at, size) if size >= 0 else None


cdef inline object fixed_at(const uint8_t* at, Kind kind):
    return uuid_text(at) if kind == UUID else number_of(number_at(at, kind), kind)


cdef inline int64_t number_at(const uint8_t* at, Kind kind) noexcept nogil:
    """Load a number, the bits of a float, or 1 for true."""
    if kind == INT32:
        return load_i32(at)
    if kind == INT16:
        return load_i16(at)
    if kind == INT64 or kind == FLOAT64:
        return load_i64(at)
    if kind == BOOL:
        return at[0] != 0
    if kind == INT8:
        return <int8_t>at[0]
    if kind == UINT16:
        return <uint16_t>load_i16(at)
    return <uint32_t>load_i32(at)


cdef inline object number_of(int64_t number, Kind kind):
    if kind == BOOL:
        return number != 0
    if kind == FLOAT64:
        return float_of(number)
    if 0 <= number < SMALL:
        return <object>PyTuple_GET_ITEM(small, <Py_ssize_t>number)
    return number


cdef inline object float_of(int64_t bits):
    cdef double value
    memcpy(&value, &bits, 8)
    return value


cdef str uuid_text(const uint8_t* at):
    """Return a uuid in Kafka's form: base64 for URLs, without padding."""
    cdef char text[22]
    cdef uint32_t three
    cdef int i
    for i in range(5):
        three = at[3 * i] << 16 | at[3 * i + 1] << 8 | at[3 * i + 2]
        text[4 * i] = LETTERS[three >> 18]
        text[4 * i + 1] = LETTERS[three >> 12 & 63]
        text[4 * i + 2] = LETTERS[three >> 6 & 63]
        text[4 * i + 3] = LETTERS[three & 63]
    text[20] = LETTERS[at[15] >> 2]
    text[21] = LETTERS[(at[15] & 3) << 4]
    return PyUnicode_DecodeASCII(text, 22, NULL)


cdef object read_text(const uint8_t* at, Py_ssize_t size):
    """Decode a text as Java does: bytes that are not UTF-8 become U+FFFD."""
    cdef PyObject* text = utf8_or_null(<const char*>at, size, NULL)
    cdef object decoded
    if text == NULL:
        PyErr_Clear()
        return decode_utf8(at[:size])
    decoded = <object>text
    Py_DECREF(decoded)                       # the variable has a reference of its own
    return decoded


cdef int read_tags(Reading* r, Layout layout, dict struct) except -1:
    """Read the tagged fields at the end of a struct. Like Kafka's readers, it ignores the size of
    a tag that it knows, and takes a negative count for 0."""
    cdef uint32_t count, tag = 0, size = 0
    cdef const uint8_t* at
    cdef Field field
    cdef int32_t left
    cdef Status status = read_uvarint(&r.cur, &count)
    left = <int32_t>count
    while status == OK and left > 0:
        status = read_tag(&r.cur, &tag, &size)
        if status != OK:
            break
        field = known_tag(layout, tag)
        if field is None:
            status = read_span(&r.cur, <int32_t>size, &at)
            if status == OK and r.tags:
                struct.setdefault("_unknown_tags", []).append((tag, at[:size]))
        else:
            read_known_tag(r, field, struct)
        left -= 1
    if status != OK:
        raise refused(r, "tagged fields", status)
    return 0


cdef inline Field known_tag(Layout layout, uint32_t tag):
    cdef Field field
    for field in layout.tagged:
        if <uint32_t>field.step.tag == tag:
            return field
    return None


cdef int read_known_tag(Reading* r, Field field, dict struct) except -1:
    cdef uint32_t present = 0
    cdef Status status
    if field.step.always:                    # in Kafka's generated code a byte precedes these
        status = read_uvarint(&r.cur, &present)
        if status != OK:
            raise refused(r, field.name, status)
        struct[field.name] = read_struct(r, field.layout) if present else None
        return 0
    value = read_field(r, &field.step, True)
    if r.fill or value != default_of(field, False):
        struct[field.name] = value
    else:
        struct.pop(field.name, None)         # of a repeated tag the last one counts
    return 0


cdef Status skip_tags(Cursor* cur) noexcept nogil:
    """Skip the tagged fields of a header; all are unknown."""
    cdef uint32_t count, tag, size
    cdef const uint8_t* at
    cdef int32_t left
    cdef Status status = read_uvarint(cur, &count)
    left = <int32_t>count
    while status == OK and left > 0:
        status = read_tag(cur, &tag, &size)
        if status == OK:
            status = read_span(cur, <int32_t>size, &at)
        left -= 1
    return status


cdef object refused(Reading* r, str name, Status status):
    """Build the error for a field that does not parse."""
    cdef str why = f"{remaining(&r.cur)} bytes left, it needs more"
    if status == NEGATIVE:
        why = "null where none is allowed"
    elif status == OVERLONG:
        why = "a varint without an end"
    elif status == TOO_LONG:
        why = "a text of more than 32767 bytes"
    return broken(r, f"{name}: {why}")


cdef object broken(Reading* r, str what):
    """Build an error with the place of the cursor; a caller may change the stage of a frame."""
    cdef Py_ssize_t at = r.cur.at - r.start
    what = f"{what} at byte {at}"
    if r.source == FRAME:
        return WireError(what, stage="body")
    return CorruptData(what, kind="key" if r.source == KEY else "value", position=at)

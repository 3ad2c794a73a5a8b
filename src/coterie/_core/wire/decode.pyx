"""See ``decode.pyi``."""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_Copy, PyDict_SetItem
from cpython.exc cimport PyErr_Clear
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcmp, memcpy

from coterie._core.codec.cursor cimport (
    BEYOND, NEGATIVE, OK, OVERLONG, TRUNCATED, Cursor, Status, load_i16, load_i32, load_i64,
    read_bytes32, read_compact, read_i8, read_i32, read_span, read_string16, read_uvarint)
from coterie._core.wire.layout cimport (
    BOOL, BYTES, FLOAT64, INT8, INT16, INT32, INT64, LIST, MOST_FIELDS, STRING, STRUCT, UINT16,
    UUID, Field, Kind, Layout, Seen, Step, default_of)

from coterie._core.codec.text import decode_utf8
from coterie.errors import WireError

cdef extern from *:
    # Without an exception that Cython would have to save and restore for each text.
    PyObject* utf8_or_null "PyUnicode_DecodeUTF8" (const char* at, Py_ssize_t size,
                                                   const char* errors)

cdef enum:
    SMALL = 256                # numbers that Python has only once

cdef tuple small = tuple(range(SMALL))   # a look-up costs less than a call
cdef int MOST_TEXT = 0x7FFF     # of a text in its compact form too, as Kafka reads them
cdef const char* LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


cdef void start_reading(Reading* r, const uint8_t* at, Py_ssize_t size, bint fill,
                        bint tags, bint rows) noexcept nogil:
    r.start = r.cur.at = at
    r.cur.end = at + size
    r.fill, r.tags, r.rows, r.tagged = fill, tags, rows, False


cdef object read_struct(Reading* r, Layout layout):
    """The fields of one version. Its depth is that of the table."""
    if r.rows:
        return read_row(r, layout)
    return struct_after(r, layout, layout.blank if r.fill else layout.keys, layout.first, NULL)


cdef list read_structs(Reading* r, Layout layout, Py_ssize_t count):
    """A list of structs: each begins as a copy of the one before it, and only what differs is set.
    Setting a key takes four times as long as seeing that its bytes are the same."""
    cdef Seen seen[MOST_FIELDS]
    cdef list found = PyList_New(count)
    cdef dict base = layout.blank if r.fill else layout.keys
    cdef dict before = base, one
    cdef Py_ssize_t n
    memcpy(seen, layout.first, layout.count * sizeof(Seen))
    for n in range(count):
        r.tagged = False
        one = struct_after(r, layout, before, seen, seen)
        Py_INCREF(one)
        PyList_SET_ITEM(found, n, one)
        before = one
        if r.tagged:                         # the next one may lack what this one has
            before = base
            memcpy(seen, layout.first, layout.count * sizeof(Seen))
    return found


cdef dict struct_after(Reading* r, Layout layout, dict before, const Seen* had, Seen* has):
    """A struct into a copy of `before`, whose values are those of `had`; `has` notes its own."""
    cdef dict found = PyDict_Copy(before)
    cdef const Step* step
    cdef Field field
    cdef int n
    if r.fill:
        for field in layout.fresh:
            found[field.name] = default_of(field, True)
    for n in range(layout.count):
        step = &layout.steps[n]
        if step.kind < UUID:
            take_number(r, step, found, &had[n], &has[n] if has != NULL else NULL)
        elif step.kind == STRING:
            take_string(r, step, layout.flexible, found, &had[n], &has[n] if has != NULL else NULL)
        elif step.kind == LIST:
            PyDict_SetItem(found, <object>step.name,
                           read_list(r, <Field>step.field, layout.flexible))
        else:
            found[<str>step.name] = read_field(r, <Field>step.field, layout.flexible)
    if layout.flexible:
        if r.cur.at < r.cur.end and r.cur.at[0] == 0:    # mostly there are none
            r.cur.at += 1
        else:
            read_tags(r, layout, found)
            r.tagged = True
    return found


cdef tuple read_row(Reading* r, Layout layout):
    """The same as a tuple; fields that the version lacks, and tagged ones that did not come, have
    their default."""
    cdef tuple found = PyTuple_New(layout.slots)
    cdef const Step* step
    cdef Field field
    cdef int n
    for n in range(layout.count):
        step = &layout.steps[n]
        if step.kind < STRING:
            if r.cur.end - r.cur.at < step.width:
                raise refused(r, <str>step.name, TRUNCATED)
            set_slot(found, step.slot, fixed_at(r.cur.at, step.kind))
            r.cur.at += step.width
        elif step.kind == STRING:
            set_slot(found, step.slot,
                     read_string(r, <Field>step.field, step.nullable, layout.flexible))
        else:
            set_slot(found, step.slot, read_field(r, <Field>step.field, layout.flexible))
    for n in range(layout.slots - layout.count):
        field = <Field>PyTuple_GET_ITEM(layout.absent, n)
        set_slot(found, field.slot, row_default(field))
    if layout.flexible:
        if r.cur.at < r.cur.end and r.cur.at[0] == 0:
            r.cur.at += 1
        else:
            return read_row_tags(r, layout, found)
    return found


cdef tuple read_row_tags(Reading* r, Layout layout, tuple row):
    cdef dict found = {}
    cdef list slots
    cdef Field field
    read_tags(r, layout, found)
    slots = list(row)
    for field in layout.tagged:
        if field.name in found:
            slots[field.slot] = found[field.name]
    return tuple(slots)


cdef inline int set_slot(tuple found, Py_ssize_t n, object value) except -1:
    Py_INCREF(value)
    PyTuple_SET_ITEM(found, n, value)
    return 0


cdef object row_default(Field field):
    """What stands in a row for a field that did not come; of a struct None, as if it were null."""
    if not field.made:
        return field.default
    return [] if field.kind == LIST else None


cdef inline int take_number(Reading* r, const Step* step, dict found, const Seen* had,
                            Seen* has) except -1:
    cdef int64_t number
    if r.cur.end - r.cur.at < step.width:
        raise refused(r, <str>step.name, TRUNCATED)
    number = number_at(r.cur.at, step.kind)
    r.cur.at += step.width
    if number != had.number:
        PyDict_SetItem(found, <object>step.name, number_of(number, step.kind))
        if has != NULL:
            has.number = number
    return 0


cdef inline int take_string(Reading* r, const Step* step, bint flexible, dict found,
                            const Seen* had, Seen* has) except -1:
    cdef const uint8_t* at
    cdef int32_t size = string_size(r, step.name, step.nullable, flexible, &at)
    if size == had.number and (size <= 0 or memcmp(at, had.at, size) == 0):
        return 0
    PyDict_SetItem(found, <object>step.name, read_text(r, at, size) if size >= 0 else None)
    if has != NULL:
        has.number, has.at = size, at
    return 0


cdef object read_field(Reading* r, Field field, bint flexible):
    cdef int8_t present
    cdef Status status
    if field.kind == LIST:
        return read_list(r, field, flexible)
    if field.kind == BYTES:
        return read_bytes(r, field, field.nullable, flexible)
    if field.kind == STRING:
        return read_string(r, field, field.nullable, flexible)
    if field.kind < STRING:
        return read_fixed(r, field)
    if field.nullable:
        status = read_i8(&r.cur, &present)
        if status != OK:
            raise refused(r, field.name, status)
        if present < 0:
            return None
    return read_struct(r, field.layout)


cdef object read_fixed(Reading* r, Field field):
    cdef const uint8_t* at = r.cur.at
    if r.cur.end - at < field.width:
        raise refused(r, field.name, TRUNCATED)
    r.cur.at += field.width
    return fixed_at(at, field.kind)


cdef object read_list(Reading* r, Field field, bint flexible):
    """Room is made for the elements once it is certain that they are not more than the bytes can
    hold, each of them at its shortest."""
    cdef int32_t count
    cdef uint32_t raw
    cdef Py_ssize_t least = 1, n
    cdef list found
    cdef Status status
    if flexible:
        status = read_uvarint(&r.cur, &raw)
        count = <int32_t>(raw - 1)
    else:
        status = read_i32(&r.cur, &count)
    if status != OK:
        raise refused(r, field.name, status)
    if count < 0:
        if field.nullable:
            return None
        raise refused(r, field.name, NEGATIVE)
    if field.item == STRUCT:
        least = field.layout.least
    elif field.item < STRING:
        least = field.width
    if count * least > r.cur.end - r.cur.at:
        raise refused(r, field.name, BEYOND)
    if field.item == STRUCT and not r.rows:
        return read_structs(r, field.layout, count)
    found = PyList_New(count)
    if field.item == STRUCT:
        for n in range(count):
            set_item(found, n, read_row(r, field.layout))
        return found
    if field.item < STRING:                  # the list has room for all of them
        for n in range(count):
            set_item(found, n, fixed_at(r.cur.at + n * least, field.item))
        r.cur.at += count * least
    elif field.item == STRING:
        for n in range(count):
            set_item(found, n, read_string(r, field, False, flexible))
    else:
        for n in range(count):
            set_item(found, n, read_bytes(r, field, False, flexible))
    return found


cdef inline int set_item(list found, Py_ssize_t n, object value) except -1:
    Py_INCREF(value)
    PyList_SET_ITEM(found, n, value)
    return 0


cdef object read_string(Reading* r, Field field, bint nullable, bint flexible):
    cdef const uint8_t* at
    cdef int32_t size = string_size(r, <PyObject*>field.name, nullable, flexible, &at)
    return read_text(r, at, size) if size >= 0 else None


cdef inline int32_t string_size(Reading* r, PyObject* name, bint nullable, bint flexible,
                                const uint8_t** at) except -2:
    """The bytes of a text, and where they stand; -1 for null."""
    cdef int32_t size
    cdef Status status
    if flexible:
        status = read_compact(&r.cur, at, &size)
    else:
        status = read_string16(&r.cur, at, &size)
    if status != OK:
        raise refused(r, <str>name, status)
    if size < 0 and not nullable:
        raise refused(r, <str>name, NEGATIVE)
    if size > MOST_TEXT:
        raise refused(r, <str>name, BEYOND)
    return size


cdef object read_bytes(Reading* r, Field field, bint nullable, bint flexible):
    cdef const uint8_t* at
    cdef int32_t size
    cdef Status status
    if flexible:
        status = read_compact(&r.cur, &at, &size)
    else:
        status = read_bytes32(&r.cur, &at, &size)
    if status != OK:
        raise refused(r, field.name, status)
    if size < 0:
        if nullable:
            return None
        raise refused(r, field.name, NEGATIVE)
    return PyBytes_FromStringAndSize(<const char*>at, size)


cdef inline object fixed_at(const uint8_t* at, Kind kind):
    return uuid_text(at) if kind == UUID else number_of(number_at(at, kind), kind)


cdef inline int64_t number_at(const uint8_t* at, Kind kind) noexcept nogil:
    """A number, the bits of a float, or 1 for true."""
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
    """As Kafka prints it: base64 for URLs, without padding."""
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


cdef object read_text(Reading* r, const uint8_t* at, Py_ssize_t size):
    """A text as Java reads it: bytes that are not UTF-8 become U+FFFD."""
    cdef PyObject* text = utf8_or_null(<const char*>at, size, NULL)
    cdef object found
    if text == NULL:
        PyErr_Clear()
        return decode_utf8(at[:size])
    found = <object>text
    Py_DECREF(found)                         # `found` has a reference of its own
    return found


cdef int read_tags(Reading* r, Layout layout, dict found) except -1:
    """The tagged fields at the end of a struct. Kafka's readers take those that they know as they
    come, and do not look at the size; a count below 0 is none."""
    cdef uint32_t count, tag = 0, size = 0
    cdef const uint8_t* at
    cdef Field field
    cdef int32_t left
    cdef Status status = read_uvarint(&r.cur, &count)
    left = <int32_t>count
    while status == OK and left > 0:
        status = read_uvarint(&r.cur, &tag)
        if status == OK:
            status = read_uvarint(&r.cur, &size)
        if status != OK:
            break
        field = known_tag(layout, tag)
        if field is None:
            status = read_span(&r.cur, <int32_t>size, &at)
            if status == OK and r.tags:
                found.setdefault("_unknown_tags", []).append((tag, at[:size]))
        else:
            read_known_tag(r, field, found)
        left -= 1
    if status != OK:
        raise refused(r, "tagged fields", status)
    return 0


cdef inline Field known_tag(Layout layout, uint32_t tag):
    cdef Field field
    for field in layout.tagged:
        if <uint32_t>field.tag == tag:
            return field
    return None


cdef int read_known_tag(Reading* r, Field field, dict found) except -1:
    value = read_field(r, field, True)
    if r.fill or value != default_of(field, False):
        found[field.name] = value
    else:
        found.pop(field.name, None)          # the tag came twice, and the last one says
    return 0


cdef Status skip_tags(Cursor* cur) noexcept nogil:
    """The tagged fields of a header, of which none is known."""
    cdef uint32_t count, tag, size
    cdef const uint8_t* at
    cdef int32_t left
    cdef Status status = read_uvarint(cur, &count)
    left = <int32_t>count
    while status == OK and left > 0:
        status = read_uvarint(cur, &tag)
        if status == OK:
            status = read_uvarint(cur, &size)
        if status == OK:
            status = read_span(cur, <int32_t>size, &at)
        left -= 1
    return status


cdef object refused(Reading* r, str name, Status status):
    """The error of a field that does not parse; its stage is the caller's to set."""
    cdef str why = "the bytes end inside it"
    if status == NEGATIVE:
        why = "null where none is allowed"
    elif status == OVERLONG:
        why = "a varint of more than 5 bytes"
    elif status == BEYOND:
        why = "longer than what is left, or than its type may be"
    return WireError(f"{name}: {why}, at byte {r.cur.at - r.start}", stage="body")

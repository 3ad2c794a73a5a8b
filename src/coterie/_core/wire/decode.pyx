"""See ``decode.pyi``."""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy

from coterie._core.codec.cursor cimport (
    BEYOND, NEGATIVE, OK, OVERLONG, Cursor, Status, load_i16, load_i32, load_i64, read_bytes32,
    read_compact, read_i8, read_i32, read_span, read_string16, read_uvarint)
from coterie._core.wire.layout cimport (
    BOOL, BYTES, FLOAT64, INT8, INT16, INT32, INT64, LIST, STRING, STRUCT, UINT16, UINT32, UUID,
    Field, Kind, Layout, default_of)

from coterie._core.codec.text import decode_utf8
from coterie.errors import WireError

cdef int MOST_TEXT = 0x7FFF     # of a text in its compact form too, as Kafka reads them
cdef const char* LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


cdef dict read_struct(Reading* r, Layout layout):
    """The fields of one version. Its depth is that of the table."""
    cdef dict found
    cdef Field field
    if r.fill:
        found = layout.blank.copy()
        for field in layout.fresh:
            found[field.name] = default_of(field, True)
    else:
        found = {}
    for field in layout.fields:
        found[field.name] = read_field(r, field, layout.flexible)
    if layout.flexible:
        read_tags(r, layout, found)
    return found


cdef object read_field(Reading* r, Field field, bint flexible):
    cdef int8_t present
    cdef Status status
    if field.kind < STRUCT:
        return read_one(r, field, field.kind, field.nullable, flexible)
    if field.kind == LIST:
        return read_list(r, field, flexible)
    if field.nullable:
        status = read_i8(&r.cur, &present)
        if status != OK:
            raise refused(r, field.name, status)
        if present < 0:
            return None
    return read_struct(r, field.layout)


cdef object read_list(Reading* r, Field field, bint flexible):
    """No room is made for the count: the list grows as its elements come."""
    cdef int32_t count, _i
    cdef uint32_t raw
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
    if count > r.cur.end - r.cur.at:
        raise refused(r, field.name, BEYOND)
    found = []
    if field.item == STRUCT:
        for _i in range(count):
            found.append(read_struct(r, field.layout))
    else:
        for _i in range(count):
            found.append(read_one(r, field, field.item, False, flexible))
    return found


cdef object read_one(Reading* r, Field field, Kind kind, bint nullable, bint flexible):
    cdef const uint8_t* at
    cdef int32_t size
    cdef Status status
    if kind < STRING:
        size = width_of(kind)
        status = read_span(&r.cur, size, &at)
        if status != OK:
            raise refused(r, field.name, status)
        return fixed_at(at, kind)
    if flexible:
        status = read_compact(&r.cur, &at, &size)
    elif kind == STRING:
        status = read_string16(&r.cur, &at, &size)
    else:
        status = read_bytes32(&r.cur, &at, &size)
    if status != OK:
        raise refused(r, field.name, status)
    if size < 0:
        if nullable:
            return None
        raise refused(r, field.name, NEGATIVE)
    if kind == BYTES:
        return PyBytes_FromStringAndSize(<const char*>at, size)
    if size > MOST_TEXT:
        raise refused(r, field.name, BEYOND)
    return read_text(r, at, size)


cdef inline int32_t width_of(Kind kind) noexcept nogil:
    if kind == INT32 or kind == UINT32:
        return 4
    if kind == INT16 or kind == UINT16:
        return 2
    if kind == INT64 or kind == FLOAT64:
        return 8
    return 16 if kind == UUID else 1


cdef inline object fixed_at(const uint8_t* at, Kind kind):
    if kind == INT32:
        return load_i32(at)
    if kind == INT16:
        return load_i16(at)
    if kind == INT64:
        return load_i64(at)
    if kind == BOOL:
        return at[0] != 0
    if kind == INT8:
        return <int8_t>at[0]
    if kind == UUID:
        return uuid_text(at)
    if kind == UINT16:
        return <uint16_t>load_i16(at)
    if kind == UINT32:
        return <uint32_t>load_i32(at)
    return float_at(at)


cdef inline object float_at(const uint8_t* at):
    cdef int64_t bits = load_i64(at)
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
    try:
        return PyUnicode_DecodeUTF8(<const char*>at, size, NULL)
    except UnicodeDecodeError:
        return decode_utf8(at[:size])


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

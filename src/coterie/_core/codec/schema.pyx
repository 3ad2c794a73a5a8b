"""Keys, values and the consumer protocol, from bytes to plain dicts. See schema.pyi.

One interpreter over the tables of ``fields``, which takes each field as ``walk`` does; nothing here
knows a message by name but the members of a group, whose inner bytes are decoded too.
"""
from binascii import b2a_base64

from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, uint8_t, uint16_t, uint32_t

from coterie._core.checks cimport bytes_of, flag_of, int64_of
from coterie._core.codec.cursor cimport (
    BEYOND, NEGATIVE, OK, OVERLONG, Cursor, Status, load_i16, read_i8, read_i16, read_span,
    read_uvarint, remaining)
from coterie._core.codec.fields cimport Field, Layout
from coterie._core.codec.walk cimport (
    ARRAY, BYTES, STRING, STRUCT, UINT16, UUID, Span, number_at, take)

from coterie._core.codec.fields import ASSIGNMENTS, KEYS, SUBSCRIPTIONS, TYPES, VALUES
from coterie._core.codec.text import decode_utf8
from coterie.errors import CorruptData

cdef dict KEY_LAYOUTS = KEYS
cdef dict VALUE_LAYOUTS = VALUES
cdef dict TYPE_NAMES = TYPES
cdef list SUBSCRIPTION_LAYOUTS = SUBSCRIPTIONS
cdef list ASSIGNMENT_LAYOUTS = ASSIGNMENTS

cdef str TOO_SHORT = "shorter than a version"
cdef str UNKNOWN = "unknown version"


cdef class Reader:
    """The bytes of one key or value; its errors say at which of them."""
    cdef Cursor cur
    cdef const uint8_t* start
    cdef bytes data            # keeps the bytes alive
    cdef str kind              # "key" or "value", for errors
    cdef int16_t version       # of a value, once it was read
    cdef bint keep_tags        # else tagged fields that are unknown are stepped over

    cdef object corrupt(self, str what):
        cdef Py_ssize_t at = self.cur.at - self.start
        return CorruptData(f"{what} at byte {at}", kind=self.kind, position=at)

    cdef object failed(self, Field field, Status status, int32_t count):
        cdef str why = f"{remaining(&self.cur)} bytes left, it needs more"
        if status == NEGATIVE:
            why = "null where none is allowed"
        elif status == OVERLONG:
            why = "a varint without an end"
        elif status == BEYOND and field.op == ARRAY:
            why = f"{count} elements, {remaining(&self.cur)} bytes left"
        return self.corrupt(f"{field.name}: {why}")

    cdef object left_over(self):
        return remaining(&self.cur)


cdef Reader new_reader(bytes data, str kind):
    cdef Reader reader = Reader.__new__(Reader)
    reader.data = data
    reader.start = data
    reader.cur.at = reader.start
    reader.cur.end = reader.start + len(data)
    reader.kind = kind
    reader.keep_tags = True
    return reader


cdef inline str text(const uint8_t* start, Py_ssize_t size):
    try:
        return PyUnicode_DecodeUTF8(<const char*> start, size, NULL)
    except UnicodeDecodeError:
        return decode_utf8(start[:size])


cdef object read_field(Reader r, Field field, bint flexible):
    cdef int8_t present
    cdef int32_t _i
    cdef Span span
    cdef list found
    cdef Status status
    if field.op == STRUCT:
        if field.nullable:
            status = read_i8(&r.cur, &present)
            if status != OK:
                raise r.failed(field, status, 0)
            if present < 0:
                return None
        return read_struct(r, field.layout)
    status = take(&r.cur, &field.step, flexible, &span)
    if status != OK:
        raise r.failed(field, status, span.size)
    if span.at == NULL:
        return None
    if field.op == ARRAY:
        found = []
        for _i in range(span.size):
            found.append(read_field(r, field.item, flexible))
        return found
    return object_of(field, &span)


cdef object object_of(Field field, const Span* span):
    if field.op == STRING:
        return text(span.at, span.size)
    if field.op == BYTES:
        return span.at[:span.size]
    if field.op == UUID:
        return uuid_text(span.at[:16])
    if field.op == UINT16:
        return <uint16_t>load_i16(span.at)
    return number_at(span, 0)


cdef str uuid_text(bytes raw):
    """As Kafka prints it: base64 for URLs, without padding."""
    cdef bytes printed = b2a_base64(raw, newline=False)
    return printed[:22].replace(b"+", b"-").replace(b"/", b"_").decode("ascii")


cdef dict read_struct(Reader r, Layout layout):
    cdef dict found = {}
    cdef Field field
    for field in layout.fields:
        found[field.name] = read_field(r, field, layout.flexible)
    if layout.flexible:
        read_tagged(r, layout, found)
    return found


cdef int read_tagged(Reader r, Layout layout, dict found) except -1:
    """The fields after the last: known ones under their names, others by tag, with their bytes."""
    cdef uint32_t count = 0, tag = 0, size = 0
    cdef const uint8_t* start
    cdef Field field
    cdef Status status = read_uvarint(&r.cur, &count)
    for field in layout.tagged:
        if field.always:
            found[field.name] = field.default
    while status == OK and count > 0:
        status = read_uvarint(&r.cur, &tag)
        if status == OK:
            status = read_uvarint(&r.cur, &size)
        if status != OK:
            break
        field = known_tag(layout, tag)
        if field is not None:
            # Kafka's readers take the field as it comes and do not look at the size.
            read_tagged_field(r, field, found)
        else:
            status = read_span(&r.cur, size, &start)
            if status == OK and r.keep_tags:
                found.setdefault("tagged_fields", {})[tag] = start[:size]
        count -= 1
    if status != OK:
        raise r.corrupt("tagged fields: a varint without an end" if status == OVERLONG
                        else "tagged fields: the bytes end inside them")
    return 0


cdef Field known_tag(Layout layout, uint32_t tag):
    cdef Field field
    for field in layout.tagged:
        if <uint32_t> field.tag == tag:
            return field
    return None


cdef int read_tagged_field(Reader r, Field field, dict found) except -1:
    cdef uint32_t present = 0
    if field.op == STRUCT:
        if read_uvarint(&r.cur, &present) != OK:
            raise r.corrupt(f"{field.name}: the bytes end inside it")
        found[field.name] = read_struct(r, field.layout) if present else None
        return 0
    value = read_field(r, field, True)
    if value != field.default or field.always:
        found[field.name] = value
    return 0


cdef int16_t read_version(Reader r) except? -32768:
    cdef int16_t version
    if read_i16(&r.cur, &version) != OK:
        raise CorruptData(TOO_SHORT, kind=r.kind, position=0)
    return version


def key_type(int version):
    """See ``schema.pyi``."""
    return TYPE_NAMES.get(version)


def decode_key(key):
    """See ``schema.pyi``."""
    cdef Reader r = new_reader(bytes_of(key, "key"), "key")
    cdef object version = read_version(r)
    cdef Layout layout = KEY_LAYOUTS.get(version)
    if layout is None:
        return {"version": version, "raw": r.data, "error": UNKNOWN}
    return finish(r, {"version": version, "type": TYPE_NAMES[version],
                      "data": read_struct(r, layout)})


def decode_value(key_version, value, *, tags=True):
    """See ``schema.pyi``."""
    if key_version is not None and type(key_version) is not int:
        key_version = int64_of(key_version, "key_version")
    if value is None:
        return None
    cdef Reader r = new_reader(bytes_of(value, "value"), "value")
    r.keep_tags = flag_of(tags, "tags")
    cdef list layouts = VALUE_LAYOUTS.get(key_version)
    if layouts is None:
        return unknown_value(r)
    cdef dict found = {"version": None, "data": read_value(r, key_version, layouts)}
    found["version"] = r.version
    if key_version == 2 and found["data"]["protocolType"] == "consumer":
        for member in found["data"]["members"]:
            decode_member(member)
    return finish(r, found)


cdef dict read_value(Reader r, object key_version, list layouts):
    r.version = read_version(r)
    if not 0 <= r.version < len(layouts):
        raise CorruptData(f"{UNKNOWN} {r.version} of a {TYPE_NAMES[key_version]} value",
                          kind="value", position=0)
    return read_struct(r, <Layout?>layouts[r.version])


cdef dict group_fields(bytes value):
    """The fields of a group metadata value, the inner bytes of its members as they are."""
    cdef Reader r = new_reader(value, "value")
    r.keep_tags = False
    return read_value(r, 2, VALUE_LAYOUTS[2])


cdef dict unknown_value(Reader r):
    """The value under a key of no known version: its bytes are all that can be said."""
    cdef int16_t version
    if read_i16(&r.cur, &version) != OK:
        return {"version": None, "raw": r.data, "error": TOO_SHORT}
    return {"version": version, "raw": r.data, "error": UNKNOWN}


cdef dict finish(Reader r, dict found):
    if remaining(&r.cur):
        found["trailing_bytes"] = r.left_over()
        found["raw"] = r.data
    return found


cdef int decode_member(dict member) except -1:
    """Beside the bytes of a member what they say; that they say nothing is no fault."""
    for name, layouts in (("subscription", SUBSCRIPTION_LAYOUTS),
                          ("assignment", ASSIGNMENT_LAYOUTS)):
        try:
            decoded = decode_protocol(member[name], layouts)
        except CorruptData as error:
            decoded = {"error": str(error)}
        member[name + "_decoded"] = decoded
    return 0


cdef dict decode_protocol(bytes data, list layouts):
    if not data:
        return None
    cdef Reader r = new_reader(data, "value")
    cdef int16_t version = read_version(r)
    if version < 0:
        raise CorruptData(f"{UNKNOWN} {version} of the consumer protocol", kind="value")
    cdef dict found = {"version": version,
                       "data": read_struct(r, <Layout?>layouts[min(version, len(layouts) - 1)])}
    if remaining(&r.cur):
        found["trailing_bytes"] = r.left_over()
    return found


def decode_subscription(data):
    """See ``schema.pyi``."""
    return decode_protocol(bytes_of(data, "data"), SUBSCRIPTION_LAYOUTS)


def decode_assignment(data):
    """See ``schema.pyi``."""
    return decode_protocol(bytes_of(data, "data"), ASSIGNMENT_LAYOUTS)

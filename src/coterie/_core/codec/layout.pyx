"""Fields of messages by layouts: bytes to tuples and dicts, and back.

A layout is one version of a message, compiled from the table ``coterie/base/schemas.txt``. It knows
lengths, nullable and tagged fields, and nothing of what a message means.
"""
cimport cython
import re
from binascii import Error as Base64Error, a2b_base64
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Copy, PyDict_SetItem
from cpython.exc cimport PyErr_Clear
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.long cimport PyLong_CheckExact
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from cpython.ref cimport PyObject, Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint16_t, uint32_t, uint8_t
from libc.string cimport memcmp, memcpy, memset
from operator import itemgetter

from coterie._core.checks cimport flag_of, int64_of, items_of
from coterie._core.codec.cursor cimport (
    MAX_TEXT, NEGATIVE, OK, OVERLONG, TOO_LONG, TRUNCATED, Cursor, Status, load_i16, load_i32,
    load_i64, read_bytes32, read_compact, read_count, read_i8, read_span, read_tag, read_text_span,
    read_uvarint, remaining)

from coterie.errors import ArgumentError, CorruptData, WireError, shown


# ---- decode text as Java does: bytes that are not UTF-8 become U+FFFD and never raise ------------
# Kafka compares and prints names after this decoding, so two different byte strings can be one
# name. Cost: that of Python's own decoder; broken bytes cost a regular expression more.

# Java counts an encoded surrogate as one broken sequence, Python as three.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def decode_utf8(bytes data not None):
    """Decode as Java's ``new String(bytes, UTF_8)`` does."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xef\xbf\xbd", data).decode("utf-8", "replace")


# ---- layout --------------------------------------------------------------------------------------
# The fields of Kafka's messages in one version, compiled into layouts that loops can follow. A
# layout has the fields of a struct in wire order, as objects for Python values and as C structs for
# loops over bytes. Knows the kinds of fields that Kafka's generated classes have; knows no message
# by name, and reads no bytes itself. Cost: made once for each version of a message, in one walk
# over the rows of the table.

cdef enum:
    MAX_DEPTH = 20             # of nested structs; Kafka's have at most five
    NO_SIZE = -2               # equals the size of no text

cdef dict KINDS = {
    "int8": INT8, "int16": INT16, "uint16": UINT16, "int32": INT32, "uint32": UINT32,
    "int64": INT64, "float64": FLOAT64, "bool": BOOL, "uuid": UUID, "string": STRING,
    "bytes": BYTES, "records": BYTES, "struct": STRUCT}
cdef dict WIDTHS = {INT8: 1, BOOL: 1, INT16: 2, UINT16: 2, INT32: 4, UINT32: 4, INT64: 8,
                    FLOAT64: 8, UUID: 16}
cdef str NO_UUID = "A" * 22


@cython.final
cdef class Field:
    """One field in one version, under its name in Kafka's JSON."""


@cython.final
cdef class Layout:
    """The fields of a struct in one version."""

    def __dealloc__(self):
        PyMem_Free(self.plan.steps)
        PyMem_Free(self.first)

    @property
    def names(self):
        """The names of the fields in wire order, tagged ones after all others."""
        return tuple([field.name for field in self.fields + self.tagged])

    @property
    def least_bytes(self):
        """The fewest bytes of such a struct: above 0, so a sender pays for each list element."""
        return self.least

    def below(self, str name not None):
        """Return the layout of a field that is a struct or a list of structs; None of any other."""
        cdef Field field
        for field in self.fields + self.tagged:
            if field.name == name:
                return field.layout
        raise KeyError(name)


cdef int least_of(Field field, bint flexible) except -1:
    """Return the fewest bytes that a field takes."""
    cdef Kind kind = field.step.kind
    if kind == STRUCT:
        return 1 if field.step.nullable else field.layout.least
    if kind == LIST or kind == BYTES:
        return 1 if flexible else 4
    if kind == STRING:
        return 1 if flexible else 2
    return field.step.width


def layout_of(fields, int version, bint flexible):
    """Make the layout of one version."""
    return struct_of(fields, version, flexible, 0)


cdef Layout struct_of(fields, int version, bint flexible, int depth):
    cdef Layout layout = Layout.__new__(Layout)
    cdef Field field
    cdef list plain = [], tagged = [], fresh = [], absent = []
    if depth > MAX_DEPTH:
        raise ArgumentError(f"fields: structs are nested more than {MAX_DEPTH} deep")
    layout.plan.flexible = flexible
    layout.blank = {}
    for row in fields:
        field = field_of(row, version, flexible, depth)
        field.step.slot = layout.plan.slots
        layout.plan.slots += 1
        layout.blank[field.name] = field.default
        here = row[2] <= version <= row[3]
        if here and field.step.tag < 0:
            plain.append(field)
            continue
        absent.append(field)
        if field.made:
            fresh.append(field)
        if here:
            tagged.append((field.step.tag, field))
    if layout.plan.slots > MAX_FIELDS:
        raise ArgumentError(f"fields: a struct has more than {MAX_FIELDS} fields")
    tagged.sort(key=itemgetter(0))
    layout.fields = tuple(plain)
    layout.tagged = tuple([field for _, field in tagged])
    layout.fresh = tuple(fresh)
    layout.absent = tuple(absent)
    layout.keys = {field.name: field.default for field in plain}
    layout.keys.update({field.name: None for field in layout.tagged if field.step.always})
    layout.least = sum([least_of(field, flexible) for field in plain]) + flexible
    set_steps(layout)
    return layout


cdef int set_steps(Layout layout) except -1:
    cdef Field field
    cdef int n
    layout.plan.count, layout.plan.tagged_count = len(layout.fields), len(layout.tagged)
    layout.plan.steps = <Step*>PyMem_Calloc(layout.plan.slots + 1, sizeof(Step))
    layout.first = <Seen*>PyMem_Calloc(layout.plan.count + 1, sizeof(Seen))
    if layout.plan.steps == NULL or layout.first == NULL:
        raise MemoryError
    for n, field in enumerate(layout.fields + layout.tagged):
        layout.plan.steps[n] = field.step
        if n < layout.plan.count:
            layout.first[n].number = seen_at_first(field)
    return 0


cdef int64_t seen_at_first(Field field) except? -1:
    """Return Seen's number for the default, which a dict has before anything is read."""
    cdef double value
    cdef int64_t bits
    if field.step.kind == STRING:
        return -1 if field.default is None else NO_SIZE if field.default else 0
    if field.step.kind == FLOAT64:
        value = field.default
        memcpy(&bits, &value, 8)
        return bits
    return field.default if field.step.kind < UUID else NO_SIZE


cdef Field field_of(row, int version, bint flexible, int depth):
    cdef Field field = Field.__new__(Field)
    cdef Step* step = &field.step
    cdef str kind
    name, kind, _, _, null_first, null_last, step.tag, text, fields = row
    field.name = name
    step.kind = LIST if kind.startswith("[]") else KINDS[kind]
    step.item = KINDS[kind.removeprefix("[]")]
    step.nullable = null_first <= version <= null_last
    step.width = WIDTHS.get(step.item, 0)
    step.name, step.field = <PyObject*>field.name, <PyObject*>field
    if step.item == STRUCT:
        field.layout = struct_of(fields, version, flexible, depth + 1)
        step.inner = &field.layout.plan
    if text != "null" and kind != "records":
        set_default(field, text)
    step.always = step.kind == STRUCT and step.tag >= 0 and not field.made
    return field


cdef int set_default(Field field, str text) except -1:
    cdef Kind kind = field.step.kind
    if kind == LIST or kind == STRUCT:
        field.made = True
    elif kind == STRING:
        field.default = text or ""
    elif kind == BYTES:
        field.default = b""
    elif kind == UUID:
        field.default = NO_UUID
    elif kind == BOOL:
        field.default = text == "true"
    elif kind == FLOAT64:
        field.default = float(text or 0)
    else:
        field.default = int(text or 0)
    return 0


cdef object default_of(Field field, bint fill):
    """Return the default for a new message: a list or a struct is a new object."""
    cdef Field inner
    if not field.made:
        return field.default
    if field.step.kind == LIST:
        return []
    if fill:
        return blank_of(field.layout)
    return {inner.name: default_of(inner, False) for inner in field.layout.fields}


cdef dict blank_of(Layout layout):
    """Return a struct of defaults with the fields of all versions."""
    cdef dict struct = layout.blank.copy()
    cdef Field field
    for field in layout.fresh + layout.fields:
        if field.made:
            struct[field.name] = default_of(field, True)
    return struct


# ---- bytes to plain Python values by a layout: dicts or tuples, lists, str, bytes, numbers -------
# Safe on any bytes. A length is compared with the remaining bytes before memory is reserved, a list
# is no longer than the bytes allow, and recursion is as deep as the layout. Bytes that do not parse
# raise ``WireError`` for a frame, ``CorruptData`` for a record. Knows kinds of fields; knows no
# message by name. Cost: a Python object for each value that is not in the dict already.
# Source: Kafka's generated readers (MessageDataGenerator, ByteUtils).

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
    # A struct counts once for each of its fields, because its memory grows with them.
    n = <Py_ssize_t>count * (max(1, layout.plan.count) if step.item == STRUCT else 1)
    if n > r.elements:
        raise broken(r, f"{<str>step.name}: {count} elements, more than were requested")
    r.elements -= n
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


# ---- plain Python values to bytes by a layout; each value is checked against its field's type ----
# A field that a dict lacks gets its default in a frame and is an error in a record. In a record a
# lone surrogate becomes "?", as Java writes it; in a frame it is an error. Keys that do not name a
# field of the version are ignored. Tagged fields at their default are not written, and unknown ones
# come from ``_unknown_tags``. Knows kinds of fields; knows no message by name. Cost: a type check
# and a copy of each value; most messages fit a buffer on the stack.

cdef extern from "Python.h":
    PyObject* PyDict_GetItemWithError(object d, object key) except? NULL
    long long PyLong_AsLongLongAndOverflow(object value, int* overflow) except? -1
    # Declared without an exception, which Cython would save and restore for each text.
    const char* utf8_of "PyUnicode_AsUTF8AndSize" (PyObject* text, Py_ssize_t* size)

cdef str UNKNOWN_TAGS = "_unknown_tags"


cdef void end(Writing* w) noexcept nogil:
    if w.data != w.first:
        PyMem_RawFree(w.data)


cdef int grow(Writing* w, Py_ssize_t size) except -1:
    cdef Py_ssize_t room = 2 * w.room + size
    cdef uint8_t* grown
    if w.data == w.first:
        grown = <uint8_t*>PyMem_RawMalloc(room)
        if grown != NULL:
            memcpy(grown, w.first, w.size)
    else:
        grown = <uint8_t*>PyMem_RawRealloc(w.data, room)
    if grown == NULL:
        raise MemoryError
    w.data, w.room = grown, room
    return 0


cdef int put_text16(Writing* w, str name, object value) except -1:
    """Write a text or null, its length in two bytes."""
    if value is None:
        return put_i16(w, -1)
    return write_text(w, name, value, False)


cdef object type_error(str name, str expected, object value):
    return ArgumentError(f"{name} must be {expected}, not {shown(value)}")


cdef int write_struct(Writing* w, Layout layout, object value, str name) except -1:
    cdef const Step* step
    cdef PyObject* item
    cdef object owned
    cdef bint flexible = layout.plan.flexible
    cdef int n
    if isinstance(value, tuple):
        return write_row(w, layout, <tuple>value, name)
    if not isinstance(value, dict):
        raise type_error(name, "a dict", value)
    for n in range(layout.plan.count):
        step = &layout.plan.steps[n]
        item = PyDict_GetItemWithError(value, <object>step.name)
        if item == NULL:
            if w.record:
                raise ArgumentError(f"{<str>step.name} is missing")
            write_field(w, step, default_of(<Field>step.field, False), flexible)
        elif not (step.kind < UUID and PyLong_CheckExact(<object>item)
                  and put_number(w, step.kind, <object>item)):
            owned = <object>item           # code of a caller's own class may remove it
            write_field(w, step, owned, flexible)
    if flexible:
        write_tags(w, layout, value)
    return 0


cdef int write_row(Writing* w, Layout layout, tuple row, str name) except -1:
    """Write a struct from a tuple with the fields of all versions, in the table's order."""
    cdef Field field
    cdef const Step* step
    cdef int n
    cdef dict tagged = None
    cdef PyObject* value
    if len(row) != layout.plan.slots:
        raise ArgumentError(f"{name}: a row has {layout.plan.slots} fields, not {len(row)}")
    for n in range(layout.plan.count):
        step = &layout.plan.steps[n]
        value = PyTuple_GET_ITEM(row, step.slot)
        if not (step.kind < UUID and PyLong_CheckExact(<object>value)
                and put_number(w, step.kind, <object>value)):
            write_field(w, step, <object>value, layout.plan.flexible)
    if not layout.plan.flexible:
        return 0
    for field in layout.tagged:
        value = PyTuple_GET_ITEM(row, field.step.slot)
        if <object>value is not None or not (field.made or field.default is None):
            tagged = tagged or {}
            tagged[field.name] = <object>value
    return put_uvarint(w, 0) if tagged is None else write_tags(w, layout, tagged)


cdef inline bint put_number(Writing* w, Kind kind, object value) except -1:
    """Write a number of a common kind. False: another kind, or the number does not fit."""
    cdef int overflow = 0
    cdef int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if kind == INT32 and number == <int32_t>number and not overflow:
        put_i32(w, <int32_t>number)
    elif kind == INT16 and number == <int16_t>number and not overflow:
        put_i16(w, <int16_t>number)
    elif kind == INT64 and not overflow:
        put_i64(w, number)
    else:
        return False
    return True


cdef bint put_rare(Writing* w, Kind kind, int64_t number) except -1:
    """Write a number of another integer kind. False: the number does not fit."""
    if kind == INT8 and number == <int8_t>number:
        reserve(w, 1)[0] = <uint8_t>number
    elif kind == UINT16 and number == <uint16_t>number:
        put_i16(w, <int16_t>number)
    elif kind == UINT32 and number == <uint32_t>number:
        put_i32(w, <int32_t>number)
    else:
        return False
    return True


cdef int write_field(Writing* w, const Step* step, object value, bint flexible) except -1:
    if step.kind < STRUCT:
        if value is None:
            return write_null(w, step, flexible)
        return write_value(w, <str>step.name, step.kind, value, flexible)
    if step.kind == LIST:
        return write_list(w, step, value, flexible)
    if step.nullable:
        reserve(w, 1)[0] = 0xFF if value is None else 1
        if value is None:
            return 0
    return write_struct(w, (<Field>step.field).layout, value, <str>step.name)


cdef int write_null(Writing* w, const Step* step, bint flexible) except -1:
    if not step.nullable:
        raise ArgumentError(f"{<str>step.name} may not be None in this version")
    if flexible:
        return put_uvarint(w, 0)
    if step.kind == STRING:
        return put_i16(w, -1)
    return put_i32(w, -1)


cdef int write_list(Writing* w, const Step* step, object value, bint flexible) except -1:
    cdef Layout layout = (<Field>step.field).layout
    cdef str name = <str>step.name
    cdef list items
    if value is None:
        return write_null(w, step, flexible)
    if isinstance(value, (str, bytes, dict)):
        raise type_error(name, "a list", value)
    items = <list>value if type(value) is list else items_of(value, name)
    if flexible:
        put_uvarint(w, <unsigned int>len(items) + 1)
    else:
        put_i32(w, <int32_t>len(items))
    cdef Py_ssize_t count = len(items)
    if step.item == STRUCT:
        for item in items:
            write_struct(w, layout, item, name)
    else:
        for item in items:
            if not (step.item < UUID and PyLong_CheckExact(item)
                    and put_number(w, step.item, item)):
                write_value(w, name, step.item, item, flexible)
    if len(items) != count:
        raise ArgumentError(f"{name} changed while it was written")
    return 0


cdef int write_value(Writing* w, str name, Kind kind, object value, bint flexible) except -1:
    if kind == STRING:
        return write_text(w, name, value, flexible)
    if kind == BYTES:
        return write_bytes(w, name, value, flexible)
    if kind == BOOL:
        reserve(w, 1)[0] = value is True or (value is not False and flag_of(value, name))
        return 0
    if kind == UUID:
        return write_uuid(w, name, value)
    if kind == FLOAT64:
        return write_float(w, name, value)
    return write_number(w, name, kind, value)


cdef int write_number(Writing* w, str name, Kind kind, object value) except -1:
    cdef int64_t number = int64_of(value, name)
    if not (put_number(w, kind, number) or put_rare(w, kind, number)):
        bits = {INT8: 8, INT16: 16, UINT16: 16}.get(kind, 32)
        raise ArgumentError(f"{name} must fit {bits} bits, not {number}")
    return 0


cdef int write_float(Writing* w, str name, object value) except -1:
    cdef double number
    cdef int64_t bits
    if not isinstance(value, (int, float)):
        raise type_error(name, "a number", value)
    number = value
    memcpy(&bits, &number, 8)
    return put_i64(w, bits)


cdef int write_text(Writing* w, str name, object value, bint flexible) except -1:
    cdef Py_ssize_t size
    cdef const char* at
    if not isinstance(value, str):
        raise type_error(name, "a string", value)
    at = utf8_of(<PyObject*>value, &size)
    if at == NULL:
        PyErr_Clear()
        if not w.record:
            raise type_error(name, "text that UTF-8 can hold", value)
        return write_text(w, name, (<str>value).encode("utf-8", "replace").decode(), flexible)
    if size > MAX_TEXT:
        raise ArgumentError(f"{name} may have {MAX_TEXT} bytes, not {size}")
    if flexible:
        put_uvarint(w, <unsigned int>size + 1)
    else:
        put_i16(w, <int16_t>size)
    return put_bytes(w, at, size)


cdef int write_bytes(Writing* w, str name, object value, bint flexible) except -1:
    cdef Py_buffer view
    if type(value) is bytes:
        put_size(w, name, PyBytes_GET_SIZE(value), flexible)
        return put_bytes(w, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    try:
        PyObject_GetBuffer(value, &view, PyBUF_SIMPLE)
    except (TypeError, ValueError, BufferError):
        raise type_error(name, "bytes", value) from None
    try:
        put_size(w, name, view.len, flexible)
        put_bytes(w, view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return 0


cdef int put_size(Writing* w, str name, Py_ssize_t size, bint flexible) except -1:
    if size >= 0x7FFFFFFF:
        raise ArgumentError(f"{name} has {size} bytes, too many for a frame")
    if flexible:
        return put_uvarint(w, <unsigned int>size + 1)
    return put_i32(w, <int32_t>size)


cdef int write_uuid(Writing* w, str name, object value) except -1:
    """Write a uuid from Kafka's form, with or without padding."""
    cdef bytes raw
    if not isinstance(value, str):
        raise type_error(name, "a uuid in Kafka's form (base64)", value)
    try:
        text = value.replace("-", "+").replace("_", "/").rstrip("=").encode("ascii")
        raw = a2b_base64(text + b"==")
    except (Base64Error, UnicodeEncodeError, ValueError):
        raw = b""
    if len(raw) != 16:
        raise type_error(name, "a uuid in Kafka's form (base64)", value)
    return put_bytes(w, PyBytes_AS_STRING(raw), 16)


cdef int write_tags(Writing* w, Layout layout, object value) except -1:
    """Write known and unknown tagged fields by tag, except known ones at their default."""
    cdef Field field
    cdef PyObject* item
    cdef object owned
    cdef bytes data
    cdef list tags = None
    for field in layout.tagged:
        item = PyDict_GetItemWithError(value, field.name)
        if item != NULL or field.step.always:
            owned = None if item == NULL else <object>item            # as in write_struct
            data = bytes_of_field(field, owned, w.record)
            if field.step.always or data != default_bytes(field):
                tags = tags or []
                tags.append((field.step.tag, data))
    item = PyDict_GetItemWithError(value, UNKNOWN_TAGS)
    if item != NULL:
        owned = <object>item
        tags = sorted((tags or []) + unknown_tags(owned), key=itemgetter(0))
    if tags is None:
        return put_uvarint(w, 0)
    put_uvarint(w, <unsigned int>len(tags))
    for tag, data in tags:
        put_uvarint(w, <unsigned int>tag)
        put_uvarint(w, <unsigned int>len(data))
        put_bytes(w, PyBytes_AS_STRING(data), len(data))
    return 0


cdef list unknown_tags(object value):
    """Check and return the (tag, bytes) pairs of a struct's unknown tagged fields."""
    cdef list pairs = []
    for pair in items_of(value, UNKNOWN_TAGS):
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and type(pair[1]) is bytes
                and 0 <= int64_of(pair[0], "tag") <= 0xFFFFFFFF):
            raise type_error(UNKNOWN_TAGS, "pairs of a tag and bytes", pair)
        pairs.append((int(pair[0]), pair[1]))
    return pairs


cdef bytes bytes_of_field(Field field, object value, bint record):
    """Return the bytes of a tagged field, without tag and size."""
    cdef Writing w
    begin(&w)
    w.record = record
    try:
        if field.step.always:                # see `read_known_tag`
            reserve(&w, 1)[0] = value is not None
            if value is not None:
                write_struct(&w, field.layout, value, field.name)
        else:
            write_field(&w, &field.step, value, True)
        return written(&w)
    finally:
        end(&w)


cdef bytes written(Writing* w):
    return PyBytes_FromStringAndSize(<const char*>w.data, w.size)


cdef bytes default_bytes(Field field):
    if field.default_bytes is None:
        field.default_bytes = bytes_of_field(field, default_of(field, False), False)
    return field.default_bytes

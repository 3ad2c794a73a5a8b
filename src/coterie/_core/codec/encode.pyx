"""Plain Python values to bytes by a layout; each value is checked against its field's type.

A field that a dict lacks gets its default in a frame and is an error in a record. In a record a
lone surrogate becomes "?", as Java writes it; in a frame it is an error. Keys that do not name a
field of the version are ignored. Tagged fields at their default are not written, and unknown ones
come from ``_unknown_tags``.
Knows kinds of fields; knows no message by name. Cost: a type check and a copy of each value; most
messages fit a buffer on the stack.
"""
from binascii import Error as Base64Error
from binascii import a2b_base64
from operator import itemgetter

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_Clear
from cpython.long cimport PyLong_CheckExact
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from cpython.ref cimport PyObject
from cpython.tuple cimport PyTuple_GET_ITEM
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy

from coterie._core.checks cimport flag_of, int64_of, items_of
from coterie._core.codec.cursor cimport MAX_TEXT
from coterie._core.codec.layout cimport (
    BOOL, BYTES, FLOAT64, INT8, INT16, INT32, INT64, LIST, STRING, STRUCT, UINT16, UINT32, UUID,
    Field, Kind, Layout, Step, default_of)

from coterie.errors import ArgumentError, shown

cdef extern from "Python.h":
    PyObject* PyDict_GetItemWithError(object d, object key) except? NULL
    long long PyLong_AsLongLongAndOverflow(object value, int* overflow) except? -1
    # Declared without an exception, which Cython would save and restore for each text.
    const char* utf8_or_null "PyUnicode_AsUTF8AndSize" (PyObject* text, Py_ssize_t* size)

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
    at = utf8_or_null(<PyObject*>value, &size)
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

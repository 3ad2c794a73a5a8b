"""Checks of single arguments: whole numbers, texts, lists, bytes; and of concurrent use.

A float is refused, because its fraction would be lost; numpy's integers are accepted. A result has
exactly its type, never a subclass with methods of the caller's. Columns are checked in
`structures/arguments`. This module knows neither the meaning of a value nor numpy.
Cost: a few ns for a value of the expected type.
"""
from cpython.bytes cimport PyBytes_FromObject
from cpython.long cimport PyLong_CheckExact
from cpython.number cimport PyIndex_Check, PyNumber_Index
from cpython.unicode cimport PyUnicode_FromObject
from libc.stdint cimport int32_t, int64_t

from zlib import crc32

from coterie.errors import ArgumentError, CorruptData, CoterieError, shown

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int* overflow) except? -1


cdef int64_t int64_of(object value, str name) except? -1:
    """Return a whole number of 64 bits."""
    cdef int overflow = 0
    cdef int64_t number
    value = whole(value, name)
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow:
        raise ArgumentError(f"{name} must fit 64 bits, not {shown(value, 40)}")
    return number


cdef object int64_or_none(object value, str name):
    return None if value is None else int64_of(value, name)


cdef int32_t int32_of(object value, str name) except? -1:
    """Return a whole number of 32 bits."""
    cdef int64_t number = int64_of(value, name)
    if number != <int32_t>number:
        raise ArgumentError(f"{name} must fit 32 bits, not {number}")
    return <int32_t>number


cpdef int64_t within(object value, str name, int64_t least, int64_t most) except? -1:
    """Return a whole number from ``least`` to ``most``."""
    cdef int overflow = 0
    cdef int64_t number
    value = whole(value, name)
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or not least <= number <= most:
        raise ArgumentError(f"{name} must be from {least} to {most}, not {shown(value)}")
    return number


cpdef object whole(object value, str name):
    """Return a whole number of any size as an int."""
    if PyLong_CheckExact(value):
        return value
    # numpy's bool has __index__, too, and may warn about it.
    if PyIndex_Check(value) and not isinstance(value, bool) and (
            getattr(getattr(value, "dtype", None), "kind", None) != "b"):
        try:
            return int(PyNumber_Index(value))
        except TypeError:                # an array of several numbers
            pass
    raise ArgumentError(f"{name} must be an integer, not {shown(value)}")


cdef bint flag_of(object value, str name) except -1:
    """Return the truth of a value; an array of several elements has none."""
    try:
        return bool(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name} must be true or false, not {shown(value)}") from None


cpdef str text_of(object value, str name):
    """Return a string, whatever its characters, as a ``str``."""
    if type(value) is str:
        return value
    if not isinstance(value, str):
        raise ArgumentError(f"{name} must be a string, not {shown(value)}")
    return PyUnicode_FromObject(value)


cdef str text_or_none(object value, str name):
    return None if value is None else text_of(value, name)


cdef tuple texts_of(object values, str name):
    """Return several strings; a single string is refused, not taken as its characters."""
    if isinstance(values, (str, bytes)):
        raise ArgumentError(f"{name} must be a list of strings, not {shown(values)}")
    return tuple([text_of(value, name) for value in items_of(values, name)])


cdef int need_pickled(str what, bint known, bytes state, check) except -1:
    """Refuse a pickle of another form, or with bytes that were changed."""
    if not known:
        raise CoterieError(f"this {what} was pickled by another version of coterie: "
                           "have the same version in every process")
    if crc32(state) != check:
        raise CorruptData(f"these bytes are no whole {what}: they were cut or changed")
    return 0


cdef list items_of(object values, str name):
    """Return an iterable as a list; a text or bytes are one value, no list."""
    try:
        if isinstance(values, (str, bytes)):
            raise TypeError
        items = iter(values)
    except TypeError:
        raise ArgumentError(f"{name} must be a list, not {shown(values)}") from None
    return list(items)


cdef tuple pairs_of(object values, str name):
    """Return ((name, bytes), ...), the form of a member's protocols; an exact one is not copied."""
    cdef list pairs = []
    if type(values) is tuple and are_pairs(values):
        return values
    for item in items_of(values, name):
        if not (isinstance(item, (tuple, list)) and len(item) == 2
                and isinstance(item[0], str) and isinstance(item[1], bytes)):
            raise ArgumentError(f"{name} must be pairs of a name and bytes, not {shown(item)}")
        pairs.append((text_of(item[0], name), bytes_of(item[1], name)))
    return tuple(pairs)


cdef bint are_pairs(tuple values) except -1:
    cdef tuple pair
    for item in values:
        if type(item) is not tuple:
            return False
        pair = item
        if len(pair) != 2 or type(pair[0]) is not str or type(pair[1]) is not bytes:
            return False
    return True


cdef bytes bytes_of(object value, str name):
    """Return bytes."""
    if type(value) is bytes:
        return value
    if not isinstance(value, bytes):
        raise ArgumentError(f"{name} must be bytes, not {shown(value)}")
    return PyBytes_FromObject(value)


cdef object buffer_of(object data, str name):
    """Return a contiguous view of bytes: of bytes, a mapped file, an array of uint8."""
    try:
        view = memoryview(data)
    except (TypeError, ValueError, BufferError) as error:
        raise ArgumentError(f"{name} must be bytes: {error}") from None
    if view.ndim != 1 or view.format not in ("B", "b", "c") or not view.c_contiguous:
        raise ArgumentError(f"{name} must be bytes in a row, not a buffer of format "
                            f"{view.format!r}, shape {view.shape} and strides {view.strides}")
    return view if view.format == "B" else view.cast("B")


cdef dict dict_of(object value, str name):
    """Return a dict."""
    if not isinstance(value, dict):
        raise ArgumentError(f"{name} must be a dict, not {shown(value)}")
    return value if type(value) is dict else dict(value)


# Under the GIL a call is alone as long as it runs no other Python code. Decompression, a callback
# or a finalizer may: then another thread, or the same one, can enter and move the object's memory.
# `users` of an object: -1 while a call changes it, else the number of calls that read it. Each
# `begin_*` needs its `end_use`.

cdef int begin_change(int* users, str what) except -1:
    if users[0]:
        raise CoterieError(f"{what} is in use by another call, and one at a time may change it")
    users[0] = -1
    return 0


cdef int begin_read(int* users, str what) except -1:
    if users[0] < 0:
        raise CoterieError(f"{what} is in use by another call, which is changing it")
    users[0] += 1
    return 0


cdef void end_use(int* users) noexcept:
    users[0] = 0 if users[0] < 0 else users[0] - 1

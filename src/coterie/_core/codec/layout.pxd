"""Fields of messages by layouts: bytes to tuples and dicts, and back."""
from cpython.ref cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy

from coterie._core.codec.cursor cimport Cursor, Status, coterie_be16, coterie_be32, coterie_be64

# ---- the layout of one version of a struct: its fields as objects, and as C structs --------------

cdef enum:
    MAX_FIELDS = 64            # of a struct in one version; Kafka's have at most 17

cdef enum Kind:
    INT8 = 0
    INT16 = 1
    UINT16 = 2
    INT32 = 3
    UINT32 = 4
    INT64 = 5
    FLOAT64 = 6
    BOOL = 7
    UUID = 8
    STRING = 9
    BYTES = 10
    STRUCT = 11
    LIST = 12

cdef struct Plan

cdef struct Step:              # one field
    Kind kind
    Kind item                  # of a list: the kind of its elements
    bint nullable
    int width                  # bytes of a number, bool or uuid; for a list, of its elements
    int slot                   # its index in a row, which has the fields of all versions
    int tag                    # -1: not tagged
    bint always                # Kafka writes and prints the tagged field although it is null
    const Plan* inner          # the fields of a struct, or of a list's elements
    PyObject* name             # of `field`, which the layout's tuple keeps alive
    PyObject* field

cdef struct Plan:              # the fields of one version
    Step* steps                # in wire order, then the tagged ones
    int count                  # without the tagged ones
    int tagged_count
    int slots                  # of a row: one for each field of any version, in the table's order
    bint flexible              # compact lengths, and tagged fields at the end of each struct

cdef struct Seen:
    # The value that a dict has for a field of fixed width, or for a text.
    int64_t number             # the number, or the bits of a float; the size of a text, -1: null
    const uint8_t* at          # the bytes of a text

cdef class Field:
    cdef readonly str name
    cdef Step step
    cdef Layout layout         # of a struct, or of a list's elements
    cdef object default        # None, a number, a text, bytes
    cdef bint made             # the default is a list or struct, and new in each message
    cdef bytes default_bytes   # of a tagged field, which is not written if it equals these

cdef class Layout:
    cdef tuple fields          # in wire order
    cdef tuple tagged          # by tag
    cdef Plan plan
    cdef Seen* first           # the values of `keys` and `blank`
    cdef int least             # the fewest bytes that a struct takes
    cdef dict keys             # the fields at their defaults; lists and structs are None
    cdef dict blank            # each field of any version at its default, in the table's order
    cdef tuple fresh           # fields that may be missing and whose default is a new object
    cdef tuple absent          # the other fields than `fields`, in the table's order

cdef Layout struct_of(fields, int version, bint flexible, int depth)
cdef object default_of(Field field, bint fill)
cdef dict blank_of(Layout layout)

# ---- reading a message: the state of it, and its functions ---------------------------------------

cdef enum Source:              # of the bytes: decides the class of an error
    FRAME = 0
    KEY = 1
    VALUE = 2

cdef struct Reading:
    Cursor cur
    const uint8_t* start
    Source source
    bint fill                  # structs get the fields of all versions
    bint tags                  # structs get unknown tagged fields
    bint rows                  # structs become tuples with the fields of all versions
    bint tagged                # the last struct had tagged fields
    Py_ssize_t elements        # of lists, which may still come

cdef Reading reading(const uint8_t* at, Py_ssize_t size, Source source) noexcept nogil
cdef object read_struct(Reading* r, Layout layout)
cdef object read_text(const uint8_t* at, Py_ssize_t size)
cdef object refused(Reading* r, str name, Status status)
cdef Status skip_tags(Cursor* cur) noexcept nogil

# ---- A buffer that messages are written into, and its functions ----------------------------------

cdef enum:
    FIRST_ROOM = 1024

cdef struct Writing:
    uint8_t* data
    Py_ssize_t size
    Py_ssize_t room
    bint record                # no field may be missing, and a lone surrogate becomes "?"
    uint8_t first[FIRST_ROOM]  # most frames fit here and allocate nothing

cdef int grow(Writing* w, Py_ssize_t size) except -1


cdef inline uint8_t* reserve(Writing* w, Py_ssize_t size) except NULL:
    """Make room for `size` bytes, which count as written, and return their address."""
    cdef uint8_t* at
    if size > w.room - w.size:
        grow(w, size)
    at = w.data + w.size
    w.size += size
    return at


cdef inline int put_i16(Writing* w, int16_t value) except -1:
    cdef uint16_t raw = coterie_be16(<uint16_t>value)
    memcpy(reserve(w, 2), &raw, 2)
    return 0


cdef inline int put_i32(Writing* w, int32_t value) except -1:
    cdef uint32_t raw = coterie_be32(<uint32_t>value)
    memcpy(reserve(w, 4), &raw, 4)
    return 0


cdef inline int put_i64(Writing* w, int64_t value) except -1:
    cdef uint64_t raw = coterie_be64(<uint64_t>value)
    memcpy(reserve(w, 8), &raw, 8)
    return 0


cdef inline int put_uvarint(Writing* w, unsigned int value) except -1:
    cdef uint8_t* at = reserve(w, 5)
    cdef int count = 0
    while value > 127:
        at[count] = <uint8_t>(value & 127 | 128)
        value >>= 7
        count += 1
    at[count] = <uint8_t>value
    w.size -= 4 - count
    return 0


cdef inline int put_bytes(Writing* w, const void* at, Py_ssize_t size) except -1:
    memcpy(reserve(w, size), at, size)
    return 0


cdef inline void begin(Writing* w) noexcept nogil:
    w.data, w.size, w.room, w.record = w.first, 0, FIRST_ROOM, False


cdef void end(Writing* w) noexcept nogil
cdef bytes written(Writing* w)
cdef int put_text16(Writing* w, str name, object value) except -1
cdef int write_text(Writing* w, str name, object value, bint flexible) except -1
cdef int write_struct(Writing* w, Layout layout, object value, str name) except -1

"""The layout of one version of a struct: its fields as objects, and as C structs. See layout.pyx.

Loops over bytes follow a Plan and its Steps, which need no object; some run without the GIL.
"""
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint8_t

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

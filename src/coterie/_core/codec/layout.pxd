"""One field of a message, and the fields of one version of a struct. See layout.pyx.

A Plan and its Steps are what loops over bytes go by: they need no object, and some no GIL.
"""
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint8_t

cdef enum:
    MOST_FIELDS = 64           # of a struct in one version; Kafka's have 17 at most

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
    Kind item                  # of a list: what each element is
    bint nullable
    int width                  # of a number, a bool, a uuid: its bytes; of a list, its elements
    int slot                   # its place in a row: its number among the fields of all versions
    int tag                    # -1: in its place; else the tag that it is written under
    bint always                # Kafka writes and prints it under its tag although it is null
    const Plan* inner          # of a struct its fields; of a list of structs those of an element
    PyObject* name             # of `field`, which the layout's tuple keeps
    PyObject* field

cdef struct Plan:              # what one version has
    Step* steps                # in their order on the wire, then those with a tag
    int count                  # without those with a tag
    int tagged_count
    int slots                  # of a row: every field of any version has one, in the table's order
    bint flexible              # compact lengths, and tagged fields at the end of every struct

cdef struct Seen:
    # What a dict holds for a field of fixed width, or for a text.
    int64_t number             # its value, the bits of a float; the bytes of a text, -1: null
    const uint8_t* at          # where the text stands

cdef class Field:
    cdef readonly str name
    cdef Step step
    cdef Layout layout         # of a struct; of a list, of its elements if they are structs
    cdef object default        # None, a number, a text, bytes
    cdef bint made             # the default is a list or a struct, a new one in each message
    cdef bint always           # Kafka writes and prints it under its tag although it is null
    cdef bytes default_bytes   # of a tagged field: what is written as nothing

cdef class Layout:
    cdef tuple fields          # in their order on the wire
    cdef tuple tagged          # by tag
    cdef Plan plan
    cdef Seen* first           # what `keys` and `blank` hold for the fields
    cdef int least             # the fewest bytes that it takes
    cdef dict keys             # the fields at their defaults; None stands for a list or a struct
    cdef dict blank            # every field of any version at its default, in the table's order
    cdef tuple fresh           # fields that may be absent and whose default is a new object
    cdef tuple absent          # fields that are not among `fields`, in the table's order

cdef Layout struct_of(fields, int version, bint flexible, int depth)
cdef object default_of(Field field, bint fill)
cdef dict blank_of(Layout layout)

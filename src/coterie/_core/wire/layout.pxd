"""One field of a message, and the fields of one version of a struct. See layout.pyx."""
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

cdef class Field:
    cdef readonly str name
    cdef Kind kind
    cdef Kind item             # of a list: what each element is
    cdef bint nullable
    cdef int tag               # -1: in its place; else the tag that it is written under
    cdef Layout layout         # of a struct; of a list, of its elements if they are structs
    cdef object default        # None, a number, a text, bytes
    cdef bint made             # the default is a list or a struct, a new one in each message
    cdef int width             # of a number, a bool, a uuid: its bytes; of a list, its elements
    cdef int slot              # its place in a row
    cdef bytes default_bytes   # of a tagged field: what is written as nothing

cdef struct Step:
    # A field as the loops over a frame take it: what is not borrowed here costs them references.
    Kind kind
    Kind item
    bint nullable
    int width
    int slot
    PyObject* name             # of `field`, which the layout's tuple keeps
    PyObject* field

cdef struct Seen:
    # What a dict holds for a field of fixed width, or for a text.
    int64_t number             # its value, the bits of a float; the bytes of a text, -1: null
    const uint8_t* at          # where the text stands

cdef class Layout:
    cdef tuple fields          # in their order on the wire
    cdef Step* steps           # one for each of them
    cdef Seen* first           # what `keys` and `blank` hold for them
    cdef tuple tagged          # by tag
    cdef bint flexible
    cdef int count             # of the fields
    cdef int least             # the fewest bytes that it takes
    cdef dict keys             # the fields at their defaults; None stands for a list or a struct
    cdef dict blank            # every field of any version at its default, in the table's order
    cdef tuple fresh           # fields that may be absent and whose default is a new object
    cdef tuple absent          # fields that are not among `fields`, in the table's order
    cdef int slots             # of a row: every field of any version has one, in the table's order

cdef object default_of(Field field, bint fill)
cdef dict blank_of(Layout layout)

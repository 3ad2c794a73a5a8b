"""One field of a message, and the fields of one version of it, ready to be read or written."""

cdef enum Op:
    INT8 = 0
    INT16 = 1
    UINT16 = 2
    INT32 = 3
    INT64 = 4
    UUID = 5
    STRING = 6
    BYTES = 7
    ARRAY = 8
    STRUCT = 9

cdef class Field:
    cdef readonly str name
    cdef Op op
    cdef bint nullable
    cdef int tag             # -1: in its place; else the tag that it is written under
    cdef object default      # of a tagged field: what its absence means
    cdef bint always         # a tagged field that Kafka writes and prints although it is null
    cdef Field item          # of an array
    cdef Layout layout       # of a struct

cdef class Layout:
    cdef list fields         # in their order on disk
    cdef list tagged         # by tag
    cdef bint flexible       # compact lengths, and tagged fields at the end of every struct

cdef Layout layout_of(tuple table, int version, bint flexible)

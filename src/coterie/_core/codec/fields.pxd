"""One field of a message, and the fields of one version of it, ready to be read or written."""
from coterie._core.codec.walk cimport Op, Plan, Step, Versions

cdef class Field:
    cdef readonly str name
    cdef Step step           # the same for `walk`
    cdef Op op
    cdef bint nullable
    cdef int tag             # -1: in its place; else the tag that it is written under
    cdef object default      # of a tagged field: what its absence means
    cdef bint always         # a tagged field that Kafka writes and prints although it is null
    cdef Field item          # of an array
    cdef Layout layout       # of a struct; of an array, the fields of an element

cdef class Layout:
    cdef list fields         # in their order on disk
    cdef list tagged         # by tag
    cdef bint flexible       # compact lengths, and tagged fields at the end of every struct
    cdef Plan plan           # the same for `walk`

cdef const Versions* versions_of(int key_version) except NULL
cdef const Plan* plan_of(Layout layout) noexcept
cdef int slot_of(tuple table, str name) except -1

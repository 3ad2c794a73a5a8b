"""The groups that a fold keeps, where it does not keep all. See group_filter.pyx."""
from libc.stdint cimport int64_t

from coterie._core.codec.batch cimport Batch, Record
from coterie._core.fold.keytable cimport Table
from coterie._core.fold.record_kind cimport Parsed

cdef enum Sifted:
    NONE_KEPT = 0                # no record is of a group that is kept, and none has a fault
    ALL_KEPT = 1                 # each is, as far as can be told here
    MIXED = 2                    # or what cannot be told here: each needs a look

cdef struct Only:
    Table names                  # of the groups, as UTF-8
    bint odd                     # one of them is not ASCII

cdef int only_keep(Only* only, object names) except -1

# `until_ms` is -1 or more: records later than that are not looked at.
cdef Sifted sift(const Only* only, const Batch* batch, int64_t until_ms) noexcept nogil

cdef bint passes_over(const Only* only, const Record* record, const Parsed* parsed) noexcept nogil

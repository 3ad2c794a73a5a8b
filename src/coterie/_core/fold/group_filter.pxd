"""The filter of a fold of some groups only. See group_filter.pyx."""
from libc.stdint cimport int64_t

from coterie._core.codec.batch cimport Batch, Record
from coterie._core.fold.keytable cimport Table
from coterie._core.fold.record_kind cimport ParsedRecord

cdef enum BatchMatch:
    NONE_MATCH = 0               # no record is of a requested group, and none has a fault
    ALL_MATCH = 1                # all are, or may be: see the rule of names that are not ASCII
    SOME_MATCH = 2               # or this code cannot decide: each record must be looked at

cdef struct GroupFilter:
    Table names                  # of the requested groups, as UTF-8
    bint non_ascii               # one of the names is not ASCII

cdef int filter_add(GroupFilter* group_filter, object names) except -1

# `until_ms` is -1 or more: records later than that do not match. Sets `has_records_of_4x` if one
# `is_of_4x`, whatever its group and time.
cdef BatchMatch match_batch(const GroupFilter* group_filter, const Batch* batch,
                            int64_t until_ms, bint* has_records_of_4x) noexcept nogil

cdef bint excludes(const GroupFilter* group_filter, const Record* record,
                   const ParsedRecord* parsed) noexcept nogil

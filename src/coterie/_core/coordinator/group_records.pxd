"""The three kinds of record that the coordinator writes."""
from coterie._core.coordinator.group cimport GroupMetadata
from coterie._core.coordinator.sink cimport Batch

cdef enum:
    LONGEST = 0x7FFF               # bytes of a string: its length is an int16, also on the wire

cdef Batch commit_batch(str group_id, tuple rows, list entries)
cdef Batch group_batch(GroupMetadata group, dict assignments)
cdef bytes assignment_of(dict assignments, str member_id, Py_ssize_t* place)
cdef Batch tombstones(str group_id, list keys, bint with_group)
cdef Py_ssize_t utf8_length(str text) except -2

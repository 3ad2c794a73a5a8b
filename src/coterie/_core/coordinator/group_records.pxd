"""The three kinds of record that the coordinator writes."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.group cimport GroupMetadata
from coterie._core.structures.offsets cimport Offset

cdef enum:
    LONGEST = 0x7FFF               # bytes of a string: its length is an int16, also on the wire

cdef bytes offset_key(str group_id, str topic, int32_t partition)
cdef bytes offset_value(Offset entry)
cdef bytes group_key(str group_id)
cdef bytes group_value(GroupMetadata group, dict assignments)
cdef Py_ssize_t utf8_length(str text) except -2

"""The record of a classic group: its declarations."""
from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.sink cimport Batch

cdef bytes group_key(str group_id)
cdef Batch empty_group_batch(GroupMetadata group, Batch before)
cdef Batch group_batch(GroupMetadata group, dict assignments)
cdef bytes assignment_of(dict assignments, str member_id, Py_ssize_t* place)

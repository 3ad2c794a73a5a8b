"""Loading a partition's log into groups."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.group cimport GroupMetadata

cdef GroupMetadata read_group(str group_id, bytes value)

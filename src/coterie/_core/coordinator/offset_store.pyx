"""The offsets of groups of every type, beside the groups, as in Kafka's OffsetMetadataManager.

It knows no group: the group's protocol decides whether a member may commit, and when offsets
expire. A group without commits takes no memory here. O(1) for a group; giving up a partition is one
pass over the group ids.
Source: OffsetMetadataManager.java. Rules: docs/rules/offsets.md#data.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.partitions cimport partition_of
from coterie._core.structures.offsets cimport OffsetMap


@cython.final
cdef class OffsetStore:
    """Committed and pending offsets by group id, and which transactions are undecided."""

    def __cinit__(self):
        self.maps = {}
        self.open_groups = {}

    cdef OffsetMap find(self, str group_id):
        """Return the offsets of a group; None if there were no commits."""
        return <OffsetMap>self.maps.get(group_id)

    cdef OffsetMap map_of(self, str group_id):
        """Return the offsets of a group; create an empty map if there is none."""
        offsets = self.maps.get(group_id)
        if offsets is None:
            offsets = self.maps[group_id] = OffsetMap.__new__(OffsetMap)
        return <OffsetMap>offsets

    cdef int put(self, str group_id, OffsetMap offsets) except -1:
        """Set the offsets of a group, with its undecided transactions."""
        self.maps[group_id] = offsets
        for producer_id in offsets.pending_by_producer:
            self.open_transaction(producer_id, group_id)

    cdef int drop(self, str group_id) except -1:
        """Forget the offsets of a group that ends; an unfinished append then has no effect."""
        self.maps.pop(group_id, None)

    cdef int open_transaction(self, int64_t producer_id, str group_id) except -1:
        """Remember that the producer's next marker decides offsets of the group."""
        self.open_groups.setdefault(producer_id, {})[group_id] = None

    cdef int resigned(self, int32_t partition, int32_t count) except -1:
        """Forget the groups of a partition of the offsets topic; -1: all."""
        if partition < 0:
            self.maps = {}
            self.open_groups = {}
            return 0
        self.maps = {group_id: offsets for group_id, offsets in self.maps.items()
                     if partition_of(group_id, count) != partition}
        self.open_groups = {
            producer: left for producer, groups in self.open_groups.items()
            if (left := {group_id: None for group_id in groups
                         if partition_of(group_id, count) != partition})}

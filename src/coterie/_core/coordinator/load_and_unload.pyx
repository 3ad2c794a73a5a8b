"""What becomes of the classic protocol's groups when a partition is given up, or loaded.

Source: GroupMetadataManager.scala (removeGroupsForPartition, loadGroupsAndOffsets),
GroupCoordinator.scala (onGroupUnloaded, onGroupLoaded).
Rules: docs/rules/coordinator.md#election.
"""
cimport cython
from libc.stdint cimport int32_t

from coterie._core.coordinator.outputs cimport BY_SIZE
from coterie._core.coordinator.group cimport GroupMetadata
from coterie._core.coordinator.member cimport MemberMetadata
from coterie._core.coordinator.members cimport Members
from coterie._core.coordinator.offsets cimport Offsets
from coterie._core.coordinator.partitions cimport partition_of
from coterie._core.coordinator.rebalance cimport Rebalances
from coterie._core.coordinator.member_table cimport next_member
from coterie._core.coordinator.runtime cimport Part, Runtime

from coterie._core.coordinator.load import groups_of


@cython.final
cdef class LoadAndUnload(Part):
    """Unloads the classic protocol's groups, and takes them over from the log."""

    def __cinit__(self, Runtime runtime not None, Rebalances rebalances not None,
                  Members members not None, Offsets offsets not None):
        self.join_runtime(runtime, 0)
        self.rebalances = rebalances
        self.members = members
        self.offsets = offsets

    cdef int resigned(self, int32_t partition) except -1:
        cdef int32_t count = self.runtime.partitions.count
        cdef GroupMetadata group
        for group in self.rebalances.groups():
            if partition < 0 or partition_of(group.group_id, count) == partition:
                self.rebalances.unload(group)
        return self.offsets.resigned(partition)

    cdef object read_log(self, object fold):
        return groups_of(fold, self.runtime.wheel.clock_ms)

    cdef int loaded(self, object found, object wanted) except -1:
        for group_id, group in found.items():
            if wanted is None or wanted(group_id):
                self.take_over(<GroupMetadata?>group)
        return 0

    cdef int take_over(self, GroupMetadata group) except -1:
        cdef MemberMetadata member
        cdef Py_ssize_t place = 0
        self.rebalances.take_over(group)
        self.offsets.loaded(group)
        if group.members.count > self.members.max_size:
            self.rebalances.prepare_rebalance(group, BY_SIZE, None)
        while (member := next_member(&group.members, &place)) is not None:
            self.rebalances.touch(group, member, member.session_timeout_ms)
        return 0

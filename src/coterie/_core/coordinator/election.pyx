"""Partitions of the offsets topic given up, and loaded again after an election.

Source: GroupCoordinator.scala (onElection, onResignation), GroupMetadataManager.scala; rules:
coordinator.md, section 16.
"""
cimport cython
from libc.stdint cimport int32_t

from coterie._core.coordinator.effects cimport (
    BEGIN_LOAD, BY_SIZE, FAILOVER, FINISH_LOAD, RESIGN)
from coterie._core.coordinator.group cimport GroupMetadata
from coterie._core.coordinator.member cimport MemberMetadata
from coterie._core.coordinator.members cimport Members
from coterie._core.coordinator.offsets cimport Offsets
from coterie._core.coordinator.partitions cimport (
    LOADING, OWNED, RESIGNED, Partitions, partition_of)
from coterie._core.coordinator.rebalance cimport Rebalances
from coterie._core.coordinator.runtime cimport Runtime

from coterie._core.coordinator.load import Wanted, load, rows_of_partitions
from coterie.errors import CorruptData, CoterieError


@cython.final
cdef class Election:
    """Which partitions are this coordinator's, and what becomes of their groups."""

    def __cinit__(self, Runtime runtime not None, Rebalances rebalances not None,
                  Members members not None, Offsets offsets not None):
        self.runtime = runtime
        self.rebalances = rebalances
        self.members = members
        self.offsets = offsets

    cdef int elect(self, int op, int32_t partition) except -1:
        """Resign, begin a load, finish it: of one partition of the offsets topic; -1: of all."""
        self.runtime.partitions.check(partition)
        if op == FAILOVER or op == RESIGN:
            self.resign(partition)
        if op == FAILOVER or op == BEGIN_LOAD:           # ignored unless resigned
            self.runtime.partitions.change(partition, RESIGNED, LOADING)
        if op == FAILOVER or op == FINISH_LOAD:
            if not self.runtime.partitions.is_loading(partition):
                raise CoterieError("no load is under way: finish_load comes after begin_load, "
                                   "which is ignored unless resign came first")
            self.load_log(partition)
        return 0

    cdef int resign(self, int32_t partition) except -1:
        cdef int32_t count = self.runtime.partitions.count
        for group_id in sorted(self.runtime.groups):
            if partition < 0 or partition_of(group_id, count) == partition:
                self.rebalances.unload(self.runtime.groups[group_id])
        self.offsets.resigned(partition)
        self.runtime.partitions.change(partition, OWNED, RESIGNED)
        self.runtime.partitions.change(partition, LOADING, RESIGNED)
        return 0

    cdef int load_log(self, int32_t partition) except -1:
        """Read the log; the partitions are owned afterwards, even if the load failed."""
        cdef GroupMetadata group
        cdef MemberMetadata member
        cdef Partitions partitions = self.runtime.partitions
        rows, wanted = self.runtime.sink.read(), None
        if partition >= 0 or partitions.exceptions:
            wanted = Wanted(partitions.count, partition, partitions.others == LOADING,
                            dict(partitions.exceptions))
            rows = rows_of_partitions(rows, wanted)
        self.load_error = None
        loaded = {}
        try:
            loaded = load(rows, self.runtime.wheel.clock_ms)
        except CorruptData as error:
            self.load_error = str(error)
        partitions.change(partition, LOADING, OWNED)
        if wanted is not None:
            loaded = {group_id: group for group_id, group in loaded.items() if wanted(group_id)}
        for value in loaded.values():
            group = <GroupMetadata?>value
            self.rebalances.take_over(group)
            self.offsets.loaded(group)
            if len(group.members) > self.members.max_size:
                self.rebalances.prepare_rebalance(group, BY_SIZE, None)
            for each in list(group.members.values()):
                member = <MemberMetadata>each
                self.rebalances.touch(group, member, member.session_timeout_ms)
        return 0

"""Partitions of the offsets topic given up, and loaded again after an election.

Source: GroupCoordinator.scala (onElection, onResignation), GroupMetadataManager.scala; rules:
coordinator.md, section 16.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.effects cimport BY_SIZE
from coterie._core.coordinator.group cimport GroupMetadata
from coterie._core.coordinator.member cimport MemberMetadata
from coterie._core.coordinator.members cimport Members
from coterie._core.coordinator.offsets cimport Offsets
from coterie._core.coordinator.partitions cimport (
    LOADING, OWNED, RESIGNED, Partitions, partition_of)
from coterie._core.coordinator.rebalance cimport Rebalances
from coterie._core.coordinator.roster cimport next_member
from coterie._core.coordinator.runtime cimport Runtime

from coterie._core.coordinator.load import Wanted, load, rows_of_partitions
from coterie.errors import CorruptData, CoterieError


cdef int32_t named(Election self, tuple details) except? -7:
    """The partition of the offsets topic that an operation is about; -1: all."""
    cdef int32_t partition = -1 if details is None or details[0] is None else details[0]
    self.runtime.partitions.check(partition)
    return partition


cdef int ask_resign(part, int op, int64_t id, str group_id, int32_t generation_id,
                    str member_id, str instance, tuple details) except -1:
    return (<Election>part).resign(named(part, details))


cdef int ask_begin_load(part, int op, int64_t id, str group_id, int32_t generation_id,
                        str member_id, str instance, tuple details) except -1:
    return (<Election>part).begin_load(named(part, details))


cdef int ask_finish_load(part, int op, int64_t id, str group_id, int32_t generation_id,
                         str member_id, str instance, tuple details) except -1:
    return (<Election>part).finish_load(named(part, details))


cdef int ask_failover(part, int op, int64_t id, str group_id, int32_t generation_id,
                      str member_id, str instance, tuple details) except -1:
    (<Election>part).resign(-1)
    (<Election>part).begin_load(-1)
    return (<Election>part).finish_load(-1)


@cython.final
cdef class Election:
    """Which partitions are this coordinator's, and what becomes of their groups."""

    def __cinit__(self, Runtime runtime not None, Rebalances rebalances not None,
                  Members members not None, Offsets offsets not None):
        self.runtime = runtime
        self.rebalances = rebalances
        self.members = members
        self.offsets = offsets
        runtime.decided_by("resign", self, ask_resign)
        runtime.decided_by("begin_load", self, ask_begin_load)
        runtime.decided_by("finish_load", self, ask_finish_load)
        runtime.decided_by("failover", self, ask_failover)

    cdef int begin_load(self, int32_t partition) except -1:
        """Ignored unless resigned."""
        return self.runtime.partitions.change(partition, RESIGNED, LOADING)

    cdef int finish_load(self, int32_t partition) except -1:
        if not self.runtime.partitions.is_loading(partition):
            raise CoterieError("no load is under way: finish_load comes after begin_load, "
                               "which is ignored unless resign came first")
        return self.load_log(partition)

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
        cdef Py_ssize_t place
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
            if group.members.count > self.members.max_size:
                self.rebalances.prepare_rebalance(group, BY_SIZE, None)
            place = 0
            while (member := next_member(&group.members, &place)) is not None:
                self.rebalances.touch(group, member, member.session_timeout_ms)
        return 0

"""Partitions of the offsets topic given up, and loaded again after an election.

What becomes of their groups is for the parts that have them: each is told (`Part.resigned`), and
each reads its own from the folded log (`read_log`, `loaded`).
Source: GroupCoordinator.scala (onElection, onResignation), GroupMetadataManager.scala.
Rules: docs/rules/coordinator.md#election.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.partitions cimport LOADING, OWNED, RESIGNED, Partitions
from coterie._core.coordinator.runtime cimport Part, Runtime

from coterie._core.coordinator.load import Wanted, fold_log, rows_of_partitions
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
    """Which partitions are this coordinator's; its parts hear of each change."""

    def __cinit__(self, Runtime runtime not None):
        self.runtime = runtime
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
        for part in self.runtime.parts:
            (<Part?>part).resigned(partition)
        self.runtime.partitions.change(partition, OWNED, RESIGNED)
        self.runtime.partitions.change(partition, LOADING, RESIGNED)
        return 0

    cdef int load_log(self, int32_t partition) except -1:
        """Read the log; the partitions are owned afterwards, even if the load failed."""
        cdef Partitions partitions = self.runtime.partitions
        cdef list parts = self.runtime.parts, found = []
        rows, wanted = self.runtime.sink.read(), None
        if partition >= 0 or partitions.exceptions:
            wanted = Wanted(partitions.count, partition, partitions.others == LOADING,
                            dict(partitions.exceptions))
            rows = rows_of_partitions(rows, wanted)
        self.load_error = None
        try:
            fold = fold_log(rows)
            found = [(<Part?>part).read_log(fold) for part in parts]
            fold = None                    # as much again as the groups
        except CorruptData as error:
            self.load_error = str(error)
        partitions.change(partition, LOADING, OWNED)
        if self.load_error is None:
            for part, its in zip(parts, found):
                (<Part?>part).loaded(its, wanted)
        return 0

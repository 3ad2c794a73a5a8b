"""Partitions of the offsets topic: given up, and loaded after an election.

Each component drops its own groups (`Component.resigned`) and reads its own from the folded log
(`read_log`, then `loaded` once all could read theirs). The offsets come last; a group that has only
offsets is added then. It knows no rule of a group.
Source: GroupCoordinator.scala (onElection, onResignation), GroupMetadataManager.scala.
Rules: docs/rules/coordinator.md#election.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.partitions cimport LOADING, OWNED, RESIGNED, Partitions
from coterie._core.coordinator.offset_store cimport OffsetStore
from coterie._core.coordinator.runtime cimport NO_GROUP, Component, Group, Runtime
from coterie._core.structures.offsets cimport OffsetMap

from coterie._core.coordinator.load import (
    LoadFilter, fold_log, offsets_of, replayed_offsets, rows_of_partitions)
from coterie.errors import CorruptData, CoterieError


cdef int32_t partition_in(Election self, tuple details) except? -7:
    """Return the partition that an operation names; -1: all."""
    cdef int32_t partition = -1 if details is None or details[0] is None else details[0]
    self.runtime.partitions.check(partition)
    return partition


cdef int decide_resign(component, int op, int64_t id, Group group, str group_id,
                       int32_t generation_id, str member_id, str instance,
                       tuple details) except -1:
    return (<Election>component).resign(partition_in(component, details))


cdef int decide_begin_load(component, int op, int64_t id, Group group, str group_id,
                           int32_t generation_id, str member_id, str instance,
                           tuple details) except -1:
    return (<Election>component).begin_load(partition_in(component, details))


cdef int decide_finish_load(component, int op, int64_t id, Group group, str group_id,
                            int32_t generation_id, str member_id, str instance,
                            tuple details) except -1:
    return (<Election>component).finish_load(partition_in(component, details))


cdef int decide_failover(component, int op, int64_t id, Group group, str group_id,
                         int32_t generation_id, str member_id, str instance,
                         tuple details) except -1:
    (<Election>component).resign(-1)
    (<Election>component).begin_load(-1)
    return (<Election>component).finish_load(-1)


@cython.final
cdef class Election:
    """Gives up and loads partitions, with their groups."""

    def __cinit__(self, Runtime runtime not None, OffsetStore store not None):
        self.runtime = runtime
        self.store = store
        runtime.register("resign", self, decide_resign, NO_GROUP)
        runtime.register("begin_load", self, decide_begin_load, NO_GROUP)
        runtime.register("finish_load", self, decide_finish_load, NO_GROUP)
        runtime.register("failover", self, decide_failover, NO_GROUP)

    cdef int begin_load(self, int32_t partition) except -1:
        """Start loading a partition that was given up; otherwise do nothing."""
        return self.runtime.partitions.change(partition, RESIGNED, LOADING)

    cdef int finish_load(self, int32_t partition) except -1:
        if not self.runtime.partitions.is_loading(partition):
            raise CoterieError("no load is under way: finish_load comes after begin_load, "
                               "which is ignored unless resign came first")
        return self.load_log(partition)

    cdef int resign(self, int32_t partition) except -1:
        if self.runtime.writes is not None:
            self.runtime.writes.give_up(partition)     # what waits is answered by its groups
        for component in self.runtime.components:
            (<Component?>component).resigned(partition)
        self.store.resigned(partition, self.runtime.partitions.count)
        self.runtime.partitions.change(partition, OWNED, RESIGNED)
        self.runtime.partitions.change(partition, LOADING, RESIGNED)

    cdef int load_log(self, int32_t partition) except -1:
        """Read the log; the partitions are owned afterwards, even if the load failed."""
        cdef Partitions partitions = self.runtime.partitions
        cdef list components = self.runtime.components, contents = []
        cdef dict maps
        if self.consumer is not None:
            return self.load_replayed(partition)
        rows, load_filter = self.runtime.sink.read(), None
        if partition >= 0 or partitions.exceptions:
            load_filter = LoadFilter(partitions.count, partition, partitions.others == LOADING,
                                     dict(partitions.exceptions))
            rows = rows_of_partitions(rows, load_filter)
        self.load_error = None
        try:
            fold = fold_log(rows)
            contents = [(<Component?>component).read_log(fold) for component in components]
            maps = offsets_of(fold)
            fold = None                    # as much memory again as the groups
        except CorruptData as error:
            self.load_error = str(error)
        partitions.change(partition, LOADING, OWNED)
        if self.load_error is None:
            for component, content in zip(components, contents):
                (<Component?>component).loaded(content, load_filter)
            self.load_offsets(maps, load_filter)

    cdef int load_replayed(self, int32_t partition) except -1:
        """Load as the replaying coordinator does; partitions that cannot be read are given up."""
        cdef Partitions partitions = self.runtime.partitions
        cdef dict maps = {}
        rows, load_filter = list(self.runtime.sink.read()), None
        if partition >= 0 or partitions.exceptions:
            load_filter = LoadFilter(partitions.count, partition, partitions.others == LOADING,
                                     dict(partitions.exceptions))
            rows = list(rows_of_partitions(rows, load_filter))
        self.load_error = None
        try:
            fold = fold_log(rows)
            if any(row[3] and not row[4] for row in rows):     # there are transactions
                maps = replayed_offsets(rows)
            else:
                maps = offsets_of(fold)
            fold = None
        except CorruptData as error:
            self.load_error = str(error)
        self.load_error = self.consumer.load(rows, load_filter) or self.load_error
        if self.load_error is not None:
            partitions.change(partition, LOADING, OWNED)
            return self.resign(partition)
        partitions.change(partition, LOADING, OWNED)
        for group_id, offsets in maps.items():
            if load_filter is None or load_filter(group_id):
                self.store.put(<str?>group_id, <OffsetMap?>offsets)
        for component in self.runtime.components:
            (<Component?>component).loaded({}, load_filter)    # its groups are there already

    cdef int load_offsets(self, dict maps, object load_filter) except -1:
        """Take over the offsets of the groups that pass the filter."""
        for group_id, offsets in maps.items():
            if load_filter is None or load_filter(group_id):
                self.store.put(<str?>group_id, <OffsetMap?>offsets)
                if self.runtime.find(<str?>group_id) is None:
                    self.runtime.protocol_of(None).create_group(<str?>group_id)

"""Which partitions of the offsets topic a coordinator owns, has given up, or is loading.

A group belongs to the partition that Kafka finds by the hash of its id. Most of the time all
partitions are in one state; those that are not stand apart.
Source: GroupMetadataManager.scala (partitionFor, ownedPartitions, loadingPartitions).
Rules: docs/rules/coordinator.md#group-status, docs/rules/log-format.md#partition-of-a-group.
"""
cimport cython
from libc.stdint cimport int32_t

from coterie._core.codec.checksum cimport coterie_java_hash, coterie_partition_for
from coterie._core.coordinator.codes cimport (
    COORDINATOR_LOAD_IN_PROGRESS, INVALID_GROUP_ID, NONE, NOT_COORDINATOR)

from coterie.errors import ArgumentError

STATES = ("owned", "resigned", "loading")      # by Availability


cdef int32_t partition_of(str group_id, int32_t count) except -1:
    """The partition of the offsets topic that has a group's records."""
    cdef bytes raw = group_id.encode("utf-8", "surrogatepass")
    return coterie_partition_for(coterie_java_hash(raw, len(raw)), count)


@cython.final
cdef class Partitions:
    """The partitions of the offsets topic; all are owned at first."""

    def __cinit__(self, int32_t count):
        if count < 1:
            raise ArgumentError(f"a topic has at least one partition, not {count}")
        self.count = count
        self.exceptions = {}

    cdef int check(self, int32_t partition) except -1:
        """Refuse a partition that the topic does not have; -1 stands for all."""
        if partition >= self.count:
            raise ArgumentError(f"partition must be from 0 to {self.count - 1}, not {partition}")
        return 0

    cdef int state_of(self, partition) except -1:
        return self.exceptions.get(partition, self.others)

    cdef int refusal(self, str group_id, bint empty_is_valid) except -2:
        """The error that a request for this group is refused with, or NONE."""
        if group_id is None or (not empty_is_valid and not group_id):
            return INVALID_GROUP_ID
        cdef int state = self.others
        if self.exceptions:
            state = self.state_of(partition_of(group_id, self.count))
        if state == OWNED:
            return NONE
        return COORDINATOR_LOAD_IN_PROGRESS if state == LOADING else NOT_COORDINATOR

    cdef bint is_loading(self, int32_t partition) except -1:
        """Whether this partition is; of -1, whether any is."""
        if partition >= 0:
            return self.state_of(partition) == LOADING
        return LOADING in self.exceptions.values() or (
            self.others == LOADING and <int32_t>len(self.exceptions) < self.count)

    cdef int change(self, int32_t partition, int before, int after) except -1:
        """Let a partition, or with -1 each of them, go from one state to another."""
        if partition >= 0:
            if self.state_of(partition) == before:
                self.exceptions[partition] = after
        else:
            if self.others == before:
                self.others = after
            for number, state in self.exceptions.items():
                if state == before:
                    self.exceptions[number] = after
        self.exceptions = {number: state for number, state in self.exceptions.items()
                           if state != self.others}
        return 0

"""Which partitions of the offsets topic a coordinator owns, has given up, or is loading.

A group belongs to the partition that Kafka finds by the hash of its id. Usually all partitions are
in one state; only exceptions are stored. It knows no groups. Cost: O(1) a request.
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
    """Return the partition of the offsets topic of a group."""
    cdef bytes raw = group_id.encode("utf-8", "surrogatepass")
    return coterie_partition_for(coterie_java_hash(raw, len(raw)), count)


@cython.final
cdef class Partitions:
    """The partitions of the offsets topic; at first all are owned."""

    def __cinit__(self, int32_t count):
        if count < 1:
            raise ArgumentError(f"a topic has at least one partition, not {count}")
        self.count = count
        self.exceptions = {}

    cdef int check(self, int32_t partition) except -1:
        """Refuse a partition that the topic does not have; -1 stands for all."""
        if partition >= self.count:
            raise ArgumentError(f"partition must be from 0 to {self.count - 1}, not {partition}")

    cdef int state_of(self, partition) except -1:
        return self.exceptions.get(partition, self.others)

    cdef int refusal(self, str group_id, bint empty_is_valid) except -2:
        """Return the error that refuses a request for this group, or NONE."""
        if group_id is None or (not empty_is_valid and not group_id):
            return INVALID_GROUP_ID
        cdef int state = self.others
        if self.exceptions:
            state = self.state_of(partition_of(group_id, self.count))
        if state == OWNED:
            return NONE
        return COORDINATOR_LOAD_IN_PROGRESS if state == LOADING else NOT_COORDINATOR

    cdef bint is_loading(self, int32_t partition) except -1:
        """Whether this partition is loading; -1: whether any is."""
        if partition >= 0:
            return self.state_of(partition) == LOADING
        return LOADING in self.exceptions.values() or (
            self.others == LOADING and <int32_t>len(self.exceptions) < self.count)

    cdef int change(self, int32_t partition, int before, int after) except -1:
        """Change the state of a partition (-1: of each) from `before` to `after`."""
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

"""Where simulated logs end at a time, and which positions of a consumer are before that.

A poll looks at every assigned partition, mostly in vain. The records themselves are made elsewhere.
Cost: O(1) for a log, O(partitions) for a look at an assignment.
"""
cimport cython
from libc.stdint cimport int64_t


cdef class LogEnds:
    """The offsets of a partition's log: those of a rate, with appended ones between them."""

    cdef readonly str topic
    cdef readonly int64_t partition
    cdef public int64_t log_start_offset
    cdef public object _phase          # first number, its time, interval; None: no rate
    cdef public int64_t _stopped       # records of all past phases
    cdef readonly list _offsets        # of appended records, ascending
    cdef readonly list _appended       # these
    cdef readonly dict _open           # first offset of each open transaction, by producer id

    def __cinit__(self, str topic not None, int64_t partition):
        self.topic, self.partition = topic, partition
        self._offsets, self._appended, self._open = [], [], {}

    def end_offset(self, int64_t at_ms):
        """Return the next offset at a time, which must be now or within the present phase."""
        return self.end_at(at_ms)

    def last_stable_offset(self, int64_t at_ms):
        """Return the end of what ``read_committed`` may read."""
        return self.stable_at(at_ms)

    def next_record_ms(self, int64_t at_ms):
        """Return when the rate gives the next record after a time; None: it gives none."""
        cdef int64_t first_ms, interval_ms
        if self._phase is None:
            return None
        _, first_ms, interval_ms = self._phase
        if at_ms < first_ms:
            return first_ms
        return at_ms + interval_ms - (at_ms - first_ms) % interval_ms

    cdef int64_t end_at(self, int64_t at_ms) except -1:
        cdef int64_t end = self._stopped, first, first_ms, interval_ms
        cdef Py_ssize_t count = len(self._offsets)
        if self._phase is not None:
            first, first_ms, interval_ms = self._phase
            if at_ms >= first_ms:
                end = first + (at_ms - first_ms) // interval_ms + 1
        while count and self._appended[count - 1].timestamp > at_ms:
            count -= 1
        return end + count

    cdef int64_t stable_at(self, int64_t at_ms) except -1:
        cdef int64_t end = self.end_at(at_ms), first
        for first in self._open.values():
            end = min(end, first)
        return end


@cython.final
cdef class PartitionState:
    """Where a consumer is in a partition."""

    cdef public object position, reset, retry_ms
    cdef public bint paused, pending_revocation, pending_assigned

    def __cinit__(self):
        self.retry_ms = 0

    @property
    def valid(self):
        """Whether it has a position."""
        return self.position is not None and self.reset is None

    def seek(self, position):
        """Go on from an offset."""
        self.position, self.reset = position, None

    cdef bint fetchable(self) noexcept:
        return not (
            self.position is None
            or self.reset is not None
            or self.paused
            or self.pending_revocation
            or self.pending_assigned
        )


cdef LogEnds log_of(dict topics, partition):
    """Return the log of a partition; None: it does not exist."""
    topic = topics.get(partition[0])
    if topic is None:
        return None
    cdef list logs = topic.logs
    cdef int64_t number = partition[1]
    return <LogEnds?>logs[number] if number < len(logs) else None


cdef class AssignedPartitions:
    """The partitions of a consumer, in the order in which it reads them."""

    cdef public dict assigned

    def __cinit__(self, *_):
        self.assigned = {}

    @property
    def all_valid(self):
        """Whether each partition has a position."""
        cdef PartitionState state
        for state in self.assigned.values():
            if state.position is None or state.reset is not None:
                return False
        return True

    def positions(self, made=None):
        """Return the positions of all partitions that have one, as they are or made of them."""
        cdef PartitionState state
        cdef dict found = {}
        for partition, state in self.assigned.items():
            if state.position is not None and state.reset is None:
                found[partition] = state.position if made is None else made(state.position)
        return found

    def beyond_positions(self, dict topics not None, int64_t sees_ms, bint committed):
        """Return the fetchable partitions that are not at their ends, in the order of reading."""
        cdef PartitionState state
        cdef LogEnds log
        cdef int64_t end, position
        cdef list found = []
        for partition, state in self.assigned.items():
            if not state.fetchable():
                continue
            log = log_of(topics, partition)
            if log is None:
                found.append((partition, state, None, -1))
                continue
            end = log.stable_at(sees_ms) if committed else log.end_at(sees_ms)
            position = state.position
            if position != end or log.log_start_offset > position:
                found.append((partition, state, log, end))
        return found

    def next_record_ms(self, dict topics not None, int64_t sees_ms):
        """Return when a rate gives the next record of a fetchable partition; None: none does."""
        cdef PartitionState state
        cdef LogEnds log
        next_ms = None
        for partition, state in self.assigned.items():
            log = log_of(topics, partition) if state.fetchable() else None
            if log is not None:
                next_ms = earliest(next_ms, log.next_record_ms(sees_ms))
        return next_ms

    def to_end(self, partition):
        """Read a partition after all others."""
        state = self.assigned.pop(partition, None)
        if state is not None:
            self.assigned[partition] = state


def earliest(*times_ms):
    """Return the earliest time; None: never."""
    found = None
    for at_ms in times_ms:
        if at_ms is not None and (found is None or at_ms < found):
            found = at_ms
    return found

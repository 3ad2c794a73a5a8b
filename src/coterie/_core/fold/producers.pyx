"""The transactions of each producer in a piece of log: what is pending, and the first marker.

Kafka's loader applies a transaction's offsets at the producer's marker. A piece may begin or
end inside a transaction, so a producer also has its first marker and the keys that it wrote before
that: the marker decides what an earlier piece left open.
Python objects, as transactions are few among millions of records. Source: GroupMetadataManager.
"""
from collections import namedtuple

from libc.stdint cimport int32_t, int64_t

from coterie._core.checks cimport within
from coterie._core.codec.batch cimport Record
from coterie._core.fold.history cimport History, decide, row_number
from coterie._core.fold.keytable cimport Entry, Table, Value, own_metadata, set_if_newer
from coterie._core.fold.tracks cimport Tracks, apply_tracked, track_pending


class Producer:
    """The transactions of one producer id in a piece of log."""

    __slots__ = ("before", "first_committed", "first_row", "first_seq", "pending", "tracked")

    def __init__(self):
        self.first_seq = -1
        self.first_committed = False
        self.first_row = 0
        self.before = frozenset()
        self.pending, self.tracked = {}, {}


Committed = namedtuple(
    "Committed",
    "batch_offset offset commit_timestamp expire_timestamp leader_epoch metadata", module=__name__)
Committed.__doc__ = """A committed offset; times in ms, -1: none."""
cdef object new_tuple = tuple.__new__    # takes a third of the time of a named tuple's own


cdef object producer_of(dict producers, int64_t producer_id):
    producer = producers.get(producer_id)
    if producer is None:
        producer = producers[producer_id] = Producer()
    return producer


cdef int add_pending_commit(object producer, int64_t index, const Value* value,
                            const Record* record, Tracks* tracks) except -1:
    producer.pending[index] = None if value == NULL else new_tuple(Committed, (
        value.batch_offset, value.offset, value.commit_timestamp, value.expire_timestamp,
        value.leader_epoch, value.metadata[:value.metadata_size]))
    if tracks != NULL:
        track_pending(tracks, producer.tracked, index, record, value)
    return 0


cdef int end_transaction(dict producers, int64_t producer_id, bint committed, Table* table,
                         Tracks* tracks, History history, int64_t seq) except -1:
    producer = producer_of(producers, producer_id)
    if committed:
        apply_committed(producer, (), table, tracks, seq)
    if producer.first_seq < 0:
        producer.first_seq = seq
        producer.first_committed = committed
        producer.first_row = row_number(history)
        producer.before = frozenset(producer.pending)
    producer.pending, producer.tracked = {}, {}
    return decide(history, producer_id, committed)


cdef int apply_committed(object producer, object excluded, Table* table, Tracks* tracks,
                         int64_t seq) except -1:
    """Set the pending value of each key that has no later value, except of the keys `excluded`."""
    cdef Value value
    cdef Entry* entry
    cdef bytes _metadata      # keeps alive what `value` points into
    for index, committed in producer.pending.items():
        if committed is None or index in excluded:
            continue
        _metadata = unpack_value(committed, &value)
        # A caller may have written any number there.
        entry = &table.entries[within(index, "the index of a key", 0, <int64_t>table.count - 1)]
        if set_if_newer(table, entry, &value, seq) and own_metadata(table, entry) != 0:
            raise MemoryError
    return 0 if tracks == NULL else apply_tracked(tracks, table, producer.tracked)


cdef bytes unpack_value(object pending, Value* out):
    """Fill `out`, which borrows the returned bytes: keep those until its metadata is copied."""
    cdef bytes metadata
    (out.batch_offset, out.offset, out.commit_timestamp, out.expire_timestamp, out.leader_epoch,
     metadata) = pending
    out.metadata = metadata
    out.metadata_size = <int32_t>len(metadata)
    return metadata

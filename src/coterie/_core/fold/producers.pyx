"""What the producers of a piece of log left open, and what their first marker says of before.

Few among millions of records: Python objects. Source: GroupMetadataManager, whose loader holds a
producer's offsets back until its marker.
"""
from collections import namedtuple

from libc.stdint cimport int32_t, int64_t

from coterie._core.checks cimport within
from coterie._core.codec.batch cimport Record
from coterie._core.fold.history cimport History, decide, row_number
from coterie._core.fold.keytable cimport Entry, Table, Value, own_metadata, set_if_newer
from coterie._core.fold.tracks cimport Tracks, put_tracked, track_pending


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
cdef object make = tuple.__new__     # what a named tuple's own maker calls: a third of its time


cdef object producer_of(dict producers, int64_t producer_id):
    producer = producers.get(producer_id)
    if producer is None:
        producer = producers[producer_id] = Producer()
    return producer


cdef int pend(object producer, int64_t index, const Value* value, const Record* record,
              Tracks* tracks) except -1:
    producer.pending[index] = None if value == NULL else make(Committed, (
        value.batch_offset, value.offset, value.commit_timestamp, value.expire_timestamp,
        value.leader_epoch, value.metadata[:value.metadata_size]))
    if tracks != NULL:
        track_pending(tracks, producer.tracked, index, record, value)
    return 0


cdef int end_transaction(dict producers, int64_t producer_id, bint committed, Table* table,
                         Tracks* tracks, History history, int64_t seq) except -1:
    producer = producer_of(producers, producer_id)
    if committed:
        put_committed(producer, (), table, tracks, seq)
    if producer.first_seq < 0:
        producer.first_seq = seq
        producer.first_committed = committed
        producer.first_row = row_number(history)
        producer.before = frozenset(producer.pending)
    producer.pending, producer.tracked = {}, {}
    return decide(history, producer_id, committed)


cdef int put_committed(object producer, object but, Table* table, Tracks* tracks,
                       int64_t seq) except -1:
    """What was pending, but for the keys `but`, counts where no later value stands."""
    cdef Value value
    cdef Entry* entry
    cdef bytes _metadata      # keeps alive what `value` points into
    for index, committed in producer.pending.items():
        if committed is None or index in but:
            continue
        _metadata = unpack_value(committed, &value)
        # Whoever has the fold may have written other numbers.
        entry = &table.entries[within(index, "the index of a key", 0, <int64_t>table.count - 1)]
        if set_if_newer(table, entry, &value, seq) and own_metadata(table, entry) != 0:
            raise MemoryError
    return 0 if tracks == NULL else put_tracked(tracks, table, producer.tracked)


cdef bytes unpack_value(object pending, Value* out):
    """The metadata is borrowed from the bytes that are returned: hold them until it is copied."""
    cdef bytes metadata
    (out.batch_offset, out.offset, out.commit_timestamp, out.expire_timestamp, out.leader_epoch,
     metadata) = pending
    out.metadata = metadata
    out.metadata_size = <int32_t>len(metadata)
    return metadata

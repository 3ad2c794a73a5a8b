"""Records that come as Python objects, into the fold. See ``apply_records.pyi``.

For logs that are not bytes on a disk: a coordinator's own appends, rows of Spark's Kafka source.
They are laid out as a read batch would be, and take the same way from there.
"""
from libc.stdint cimport int64_t
from libc.string cimport memset

from coterie._core.codec.batch cimport Batch, Record
from coterie._core.fold.fold cimport PartitionFold
from coterie._core.fold.history cimport begin_noting, end_noting


cdef int lay_out(PartitionFold fold, object records) except -1:
    cdef Py_ssize_t i = 0
    cdef Record* item
    cdef bytes key, value
    fold.records.count = 0
    fold.records.reserve(len(records))
    for row in records:
        offset, timestamp, key, value = <tuple?>row    # which holds the bytes, as no other row need
        item = &fold.records.items[i]
        memset(item, 0, sizeof(Record))
        item.offset, item.timestamp = offset, timestamp
        item.key_size = item.value_size = -1
        if key is not None:
            item.key, item.key_size = key, len(key)
        if value is not None:
            item.value, item.value_size = value, len(value)
        i += 1
    fold.records.count = i
    return 0


def take(PartitionFold fold not None, records not None, *, int64_t producer_id=-1,
         bint transactional=False, bint control=False):
    """Apply one batch of decoded records as :meth:`PartitionFold.scan` applies an encoded one."""
    cdef tuple held = tuple(records)         # the items point into its bytes until they are applied
    begin_noting(&fold.users, fold.history)
    try:
        apply(fold, held, producer_id, transactional, control)
    finally:
        end_noting(&fold.users, fold.history)


cdef int apply(PartitionFold fold, tuple held, int64_t producer_id, bint transactional,
               bint control) except -1:
    cdef Batch batch
    if fold.failed or fold.cut or fold.stopped:
        return 0
    if not held:                             # a batch that compaction emptied
        fold.seq += 1
        return 0
    memset(&batch, 0, sizeof(Batch))
    batch.magic = 2
    batch.producer_id = producer_id
    batch.producer_epoch = -1
    batch.base_offset = held[0][0]
    batch.transactional, batch.control = transactional, control
    lay_out(fold, held)
    fold.records.inflated = True             # what is borrowed must be copied: `held` goes
    try:
        if control:
            fold.apply_marker(&batch)
        else:
            fold.apply_all(&batch)
    finally:
        fold.records.count = 0
        fold.records.inflated = False
        fold.seq += 1
    return 0

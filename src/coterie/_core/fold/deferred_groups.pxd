"""Batches of group metadata alone, deferred while plain commits are folded. Header only: inlined.

Their records become Python objects, which takes the GIL, and commits touch none of their state. So
the fold collects many such batches and applies them at once. A batch with a fault is not deferred:
faults are reported in log order.
"""
from libc.stdint cimport int32_t
from libc.stdlib cimport realloc

from coterie._core.codec.batch cimport V2_HEADER, Batch, Record
from coterie._core.codec.cursor cimport OK, Cursor, load_i16
from coterie._core.codec.record cimport any_record
from coterie._core.fold.commit cimport KEY_GROUP, check_group_value

cdef enum:
    MAX_DEFERRED = 1024          # batches, before they are applied

cdef struct DeferredGroups:
    Batch* items                 # they borrow the bytes of the piece at hand
    int32_t count
    int32_t capacity


cdef inline int deferred_put(DeferredGroups* deferred, const Batch* batch) noexcept nogil:
    """-1: no memory."""
    cdef Batch* grown
    if deferred.count == deferred.capacity:
        grown = <Batch*>realloc(deferred.items, (2 * deferred.capacity + 16) * sizeof(Batch))
        if grown == NULL:
            return -1
        deferred.items, deferred.capacity = grown, 2 * deferred.capacity + 16
    deferred.items[deferred.count] = batch[0]
    deferred.count += 1
    return 0


cdef inline bint only_group_metadata(const Batch* batch) noexcept nogil:
    """Whether a batch of magic 2, not compressed, is nothing but group metadata that can be read.
    What is too late to count is left out when it is applied."""
    cdef Cursor cur
    cdef Record record
    cdef int32_t _i
    cur.at, cur.end = batch.start + V2_HEADER, batch.start + batch.size
    for _i in range(batch.record_count):
        # Not `record_v2`: with a second caller the compiler would not inline it, and the fold's
        # loop over commits would take 17 more instructions a record.
        if any_record(&cur, batch, &record) != OK:
            return False
        if record.key_size < 4 or load_i16(record.key) != KEY_GROUP:
            return False
        if not 0 <= load_i16(record.key + 2) <= record.key_size - 4:
            return False
        if record.value_size >= 0 and check_group_value(record.value, record.value_size) != OK:
            return False
    return cur.at == cur.end

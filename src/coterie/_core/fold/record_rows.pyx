"""The memory of a piece's rows, and the outcome of each row.

All columns of a piece lie in one block (`column_block`), at most as long as twice its rows.
A record of a transaction is decided by its producer's next marker, in the piece or after it; any
other record decides itself. Knows rows and batches; knows no bytes of a log.
Cost: a step for each row of a transaction, and one for each batch.
"""
cimport numpy as cnp
from libc.stdint cimport int8_t, int32_t, int64_t
from libc.string cimport memcpy, memset

from coterie._core.codec.batch cimport MARKER_ABORT, MARKER_COMMIT
from coterie._core.fold.column_block cimport grown_columns
from coterie._core.fold.history_buffer cimport ABORTED, COMMITTED, PENDING

cnp.import_array()


cdef int grow(Rows* at, dict dtypes, dict arrays, Py_ssize_t rows) except -1:
    rows = grown_columns(dtypes, arrays, at.count, at.capacity, rows)
    at.log_offset = <int64_t*>start_of(arrays, "log_offset")
    at.timestamp = <int64_t*>start_of(arrays, "timestamp")
    at.number = <int64_t*>start_of(arrays, "number")
    at.offset = <int64_t*>start_of(arrays, "offset")
    at.commit_timestamp = <int64_t*>start_of(arrays, "commit_timestamp")
    at.expire_timestamp = <int64_t*>start_of(arrays, "expire_timestamp")
    at.decided_by = <int64_t*>start_of(arrays, "decided_by")
    at.decided_ms = <int64_t*>start_of(arrays, "decided_ms")
    at.previous_offset = <int64_t*>start_of(arrays, "previous_offset")
    at.previous_log_offset = <int64_t*>start_of(arrays, "previous_log_offset")
    at.previous_timestamp = <int64_t*>start_of(arrays, "previous_timestamp")
    at.topic_id_high = <int64_t*>start_of(arrays, "topic_id_high")
    at.topic_id_low = <int64_t*>start_of(arrays, "topic_id_low")
    at.previous_row = <int32_t*>start_of(arrays, "previous_row")
    at.batch = <int32_t*>start_of(arrays, "batch")
    at.key = <int32_t*>start_of(arrays, "key")
    at.group = <int32_t*>start_of(arrays, "group")
    at.metadata_size = <int32_t*>start_of(arrays, "metadata_size")
    at.key_size = <int32_t*>start_of(arrays, "key_size")
    at.value_size = <int32_t*>start_of(arrays, "value_size")
    at.disk_bytes = <int64_t*>start_of(arrays, "disk_bytes")
    at.kind = <int8_t*>start_of(arrays, "kind")
    at.outcome = <int8_t*>start_of(arrays, "outcome")
    at.previous = <int8_t*>start_of(arrays, "previous")
    at.capacity = rows
    return 0


cdef void* start_of(dict arrays, str name) except? NULL:
    """The first element of a column; NULL: it is not requested."""
    array = arrays.get(name)
    return NULL if array is None else cnp.PyArray_DATA(array)


cdef int decide(Rows* rows, const BatchRow* batches, Py_ssize_t batch_count, int64_t until_ms,
                dict markers) except -1:
    cdef Py_ssize_t b, i, stop = rows.count
    cdef const BatchRow* batch
    cdef int64_t decided_by, decided_ms
    cdef int outcome
    if rows.count:
        memset(rows.outcome, COMMITTED, rows.count)
    if not batch_count:                      # each decides itself: see `RecordScan.finish`
        return 0
    if rows.count and rows.decided_by != NULL:
        memcpy(rows.decided_by, rows.number, rows.count * sizeof(int64_t))
        memcpy(rows.decided_ms, rows.timestamp, rows.count * sizeof(int64_t))
    for b in range(batch_count - 1, -1, -1):
        batch = &batches[b]
        if (batch.marker == MARKER_ABORT or batch.marker == MARKER_COMMIT) and (
                batch.first_ms <= until_ms or batch.first_ms == -1):
            markers[batch.producer_id] = batch.marker, batch.first_number, batch.first_ms
        if batch.transactional:
            end = markers.get(batch.producer_id)
            outcome, decided_by, decided_ms = PENDING, 0, 0
            if end is not None:
                marker, decided_by, decided_ms = end
                outcome = COMMITTED if marker == MARKER_COMMIT else ABORTED
            for i in range(batch.first_row, stop):
                rows.outcome[i] = outcome
                if outcome != PENDING and rows.decided_by != NULL:
                    rows.decided_by[i], rows.decided_ms[i] = decided_by, decided_ms
        stop = batch.first_row
    return 0

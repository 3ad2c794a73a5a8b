"""A history as plain values that pickle, and back.

Part of the values of `dump`. `restore_history` takes nothing on trust: a name that does not exist,
or a length that does not fit, raises CorruptData before anything reads it.
Cost: a copy of the rows, the metadata and the names.
"""
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from coterie._core.checks cimport begin_read, end_use
from coterie._core.fold.commit cimport key_fits
from coterie._core.fold.history cimport History, PendingCommit
from coterie._core.fold.history_buffer cimport (
    ABORTED, COMMITTED, TOMBSTONE, HistoryBuffer, HistoryRow, buffer_reserve)
from coterie._core.fold.keytable cimport Table
from coterie._core.fold.name_columns cimport names_as_bytes
from coterie._core.fold.names cimport name_number

from coterie.errors import CorruptData

cdef str IN_USE = "this history"
cdef int64_t MAX_ROWS = <int64_t>1 << 62
cdef int64_t MIN_ID = -0x8000000000000000
cdef int64_t MAX_ID = 0x7FFFFFFFFFFFFFFF


cdef tuple dump_history(History history):
    """(rows, metadata, bytes and bounds of group names, the same of topic names, open transactions,
    number of cleared rows)."""
    import numpy as np     # not at import: it takes longer to load than a small log
    cdef HistoryBuffer* buffer = &history.buffer
    cdef uint8_t[::1] row_view, metadata_view
    begin_read(&history.users, IN_USE)
    try:
        rows = np.empty(buffer.count * sizeof(HistoryRow), dtype=np.uint8)
        metadata = np.empty(buffer.metadata_size, dtype=np.uint8)
        row_view, metadata_view = rows, metadata
        if buffer.count:
            memcpy(&row_view[0], buffer.rows, buffer.count * sizeof(HistoryRow))
        if buffer.metadata_size:
            memcpy(&metadata_view[0], buffer.metadata, buffer.metadata_size)
        pending = {producer_id: tuple(commits)
                   for producer_id, commits in history.open_transactions.items()}
        return (rows, metadata, *names_as_bytes(&buffer.names.groups),
                *names_as_bytes(&buffer.names.topics), pending, history.cleared)
    finally:
        end_use(&history.users)


cdef History restore_history(tuple state):
    """Rebuild a history from the values that `dump_history` returned."""
    cdef History history = History()
    cdef HistoryBuffer* buffer = &history.buffer
    cdef const uint8_t[::1] rows, metadata
    rows, metadata, groups, group_bounds, topics, topic_bounds, pending, cleared = state
    if rows.shape[0] % sizeof(HistoryRow):
        raise CorruptData("the rows of a history are cut short")
    enter_names(buffer, &buffer.names.groups, groups, group_bounds)
    enter_names(buffer, &buffer.names.topics, topics, topic_bounds)
    if not buffer_reserve(buffer, rows.shape[0] // sizeof(HistoryRow), metadata.shape[0]):
        raise MemoryError
    if rows.shape[0]:
        memcpy(buffer.rows, &rows[0], rows.shape[0])
    if metadata.shape[0]:
        memcpy(buffer.metadata, &metadata[0], metadata.shape[0])
    buffer.metadata_size = metadata.shape[0]
    enter_rows(buffer, rows.shape[0] // sizeof(HistoryRow))
    enter_pending(history, pending)
    if not 0 <= cleared <= MAX_ROWS:
        raise CorruptData(f"a history with {cleared} cleared rows")
    history.cleared = cleared
    return history


cdef int enter_names(HistoryBuffer* buffer, Table* table, const uint8_t[::1] names,
                     const int64_t[::1] bounds) except -1:
    cdef Py_ssize_t i
    cdef int64_t start = 0
    cdef const uint8_t* first = &names[0] if names.shape[0] else NULL
    for i in range(1, bounds.shape[0]):
        if not start <= bounds[i] <= min(names.shape[0], start + 0xFFFF) or name_number(
                &buffer.names, table, first + start, <int32_t>(bounds[i] - start)) != i - 1:
            raise CorruptData(f"name {i - 1} of a history does not fit it")
        start = bounds[i]
    if start != names.shape[0]:
        raise CorruptData("a history has bytes that are of no name")
    return 0


cdef int enter_rows(HistoryBuffer* buffer, Py_ssize_t count) except -1:
    cdef Py_ssize_t i
    cdef int64_t start = 0
    cdef HistoryRow* row
    for i in range(count):
        row = &buffer.rows[i]
        if not (0 <= row.kind <= TOMBSTONE and 0 <= row.transactional <= 1
                and 0 <= row.outcome <= (ABORTED if row.transactional else COMMITTED)
                and start <= row.metadata_end <= buffer.metadata_size
                and row.metadata_end - start <= 0x7FFFFFFF):
            raise CorruptData(f"row {i} of a history's {count} does not fit it")
        if not (0 <= row.group < <int64_t>buffer.names.groups.count
                and 0 <= row.topic < <int64_t>buffer.names.topics.count):
            raise CorruptData(f"row {i} of a history's {count} names what is not there")
        start = row.metadata_end
    if start != buffer.metadata_size:
        raise CorruptData("a history has metadata that are of no row")
    buffer.count = count
    return 0


cdef int enter_pending(History history, dict pending) except -1:
    for producer_id, commits in pending.items():
        if not (type(producer_id) is int and MIN_ID <= producer_id <= MAX_ID
                and type(commits) is tuple and all([pending_fits(packed) for packed in commits])):
            raise CorruptData(f"a pending commit of producer {producer_id!r} is damaged")
        history.open_transactions[producer_id] = list(commits)
    return 0


cdef bint pending_fits(object packed) except -1:
    cdef PendingCommit commit
    cdef const uint8_t* start
    cdef int64_t key_end, size
    if type(packed) is not bytes or len(packed) < <Py_ssize_t>sizeof(PendingCommit):
        return False
    start, size = <const uint8_t*>PyBytes_AS_STRING(packed), len(packed)
    memcpy(&commit, start, sizeof(PendingCommit))
    key_end = <int64_t>sizeof(PendingCommit) + commit.key_size
    return (0 <= commit.tombstone <= 1
            and key_fits(start, sizeof(PendingCommit), key_end, size)
            and key_end + commit.value.metadata_size == size)

"""Records of a partition as columns: the outcome of each commit, and the record it replaced."""
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t
from libc.string cimport memset

from coterie._core.fold.history_buffer cimport COMMITTED
from coterie._core.fold.keyindex cimport (
    COMMIT, COMMIT_TO_OTHER_TOPIC, NO_RECORD, TOMBSTONE, TOMBSTONE_OF_OTHER_TOPIC, Key, KeyIndex)
from coterie._core.fold.keytable cimport coterie_prefetch

# ---- the rows of a scanned piece: their columns, and what each row replaced ----------------------

cdef enum:                       # kinds of rows; KIND_NAMES names them
    OFFSET = 0
    OFFSET_TOMBSTONE = 1
    GROUP = 2
    GROUP_TOMBSTONE = 3
    NEWER = 4
    UNKNOWN = 5
    MARKER = 6
    FAULTY = 7

cdef enum:
    FAR = 16                     # rows ahead, whose keys are prefetched
    BYTES_A_ROW = 64             # in a log, about, with a share of the batch's header

cdef struct BatchRow:            # BATCH_DTYPE, field by field: no padding, 104 bytes
    int64_t position, producer_id, first_row, first_number, first_offset, first_ms
    int64_t log_offset, from_ms, until_ms, group, producer_epoch
    int32_t size, leader_epoch, records
    int16_t marker
    int8_t transactional, mixed

cdef struct Rows:                # the columns of a piece; NULL: a column that is not requested
    int64_t* log_offset
    int64_t* timestamp
    int64_t* number
    int64_t* offset
    int64_t* commit_timestamp
    int64_t* expire_timestamp
    int64_t* decided_by
    int64_t* decided_ms
    int64_t* previous_offset
    int64_t* previous_log_offset
    int64_t* previous_timestamp
    int64_t* topic_id_high
    int64_t* topic_id_low
    int32_t* previous_row
    int32_t* batch
    int32_t* key
    int32_t* group
    int32_t* metadata_size
    int32_t* key_size
    int32_t* value_size
    int64_t* disk_bytes          # until the end of a batch: the weight of its records so far
    int8_t* kind
    int8_t* outcome
    int8_t* previous
    Py_ssize_t count, capacity
    int64_t before               # number of rows of the pieces before


cdef extern from *:
    """
    static inline int64_t coterie_share(int64_t part, int64_t whole, int64_t size) {
        return (int64_t)((unsigned __int128)part * (uint64_t)size / (uint64_t)whole);
    }
    """
    int64_t coterie_share(int64_t part, int64_t whole, int64_t size) noexcept nogil


cdef inline int64_t weight_of(int32_t key_size, int32_t value_size) noexcept nogil:
    return max(1, <int64_t>max(key_size, 0) + max(value_size, 0))


cdef inline void share_out(Rows* rows, Py_ssize_t first, int64_t size,
                           int64_t weight) noexcept nogil:
    """Divide a batch's bytes among its rows, from `first` on, in proportion to their weights."""
    cdef Py_ssize_t i
    cdef int64_t weight_before = 0, share = 0, before, now
    for i in range(first, rows.count):
        before = rows.disk_bytes[i] - weight_of(rows.key_size[i], rows.value_size[i])
        if before != weight_before:              # records of other groups lie between
            share = coterie_share(before, weight, size)
        weight_before = rows.disk_bytes[i]
        now = coterie_share(weight_before, weight, size)
        rows.disk_bytes[i], share = now - share, now


cdef inline void link_previous(KeyIndex* index, Rows* rows) noexcept nogil:
    """Fill in, for each row that counts, the record of the same key that it replaced."""
    cdef Py_ssize_t i
    cdef int64_t row, high, low
    cdef Key none                # for rows that do not count; the state of a new key, too
    cdef Key* key
    memset(&none, 0xFF, sizeof(Key))
    none.before = NO_RECORD
    for i in range(rows.count):
        if i + FAR < rows.count and rows.key[i + FAR] >= 0:
            coterie_prefetch(&index.items[rows.key[i + FAR]])
        key = &none
        if rows.kind[i] <= OFFSET_TOMBSTONE and rows.outcome[i] == COMMITTED:
            key = &index.items[rows.key[i]]
        high, low = rows.topic_id_high[i], rows.topic_id_low[i]
        rows.previous[i] = key.before
        if (high | low) and (key.topic_id_high & key.topic_id_low) != -1:
            if high != key.topic_id_high or low != key.topic_id_low:
                if key.before == COMMIT:
                    rows.previous[i] = COMMIT_TO_OTHER_TOPIC
                elif key.before == TOMBSTONE:
                    rows.previous[i] = TOMBSTONE_OF_OTHER_TOPIC
        if rows.previous_offset != NULL:
            rows.previous_offset[i] = key.offset
        if rows.previous_log_offset != NULL:
            rows.previous_log_offset[i] = key.log_offset
        if rows.previous_timestamp != NULL:
            rows.previous_timestamp[i] = key.timestamp
        if rows.previous_row != NULL:
            row = key.row - rows.before
            rows.previous_row[i] = <int32_t>row if row >= 0 else -1
        if key == &none:
            continue
        key.before = COMMIT if rows.kind[i] == OFFSET else TOMBSTONE
        key.row, key.offset, key.log_offset = rows.before + i, rows.offset[i], rows.log_offset[i]
        key.timestamp = rows.timestamp[i]
        if high | low:
            key.topic_id_high, key.topic_id_low = high, low
    rows.before += rows.count


# Make room for `rows` rows in the columns of `arrays` (name -> array), and point `at` to them.
cdef int grow(Rows* at, dict dtypes, dict arrays, Py_ssize_t rows) except -1

# Give each row its outcome; `batches` are all of the piece, or none if no batch is transactional.
# `markers`: producer id -> (type, number, ms) of its next marker after the piece.
cdef int decide(Rows* rows, const BatchRow* batches, Py_ssize_t batch_count, int64_t until_ms,
                dict markers) except -1

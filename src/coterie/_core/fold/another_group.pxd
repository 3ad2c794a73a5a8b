"""Recognise a batch of a group that is not requested, and fill in its row. Header only: inlined.

If one group of many is requested, nearly all batches are of others. Such a batch is read once, and
none of its records gets a row.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

from coterie._core.codec.batch cimport AHEAD, V2_HEADER, Batch, Record, in_time
from coterie._core.codec.cursor cimport OK, Cursor, load_i16, load_i32
from coterie._core.codec.record cimport record_v2
from coterie._core.fold.commit cimport KEY_OFFSET_MAX, Commit, read_commit_key, read_commit_value
from coterie._core.fold.keyindex cimport KEY_NOT_REQUESTED, KeyIndex, key_number
from coterie._core.fold.keytable cimport coterie_equal, coterie_keyhash, coterie_prefetch
from coterie._core.fold.record_scan cimport BatchRow


cdef inline bint is_of_another_group(KeyIndex* index, const Batch* batch, int64_t until_ms,
                                     BatchRow* row) noexcept nogil:
    """Whether a plain batch is one request of a group that is not requested: commits of one topic
    in ascending order of partitions, all in time and without a fault. If so, its row is filled in;
    if not, the row is unchanged and each record must be read."""
    cdef Cursor cur
    cdef Record record
    cdef Commit commit
    cdef const uint8_t* key = NULL
    cdef int32_t key_size = 0, partition = 0, group = -1, i
    cdef int64_t first_offset = 0, first_ms = 0
    cur.at, cur.end = batch.start + V2_HEADER, batch.start + batch.size
    for i in range(batch.record_count):
        # Prefetches bytes of later batches: see columns.pyx. Never reads them.
        coterie_prefetch(cur.at + AHEAD)
        coterie_prefetch(cur.at + AHEAD + 64)
        if record_v2(&cur, batch, &record) != OK or not in_time(&record, until_ms):
            return False
        if i == 0:
            key, key_size = record.key, record.key_size
            first_offset, first_ms = record.offset, record.timestamp
            if key_size < 2 or not 0 <= load_i16(key) <= KEY_OFFSET_MAX or (
                    read_commit_key(key, key_size, &commit) != OK
                    or commit.key_size != key_size - 2       # bytes follow the key
                    or key_number(index, key, key_size, &group) != KEY_NOT_REQUESTED):
                return False
        elif (record.key_size != key_size or not coterie_equal(key, record.key, key_size - 4)
                or load_i32(record.key + key_size - 4) <= partition):
            return False
        partition = load_i32(record.key + key_size - 4)
        if record.value_size < 0 or (
                read_commit_value(record.value, record.value_size, &commit) != OK):
            return False
    if cur.at != cur.end:
        return False
    row.first_offset = row.log_offset = first_offset
    row.first_ms = row.from_ms = first_ms
    row.until_ms = record.timestamp
    row.group = <int64_t>(coterie_keyhash(key + 4, load_i16(key + 2)) >> 1)
    row.records = batch.record_count
    return True

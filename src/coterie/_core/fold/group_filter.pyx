"""Which batches and records belong to the requested groups, so that nothing is built for others.

Names are compared as bytes. Two names that are not ASCII may be one group to Kafka (see
`commit.canonical`), which this code does not know: if such a name is requested, every name that is
not ASCII matches here, and the fold decides.
A record of another group is parsed just far enough to see whether it has a fault.
Cost: one parse of each record; one look-up for each run of equal groups and topics.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

from coterie._core.codec.batch cimport AHEAD, V2_HEADER, Batch, Record
from coterie._core.codec.cursor cimport OK, Cursor, load_i16
from coterie._core.codec.record cimport record_v2
from coterie._core.fold.commit cimport (
    KEY_GROUP, Commit, check_group_value, is_of_4x, read_commit_key, read_commit_value)
from coterie._core.fold.keytable cimport (
    coterie_equal, coterie_is_ascii, coterie_keyhash, coterie_prefetch, table_find, table_intern)
from coterie._core.fold.record_kind cimport (
    GROUP, NON_ASCII_COMMIT, PLAIN_COMMIT, ParsedRecord)


cdef int filter_add(GroupFilter* group_filter, object names) except -1:
    cdef bytes name
    cdef const uint8_t* at
    for name in names:
        at = name
        group_filter.non_ascii = group_filter.non_ascii or not coterie_is_ascii(at, len(name))
        if table_intern(&group_filter.names, coterie_keyhash(at, len(name)), at,
                        <int32_t>len(name)) < 0:
            raise MemoryError
    return 0


cdef bint has_name(const GroupFilter* group_filter, const uint8_t* name,
                   int32_t size) noexcept nogil:
    if group_filter.non_ascii and not coterie_is_ascii(name, size):
        return True
    return table_find(&group_filter.names, coterie_keyhash(name, size), name, size) >= 0


cdef bint has_group(const Record* record) noexcept nogil:
    """Whether the key can be read and names a group."""
    cdef Commit commit
    if record.key_size < 4 or not 0 <= load_i16(record.key) <= KEY_GROUP:
        return False
    if load_i16(record.key) < KEY_GROUP:
        return read_commit_key(record.key, record.key_size, &commit) == OK
    return 0 <= load_i16(record.key + 2) <= record.key_size - 4


cdef inline bint has_readable_value(const Record* record) noexcept nogil:
    """Whether the value can be read, of a record that `has_group`."""
    cdef Commit commit
    if record.value_size < 0:
        return True
    if load_i16(record.key) < KEY_GROUP:
        return read_commit_value(record.value, record.value_size, &commit) == OK
    return check_group_value(record.value, record.value_size) == OK


cdef bint matches(const GroupFilter* group_filter, const Record* record) noexcept nogil:
    """Whether a record that `has_group` is of a requested group."""
    return has_name(group_filter, record.key + 4, load_i16(record.key + 2))


cdef BatchMatch match_batch(const GroupFilter* group_filter, const Batch* batch,
                            int64_t until_ms, bint* has_records_of_4x) noexcept nogil:
    """Match an uncompressed batch of magic 2."""
    cdef Cursor cur
    cdef Record record
    cdef const uint8_t* key = NULL             # of the record before
    cdef int32_t key_size = -2, prefix = 0, _i  # -1 is a null key
    cdef bint match = False, some = False, others = False
    cur.at, cur.end = batch.start + V2_HEADER, batch.start + batch.size
    for _i in range(batch.record_count):
        # Prefetches bytes of later batches: see columns.pyx. Never reads them.
        coterie_prefetch(cur.at + AHEAD)
        coterie_prefetch(cur.at + AHEAD + 64)
        if record_v2(&cur, batch, &record) != OK:
            return SOME_MATCH
        if is_of_4x(&record):
            has_records_of_4x[0] = True
        if record.timestamp > until_ms:
            continue
        # The keys of a request mostly differ in their last four bytes alone, the partition.
        if record.key_size != key_size or not coterie_equal(key, record.key, prefix):
            if not has_group(&record):
                return SOME_MATCH
            match = matches(group_filter, &record)
            key, key_size = record.key, record.key_size
            prefix = key_size if load_i16(key) == KEY_GROUP else key_size - 4
        if match:
            some = True
        elif has_readable_value(&record):
            others = True
        else:
            return SOME_MATCH
    if cur.at != cur.end or (some and others):
        return SOME_MATCH
    return ALL_MATCH if some else NONE_MATCH


cdef bint excludes(const GroupFilter* group_filter, const Record* record,
                   const ParsedRecord* parsed) noexcept nogil:
    """Whether a record is of a group that is not requested, and has no fault."""
    if parsed.kind == PLAIN_COMMIT or parsed.kind == NON_ASCII_COMMIT:
        return not matches(group_filter, record)
    return (parsed.kind == GROUP and has_group(record) and not matches(group_filter, record)
            and has_readable_value(record))

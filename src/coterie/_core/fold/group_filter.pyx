"""Which batches and records are of the groups that a fold keeps; nothing is built for others.

Names are compared as bytes. One that is not ASCII may stand for another (see `commit.canonical`),
which this does not know: where such a name is asked for, it counts as kept, and the fold looks.
A record of another group is read as far as to tell whether it has a fault.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

from coterie._core.codec.batch cimport AHEAD, V2_HEADER, Batch, Record
from coterie._core.codec.cursor cimport OK, Cursor, load_i16
from coterie._core.codec.record cimport record_v2
from coterie._core.fold.commit cimport (
    KEY_GROUP, Commit, check_group_value, read_commit_key, read_commit_value)
from coterie._core.fold.keytable cimport (
    coterie_equal, coterie_is_ascii, coterie_keyhash, coterie_prefetch, table_find, table_intern)
from coterie._core.fold.record_kind cimport GROUP, ODD_COMMIT, PLAIN_COMMIT, Parsed


cdef int only_keep(Only* only, object names) except -1:
    cdef bytes name
    cdef const uint8_t* at
    for name in names:
        at = name
        only.odd = only.odd or not coterie_is_ascii(at, len(name))
        if table_intern(&only.names, coterie_keyhash(at, len(name)), at, <int32_t>len(name)) < 0:
            raise MemoryError
    return 0


cdef bint keeps(const Only* only, const uint8_t* name, int32_t size) noexcept nogil:
    if only.odd and not coterie_is_ascii(name, size):
        return True
    return table_find(&only.names, coterie_keyhash(name, size), name, size) >= 0


cdef bint key_fits(const Record* record) noexcept nogil:
    """Whether it can be read, and names a group."""
    cdef Commit commit
    if record.key_size < 4 or not 0 <= load_i16(record.key) <= KEY_GROUP:
        return False
    if load_i16(record.key) < KEY_GROUP:
        return read_commit_key(record.key, record.key_size, &commit) == OK
    return 0 <= load_i16(record.key + 2) <= record.key_size - 4


cdef inline bint value_fits(const Record* record) noexcept nogil:
    """Of a record whose key fits."""
    cdef Commit commit
    if record.value_size < 0:
        return True
    if load_i16(record.key) < KEY_GROUP:
        return read_commit_value(record.value, record.value_size, &commit) == OK
    return check_group_value(record.value, record.value_size) == OK


cdef bint keeps_group_of(const Only* only, const Record* record) noexcept nogil:
    """Of a record whose key fits."""
    return keeps(only, record.key + 4, load_i16(record.key + 2))


cdef Sifted sift(const Only* only, const Batch* batch, int64_t until_ms) noexcept nogil:
    """Of a batch of magic 2 that is not compressed."""
    cdef Cursor cur
    cdef Record record
    cdef const uint8_t* key = NULL             # of the record before
    cdef int32_t key_size = -2, alike = 0, _i  # -1 is a null key
    cdef bint kept = False, some = False, others = False
    cur.at, cur.end = batch.start + V2_HEADER, batch.start + batch.size
    for _i in range(batch.record_count):
        # What comes some batches on, for the checksum: see columns.pyx. Never a read.
        coterie_prefetch(cur.at + AHEAD)
        coterie_prefetch(cur.at + AHEAD + 64)
        if record_v2(&cur, batch, &record) != OK:
            return MIXED
        if record.timestamp > until_ms:
            continue
        # The keys of a request mostly differ in the partition alone, which ends them.
        if record.key_size != key_size or not coterie_equal(key, record.key, alike):
            if not key_fits(&record):
                return MIXED
            kept = keeps_group_of(only, &record)
            key, key_size = record.key, record.key_size
            alike = key_size if load_i16(key) == KEY_GROUP else key_size - 4
        if kept:
            some = True
        elif value_fits(&record):
            others = True
        else:
            return MIXED
    if cur.at != cur.end or (some and others):
        return MIXED
    return ALL_KEPT if some else NONE_KEPT


cdef bint passes_over(const Only* only, const Record* record,
                      const Parsed* parsed) noexcept nogil:
    """Whether a record is of a group that is not kept, and has no fault."""
    if parsed.kind == PLAIN_COMMIT or parsed.kind == ODD_COMMIT:
        return not keeps_group_of(only, record)
    return (parsed.kind == GROUP and key_fits(record) and not keeps_group_of(only, record)
            and value_fits(record))

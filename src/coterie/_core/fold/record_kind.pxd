"""The kind of a record: what the fold does with it. Header only: inlined into the fold.

Parses a commit on the way, so its fields are read once. Builds no Python object.
"""
from libc.stdint cimport int16_t, int64_t, uint64_t
from libc.stdlib cimport realloc

from coterie._core.codec.batch cimport FAULT_KEY, FAULT_VALUE, NO_FAULT, Record, in_time
from coterie._core.codec.cursor cimport OK, load_i16
from coterie._core.fold.commit cimport (
    KEY_GROUP, KEY_OFFSET_MAX, Commit, is_newer_key, read_commit_key, read_commit_value)
from coterie._core.fold.keytable cimport coterie_is_ascii, coterie_keyhash

cdef enum:
    PLAIN_COMMIT = 0             # an offset key and value whose names are ASCII
    NON_ASCII_COMMIT = 1         # the same with another name, which must be made canonical first
    GROUP = 2
    NEWER = 3                    # see `is_newer_key`
    UNKNOWN = 4
    FAULTY = 5
    TOO_LATE = 6                 # after the requested time
    ANOTHER_GROUP = 7            # without a fault, of a group that is not requested

cdef struct ParsedRecord:
    Commit commit
    uint64_t hash
    int16_t version              # of the key
    int kind                     # PLAIN_COMMIT ... ANOTHER_GROUP
    int fault

cdef struct ParsedRecords:       # of one batch
    ParsedRecord* items
    Py_ssize_t capacity


cdef inline int parsed_reserve(ParsedRecords* parsed, Py_ssize_t count) noexcept nogil:
    """Make room for `count` records. -1: no memory."""
    cdef void* grown
    if count > parsed.capacity:
        grown = realloc(parsed.items, 2 * count * sizeof(ParsedRecord))
        if grown == NULL:
            return -1
        parsed.items, parsed.capacity = <ParsedRecord*>grown, 2 * count
    return 0


cdef inline void classify(const Record* record, int64_t until_ms, ParsedRecord* out) noexcept nogil:
    cdef Commit* commit = &out.commit
    out.fault = NO_FAULT
    if not in_time(record, until_ms):
        out.kind = TOO_LATE
        return
    out.kind = FAULTY
    out.fault = FAULT_KEY
    if record.key_size < 2:
        return
    out.version = load_i16(record.key)
    if out.version < 0 or out.version > KEY_OFFSET_MAX:
        out.kind = (GROUP if out.version == KEY_GROUP
                    else NEWER if is_newer_key(out.version) else UNKNOWN)
        out.fault = NO_FAULT
        return
    if read_commit_key(record.key, record.key_size, commit) != OK:
        return
    commit.tombstone = record.value_size < 0
    if not commit.tombstone and read_commit_value(
            record.value, record.value_size, commit) != OK:
        out.fault = FAULT_VALUE
        return
    out.fault = NO_FAULT
    if (coterie_is_ascii(commit.group, commit.group_size)
            and coterie_is_ascii(commit.topic, commit.topic_size)):
        out.kind = PLAIN_COMMIT
        out.hash = coterie_keyhash(commit.key, commit.key_size)
    else:
        out.kind = NON_ASCII_COMMIT

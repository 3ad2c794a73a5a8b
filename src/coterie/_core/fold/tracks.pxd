"""How many commits of each key count, and which came last. Header only: inlined into the fold.

Kept where it is asked for, beside the table: a key's track has the key's index. "Last" is in log
order, not in the order of decisions: a transaction's records count from its marker on, but keep
their place. So each record has an ordinal, and of a key the two of the highest are kept. Tracks of
two pieces of a log merge, and so do those of a transaction and of the key.
"""
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from coterie._core.codec.batch cimport Record
from coterie._core.codec.cursor cimport wrap_add
from coterie._core.fold.keytable cimport Table, Value

cdef struct Track:               # all zeros: nothing came; ordinals begin with 1
    int64_t count                # commits from `since_ms` on, and those without a time
    int64_t last                 # ordinal of the last record
    int64_t last_log_offset
    int64_t last_timestamp
    int64_t last_offset
    int64_t last_gone            # 1: it is a tombstone
    int64_t before               # ordinal of the record before the last
    int64_t before_offset
    int64_t before_gone
    int64_t commit               # ordinal of the last that is no tombstone
    int64_t commit_offset
    int64_t commit_timestamp
    int64_t expire_timestamp

cdef struct Tracks:              # the keys' from `size` on have none yet
    Track* items
    uint32_t size
    uint32_t capacity
    int64_t ordinal              # of the last record
    int64_t since_ms
    int64_t until_ms             # records later than this have no part

cdef struct Stamp:               # of a record that waits
    int64_t log_offset
    int64_t timestamp


cdef inline void tracks_free(Tracks* tracks) noexcept:
    free(tracks.items)
    tracks.items = NULL


cdef inline int tracks_fit(Tracks* tracks, const Table* table) noexcept nogil:
    """A track for each key of the table. -1: no memory."""
    cdef Track* grown
    if tracks.capacity < table.count:
        grown = <Track*>realloc(tracks.items, table.capacity * sizeof(Track))
        if grown == NULL:
            return -1
        tracks.items, tracks.capacity = grown, table.capacity
    if tracks.size < table.count:
        memset(tracks.items + tracks.size, 0, (table.count - tracks.size) * sizeof(Track))
        tracks.size = table.count
    return 0


cdef inline bint has_part(const Tracks* tracks, int64_t timestamp) noexcept nogil:
    """Whether a record has a part: one without a time always does."""
    return timestamp <= tracks.until_ms or timestamp == -1


cdef inline void track(Track* of, int64_t ordinal, int64_t since_ms, const Stamp* stamp,
                       const Value* value) noexcept nogil:
    """Take a record that comes behind all others; `value` NULL: a tombstone."""
    of.before, of.before_offset, of.before_gone = of.last, of.last_offset, of.last_gone
    of.last = ordinal
    of.last_log_offset, of.last_timestamp = stamp.log_offset, stamp.timestamp
    of.last_gone = value == NULL
    if value == NULL:
        of.last_offset = -1
        return
    of.count += not 0 <= stamp.timestamp < since_ms
    of.commit = ordinal
    of.last_offset = of.commit_offset = value.offset
    of.commit_timestamp, of.expire_timestamp = value.commit_timestamp, value.expire_timestamp


cdef inline int track_key(Tracks* tracks, const Table* table, int64_t index, const Stamp* stamp,
                          const Value* value) noexcept nogil:
    """Take the next record of a key. -1: no memory."""
    tracks.ordinal += 1
    if not has_part(tracks, stamp.timestamp):
        return 0
    if index >= tracks.size and tracks_fit(tracks, table) != 0:
        return -1
    track(&tracks.items[index], tracks.ordinal, tracks.since_ms, stamp, value)
    return 0


cdef inline void track_merge(Track* to, const Track* other) noexcept nogil:
    """Take another's records, wherever they stood."""
    to.count = wrap_add(to.count, other.count)
    if other.commit > to.commit:
        to.commit, to.commit_offset = other.commit, other.commit_offset
        to.commit_timestamp = other.commit_timestamp
        to.expire_timestamp = other.expire_timestamp
    if other.last > to.last:
        if to.last > other.before:
            to.before, to.before_offset, to.before_gone = to.last, to.last_offset, to.last_gone
        else:
            to.before, to.before_offset = other.before, other.before_offset
            to.before_gone = other.before_gone
        to.last, to.last_log_offset = other.last, other.last_log_offset
        to.last_timestamp, to.last_offset = other.last_timestamp, other.last_offset
        to.last_gone = other.last_gone
    elif other.last > to.before:
        to.before, to.before_offset = other.last, other.last_offset
        to.before_gone = other.last_gone


cdef inline Track track_shifted(const Track* of, int64_t shift) noexcept nogil:
    """The same records, behind so many others."""
    cdef Track shifted = of[0]
    shifted.last = wrap_add(of.last, shift) if of.last else 0
    shifted.before = wrap_add(of.before, shift) if of.before else 0
    shifted.commit = wrap_add(of.commit, shift) if of.commit else 0
    return shifted


# What a fold is asked for: None, or (since_ms, until_ms). NULL: nothing.
cdef Tracks* tracks_asked(Tracks* tracks, object asked) except? NULL

# What the records of an open transaction say of a key joins `pending`: index of the key -> bytes.
cdef int track_pending(Tracks* tracks, dict pending, int64_t index, const Record* record,
                       const Value* value) except -1

# A transaction is committed: its records count.
cdef int put_tracked(Tracks* tracks, const Table* table, dict pending) except -1

cdef int join_pending(dict to, int64_t index, object packed, int64_t shift) except -1

cdef bytes dump_tracks(const Tracks* tracks, const Table* table)

cdef int restore_tracks(Tracks* tracks, const Table* table, int64_t ordinal,
                        bytes packed) except -1

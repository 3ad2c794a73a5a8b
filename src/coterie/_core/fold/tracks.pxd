"""The track of each key: its number of commits, and its last two records in log order.

Filled only with the fold's option; a key's track has the key's index in the table. "Last" is in log
order, not in the order of decisions: a transaction's records count from its marker on, but keep
their place in the log. So each record has an ordinal, and a track holds the records of the two
highest. The tracks of two pieces of a log merge, and so do those of a transaction and of the key.
Functions for every record are inlined into the fold. Cost: 104 bytes a key.
"""
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport realloc
from libc.string cimport memset

from coterie._core.codec.batch cimport Record
from coterie._core.codec.cursor cimport wrap_add
from coterie._core.fold.keytable cimport Table, Value

cdef struct Track:               # all zeros: nothing came; ordinals begin with 1
    int64_t count                # commits of the range, and those without a time
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

cdef struct Tracks:              # keys from `size` on have no track yet
    Track* items
    uint32_t size
    uint32_t capacity
    int64_t ordinal              # of the last record
    int64_t since_ms             # commits count from this time on,
    int64_t since_offset         # and from this log offset on, whatever their times
    int64_t until_ms             # records later than this are not tracked

cdef struct Stamp:               # of a queued record
    int64_t log_offset
    int64_t timestamp


cdef inline int tracks_fit(Tracks* tracks, const Table* table) noexcept nogil:
    """Make a track for each key of the table. -1: no memory."""
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


cdef inline bint is_tracked(const Tracks* tracks, int64_t timestamp) noexcept nogil:
    """Whether a record's time is in range; a record without a time always is."""
    return timestamp <= tracks.until_ms or timestamp == -1


cdef inline void track_record(Track* to, const Tracks* tracks, const Stamp* stamp,
                              const Value* value) noexcept nogil:
    """Add a record that comes after all others; `value` NULL: a tombstone."""
    to.before, to.before_offset, to.before_gone = to.last, to.last_offset, to.last_gone
    to.last = tracks.ordinal
    to.last_log_offset, to.last_timestamp = stamp.log_offset, stamp.timestamp
    to.last_gone = value == NULL
    if value == NULL:
        to.last_offset = -1
        return
    to.count += (stamp.log_offset >= tracks.since_offset
                 or not 0 <= stamp.timestamp < tracks.since_ms)
    to.commit = tracks.ordinal
    to.last_offset = to.commit_offset = value.offset
    to.commit_timestamp, to.expire_timestamp = value.commit_timestamp, value.expire_timestamp


cdef inline int track_key(Tracks* tracks, const Table* table, int64_t index, const Stamp* stamp,
                          const Value* value) noexcept nogil:
    """Add the next record of a key. -1: no memory."""
    tracks.ordinal += 1
    if not is_tracked(tracks, stamp.timestamp):
        return 0
    if index >= tracks.size and tracks_fit(tracks, table) != 0:
        return -1
    track_record(&tracks.items[index], tracks, stamp, value)
    return 0


cdef inline void track_merge(Track* to, const Track* other) noexcept nogil:
    """Add another track's records, in whatever order the two stand."""
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


cdef inline Track track_shifted(const Track* track, int64_t shift) noexcept nogil:
    """The same records, after `shift` others."""
    cdef Track shifted = track[0]
    shifted.last = wrap_add(track.last, shift) if track.last else 0
    shifted.before = wrap_add(track.before, shift) if track.before else 0
    shifted.commit = wrap_add(track.commit, shift) if track.commit else 0
    return shifted


# Set `tracks` up for (since_ms, until_ms, since_offset) and return it; NULL for None.
cdef Tracks* tracks_requested(Tracks* tracks, object tracking) except? NULL

# Add a record of an open transaction to the tracks in `pending`: index of the key -> bytes.
cdef int track_pending(Tracks* tracks, dict pending, int64_t index, const Record* record,
                       const Value* value) except -1

# Add the tracks of a committed transaction.
cdef int apply_tracked(Tracks* tracks, const Table* table, dict pending) except -1

cdef int join_pending(dict to, int64_t index, object packed, int64_t shift) except -1

cdef bytes dump_tracks(const Tracks* tracks, const Table* table)

cdef int restore_tracks(Tracks* tracks, const Table* table, int64_t ordinal,
                        bytes packed) except -1

"""What a fold counts and stores: commits, names, tracks of commits, the groups that it takes."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t, uint8_t
from libc.stdlib cimport realloc
from libc.string cimport memset

from coterie._core.codec.batch cimport Record
from coterie._core.codec.cursor cimport (
    NEGATIVE, OK, Cursor, Status, load_i16, load_i32, load_i64, read_i32, read_string16, wrap_add)
from coterie._core.fold.keytable cimport TOPIC_ID_SIZE, Table, Value

# ---- columns that grow together, for scans that fill them ----------------------------------------

# Make room for `rows` rows in each column of `arrays` (name -> array), and keep the first `count`.
# Returns the new capacity, which is at least twice the old one.
cdef Py_ssize_t grown_columns(dict dtypes, dict arrays, Py_ssize_t count, Py_ssize_t capacity,
                              Py_ssize_t rows) except -1

# ---- the names of a table as Python objects, for columns of their numbers ------------------------

cdef bytes name_at(const Table* table, int32_t number)

# The names from a number on, decoded.
cdef list names_from(const Table* table, uint32_t first)

# The names' bytes end to end, and where each begins and the last one ends: two arrays.
cdef tuple names_as_bytes(const Table* table)

# The bytes of a topic id; None for NULL.
cdef inline bytes topic_id_bytes(const uint8_t* topic_id):
    return None if topic_id == NULL else topic_id[:TOPIC_ID_SIZE]

# Number the topic ids of a dump as they were; each is there once.
cdef int enter_topic_ids(Table* ids, const uint8_t[::1] raw) except -1

# ---- offset commits parsed into C structs that borrow the record's bytes. Partly inlined ---------

cdef enum:
    KEY_OFFSET_MAX = 1           # key versions 0 and 1: an offset commit
    KEY_GROUP = 2                # key version 2: group metadata
    KEY_NEWER_MAX = 23           # 3 to 23: records of consumer, share and streams groups
    KEY_GAP = 18                 # between them, but never given to a type
    KEY_ENDS = 6                 # bytes of an offset's key that are its version and partition
    VALUE_V3_SIZE = 24           # of an offset's value without its metadata
    VALUE_OF_4X = 4              # version of an offset's value that no broker before 4.1 writes
    VALUE_V4_SIZE = 23           # of such a value without its metadata and its tagged fields
    TAGGED_TOPIC_ID = 0x010010   # one tagged field, of tag 0, of 16 bytes

cdef struct Commit:
    const uint8_t* key           # from the group on: without the version
    int32_t key_size
    const uint8_t* group
    const uint8_t* topic
    int32_t group_size
    int32_t topic_size
    int32_t partition
    bint tombstone
    int64_t offset
    int64_t commit_timestamp     # ms
    int64_t expire_timestamp     # ms; -1: none
    const uint8_t* metadata
    int32_t metadata_size
    int32_t leader_epoch         # -1: none
    const uint8_t* topic_id      # 16 bytes; NULL: none


cdef inline bint is_newer_key(int16_t version) noexcept nogil:
    """Whether a version is one of those that the table has, above group metadata."""
    return KEY_GROUP < version <= KEY_NEWER_MAX and version != KEY_GAP


cdef inline bint is_of_4x(const Record* record) noexcept nogil:
    """Whether only the coordinator of Kafka 4.x writes such a record, whatever its group."""
    cdef int16_t version
    if record.key_size < 2:
        return False
    version = load_i16(record.key)
    if version > KEY_OFFSET_MAX:
        return is_newer_key(version)
    return version >= 0 and record.value_size >= 2 and load_i16(record.value) == VALUE_OF_4X


cdef inline Status read_commit_key(const uint8_t* key, int32_t size, Commit* out) noexcept nogil:
    """Parse a key, whose version the caller has read. Bytes after the partition are ignored."""
    cdef Cursor cur
    cdef Status status
    cur.at = key + 2
    cur.end = key + size
    status = read_string16(&cur, &out.group, &out.group_size)
    if status == OK:
        status = read_string16(&cur, &out.topic, &out.topic_size)
    if status == OK:
        status = read_i32(&cur, &out.partition)
    if status != OK:
        return status
    if out.group == NULL or out.topic == NULL:
        return NEGATIVE
    out.key = key + 2
    out.key_size = <int32_t>(cur.at - out.key)
    return OK


cdef inline bint key_fits(const uint8_t* keys, int64_t start, int64_t end,
                          int64_t size) noexcept nogil:
    """Whether the bytes from `start` to `end` are one key without its version."""
    cdef int64_t at = start
    if start < 0 or end > size or end - start < 8:
        return False
    at += 2 + (keys[at] << 8 | keys[at + 1])
    if at > end - 6:
        return False
    return at + 6 + (keys[at] << 8 | keys[at + 1]) == end


cdef inline const uint8_t* topic_id_or_null(const uint8_t* at) noexcept nogil:
    """Return a topic id; NULL for zeros, which mean none."""
    return NULL if load_i64(at) == 0 and load_i64(at + 8) == 0 else at


cdef inline bint read_short_v4(const uint8_t* value, int32_t size, Commit* out) noexcept nogil:
    """Parse a value of version 4 with less than 127 bytes of metadata and no tagged field but the
    topic id, as brokers write it. False: another one, which `read_any_value` reads."""
    cdef int32_t metadata_size = value[14] - 1
    cdef const uint8_t* tagged = value + VALUE_V4_SIZE + metadata_size
    cdef int32_t left = size - VALUE_V4_SIZE - metadata_size
    if not 0 <= metadata_size < 0x7F or left < 1:
        return False
    out.topic_id = NULL
    if tagged[0]:
        if left < 19 or (tagged[0] << 16 | tagged[1] << 8 | tagged[2]) != TAGGED_TOPIC_ID:
            return False
        out.topic_id = topic_id_or_null(tagged + 3)
    out.offset, out.leader_epoch = load_i64(value + 2), load_i32(value + 10)
    out.metadata, out.metadata_size = value + 15, metadata_size
    out.commit_timestamp = load_i64(value + 15 + metadata_size)
    out.expire_timestamp = -1
    return True


cdef inline Status read_commit_value(const uint8_t* value, int32_t size,
                                     Commit* out) noexcept nogil:
    """Parse a value that is not null. An unknown version gives NEGATIVE."""
    if size >= VALUE_V3_SIZE and load_i16(value) == 3:
        # The version that brokers write since 2.1: one comparison with the end instead of five.
        out.metadata_size = load_i16(value + 14)
        if 0 <= out.metadata_size <= size - VALUE_V3_SIZE:
            out.offset = load_i64(value + 2)
            out.leader_epoch = load_i32(value + 10)
            out.metadata = value + 16
            out.commit_timestamp = load_i64(value + 16 + out.metadata_size)
            out.expire_timestamp = -1
            out.topic_id = NULL
            return OK
    if size > VALUE_V4_SIZE and load_i16(value) == VALUE_OF_4X and read_short_v4(value, size, out):
        return OK
    return read_any_value(value, size, out)


cdef Status read_any_value(const uint8_t* value, int32_t size, Commit* out) noexcept nogil

# OK if Kafka's reader would take a group metadata value that is not null.
cdef Status check_group_value(const uint8_t* value, int32_t size) noexcept nogil

# The name as Java reads it, as UTF-8 again: two names that are not UTF-8 may be one to Kafka.
cdef bytes canonical(bytes name)

# The group id in the key of a record that is no commit; None: the key is cut short.
cdef bytes group_id_of(const Record* record)

# (log offset, ms, version of the key, key, value or None) of a record with a key.
cdef tuple record_of(const Record* record)

# The bytes of an offset key without its version.
cdef bytes commit_key(bytes group, bytes topic, int32_t partition)

# In words, why a record of the classic coordinator cannot be read.
cdef str detail_of(const Record* record)

# ---- the track of each key: its number of commits, and its last records in log order -------------

cdef struct Track:               # all zeros: nothing came; ordinals begin with 1
    int64_t count                # commits of the range, and those without a time
    int64_t last                 # ordinal of the last record
    int64_t last_log_offset
    int64_t commit               # ordinal of the last that is no tombstone
    int64_t commit_timestamp

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
    to.last, to.last_log_offset = tracks.ordinal, stamp.log_offset
    if value == NULL:
        return
    to.count += (stamp.log_offset >= tracks.since_offset
                 or not 0 <= stamp.timestamp < tracks.since_ms)
    to.commit, to.commit_timestamp = tracks.ordinal, value.commit_timestamp


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
        to.commit, to.commit_timestamp = other.commit, other.commit_timestamp
    if other.last > to.last:
        to.last, to.last_log_offset = other.last, other.last_log_offset


cdef inline Track track_shifted(const Track* track, int64_t shift) noexcept nogil:
    """The same records, after `shift` others."""
    cdef Track shifted = track[0]
    shifted.last = wrap_add(track.last, shift) if track.last else 0
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

"""What a fold counts and stores: commits, names, tracks of commits, the groups that it takes.

Columns of names are shared by all rows. A filter of groups skips the records of other groups before
they are decoded.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint32_t, uint8_t
from libc.string cimport memcpy, memset

from coterie._core.checks cimport int64_of, within
from coterie._core.codec.batch cimport Record
from coterie._core.codec.cursor cimport OK, Status, load_i16
from coterie._core.codec.layout cimport MAX_FIELDS, Layout
from coterie._core.codec.layout import decode_utf8
from coterie._core.codec.schema cimport slot_of, value_layout, versions_of, walk_group
from coterie._core.codec.schema import decode_key, decode_value
from coterie._core.codec.walk cimport Span, Versions, number_at, walk_value
from coterie._core.fold.keytable cimport TOPIC_ID_SIZE, Table, Value, topic_id_number

from coterie.errors import CorruptData


# ---- columns of several types in one block of memory, which grow together ------------------------
# One block, because numpy asks the kernel for huge pages from 4 MiB on: with a block for each
# column, page faults take half of the time of a scan. Knows no column by name.
# Cost: a copy of the rows at each growth, so twice the memory for a moment.

cdef Py_ssize_t grown_columns(dict dtypes, dict arrays, Py_ssize_t count, Py_ssize_t capacity,
                              Py_ssize_t rows) except -1:
    import numpy as np     # not at import: it takes longer to load than a small log

    cdef Py_ssize_t at = 0, size
    rows = (max(rows, 2 * capacity, 16) + 7) & ~7        # every column begins aligned
    block = np.empty(rows * sum(np.dtype(t).itemsize for t in dtypes.values()), np.uint8)
    for name, dtype in dtypes.items():
        size = rows * np.dtype(dtype).itemsize
        column = block[at:at + size].view(dtype)
        at += size
        if count:
            column[:count] = arrays[name][:count]
        arrays[name] = column
    return rows


# ---- the names that a table numbers, as Python objects: one name, a list of texts, or arrays -----
# Columns have the number of a group or topic; these functions return the names for them.
# Knows nothing of keys or values: the table's keys are names here. Cost: a copy of the names.

cdef bytes name_at(const Table* table, int32_t number):
    cdef const uint8_t* start = table.arena + table.entries[number].key_at
    return start[:table.entries[number].key_size]


cdef list names_from(const Table* table, uint32_t first):
    cdef uint32_t i
    return [decode_utf8(name_at(table, <int32_t>i)) for i in range(first, table.count)]


cdef tuple names_as_bytes(const Table* table):
    import numpy as np     # not at import: it takes longer to load than a small log
    cdef uint32_t i
    data = np.empty(table.arena_size, dtype=np.uint8)
    bounds = np.zeros(table.count + 1, dtype=np.int64)
    cdef uint8_t[::1] bytes_view = data
    cdef int64_t[::1] bound = bounds
    if table.arena_size:
        memcpy(&bytes_view[0], table.arena, table.arena_size)
    for i in range(table.count):
        bound[i + 1] = table.entries[i].key_at + table.entries[i].key_size
    return data, bounds


cdef int enter_topic_ids(Table* ids, const uint8_t[::1] raw) except -1:
    cdef Py_ssize_t at
    cdef int64_t number
    if raw.shape[0] % TOPIC_ID_SIZE:
        raise CorruptData("the topic ids of a partial state are cut short")
    for at in range(0, raw.shape[0], TOPIC_ID_SIZE):
        number = topic_id_number(ids, &raw[at])
        if number < 0:
            raise MemoryError
        if number != at // TOPIC_ID_SIZE + 1:
            raise CorruptData("a partial state has a topic id twice")
    return 0


# ---- the rare cases of parsing a commit: values of old versions, non-ASCII names, faults ---------
# The usual case is inlined from commit.pxd. This is the rest: values read by the table of messages,
# names as Java would read them, and a fault in words. Knows single records; knows no batches and no
# state. Cost: a walk over the fields of a value, and Python objects for names and faults.

cdef const Versions* COMMITS = versions_of(KEY_OFFSET_MAX)
cdef Layout OFFSET_COMMIT = value_layout(KEY_OFFSET_MAX)
cdef int OFFSET = slot_of(OFFSET_COMMIT, "offset")
cdef int LEADER_EPOCH = slot_of(OFFSET_COMMIT, "leaderEpoch")
cdef int METADATA = slot_of(OFFSET_COMMIT, "metadata")
cdef int COMMIT_TIMESTAMP = slot_of(OFFSET_COMMIT, "commitTimestamp")
cdef int EXPIRE_TIMESTAMP = slot_of(OFFSET_COMMIT, "expireTimestamp")
cdef int TOPIC_ID = slot_of(OFFSET_COMMIT, "topicId")


cdef Status read_any_value(const uint8_t* value, int32_t size, Commit* out) noexcept nogil:
    cdef Span spans[MAX_FIELDS]
    cdef Status status = walk_value(value, size, COMMITS, spans, NULL)
    if status != OK:
        return status
    out.offset = number_at(&spans[OFFSET], -1)
    out.leader_epoch = <int32_t>number_at(&spans[LEADER_EPOCH], -1)
    out.metadata, out.metadata_size = spans[METADATA].at, spans[METADATA].size
    out.commit_timestamp = number_at(&spans[COMMIT_TIMESTAMP], -1)
    out.expire_timestamp = number_at(&spans[EXPIRE_TIMESTAMP], -1)
    out.topic_id = NULL if spans[TOPIC_ID].at == NULL else topic_id_or_null(spans[TOPIC_ID].at)
    return OK


cdef Status check_group_value(const uint8_t* value, int32_t size) noexcept nogil:
    cdef Span spans[MAX_FIELDS]
    return walk_group(value, size, spans, NULL)


cdef bytes canonical(bytes name):
    cdef bytes text = decode_utf8(name).encode("utf-8")
    return text if len(text) <= 0xFFFF else name        # a longer one would not fit a key


cdef bytes group_id_of(const Record* record):
    cdef int32_t size = load_i16(record.key + 2) if record.key_size >= 4 else -1
    if size < 0 or size > record.key_size - 4:
        return None
    return canonical(record.key[4:4 + size])


cdef tuple record_of(const Record* record):
    return (record.offset, record.timestamp, load_i16(record.key), record.key[:record.key_size],
            None if record.value_size < 0 else record.value[:record.value_size])


cdef bytes commit_key(bytes group, bytes topic, int32_t partition):
    # A canonical name may be longer than 32,767 bytes, so the lengths are unsigned.
    return (len(group).to_bytes(2, "big") + group + len(topic).to_bytes(2, "big") + topic
            + partition.to_bytes(4, "big", signed=True))


cdef str detail_of(const Record* record):
    cdef bytes key = None if record.key_size < 0 else record.key[:record.key_size]
    cdef bytes value = None if record.value_size < 0 else record.value[:record.value_size]
    if key is None:
        return "a record without a key"
    try:
        decode_value(decode_key(key)["version"], value)
    except CorruptData as error:
        return str(error)
    return "a record that Kafka's reader refuses"


# ---- tracks as bytes: those of open transactions, and those of a dumped fold ---------------------
# A track (commit.pxd) is a C struct. Until its transaction is committed it is a bytes object, which
# pickles with the producer. A caller can reach that object, so each use checks its length. Knows no
# bytes of a log. Python objects, as transactions are few among millions of records.

cdef int64_t MIN_MS = -0x8000000000000000
cdef int64_t MAX_MS = 0x7FFFFFFFFFFFFFFF
cdef int64_t MAX_OFFSET = MAX_MS
cdef int64_t MAX_ORDINAL = <int64_t>1 << 62


cdef Tracks* tracks_requested(Tracks* tracks, object tracking) except? NULL:
    if tracking is None:
        return NULL
    since_ms, until_ms, since_offset = tracking
    tracks.since_ms = MIN_MS if since_ms is None else int64_of(since_ms, "since_ms")
    tracks.until_ms = MAX_MS if until_ms is None else int64_of(until_ms, "until_ms")
    tracks.since_offset = (MAX_OFFSET if since_offset is None
                           else int64_of(since_offset, "since_offset"))
    return tracks


cdef Track unpacked(object packed) except *:
    """Read a track from bytes that a caller may have replaced."""
    cdef Track unpacked_track
    cdef bytes data = <bytes?>packed
    if len(data) != sizeof(Track):
        raise CorruptData(f"a key's track has {sizeof(Track)} bytes, not {len(data)}")
    memcpy(&unpacked_track, PyBytes_AS_STRING(data), sizeof(Track))
    return unpacked_track


cdef bytes packed_of(const Track* track):
    return PyBytes_FromStringAndSize(<const char*>track, sizeof(Track))


cdef int track_pending(Tracks* tracks, dict pending, int64_t index, const Record* record,
                       const Value* value) except -1:
    cdef Track track
    cdef Stamp stamp
    tracks.ordinal += 1
    if is_tracked(tracks, record.timestamp):
        memset(&track, 0, sizeof(Track))
        stamp.log_offset, stamp.timestamp = record.offset, record.timestamp
        track_record(&track, tracks, &stamp, value)
        join_pending(pending, index, packed_of(&track), 0)
    return 0


cdef int join_pending(dict to, int64_t index, object packed, int64_t shift) except -1:
    """Add a key's later records to a transaction's track; `shift` records lie before them."""
    cdef Track later = unpacked(packed), joined
    later = track_shifted(&later, shift)
    if index in to:
        joined = unpacked(to[index])
        track_merge(&joined, &later)
        later = joined
    to[index] = packed_of(&later)
    return 0


cdef int apply_tracked(Tracks* tracks, const Table* table, dict pending) except -1:
    cdef Track track
    if tracks_fit(tracks, table) != 0:
        raise MemoryError
    for index, packed in pending.items():
        track = unpacked(packed)
        track_merge(&tracks.items[within(index, "the index of a key", 0,
                                         <int64_t>table.count - 1)], &track)
    return 0


cdef bytes dump_tracks(const Tracks* tracks, const Table* table):
    """Return a track for each key of the table, end to end."""
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, table.count * <Py_ssize_t>sizeof(Track))
    cdef char* at = PyBytes_AS_STRING(packed)
    cdef size_t size = min(tracks.size, table.count) * sizeof(Track)
    memset(at, 0, table.count * sizeof(Track))
    if size:
        memcpy(at, tracks.items, size)
    return packed


cdef int restore_tracks(Tracks* tracks, const Table* table, int64_t ordinal,
                        bytes packed) except -1:
    """Fill the tracks of a table from bytes that may have been cut on their way."""
    if not 0 <= ordinal <= MAX_ORDINAL or len(packed) != table.count * sizeof(Track):
        raise CorruptData(f"{len(packed)} bytes are not the tracks of {table.count} keys")
    if tracks_fit(tracks, table) != 0:
        raise MemoryError
    tracks.ordinal = ordinal
    if packed:
        memcpy(tracks.items, PyBytes_AS_STRING(packed), len(packed))
    return 0

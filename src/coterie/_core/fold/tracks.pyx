"""What open transactions say of keys, and tracks as bytes. See tracks.pxd.

Transactions are few among millions of records: Python objects.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from coterie._core.checks cimport int64_of, within
from coterie._core.codec.batch cimport Record
from coterie._core.fold.keytable cimport Table, Value

from coterie.errors import CorruptData

cdef int64_t MIN_MS = -0x8000000000000000
cdef int64_t MAX_MS = 0x7FFFFFFFFFFFFFFF
cdef int64_t MAX_ORDINAL = <int64_t>1 << 62


cdef Tracks* tracks_asked(Tracks* tracks, object asked) except? NULL:
    if asked is None:
        return NULL
    since_ms, until_ms = asked
    tracks.since_ms = MIN_MS if since_ms is None else int64_of(since_ms, "since_ms")
    tracks.until_ms = MAX_MS if until_ms is None else int64_of(until_ms, "until_ms")
    return tracks


cdef Track unpacked(object packed) except *:
    """Whoever has the fold may have written other bytes."""
    cdef Track found
    cdef bytes held = <bytes?>packed
    if len(held) != sizeof(Track):
        raise CorruptData(f"a key's track has {sizeof(Track)} bytes, not {len(held)}")
    memcpy(&found, PyBytes_AS_STRING(held), sizeof(Track))
    return found


cdef bytes packed_of(const Track* one):
    return PyBytes_FromStringAndSize(<const char*>one, sizeof(Track))


cdef int track_pending(Tracks* tracks, dict pending, int64_t index, const Record* record,
                       const Value* value) except -1:
    cdef Track one
    cdef Stamp stamp
    tracks.ordinal += 1
    if has_part(tracks, record.timestamp):
        memset(&one, 0, sizeof(Track))
        stamp.log_offset, stamp.timestamp = record.offset, record.timestamp
        track(&one, tracks.ordinal, tracks.since_ms, &stamp, value)
        join_pending(pending, index, packed_of(&one), 0)
    return 0


cdef int join_pending(dict to, int64_t index, object packed, int64_t shift) except -1:
    """Let a key's further records, `shift` others before them, join those of a transaction."""
    cdef Track later = unpacked(packed), joined
    later = track_shifted(&later, shift)
    if index in to:
        joined = unpacked(to[index])
        track_merge(&joined, &later)
        later = joined
    to[index] = packed_of(&later)
    return 0


cdef int put_tracked(Tracks* tracks, const Table* table, dict pending) except -1:
    cdef Track one
    if tracks_fit(tracks, table) != 0:
        raise MemoryError
    for index, packed in pending.items():
        one = unpacked(packed)
        track_merge(&tracks.items[within(index, "the index of a key", 0,
                                         <int64_t>table.count - 1)], &one)
    return 0


cdef bytes dump_tracks(const Tracks* tracks, const Table* table):
    """A track for each key of the table."""
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, table.count * <Py_ssize_t>sizeof(Track))
    cdef char* at = PyBytes_AS_STRING(packed)
    cdef size_t held = min(tracks.size, table.count) * sizeof(Track)
    memset(at, 0, table.count * sizeof(Track))
    if held:
        memcpy(at, tracks.items, held)
    return packed


cdef int restore_tracks(Tracks* tracks, const Table* table, int64_t ordinal,
                        bytes packed) except -1:
    """The bytes may have been cut on their way."""
    if not 0 <= ordinal <= MAX_ORDINAL or len(packed) != table.count * sizeof(Track):
        raise CorruptData(f"{len(packed)} bytes are not the tracks of {table.count} keys")
    if tracks_fit(tracks, table) != 0:
        raise MemoryError
    tracks.ordinal = ordinal
    if packed:
        memcpy(tracks.items, PyBytes_AS_STRING(packed), len(packed))
    return 0

"""Tracks as bytes: those of open transactions, and those of a dumped fold.

A track (tracks.pxd) is a C struct. Until its transaction is committed it is a bytes object, which
pickles with the producer. A caller can reach that object, so each use checks its length.
Knows no bytes of a log. Python objects, as transactions are few among millions of records.
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

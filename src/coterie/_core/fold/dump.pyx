"""A partial state as plain values that pickle, and back.

A worker on another machine sends its partial state this way. `restore` takes nothing on trust: the
bytes may have been cut or changed on their way, and a wrong one raises instead of being read.
Cost: a copy of the keys, the values and the metadata.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from coterie._core.checks cimport begin_change, end_use
from coterie._core.fold.commit cimport key_fits
from coterie._core.fold.fold_state cimport FoldState, set_history
from coterie._core.fold.history cimport row_number
from coterie._core.fold.history_dump cimport dump_history, restore_history
from coterie._core.fold.keytable cimport Entry, coterie_keyhash, own_metadata, table_intern
from coterie._core.fold.partial cimport HAS_VALUE, entry_columns
from coterie._core.fold.tracks cimport dump_tracks, restore_tracks

from coterie._core.fold.producers import Producer
from coterie.errors import CorruptData, CoterieError

cdef str IN_USE = "this partial state"


def dump(FoldState fold not None):
    """Return the whole state of a fold as plain values that pickle."""
    producers = {producer_id: (p.first_seq, p.first_committed, p.first_row, p.before, p.pending,
                               p.tracked)
                 for producer_id, p in fold.producers.items()}
    tracks = None
    if fold.tracks != NULL:
        tracks = fold.tracks.ordinal, dump_tracks(fold.tracks, &fold.table), fold.group_records
    return (entry_columns(fold, True), tracks, producers, fold.groups, fold.newer, fold.unknown,
            fold.faults, fold.segments,
            None if fold.history is None else dump_history(fold.history), fold.seq, fold.failed,
            fold.cut, fold.stopped, fold.has_records_of_4x)


def restore(FoldState fold not None, tuple state not None):
    """Fill an empty fold with the values that :func:`dump` returned."""
    begin_change(&fold.users, IN_USE)
    try:
        if fold.table.count:
            raise CoterieError("a partial state can only be restored into an empty fold")
        (columns, tracks, producers, fold.groups, fold.newer, fold.unknown, fold.faults,
         fold.segments, history, fold.seq, fold.failed, fold.cut, fold.stopped,
         fold.has_records_of_4x) = state
        set_history(fold, None if history is None else restore_history(history))
        if (tracks is None) != (fold.tracks == NULL):
            raise CorruptData("a partial state tracks keys and the fold does not, or the reverse")
        enter_columns(fold, columns)
        if tracks is not None:
            ordinal, packed, fold.group_records = tracks
            restore_tracks(fold.tracks, &fold.table, ordinal, packed)
        for producer_id, (first_seq, committed_first, first_row, before, pending,
                          tracked) in producers.items():
            if not 0 <= first_row <= row_number(fold.history):
                raise CorruptData(f"the first marker of producer {producer_id} stands in no row")
            producer = fold.producers[producer_id] = Producer()
            producer.first_seq, producer.first_committed = first_seq, committed_first
            producer.first_row = first_row
            producer.before, producer.pending, producer.tracked = before, pending, tracked
    finally:
        end_use(&fold.users)


cdef int enter_columns(FoldState fold, dict columns) except -1:
    """Fill an empty table; every key, length and place is checked."""
    cdef Entry* entry
    cdef Py_ssize_t i, count
    cdef int64_t key_start = 0, start = 0
    cdef const uint8_t[::1] keys = columns["keys"], metadata = columns["metadata"]
    cdef const int64_t[::1] key_end = columns["key_end"], end = columns["metadata_end"]
    cdef const int64_t[::1] batch_offset = columns["batch_offset"], offset = columns["offset"]
    cdef const int64_t[::1] committed = columns["commit_timestamp"]
    cdef const int64_t[::1] expires = columns["expire_timestamp"]
    cdef const int64_t[::1] base_seq = columns["base_seq"], won_seq = columns["won_seq"]
    cdef const int64_t[::1] removed_at = columns["removed_at"]
    cdef const uint8_t[::1] flag = columns["flags"]
    cdef const int32_t[::1] epoch = columns["leader_epoch"]
    count = key_end.shape[0]
    if not (count == end.shape[0] == batch_offset.shape[0] == offset.shape[0] == committed.shape[0]
            == expires.shape[0] == base_seq.shape[0] == won_seq.shape[0] == flag.shape[0]
            == removed_at.shape[0] == epoch.shape[0]):
        raise CorruptData("the columns of a partial state have different lengths")
    for i in range(count):
        if not (key_fits(&keys[0], key_start, key_end[i], keys.shape[0])
                and start <= end[i] <= min(metadata.shape[0], start + 0x7FFFFFFF)
                and add_key(fold, &keys[key_start], <uint32_t>(key_end[i] - key_start)) == i):
            raise CorruptData(f"key {i} of a partial state's {count} does not fit it")
        entry = &fold.table.entries[i]
        entry.present = (flag[i] & HAS_VALUE) != 0
        entry.base_seq, entry.won_seq = base_seq[i], won_seq[i]
        entry.removed_at = removed_at[i]
        entry.value.batch_offset, entry.value.offset = batch_offset[i], offset[i]
        entry.value.commit_timestamp, entry.value.expire_timestamp = committed[i], expires[i]
        entry.value.leader_epoch = epoch[i]
        entry.value.metadata_size = <int32_t>(end[i] - start)
        if end[i] > start:
            entry.value.metadata = &metadata[start]
            if own_metadata(&fold.table, entry) != 0:
                raise MemoryError
        key_start, start = key_end[i], end[i]
    if key_start != keys.shape[0] or start != metadata.shape[0]:
        raise CorruptData("a partial state has keys or metadata that are of no entry")
    return 0


cdef uint32_t add_key(FoldState fold, const uint8_t* key, uint32_t size) except? 0xFFFFFFFF:
    cdef int64_t index = table_intern(&fold.table, coterie_keyhash(key, size), key, size)
    if index < 0:
        raise MemoryError
    return <uint32_t>index

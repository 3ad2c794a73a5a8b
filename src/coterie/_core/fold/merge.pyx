"""Join two partial states of one log: the fold of a piece, and the fold of the next piece.

Each entry of the later piece is a function of what came before it (see ``keytable.pxd``), so
composing entry by entry gives the fold of both pieces. The later piece's first marker of each
producer decides what the earlier piece left open.
Reads no bytes of a log. Cost: one look-up for each key of the later piece, without the GIL.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from coterie._core.checks cimport begin_change, begin_read, end_use, within
from coterie._core.codec.cursor cimport wrap_add
from coterie._core.fold.fold_state cimport FoldState
from coterie._core.fold.history cimport absorb_history
from coterie._core.fold.keytable cimport (
    Entry, Table, coterie_keyhash, drop_metadata, is_removed, is_visible, own_metadata,
    prefetch_entry, prefetch_slot, remove_plain, set_if_newer, set_value, table_intern)
from coterie._core.fold.producers cimport apply_committed
from coterie._core.fold.tracks cimport (
    Track, Tracks, join_pending, track_merge, track_shifted, tracks_fit)

from coterie._core.fold.producers import Producer

cdef enum:
    AHEAD = 16                   # keys whose slots are prefetched before they are looked up

cdef str IN_USE = "this partial state"


cdef int compose(Table* table, uint32_t index, const Entry* later, int64_t shift) noexcept nogil:
    """Apply `later`, the same key's entry in the next piece, to an entry. -1: no memory."""
    cdef Entry* entry = &table.entries[index]
    if later.base_seq >= 0:
        if later.present:
            set_value(table, entry, &later.value, later.won_seq + shift)
        else:
            remove_plain(table, entry, later.removed_at, 0)
        entry.base_seq = later.base_seq + shift
        entry.removed_at = max(entry.removed_at, later.removed_at)
    elif later.present:
        set_if_newer(table, entry, &later.value, later.won_seq + shift)
    return own_metadata(table, entry)


cdef int compose_all(Table* table, const Table* later, int64_t shift,
                     uint32_t* index_of) noexcept nogil:
    """Apply each entry of `later`. Fill `index_of`, unless it is NULL, with the index that each of
    its keys has in `table`. -1: no memory."""
    cdef const Entry* entry
    cdef const uint8_t* key
    cdef uint64_t hashes[AHEAD]
    cdef uint32_t i, ahead = 0
    cdef int64_t index
    for i in range(later.count):
        while ahead < later.count and ahead < i + AHEAD:
            entry = &later.entries[ahead]
            hashes[ahead % AHEAD] = coterie_keyhash(later.arena + entry.key_at, entry.key_size)
            prefetch_slot(table, hashes[ahead % AHEAD])
            ahead += 1
        if i + AHEAD // 2 < ahead:
            prefetch_entry(table, hashes[(i + AHEAD // 2) % AHEAD])
        entry = &later.entries[i]
        key = later.arena + entry.key_at
        index = table_intern(table, hashes[i % AHEAD], key, entry.key_size)
        if index < 0 or compose(table, <uint32_t>index, entry, shift) != 0:
            return -1
        if index_of != NULL:
            index_of[i] = <uint32_t>index
    return 0


def absorb(FoldState fold not None, FoldState later not None):
    """Add ``later``, the fold of what follows in the log, to ``fold``."""
    begin_change(&fold.users, IN_USE)
    try:
        begin_read(&later.users, IN_USE)       # refuses a fold that absorbs itself, too
        try:
            absorb_state(fold, later)
        finally:
            end_use(&later.users)
    finally:
        end_use(&fold.users)


def settle_removed(FoldState fold not None, bint of_4x):
    """Drop the commits that a tombstone removed (``of_4x``: pending ones, too)."""
    cdef Entry* entry
    cdef uint32_t i
    begin_change(&fold.users, IN_USE)
    try:
        for producer in fold.producers.values():
            producer.pending = {
                index: value for index, value in producer.pending.items()
                if value is None or not is_removed(
                    &fold.table.entries[within(
                        index, "the index of a key", 0, <int64_t>fold.table.count - 1)],
                    value.batch_offset, of_4x)}
        for i in range(fold.table.count):
            entry = &fold.table.entries[i]
            if entry.present and not is_visible(entry, of_4x):
                drop_metadata(&fold.table, entry)
                entry.present = False
            entry.removed_at = -1
    finally:
        end_use(&fold.users)


cdef int absorb_state(FoldState fold, FoldState later) except -1:
    cdef int64_t shift = fold.seq
    cdef uint32_t* index_of = NULL
    cdef int failed
    if fold.failed or fold.cut or fold.stopped:
        return 0
    if later.producers or later.tracks != NULL:      # they refer to keys by index
        index_of = <uint32_t*>malloc((later.table.count + 1) * sizeof(uint32_t))
        if index_of == NULL:
            raise MemoryError
    try:
        with nogil:
            failed = compose_all(&fold.table, &later.table, shift, index_of)
        if failed:
            raise MemoryError
        if fold.tracks != NULL and later.tracks != NULL:
            absorb_tracks(fold, later, index_of)
        absorb_producers(fold, later, shift, index_of)
        if fold.tracks != NULL and later.tracks != NULL:
            fold.tracks.ordinal = wrap_add(fold.tracks.ordinal, later.tracks.ordinal)
            fold.group_records.extend(later.group_records)
    finally:
        free(index_of)
    for group, log in later.groups.items():
        if group in fold.groups:
            fold.groups[group].absorb(log)
        else:
            fold.groups[group] = log.copy()
    fold.newer.update(later.newer)
    for version, count in later.unknown.items():
        fold.unknown[version] = fold.unknown.get(version, 0) + count
    fold.faults.extend(later.faults)
    fold.has_records_of_4x = fold.has_records_of_4x or later.has_records_of_4x
    fold.segments.extend(later.segments)
    fold.seq = shift + later.seq
    fold.failed = later.failed
    fold.cut = later.cut
    fold.stopped = later.stopped
    return 0


cdef int absorb_tracks(FoldState fold, FoldState later,
                       const uint32_t* index_of) except -1:
    cdef const Tracks* theirs = later.tracks
    cdef Track track
    cdef uint32_t i
    if tracks_fit(fold.tracks, &fold.table) != 0:
        raise MemoryError
    for i in range(min(later.table.count, theirs.size)):
        track = track_shifted(&theirs.items[i], fold.tracks.ordinal)
        track_merge(&fold.tracks.items[index_of[i]], &track)
    return 0


cdef int absorb_producers(FoldState fold, FoldState later, int64_t shift,
                          const uint32_t* index_of) except -1:
    cdef list markers = []
    for producer_id, theirs in later.producers.items():
        ours = fold.producers.get(producer_id)
        if ours is None:
            ours = fold.producers[producer_id] = Producer()
        pending = {index_in_fold(later, index_of, index): value
                   for index, value in theirs.pending.items()}
        if theirs.first_seq < 0:
            ours.pending.update(pending)
            absorb_tracked(fold, later, index_of, ours.tracked, theirs.tracked)
            continue
        before = {index_in_fold(later, index_of, index) for index in theirs.before}
        if theirs.first_committed:
            # The later piece's first marker decides what the earlier one left open.
            apply_committed(ours, before, &fold.table, fold.tracks, theirs.first_seq + shift)
        markers.append((theirs.first_seq, producer_id, theirs,
                        ours if ours.first_seq < 0 else None))
        if ours.first_seq < 0:
            ours.first_seq = theirs.first_seq + shift
            ours.first_committed = theirs.first_committed
            ours.before = frozenset(ours.pending) | before
        ours.pending, ours.tracked = pending, {}
        absorb_tracked(fold, later, index_of, ours.tracked, theirs.tracked)
    return absorb_history(fold.history, later.history, markers)


cdef int absorb_tracked(FoldState fold, FoldState later, const uint32_t* index_of,
                        dict ours, object theirs) except -1:
    """Add the tracks of the later piece's open transaction to the tracks of the earlier piece."""
    if fold.tracks != NULL:
        for index, packed in theirs.items():
            join_pending(ours, index_in_fold(later, index_of, index), packed, fold.tracks.ordinal)
    return 0


cdef uint32_t index_in_fold(FoldState later, const uint32_t* index_of, object index) except? 0:
    """The index in the fold of a key of `later`. A caller may have written any number there."""
    return index_of[within(index, "the index of a key", 0, <int64_t>later.table.count - 1)]

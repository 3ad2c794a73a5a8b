"""Partial states put together, taken apart and turned into columns. See ``partial.pyi``.

`absorb` composes two pieces: the later one's entries are functions of what came before (see
``keytable``), and its first marker of each producer decides what the earlier piece left open.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from coterie._core.checks cimport begin_change, begin_read, end_use, within
from coterie._core.codec.cursor cimport load_i32, wrap_add
from coterie._core.fold.commit cimport key_fits
from coterie._core.fold.fold cimport PartitionFold
from coterie._core.fold.history cimport dump_history, follow_on, restore_history, row_number
from coterie._core.fold.keytable cimport (
    Entry, Table, coterie_equal, coterie_keyhash, own_metadata, prefetch_entry, prefetch_slot, put,
    remove_plain, set_if_newer, table_intern)
from coterie._core.fold.producers cimport put_committed
from coterie._core.fold.tracks cimport (
    Track, Tracks, dump_tracks, join_pending, restore_tracks, track_merge, track_shifted,
    tracks_fit)

from coterie._core.codec.text import decode_utf8
from coterie._core.fold.producers import Committed, Producer
from coterie.errors import CorruptData, CoterieError

cdef enum:
    PRESENT = 1
    AHEAD = 16                   # keys whose slots are fetched before they are looked up
    AT_ONCE = 4096               # entries that become Python objects before any is handed out

cdef str IN_USE = "this partial state"

TRACK = ("count", "last", "last_log_offset", "last_timestamp", "last_offset", "last_gone", "before",
         "before_offset", "before_gone", "commit", "commit_offset", "commit_timestamp",
         "expire_timestamp")     # the fields of `Track`, in its order
NUMBERS = ("batch_offset", "offset", "commit_timestamp", "expire_timestamp", "base_seq", "won_seq")


cdef uint32_t find(PartitionFold fold, const uint8_t* key, uint32_t size) except? 0xFFFFFFFF:
    cdef int64_t index = table_intern(&fold.table, coterie_keyhash(key, size), key, size)
    if index < 0:
        raise MemoryError
    return <uint32_t>index


cdef int compose(Table* table, uint32_t index, const Entry* later, int64_t shift) noexcept nogil:
    """Let `later`, the same key of the next piece, follow on an entry. -1: no memory."""
    cdef Entry* entry = &table.entries[index]
    if later.base_seq >= 0:
        if later.present:
            put(table, entry, &later.value, later.won_seq + shift)
        else:
            remove_plain(table, entry, 0)
        entry.base_seq = later.base_seq + shift
    elif later.present:
        set_if_newer(table, entry, &later.value, later.won_seq + shift)
    return own_metadata(table, entry)


cdef int compose_all(Table* table, const Table* later, int64_t shift,
                     uint32_t* index_of) noexcept nogil:
    """Let each key of `later` follow; say where each is, if `index_of` is given. -1: no memory."""
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


def absorb(PartitionFold fold not None, PartitionFold later not None):
    """Let ``later``, scanned from what follows in the log, follow on ``fold``."""
    begin_change(&fold.users, IN_USE)
    try:
        begin_read(&later.users, IN_USE)       # so that none absorbs itself, either
        try:
            follow(fold, later)
        finally:
            end_use(&later.users)
    finally:
        end_use(&fold.users)


cdef int follow(PartitionFold fold, PartitionFold later) except -1:
    cdef int64_t shift = fold.seq
    cdef uint32_t* index_of = NULL
    cdef int failed
    if fold.failed or fold.cut or fold.stopped:
        return 0
    if later.producers or later.tracks != NULL:      # they name keys by number
        index_of = <uint32_t*>malloc((later.table.count + 1) * sizeof(uint32_t))
        if index_of == NULL:
            raise MemoryError
    try:
        with nogil:
            failed = compose_all(&fold.table, &later.table, shift, index_of)
        if failed:
            raise MemoryError
        if fold.tracks != NULL and later.tracks != NULL:
            follow_tracks(fold, later, index_of)
        follow_producers(fold, later, shift, index_of)
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
    fold.segments.extend(later.segments)
    fold.seq = shift + later.seq
    fold.failed = fold.failed or later.failed
    fold.cut = later.cut
    fold.stopped = later.stopped
    return 0


cdef int follow_tracks(PartitionFold fold, PartitionFold later,
                       const uint32_t* index_of) except -1:
    cdef const Tracks* theirs = later.tracks
    cdef Track one
    cdef uint32_t i
    if tracks_fit(fold.tracks, &fold.table) != 0:
        raise MemoryError
    for i in range(min(later.table.count, theirs.size)):
        one = track_shifted(&theirs.items[i], fold.tracks.ordinal)
        track_merge(&fold.tracks.items[index_of[i]], &one)
    return 0


cdef int follow_producers(PartitionFold fold, PartitionFold later, int64_t shift,
                          const uint32_t* index_of) except -1:
    cdef list markers = []
    for producer_id, theirs in later.producers.items():
        ours = fold.producers.get(producer_id)
        if ours is None:
            ours = fold.producers[producer_id] = Producer()
        pending = {place_of(later, index_of, index): value
                   for index, value in theirs.pending.items()}
        if theirs.first_seq < 0:
            ours.pending.update(pending)
            follow_tracked(fold, later, index_of, ours.tracked, theirs.tracked)
            continue
        before = {place_of(later, index_of, index) for index in theirs.before}
        if theirs.first_committed:
            # The later piece's first marker decides what the earlier one left open.
            put_committed(ours, before, &fold.table, fold.tracks, theirs.first_seq + shift)
        markers.append((theirs.first_seq, producer_id, theirs,
                        ours if ours.first_seq < 0 else None))
        if ours.first_seq < 0:
            ours.first_seq = theirs.first_seq + shift
            ours.first_committed = theirs.first_committed
            ours.before = frozenset(ours.pending) | before
        ours.pending, ours.tracked = pending, {}
        follow_tracked(fold, later, index_of, ours.tracked, theirs.tracked)
    return follow_on(fold.history, later.history, markers)


cdef int follow_tracked(PartitionFold fold, PartitionFold later, const uint32_t* index_of,
                        dict ours, object theirs) except -1:
    """What the later piece's records of an open transaction say of keys joins what is there."""
    if fold.tracks != NULL:
        for index, packed in theirs.items():
            join_pending(ours, place_of(later, index_of, index), packed, fold.tracks.ordinal)
    return 0


cdef uint32_t place_of(PartitionFold later, const uint32_t* index_of, object index) except? 0:
    """Where a key of `later` is now; whoever has it may have written other numbers."""
    return index_of[within(index, "the index of a key", 0, <int64_t>later.table.count - 1)]


cdef dict columns_of(PartitionFold fold, bint everything):
    """Arrays over the entries (all, or those with a value), keys and metadata end to end."""
    begin_read(&fold.users, IN_USE)
    try:
        return read_columns(fold, everything)
    finally:
        end_use(&fold.users)


cdef dict read_columns(PartitionFold fold, bint everything):
    import numpy as np     # by whom arrays are asked for: it takes longer to load than a small log
    cdef Table* table = &fold.table
    cdef uint32_t i, n = 0
    cdef uint64_t key_bytes = 0, metadata_bytes = 0
    cdef Entry* entry
    for i in range(table.count):
        entry = &table.entries[i]
        if everything or entry.present:
            n += 1
            key_bytes += entry.key_size
            metadata_bytes += entry.value.metadata_size if entry.present else 0
    numbers = {name: np.empty(n, dtype=np.int64) for name in NUMBERS}
    flags, epochs = np.empty(n, dtype=np.uint8), np.empty(n, dtype=np.int32)
    key_ends, metadata_ends = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    keys = np.empty(key_bytes, dtype=np.uint8)
    metadata = np.empty(metadata_bytes, dtype=np.uint8)
    cdef int64_t[::1] batch_offset = numbers["batch_offset"], offset = numbers["offset"]
    cdef int64_t[::1] committed = numbers["commit_timestamp"]
    cdef int64_t[::1] expires = numbers["expire_timestamp"]
    cdef int64_t[::1] base_seq = numbers["base_seq"], won_seq = numbers["won_seq"]
    cdef uint8_t[::1] flag = flags, key_view = keys, metadata_view = metadata
    cdef int32_t[::1] epoch = epochs
    cdef int64_t[::1] key_end = key_ends, metadata_end = metadata_ends
    cdef uint64_t key_at = 0, metadata_at = 0
    cdef Py_ssize_t row = 0
    for i in range(table.count):
        entry = &table.entries[i]
        if not (everything or entry.present):
            continue
        memcpy(&key_view[key_at], table.arena + entry.key_at, entry.key_size)
        key_at += entry.key_size
        if entry.present and entry.value.metadata_size:
            memcpy(&metadata_view[metadata_at], entry.value.metadata, entry.value.metadata_size)
            metadata_at += entry.value.metadata_size
        flag[row] = PRESENT if entry.present else 0
        base_seq[row], won_seq[row] = entry.base_seq, entry.won_seq
        batch_offset[row], offset[row] = entry.value.batch_offset, entry.value.offset
        committed[row] = entry.value.commit_timestamp
        expires[row] = entry.value.expire_timestamp
        epoch[row] = entry.value.leader_epoch
        key_end[row], metadata_end[row] = key_at, metadata_at
        row += 1
    return {**numbers, "flags": flags, "leader_epoch": epochs, "keys": keys, "key_end": key_ends,
            "metadata": metadata, "metadata_end": metadata_ends}


def offset_columns(PartitionFold fold not None):
    """Give the committed offsets that readers see, in order of first sight of their keys."""
    import numpy as np

    cdef dict columns = columns_of(fold, False)
    cdef const uint8_t[::1] keys = columns.pop("keys")
    cdef const int64_t[::1] ends = columns.pop("key_end")
    cdef Py_ssize_t n = ends.shape[0], i
    cdef int64_t at = 0, group_size, topic_size
    bounds = np.empty((n, 4), dtype=np.int64)
    partitions = np.empty(n, dtype=np.int32)
    cdef int64_t[:, ::1] bound = bounds
    cdef int32_t[::1] partition = partitions
    for i in range(n):
        # Only keys that were parsed, or made, were interned: the lengths fit.
        group_size = keys[at] << 8 | keys[at + 1]
        topic_size = keys[at + 2 + group_size] << 8 | keys[at + 3 + group_size]
        bound[i, 0], bound[i, 1] = at + 2, at + 2 + group_size
        bound[i, 2], bound[i, 3] = at + 4 + group_size, at + 4 + group_size + topic_size
        partition[i] = load_i32(&keys[at + 4 + group_size + topic_size])
        at = ends[i]
    for name in ("base_seq", "won_seq", "flags"):
        del columns[name]
    return {**columns, "keys": np.asarray(keys), "bounds": bounds, "partition": partitions}


def offset_entries(PartitionFold fold not None):
    """Give what :func:`offset_columns` gives, one by one: the key as of :func:`keys`, the value."""
    cdef dict names = {}
    cdef uint32_t first = 0
    while True:                        # the table may grow and move between two runs of entries
        yield from entries_from(fold, first, names)
        first += AT_ONCE
        if first >= fold.table.count:
            return


cdef list entries_from(PartitionFold fold, uint32_t first, dict names):
    """((group, topic, partition), what was committed last) of the next entries that have that."""
    cdef list found = []
    cdef Entry* entry
    cdef uint32_t i
    begin_read(&fold.users, IN_USE)
    try:
        for i in range(first, min(first + AT_ONCE, fold.table.count)):
            entry = &fold.table.entries[i]
            if entry.present:
                found.append((named_key(fold, i, names), Committed(
                    entry.value.batch_offset, entry.value.offset, entry.value.commit_timestamp,
                    entry.value.expire_timestamp, entry.value.leader_epoch,
                    (<const char*>entry.value.metadata)[:entry.value.metadata_size])))
    finally:
        end_use(&fold.users)
    return found


def keys(PartitionFold fold not None):
    """Give (group, topic, partition) of every key, in order of first sight."""
    cdef dict names = {}
    cdef uint32_t i
    begin_read(&fold.users, IN_USE)
    try:
        return [named_key(fold, i, names) for i in range(fold.table.count)]
    finally:
        end_use(&fold.users)


cdef tuple named_key(PartitionFold fold, uint32_t i, dict names):
    """(group, topic, partition); each name is decoded once."""
    cdef const uint8_t* at = fold.table.arena + fold.table.entries[i].key_at
    group = name_at(at, names)
    at += 2 + (at[0] << 8 | at[1])
    topic = name_at(at, names)
    return group, topic, load_i32(at + 2 + (at[0] << 8 | at[1]))


cdef str name_at(const uint8_t* at, dict names):
    """The name that stands behind its length."""
    cdef bytes raw = at[2:2 + (at[0] << 8 | at[1])]
    name = names.get(raw)
    if name is None:
        name = names[raw] = decode_utf8(raw)
    return name


def tracks(PartitionFold fold not None):
    """Give what came last of each key, in log order, and how many commits."""
    import numpy as np

    begin_read(&fold.users, IN_USE)
    try:
        if fold.tracks == NULL:
            raise CoterieError("this partial state tracks no keys")
        packed = dump_tracks(fold.tracks, &fold.table)
    finally:
        end_use(&fold.users)
    return np.frombuffer(packed, dtype=[(name, np.int64) for name in TRACK])


def split_key(bytes key not None):
    """(group, topic, partition) of an offset key as the fold keeps it."""
    group_end = 2 + int.from_bytes(key[:2], "big")
    topic_end = group_end + 2 + int.from_bytes(key[group_end:group_end + 2], "big")
    partition = int.from_bytes(key[topic_end:topic_end + 4], "big", signed=True)
    return key[2:group_end], key[group_end + 2:topic_end], partition


def key_at(PartitionFold fold not None, uint32_t index):
    """Key of an index of ``Producer.pending``."""
    begin_read(&fold.users, IN_USE)
    try:
        if index >= fold.table.count:
            raise IndexError(index)
        return key_bytes(fold, index)
    finally:
        end_use(&fold.users)


cdef bytes key_bytes(PartitionFold fold, uint32_t index):
    cdef Entry* entry = &fold.table.entries[index]
    cdef const uint8_t* start = fold.table.arena + entry.key_at
    return start[:entry.key_size]


def dump(PartitionFold fold not None):
    """Everything the fold knows, as plain values that pickle."""
    producers = {producer_id: (p.first_seq, p.first_committed, p.first_row, p.before, p.pending,
                               p.tracked)
                 for producer_id, p in fold.producers.items()}
    tracks = None
    if fold.tracks != NULL:
        tracks = fold.tracks.ordinal, dump_tracks(fold.tracks, &fold.table), fold.group_records
    return (columns_of(fold, True), tracks, producers, fold.groups, fold.newer, fold.unknown,
            fold.faults, fold.segments,
            None if fold.history is None else dump_history(fold.history), fold.seq, fold.failed,
            fold.cut, fold.stopped)


def restore(PartitionFold fold not None, tuple state not None):
    """Fill an empty fold with what :func:`dump` gave."""
    begin_change(&fold.users, IN_USE)
    try:
        if fold.table.count:
            raise CoterieError("a partial state is restored into an empty one")
        (columns, tracks, producers, fold.groups, fold.newer, fold.unknown, fold.faults,
         fold.segments, history, fold.seq, failed, cut, stopped) = state
        fold.keep_history(None if history is None else restore_history(history))
        fold.failed, fold.cut, fold.stopped = failed, cut, stopped
        enter_columns(fold, columns)
        if (tracks is None) != (fold.tracks == NULL):
            raise CorruptData("a partial state tracks keys as it was not asked to")
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


cdef int enter_columns(PartitionFold fold, dict columns) except -1:
    """Fill an empty table. The bytes may have been cut or changed on their way."""
    cdef Entry* entry
    cdef Py_ssize_t i
    cdef int64_t key_start = 0, start = 0
    cdef const uint8_t[::1] keys = columns["keys"], metadata = columns["metadata"]
    cdef const int64_t[::1] key_end = columns["key_end"], end = columns["metadata_end"]
    cdef const int64_t[::1] batch_offset = columns["batch_offset"], offset = columns["offset"]
    cdef const int64_t[::1] committed = columns["commit_timestamp"]
    cdef const int64_t[::1] expires = columns["expire_timestamp"]
    cdef const int64_t[::1] base_seq = columns["base_seq"], won_seq = columns["won_seq"]
    cdef const uint8_t[::1] flag = columns["flags"]
    cdef const int32_t[::1] epoch = columns["leader_epoch"]
    for i in range(key_end.shape[0]):
        if not (key_fits(&keys[0], key_start, key_end[i], keys.shape[0])
                and start <= end[i] <= min(metadata.shape[0], start + 0x7FFFFFFF)
                and find(fold, &keys[key_start], <uint32_t>(key_end[i] - key_start)) == i):
            raise CorruptData(f"key {i} of a partial state's {key_end.shape[0]} does not fit it")
        entry = &fold.table.entries[i]
        entry.present = (flag[i] & PRESENT) != 0
        entry.base_seq, entry.won_seq = base_seq[i], won_seq[i]
        entry.value.batch_offset, entry.value.offset = batch_offset[i], offset[i]
        entry.value.commit_timestamp, entry.value.expire_timestamp = committed[i], expires[i]
        entry.value.leader_epoch = epoch[i]
        entry.value.metadata_size = <int32_t>(end[i] - start)
        if end[i] > start:
            entry.value.metadata = &metadata[start]
            if own_metadata(&fold.table, entry) != 0:
                raise MemoryError
        key_start, start = key_end[i], end[i]
    return 0


def group_ids(PartitionFold fold not None):
    """Give the groups that have an offset key or metadata, as UTF-8."""
    cdef set groups = set(fold.groups)
    cdef uint32_t i
    cdef const uint8_t* key
    cdef const uint8_t* before = NULL
    cdef int32_t size, size_before = -1
    begin_read(&fold.users, IN_USE)
    try:
        for i in range(fold.table.count):
            key = fold.table.arena + fold.table.entries[i].key_at
            size = key[0] << 8 | key[1]          # as `commit_key` has it
            if size != size_before or not coterie_equal(key, before, size + 2):
                groups.add(key[2:2 + size])
                before, size_before = key, size
    finally:
        end_use(&fold.users)
    return groups

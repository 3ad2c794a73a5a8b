"""Read a partial state: its keys, committed offsets, tracks and groups.

The results are numpy arrays for tables and questions, or Python objects one by one. It changes
nothing. A generator makes its rows in runs, because the table may move between two runs.
Cost: one walk over the entries; names are decoded once each.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from coterie._core.checks cimport begin_read, end_use, within
from coterie._core.codec.cursor cimport load_i32
from coterie._core.fold.fold_state cimport FoldState, follows_4x
from coterie._core.fold.keytable cimport Entry, Table, coterie_equal, is_removed, is_visible
from coterie._core.fold.tracks cimport dump_tracks

from coterie._core.codec.text import decode_utf8
from coterie._core.fold.producers import Committed
from coterie.errors import CoterieError

cdef enum:
    ENTRIES_AT_ONCE = 4096       # that become Python objects before any is handed out

cdef str IN_USE = "this partial state"

TRACK = ("count", "last", "last_log_offset", "last_timestamp", "last_offset", "last_gone", "before",
         "before_offset", "before_gone", "commit", "commit_offset", "commit_timestamp",
         "expire_timestamp")     # the fields of `Track`, in its order
PLACES = ("base_seq", "won_seq", "removed_at")
NUMBERS = ("batch_offset", "offset", "commit_timestamp", "expire_timestamp", *PLACES)


cdef dict entry_columns(FoldState fold, bint all_entries):
    """Arrays over all entries, or over those with a value; keys and metadata stand end to end."""
    begin_read(&fold.users, IN_USE)
    try:
        return read_columns(fold, all_entries)
    finally:
        end_use(&fold.users)


cdef dict read_columns(FoldState fold, bint all_entries):
    import numpy as np     # not at import: loading numpy takes longer than a small log
    cdef Table* table = &fold.table
    cdef uint32_t i, n = 0
    cdef uint64_t key_bytes = 0, metadata_bytes = 0
    cdef Entry* entry
    cdef bint of_4x = follows_4x(fold)
    for i in range(table.count):
        entry = &table.entries[i]
        if all_entries or is_visible(entry, of_4x):
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
    cdef int64_t[::1] removed_at = numbers["removed_at"]
    cdef uint8_t[::1] flag = flags, key_view = keys, metadata_view = metadata
    cdef int32_t[::1] epoch = epochs
    cdef int64_t[::1] key_end = key_ends, metadata_end = metadata_ends
    cdef uint64_t key_at = 0, metadata_at = 0
    cdef Py_ssize_t row = 0
    for i in range(table.count):
        entry = &table.entries[i]
        if not (all_entries or is_visible(entry, of_4x)):
            continue
        memcpy(&key_view[key_at], table.arena + entry.key_at, entry.key_size)
        key_at += entry.key_size
        if entry.present and entry.value.metadata_size:
            memcpy(&metadata_view[metadata_at], entry.value.metadata, entry.value.metadata_size)
            metadata_at += entry.value.metadata_size
        flag[row] = HAS_VALUE if entry.present else 0
        base_seq[row], won_seq[row] = entry.base_seq, entry.won_seq
        removed_at[row] = entry.removed_at
        batch_offset[row], offset[row] = entry.value.batch_offset, entry.value.offset
        committed[row] = entry.value.commit_timestamp
        expires[row] = entry.value.expire_timestamp
        epoch[row] = entry.value.leader_epoch
        key_end[row], metadata_end[row] = key_at, metadata_at
        row += 1
    return {**numbers, "flags": flags, "leader_epoch": epochs, "keys": keys, "key_end": key_ends,
            "metadata": metadata, "metadata_end": metadata_ends}


def offset_columns(FoldState fold not None):
    """Return the committed offsets that readers see, in the order their keys were first seen."""
    import numpy as np

    cdef dict columns = entry_columns(fold, False)
    cdef const uint8_t[::1] keys = columns.pop("keys")
    cdef const int64_t[::1] ends = columns.pop("key_end")
    cdef Py_ssize_t n = ends.shape[0], i
    cdef int64_t at = 0, group_size, topic_size
    bounds = np.empty((n, 4), dtype=np.int64)
    partitions = np.empty(n, dtype=np.int32)
    cdef int64_t[:, ::1] bound = bounds
    cdef int32_t[::1] partition = partitions
    for i in range(n):
        # Every interned key was parsed or built here: the lengths fit.
        group_size = keys[at] << 8 | keys[at + 1]
        topic_size = keys[at + 2 + group_size] << 8 | keys[at + 3 + group_size]
        bound[i, 0], bound[i, 1] = at + 2, at + 2 + group_size
        bound[i, 2], bound[i, 3] = at + 4 + group_size, at + 4 + group_size + topic_size
        partition[i] = load_i32(&keys[at + 4 + group_size + topic_size])
        at = ends[i]
    for name in (*PLACES, "flags"):
        del columns[name]
    return {**columns, "keys": np.asarray(keys), "bounds": bounds, "partition": partitions}


def offset_entries(FoldState fold not None):
    """Yield the rows of :func:`offset_columns`: each key as in :func:`keys`, and its value."""
    cdef dict names = {}
    cdef uint32_t first = 0
    while True:                        # the table may grow and move between two runs
        yield from entries_from(fold, first, names)
        first += ENTRIES_AT_ONCE
        if first >= fold.table.count:
            return


cdef list entries_from(FoldState fold, uint32_t first, dict names):
    """((group, topic, partition), Committed) of the next entries that have a value."""
    cdef list rows = []
    cdef Entry* entry
    cdef uint32_t i
    cdef bint of_4x = follows_4x(fold)
    begin_read(&fold.users, IN_USE)
    try:
        for i in range(first, min(first + ENTRIES_AT_ONCE, fold.table.count)):
            entry = &fold.table.entries[i]
            if is_visible(entry, of_4x):
                rows.append((decoded_key(fold, i, names), Committed(
                    entry.value.batch_offset, entry.value.offset, entry.value.commit_timestamp,
                    entry.value.expire_timestamp, entry.value.leader_epoch,
                    (<const char*>entry.value.metadata)[:entry.value.metadata_size])))
    finally:
        end_use(&fold.users)
    return rows


def keys(FoldState fold not None):
    """Return (group, topic, partition) of every key, in the order they were first seen."""
    cdef dict names = {}
    cdef uint32_t i
    begin_read(&fold.users, IN_USE)
    try:
        return [decoded_key(fold, i, names) for i in range(fold.table.count)]
    finally:
        end_use(&fold.users)


cdef tuple decoded_key(FoldState fold, uint32_t i, dict names):
    """(group, topic, partition); each name is decoded once."""
    cdef const uint8_t* at = fold.table.arena + fold.table.entries[i].key_at
    group = decoded_name(at, names)
    at += 2 + (at[0] << 8 | at[1])
    topic = decoded_name(at, names)
    return group, topic, load_i32(at + 2 + (at[0] << 8 | at[1]))


cdef str decoded_name(const uint8_t* at, dict names):
    """The name that follows its length at `at`."""
    cdef bytes raw = at[2:2 + (at[0] << 8 | at[1])]
    name = names.get(raw)
    if name is None:
        name = names[raw] = decode_utf8(raw)
    return name


def tracks(FoldState fold not None):
    """Return the last records of each key in log order, and its number of commits."""
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
    """Return (group, topic, partition) of an offset key as the fold has it."""
    group_end = 2 + int.from_bytes(key[:2], "big")
    topic_end = group_end + 2 + int.from_bytes(key[group_end:group_end + 2], "big")
    partition = int.from_bytes(key[topic_end:topic_end + 4], "big", signed=True)
    return key[2:group_end], key[group_end + 2:topic_end], partition


def key_at(FoldState fold not None, uint32_t index):
    """Return the key that an index of ``Producer.pending`` stands for."""
    begin_read(&fold.users, IN_USE)
    try:
        if index >= fold.table.count:
            raise IndexError(index)
        return key_bytes(fold, index)
    finally:
        end_use(&fold.users)


cdef bytes key_bytes(FoldState fold, uint32_t index):
    cdef Entry* entry = &fold.table.entries[index]
    cdef const uint8_t* start = fold.table.arena + entry.key_at
    return start[:entry.key_size]


def pending_commits(FoldState fold not None):
    """Return the commits that open transactions hold: producer id, key, value."""
    cdef list rows = []
    cdef dict names = {}
    cdef uint32_t index
    cdef bint of_4x = follows_4x(fold)
    begin_read(&fold.users, IN_USE)
    try:
        for producer_id, producer in fold.producers.items():
            for key, committed in producer.pending.items():
                # A caller may have written any number there.
                index = within(key, "the index of a key", 0, <int64_t>fold.table.count - 1)
                if committed is not None and not is_removed(
                        &fold.table.entries[index], committed.batch_offset, of_4x):
                    rows.append((producer_id, decoded_key(fold, index, names), committed))
    finally:
        end_use(&fold.users)
    return rows


def group_ids(FoldState fold not None):
    """Return the ids of the groups that have an offset key or metadata, as UTF-8."""
    cdef set group_names = set(fold.groups)
    cdef uint32_t i
    cdef const uint8_t* key
    cdef const uint8_t* before = NULL
    cdef int32_t size, size_before = -1
    begin_read(&fold.users, IN_USE)
    try:
        for i in range(fold.table.count):
            key = fold.table.arena + fold.table.entries[i].key_at
            size = key[0] << 8 | key[1]          # layout: see `commit_key`
            if size != size_before or not coterie_equal(key, before, size + 2):
                group_names.add(key[2:2 + size])
                before, size_before = key, size
    finally:
        end_use(&fold.users)
    return group_names

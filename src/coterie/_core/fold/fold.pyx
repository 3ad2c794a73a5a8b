"""The fold of a partition: batches in, the last record of each key out; partial states merge.

A batch takes one of three paths: plain commits are queued and applied together, group metadata is
deferred, everything else goes record by record. A partial state travels as bytes. Merged in order,
the states of a log's pieces equal the fold of the log.
Source: GroupMetadataManager.scala (doLoadGroupsAndOffsets).
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from coterie._core.checks cimport (
    begin_change, begin_read, buffer_of, end_use, int64_of, text_of, within)
from coterie._core.codec.batch cimport (
    FAULT_CRC, FAULT_KEY, FAULT_MARKER, FAULT_VALUE, FRAME_BATCH, FRAME_END, FRAME_MAGIC,
    MARKER_ABORT, MARKER_COMMIT, MIN_RECORD_V2, NO_FAULT, Batch, Frame, Record, crc_holds,
    frame_as_loader, frame_batch, frame_to_fault, in_time, read_marker, unread_magic_holds)
from coterie._core.codec.batch import FRAME_DETAIL
from coterie._core.codec.cursor cimport MAX_TEXT, load_i16, load_i32, wrap_add
from coterie._core.codec.layout import decode_utf8
from coterie._core.codec.schema import decode_key, decode_value
from coterie._core.fold.commit cimport (
    Commit, Stamp, Track, Tracks, canonical, commit_key, detail_of, dump_tracks, enter_topic_ids,
    group_id_of, is_of_4x, join_pending, key_fits, names_as_bytes, record_of, restore_tracks,
    topic_id_bytes, track_key, track_merge, track_shifted, tracks_fit)
from coterie._core.fold.commit_queue cimport (
    FULL, buffer_parsed, queue_apply, queue_batch, queue_clear, queue_reserve, to_value)
from coterie._core.fold.deferred_groups cimport MAX_DEFERRED, deferred_put, only_group_metadata
from coterie._core.fold.fold_state cimport (
    ALL_MATCH, LOAD, NONE_MATCH, RECOVER, BatchMatch, FoldState, add_fault, add_pending_commit,
    apply_committed, count_faults, end_transaction, excludes, follows_4x, match_batch,
    producer_of, set_history)
from coterie._core.fold.fold_state import Committed, Producer, Scanned
from coterie._core.fold.history cimport (
    GroupView, absorb_history, add_generation, add_pending, begin_fold_change, dump_history,
    end_fold_change, restore_history, row_number)
from coterie._core.fold.history import GroupLog
from coterie._core.fold.keytable cimport (
    Entry, Table, Value, coterie_equal, coterie_keyhash, drop_metadata, is_removed, is_visible,
    number_topic_id, own_all, own_metadata, prefetch_entry, prefetch_slot, remove_plain,
    set_if_newer, set_plain, set_value, table_intern, topic_id_at)
from coterie._core.fold.names cimport names_forget
from coterie._core.fold.record_kind cimport (
    ANOTHER_GROUP, FAULTY, GROUP, NEWER, NON_ASCII_COMMIT, PLAIN_COMMIT, TOO_LATE, UNKNOWN,
    ParsedRecord, classify, parsed_reserve)

from coterie.errors import CorruptData, CoterieError


# ---- the records of a batch applied to the state of a fold, in log order -------------------------
# `apply_batch` and `apply_marker` apply records that a scan has read from bytes. `take` applies
# records that come as Python objects, from a coordinator's own appends or from rows of Spark's
# Kafka source: it lays them out as a batch that was read, so one code changes the state. Knows
# keys, values and transactions; knows no framing and no checksums. Runs of plain commits need no
# GIL. Group metadata, transactions and faults make Python objects.
# Source: GroupMetadataManager.doLoadGroupsAndOffsets. Rules: docs/rules/offsets.md#load.

cdef enum:
    RECORDS_WITH_GIL = 16        # a batch of no more than these is not worth releasing the GIL


cdef int apply_batch(FoldState fold, const Batch* batch) except -1:
    """Apply every record of a data batch, in order."""
    cdef Py_ssize_t i = 0, count = fold.records.count
    cdef int64_t batch_offset = fold.records.items[0].offset
    cdef bint plain = not batch.transactional
    if parsed_reserve(&fold.parsed, count) != 0:
        raise MemoryError
    if plain and count > RECORDS_WITH_GIL:
        with nogil:
            classify_all(fold, count)
            i = apply_plain_commits(fold, i, count, batch_offset)
    else:
        classify_all(fold, count)
        if batch.transactional and fold.survey is not None:
            fold.survey.add_open(batch.producer_id, fold.parsed.items, count,
                                 fold.number - count)
    while 0 <= i < count and not (fold.failed or fold.stopped):
        if plain and fold.parsed.items[i].kind == PLAIN_COMMIT:
            i = apply_plain_commits(fold, i, count, batch_offset)
            continue
        if fold.parsed.items[i].kind < TOO_LATE:
            apply_other(fold, batch, &fold.records.items[i], &fold.parsed.items[i], batch_offset)
        i += 1
    if i < 0:
        raise MemoryError
    return 0


cdef void classify_all(FoldState fold, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        if is_of_4x(&fold.records.items[i]):
            fold.has_records_of_4x = True
        classify(&fold.records.items[i], fold.until_ms, &fold.parsed.items[i])
        if fold.filters and excludes(
                &fold.group_filter, &fold.records.items[i], &fold.parsed.items[i]):
            fold.parsed.items[i].kind = ANOTHER_GROUP
        if fold.parsed.items[i].kind == PLAIN_COMMIT:
            prefetch_slot(&fold.table, fold.parsed.items[i].hash)
    for i in range(count):
        if fold.parsed.items[i].kind == PLAIN_COMMIT:
            prefetch_entry(&fold.table, fold.parsed.items[i].hash)


cdef Py_ssize_t apply_plain_commits(FoldState fold, Py_ssize_t i, Py_ssize_t count,
                                    int64_t batch_offset) noexcept nogil:
    """Apply plain commits from the record `i` on. Return the index of the first other record, or
    -1: no memory."""
    while i < count and fold.parsed.items[i].kind == PLAIN_COMMIT:
        if fold.buffer != NULL and not buffer_parsed(
                fold.buffer, &fold.records.items[i], &fold.parsed.items[i].commit):
            return -1
        if apply_plain(fold, &fold.records.items[i], &fold.parsed.items[i], batch_offset) != 0:
            return -1
        i += 1
    return i


cdef int apply_plain(FoldState fold, const Record* record, ParsedRecord* parsed,
                     int64_t batch_offset) noexcept nogil:
    """Apply a commit or tombstone outside of transactions. -1: no memory."""
    cdef Commit* commit = &parsed.commit
    cdef Entry* entry
    cdef Value value
    cdef Stamp stamp
    cdef int64_t index = table_intern(&fold.table, parsed.hash, commit.key, commit.key_size)
    if index < 0:
        return -1
    entry = &fold.table.entries[index]
    to_value(commit, batch_offset, &value)
    if not commit.tombstone and number_topic_id(&fold.table, commit.topic_id, &value) != 0:
        return -1
    stamp.log_offset, stamp.timestamp = record.offset, record.timestamp
    if fold.tracks != NULL and track_key(
            fold.tracks, &fold.table, index, &stamp, NULL if commit.tombstone else &value):
        return -1
    if commit.tombstone:
        remove_plain(&fold.table, entry, batch_offset, fold.seq)
        return 0
    set_plain(&fold.table, entry, &value, fold.seq)
    return own_metadata(&fold.table, entry) if fold.records.decompressed else 0


cdef int apply_other(FoldState fold, const Batch* batch, Record* record, ParsedRecord* parsed,
                     int64_t batch_offset) except -1:
    """Apply a record other than a plain commit, or a commit of a transaction."""
    cdef bytes group, topic
    cdef Commit* commit = &parsed.commit
    if parsed.kind == FAULTY:
        return add_fault(fold, parsed.fault, batch, record.offset, detail_of(record))
    if parsed.kind == GROUP:
        return apply_group(fold, batch, record)
    if parsed.kind == NEWER:
        return apply_newer(fold, batch, record)
    if parsed.kind == UNKNOWN:
        fold.unknown[parsed.version] = fold.unknown.get(parsed.version, 0) + 1
        return 0
    group = canonical(commit.group[:commit.group_size])
    if fold.only is not None and group not in fold.only:
        return 0
    if parsed.kind == NON_ASCII_COMMIT:
        topic = canonical(commit.topic[:commit.topic_size])
        key = commit_key(group, topic, commit.partition)
        commit.key = key
        commit.key_size = <int32_t>len(key)
        parsed.hash = coterie_keyhash(commit.key, commit.key_size)
    if batch.transactional:
        return apply_pending(fold, batch, record, parsed, batch_offset)
    if fold.buffer != NULL and not buffer_parsed(fold.buffer, record, commit):
        raise MemoryError
    if apply_plain(fold, record, parsed, batch_offset) != 0:
        raise MemoryError
    return 0


cdef int apply_pending(FoldState fold, const Batch* batch, const Record* record,
                       ParsedRecord* parsed, int64_t batch_offset) except -1:
    """Store a commit of a transaction until the producer's marker."""
    cdef Commit* commit = &parsed.commit
    cdef Value value
    cdef int64_t index = table_intern(&fold.table, parsed.hash, commit.key, commit.key_size)
    if index < 0:
        raise MemoryError
    to_value(commit, batch_offset, &value)
    add_pending(fold.history, batch.producer_id, record, commit.key, commit.key_size,
                NULL if commit.tombstone else &value, commit.topic_id)
    return add_pending_commit(producer_of(fold.producers, batch.producer_id), index,
                              NULL if commit.tombstone else &value, commit.topic_id, record,
                              fold.tracks)


cdef int apply_marker(FoldState fold, const Batch* batch) except -1:
    """End a transaction: COMMIT applies the pending commits, ABORT drops them."""
    cdef Record* record = &fold.records.items[0]
    cdef int kind = -1
    if not in_time(record, fold.until_ms):
        return 0
    if read_marker(record, &kind) != NO_FAULT or (
            kind != MARKER_COMMIT and kind != MARKER_ABORT):
        return add_fault(fold, FAULT_MARKER, batch, None,
                         f"a control batch of type {kind}, neither ABORT nor COMMIT")
    end_transaction(fold.producers, batch.producer_id, kind == MARKER_COMMIT, &fold.table,
                    fold.tracks, fold.history, fold.seq)
    if fold.survey is not None:
        fold.survey.add_end(batch.producer_id, kind, fold.number - fold.records.count,
                            record.timestamp)
    return 0


cdef int apply_group(FoldState fold, const Batch* batch, Record* record) except -1:
    """Apply group metadata or its tombstone."""
    cdef GroupView view
    cdef bytes group = group_id_of(record)
    if group is None:
        return add_fault(fold, FAULT_KEY, batch, record.offset, "a group key cut short")
    try:
        view = GroupView(None if record.value_size < 0 else record.value[:record.value_size])
    except CorruptData:
        return add_fault(fold, FAULT_VALUE, batch, record.offset, detail_of(record))
    if fold.only is not None and group not in fold.only:
        return 0
    add_group_record(fold, batch, record, group)
    log = fold.groups.get(group)
    if log is None:
        log = fold.groups[group] = GroupLog()
    return add_generation(log, record.offset, record.timestamp, view)


cdef int apply_newer(FoldState fold, const Batch* batch, Record* record) except -1:
    """Apply a record of key versions 3 to 23. The classic loader skips them; otherwise the last
    value of each key is stored."""
    cdef bytes key, value, group
    if fold.on_fault == LOAD or fold.on_fault == RECOVER:
        version = load_i16(record.key)
        fold.unknown[version] = fold.unknown.get(version, 0) + 1
        return 0
    key, value = record_of(record)[3:]
    group = group_id_of(record)
    if group is not None and (fold.only is None or group in fold.only):
        add_group_record(fold, batch, record, group)
    try:
        decode_key(key)
    except CorruptData as error:
        return add_fault(fold, FAULT_KEY, batch, record.offset, str(error))
    if fold.only is not None and group not in fold.only:
        return 0
    if value is not None:
        try:
            decode_value(load_i16(record.key), value)
        except CorruptData as error:
            return add_fault(fold, FAULT_VALUE, batch, record.offset, str(error))
    fold.newer[key] = (value, record.offset, record.timestamp)
    return 0


cdef int add_group_record(FoldState fold, const Batch* batch, const Record* record,
                          bytes group) except -1:
    """Collect a group's record other than a commit, if the fold has that option."""
    if fold.group_records is not None:
        fold.group_records.append(
            (group, *record_of(record), fold.file, fold.base_position + batch.position))
    return 0


def take(FoldState fold not None, records not None, *, int64_t producer_id=-1,
         bint transactional=False, bint control=False):
    """Apply one batch of decoded records as :meth:`PartitionFold.scan` applies an encoded one."""
    cdef tuple rows = tuple(records)         # keeps alive the bytes that `fold.records` point into
    begin_fold_change(&fold.users, fold.history)
    try:
        apply_rows(fold, rows, producer_id, transactional, control)
    finally:
        end_fold_change(&fold.users, fold.history)


cdef int apply_rows(FoldState fold, tuple rows, int64_t producer_id, bint transactional,
                    bint control) except -1:
    cdef Batch batch
    if fold.failed or fold.cut or fold.stopped:
        return 0
    if not rows:                             # a batch that compaction emptied
        fold.seq += 1
        return 0
    memset(&batch, 0, sizeof(Batch))
    batch.producer_id = producer_id
    batch.base_offset = rows[0][0]
    batch.transactional, batch.control = transactional, control
    lay_out(fold, rows)
    try:
        if control:
            apply_marker(fold, &batch)
        else:
            apply_batch(fold, &batch)
    finally:
        fold.seq += 1
    return 0


cdef int lay_out(FoldState fold, tuple rows) except -1:
    """Lay rows out in `fold.records`, which borrow their bytes."""
    cdef Py_ssize_t i = 0
    cdef Record* item
    cdef bytes key, value
    fold.records.reserve(len(rows))
    for row in rows:
        offset, timestamp, key, value = <tuple?>row    # a row of another type may not own its bytes
        item = &fold.records.items[i]
        memset(item, 0, sizeof(Record))
        item.offset, item.timestamp = offset, timestamp
        item.key_size = item.value_size = -1
        if key is not None:
            item.key, item.key_size = key, len(key)
        if value is not None:
            item.value, item.value_size = value, len(value)
        i += 1
    fold.records.count = i
    fold.records.decompressed = True         # so what is borrowed is copied: `rows` may be freed
    return 0


# ---- read a partial state: its keys, committed offsets, tracks and groups ------------------------
# The results are numpy arrays for tables and questions, or Python objects one by one. It changes
# nothing. A generator makes its rows in runs, because the table may move between two runs.
# Cost: one walk over the entries; names are decoded once each.

cdef enum:
    ENTRIES_AT_ONCE = 4096       # that become Python objects before any is handed out

cdef str IN_USE = "this partial state"

TRACK = ("count", "last", "last_log_offset", "commit", "commit_timestamp")  # `Track`, in its order
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
    ids = np.empty(n, dtype=np.uint32)
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
    cdef uint32_t[::1] topic_id = ids
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
        epoch[row], topic_id[row] = entry.value.leader_epoch, entry.value.topic_id
        key_end[row], metadata_end[row] = key_at, metadata_at
        row += 1
    return {**numbers, "flags": flags, "leader_epoch": epochs, "topic_id": ids,
            "topic_ids": names_as_bytes(table.topic_ids)[0], "keys": keys, "key_end": key_ends,
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
                    (<const char*>entry.value.metadata)[:entry.value.metadata_size],
                    topic_id_bytes(topic_id_at(&fold.topic_ids, entry.value.topic_id)))))
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


# ---- A partial state as plain values that pickle, and back ---------------------------------------
# A worker on another machine sends its partial state this way. `restore` takes nothing on trust:
# the bytes may have been cut or changed on their way, and a wrong one raises instead of being read.
# Cost: a copy of the keys, the values and the metadata.

def dump(FoldState fold not None):
    """Return the whole state of a fold as plain values that pickle."""
    producers = {producer_id: (p.first_seq, p.first_committed, p.first_row, p.before, p.pending,
                               p.tracked)
                 for producer_id, p in fold.producers.items()}
    tracks = None
    if fold.tracks != NULL:
        tracks = fold.tracks.ordinal, dump_tracks(fold.tracks, &fold.table), fold.group_records
    return (entry_columns(fold, True), tracks, producers, fold.groups, fold.newer, fold.unknown,
            (fold.faults, fold.more_faults), fold.segments,
            None if fold.history is None else dump_history(fold.history), fold.seq, fold.failed,
            fold.cut, fold.stopped, fold.has_records_of_4x)


def restore(FoldState fold not None, tuple state not None):
    """Fill an empty fold with the values that :func:`dump` returned."""
    begin_change(&fold.users, IN_USE)
    try:
        if fold.table.count:
            raise CoterieError("a partial state can only be restored into an empty fold")
        (columns, tracks, producers, fold.groups, fold.newer, fold.unknown,
         (fold.faults, fold.more_faults), fold.segments, history, fold.seq, fold.failed, fold.cut,
         fold.stopped, fold.has_records_of_4x) = state
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
    cdef const uint32_t[::1] topic_id = columns["topic_id"]
    count = key_end.shape[0]
    if not (count == end.shape[0] == batch_offset.shape[0] == offset.shape[0] == committed.shape[0]
            == expires.shape[0] == base_seq.shape[0] == won_seq.shape[0] == flag.shape[0]
            == removed_at.shape[0] == epoch.shape[0] == topic_id.shape[0]):
        raise CorruptData("the columns of a partial state have different lengths")
    enter_topic_ids(&fold.topic_ids, columns["topic_ids"])
    for i in range(count):
        if not (key_fits(&keys[0], key_start, key_end[i], keys.shape[0])
                and start <= end[i] <= min(metadata.shape[0], start + MAX_TEXT)
                and topic_id[i] <= fold.topic_ids.count
                and add_key(fold, &keys[key_start], <uint32_t>(key_end[i] - key_start)) == i):
            raise CorruptData(f"key {i} of a partial state's {count} does not fit it")
        entry = &fold.table.entries[i]
        entry.present = (flag[i] & HAS_VALUE) != 0
        entry.base_seq, entry.won_seq = base_seq[i], won_seq[i]
        entry.removed_at = removed_at[i]
        entry.value.batch_offset, entry.value.offset = batch_offset[i], offset[i]
        entry.value.commit_timestamp, entry.value.expire_timestamp = committed[i], expires[i]
        entry.value.leader_epoch, entry.value.topic_id = epoch[i], topic_id[i]
        entry.value.metadata_size = <uint16_t>(end[i] - start)
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


# ---- join two partial states of one log: the fold of a piece, and the fold of the next piece -----
# Each entry of the later piece is a function of what came before it (see ``keytable.pxd``), so
# composing entry by entry gives the fold of both pieces. The later piece's first marker of each
# producer decides what the earlier piece left open.
# Reads no bytes of a log. Cost: one look-up for each key of the later piece, without the GIL.

cdef enum:
    AHEAD = 16                   # keys whose slots are prefetched before they are looked up


cdef int compose(Table* table, uint32_t index, const Table* of, const Entry* later,
                 int64_t shift) noexcept nogil:
    """Apply `later`, the same key's entry in the next piece `of`, to an entry. -1: no memory."""
    cdef Entry* entry = &table.entries[index]
    cdef Value value = later.value
    if number_topic_id(table, topic_id_at(of.topic_ids, value.topic_id), &value) != 0:
        return -1
    if later.base_seq >= 0:
        if later.present:
            set_value(table, entry, &value, later.won_seq + shift)
        else:
            remove_plain(table, entry, later.removed_at, 0)
            if later.won_seq >= 0:
                entry.value.commit_timestamp = value.commit_timestamp
                entry.won_seq = later.won_seq + shift
        entry.base_seq = later.base_seq + shift
        entry.removed_at = max(entry.removed_at, later.removed_at)
    elif later.present:
        set_if_newer(table, entry, &value, later.won_seq + shift)
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
        if index < 0 or compose(table, <uint32_t>index, later, entry, shift) != 0:
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
    absorb_faults(fold, later)
    fold.has_records_of_4x = fold.has_records_of_4x or later.has_records_of_4x
    fold.segments.extend(later.segments)
    fold.seq = shift + later.seq
    fold.failed = later.failed
    fold.cut = later.cut
    fold.stopped = later.stopped
    return 0


cdef int absorb_faults(FoldState fold, FoldState later) except -1:
    """Add the faults of a later state: the first ones as they are, the others to the counts."""
    cdef Py_ssize_t left = max(fold.faults_max - len(fold.faults), 0)
    fold.faults.extend(later.faults[:left])
    for fault in later.faults[left:]:
        count_faults(fold, fault.kind, 1)
    for kind, count in later.more_faults.items():
        count_faults(fold, kind, count)
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


# ---- the bytes of one log partition folded into the last state of each key -----------------------
# Frames batches, checks them and decides how each is read. Plain commits, which are nearly all
# records, are parsed and hashed without the GIL and queued (`commit_queue.pxd`) while their table
# entries come from memory. Batches of group metadata alone are deferred (`deferred_groups.pxd`).
# Everything else (transactions, faults, compressed and old batches) is read into `Records` and
# applied by `apply_records`, in log order with the rest.
# Reads no file and no clock. Cost: one pass over the bytes for the checksum, one for the records.
# Source: GroupMetadataManager.doLoadGroupsAndOffsets, LogSegment.recover.
# Rules: docs/rules/offsets.md#load.

cdef int64_t MAX_POSITION = <int64_t>1 << 62    # in a file; a piece's own may be added to it

cdef enum:
    BATCHES_WITH_GIL = 2         # plain ones before the GIL is released: other batches come in runs

cdef enum LoopEnd:               # why the loop over plain batches ended
    TAKEN = 0                    # the batch was taken; of the loop: as many as were requested
    PIECE_END = 1
    OTHER_BATCH = 2              # a batch that is not plain, or bytes that are no batch
    BAD_CHECKSUM = 3
    MANY_DEFERRED = 4            # the batch was taken; too many batches are deferred now
    OUT_OF_MEMORY = 5


@cython.final
cdef class PartitionFold(FoldState):
    """The latest state of each key in a partition of ``__consumer_offsets`` or a piece."""
    cdef int64_t batch_count, record_count           # of the piece at hand, like what follows
    cdef int64_t first_offset, last_offset, max_timestamp, first_timestamp
    cdef bint gap
    cdef bint takes_plain                # a plain batch may be read without looking at each time

    def scan(self, data, *, file="", position=0, expected_offset=-1, max_bytes=None):
        """Apply whole batches that follow the ones scanned before; return the bytes taken."""
        cdef const uint8_t[::1] view = buffer_of(data, "data")
        cdef str name = text_of(file, "file")
        cdef int64_t start = within(position, "position", 0, MAX_POSITION)
        cdef int64_t expected = int64_of(expected_offset, "expected_offset")
        cdef int64_t limit = within(
            MAX_POSITION if max_bytes is None else max_bytes, "max_bytes", 1, MAX_POSITION)
        begin_fold_change(&self.users, self.history)
        try:
            return self.scan_piece(view, limit, name, start, expected)
        finally:
            end_fold_change(&self.users, self.history)

    cdef int64_t scan_piece(self, const uint8_t[::1] data, int64_t limit, str file,
                            int64_t position, int64_t expected_offset) except -1:
        cdef int64_t taken = data.shape[0]
        if self.failed or self.cut or self.stopped:
            return taken
        self.file, self.base_position, self.expected_offset = file, position, expected_offset
        self.batch_count = self.record_count = self.gap = 0
        self.first_offset = self.last_offset = self.max_timestamp = self.first_timestamp = -1
        if self.survey is not None:
            self.survey.begin_piece()
        try:
            if taken:
                taken = self.run(&data[0], taken, min(taken, limit))
        finally:
            self.copy_borrowed()
        self.segments.append(Scanned(
            file, position, taken, self.batch_count, self.record_count, self.first_offset,
            self.last_offset, self.max_timestamp, bool(self.gap), self.first_timestamp))
        return data.shape[0] if self.failed or self.cut or self.stopped else taken

    cdef int copy_borrowed(self) except -1:
        """Copy the borrowed names and metadata: the piece's bytes may be freed after this."""
        cdef int missing
        with nogil:
            missing = own_all(&self.table)
        if missing:
            raise MemoryError
        if self.buffer != NULL:
            names_forget(&self.buffer.names)
        return 0

    cdef int64_t run(self, const uint8_t* data, int64_t size, int64_t limit) except -1:
        """Take batches up to `limit`, the last one whole, or to the end; return their bytes."""
        cdef Batch batch
        cdef Frame frame = FRAME_END
        cdef LoopEnd end
        cdef int64_t at = 0
        queue_clear(&self.queue)
        self.deferred.count = 0
        self.takes_plain = self.until_ms >= -1
        while at < limit and not (self.failed or self.cut or self.stopped):
            end = self.run_plain(data, size, limit, BATCHES_WITH_GIL, &at, &frame, &batch)
            if end == TAKEN:
                with nogil:
                    end = self.run_plain(data, size, limit, size, &at, &frame, &batch)
            if end == OUT_OF_MEMORY:
                raise MemoryError
            self.apply_deferred()
            if end == PIECE_END:
                break
            if end == TAKEN or end == MANY_DEFERRED:
                continue
            if self.on_fault == RECOVER and (
                    end == BAD_CHECKSUM or self.recovery_cuts(frame, &batch)):
                self.cut = True
                self.add_frame_fault(frame, &batch)
            elif frame == FRAME_END:
                break
            elif frame != FRAME_BATCH:
                self.add_frame_fault(frame, &batch)
            elif end == BAD_CHECKSUM:
                add_fault(self, FAULT_CRC, &batch, None,
                          f"the stored checksum {batch.crc} does not hold")
            else:
                self.apply_queue()
                self.take_batch(&batch)
            self.seq += 1
        self.apply_queue()
        return at

    cdef LoopEnd run_plain(self, const uint8_t* data, int64_t size, int64_t limit,
                           int64_t max_batches, int64_t* at, Frame* frame,
                           Batch* batch) noexcept nogil:
        """Take plain batches, at most `max_batches`. If the end is neither TAKEN nor PIECE_END,
        `frame` and `batch` describe what ended the loop."""
        cdef LoopEnd end
        while at[0] < limit:
            if max_batches == 0:
                return TAKEN
            frame[0] = (frame_as_loader(data, size, at[0], batch) if self.on_fault == LOAD
                        else frame_batch(data, size, at[0], batch))
            at[0] += batch.size
            if frame[0] != FRAME_BATCH:
                return OTHER_BATCH
            if self.on_fault != LOAD and not crc_holds(batch):
                return BAD_CHECKSUM
            end = self.take_plain(batch)
            if end == TAKEN or end == MANY_DEFERRED:
                self.seq += 1
            if end != TAKEN:
                return end
            max_batches -= 1
        return PIECE_END

    cdef LoopEnd take_plain(self, const Batch* batch) noexcept nogil:
        """Queue a batch of plain commits alone, or defer one of group metadata alone.

        OTHER_BATCH: it is neither, or has a fault, and no record was taken.
        """
        cdef int32_t count = batch.record_count
        cdef BatchMatch match
        if (batch.magic != 2 or batch.codec != 0 or batch.control
                or count < 1 or count > batch.size // MIN_RECORD_V2 or not self.takes_plain):
            return OTHER_BATCH
        match = ALL_MATCH
        if self.filters:
            match = match_batch(&self.group_filter, batch, self.until_ms, &self.has_records_of_4x)
        if match == NONE_MATCH and not (batch.transactional and self.survey is not None):
            self.count_batch(batch, batch.base_offset, count)
            return TAKEN
        if match != ALL_MATCH or batch.transactional:
            return OTHER_BATCH
        if queue_reserve(&self.queue, count) != 0:
            return OUT_OF_MEMORY
        if queue_batch(&self.queue, &self.table, &self.place_cache, self.buffer, self.tracks, batch,
                       self.until_ms, self.seq, &self.has_records_of_4x):
            self.count_batch(batch, batch.base_offset, count)
            if self.queue.count < FULL or not queue_apply(
                    &self.queue, &self.table, &self.place_cache, self.tracks):
                return TAKEN
        elif not only_group_metadata(batch):
            return OTHER_BATCH
        elif deferred_put(&self.deferred, batch) == 0:
            self.count_batch(batch, batch.base_offset, count)
            return TAKEN if self.deferred.count < MAX_DEFERRED else MANY_DEFERRED
        return OUT_OF_MEMORY

    cdef int apply_deferred(self) except -1:
        """Apply the deferred group metadata. Any other group record must come after it."""
        cdef int32_t i
        for i in range(self.deferred.count):
            if self.records.read(&self.deferred.items[i]) == NO_FAULT:
                apply_batch(self, &self.deferred.items[i])   # of no transaction: needs no number
        self.deferred.count = 0
        return 0

    cdef int apply_queue(self) except -1:
        """Apply the queued commits. Any other change of the table must come after them."""
        if self.queue.count and queue_apply(
                &self.queue, &self.table, &self.place_cache, self.tracks) != 0:
            raise MemoryError
        return 0

    cdef bint recovery_cuts(self, int frame, const Batch* batch) except -1:
        """LogSegment.recover: it checks lengths and checksums, and never the magic."""
        if frame == FRAME_BATCH:
            return False                       # `run_plain` has checked its checksum
        if frame == FRAME_MAGIC:
            return not unread_magic_holds(batch)
        return frame != FRAME_END

    cdef int add_frame_fault(self, int frame, const Batch* batch) except -1:
        return add_fault(self, frame_to_fault(frame), batch, None, FRAME_DETAIL[frame])

    cdef int take_batch(self, const Batch* batch) except -1:
        """Read a batch that is not plain, and apply its records."""
        cdef int fault = self.records.read(batch)
        cdef int64_t first = batch.base_offset
        if fault != NO_FAULT:
            return add_fault(self, fault, batch, None, self.records.detail)
        if batch.magic < 2 and self.records.count:
            first = self.records.items[0].offset
        self.count_batch(batch, first, self.records.count)
        if batch.control:
            return apply_marker(self, batch) if self.records.count else 0
        return apply_batch(self, batch) if self.records.count else 0

    cdef void count_batch(self, const Batch* batch, int64_t first, Py_ssize_t count) noexcept nogil:
        """Add a readable batch to the piece's summary, and look for missing offsets."""
        cdef int64_t last = batch.base_offset
        if batch.magic == 2:
            last = wrap_add(last, batch.last_offset_delta)
        self.batch_count += 1
        self.record_count += count
        self.number += count
        if self.batch_count == 1:
            self.first_offset = first
            self.first_timestamp = batch.max_timestamp
        if 0 <= self.expected_offset < first or (
                batch.magic == 2 and count <= batch.last_offset_delta):
            self.gap = True
        self.last_offset = last
        self.expected_offset = wrap_add(last, 1)
        if batch.max_timestamp > self.max_timestamp:
            self.max_timestamp = batch.max_timestamp

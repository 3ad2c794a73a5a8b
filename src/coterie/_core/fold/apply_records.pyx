"""The records of a batch applied to the state of a fold, in log order.

`apply_batch` and `apply_marker` apply records that a scan has read from bytes. `take` applies
records that come as Python objects, from a coordinator's own appends or from rows of Spark's Kafka
source: it lays them out as a batch that was read, so one code changes the state.
Knows keys, values and transactions; knows no framing and no checksums. Runs of plain commits need
no GIL. Group metadata, transactions and faults make Python objects.
Source: GroupMetadataManager.doLoadGroupsAndOffsets. Rules: docs/rules/offsets.md#load.
"""
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from coterie._core.codec.batch cimport (
    FAULT_KEY, FAULT_MARKER, FAULT_VALUE, MARKER_ABORT, MARKER_COMMIT, NO_FAULT, Batch, Record,
    in_time, read_marker)
from coterie._core.codec.cursor cimport load_i16
from coterie._core.fold.commit cimport (
    Commit, canonical, commit_key, detail_of, group_id_of, is_of_4x, record_of)
from coterie._core.fold.commit_queue cimport buffer_parsed, to_value
from coterie._core.fold.fold_state cimport LOAD, RECOVER, FoldState, add_fault
from coterie._core.fold.generations cimport GroupView, add_generation
from coterie._core.fold.group_filter cimport excludes
from coterie._core.fold.history cimport add_pending, begin_fold_change, end_fold_change
from coterie._core.fold.keytable cimport (
    Entry, Value, coterie_keyhash, own_metadata, prefetch_entry, prefetch_slot, remove_plain,
    set_plain, table_intern)
from coterie._core.fold.producers cimport add_pending_commit, end_transaction, producer_of
from coterie._core.fold.record_kind cimport (
    ANOTHER_GROUP, FAULTY, GROUP, NEWER, NON_ASCII_COMMIT, PLAIN_COMMIT, TOO_LATE, UNKNOWN,
    ParsedRecord, classify, parsed_reserve)
from coterie._core.fold.tracks cimport Stamp, track_key

from coterie._core.codec.schema import decode_key, decode_value
from coterie._core.fold.generations import GroupLog
from coterie.errors import CorruptData

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
                NULL if commit.tombstone else &value)
    return add_pending_commit(producer_of(fold.producers, batch.producer_id), index,
                              NULL if commit.tombstone else &value, record, fold.tracks)


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

"""A queue of plain commits on their way into the table. Header only: inlined into the fold.

A key's slot, its entry and its bytes lie in three places, and for a large log none is in a CPU
cache. So commits are queued over several batches, most of which are short, and each of the three is
prefetched in a pass of its own. Then the commits are applied in the order in which they came.
Mostly the place cache knows the entry, and only that is prefetched. The queue borrows the bytes of
the piece of log that is scanned.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc

from coterie._core.codec.batch cimport AHEAD, V2_HEADER, Batch, Record
from coterie._core.fold.commit cimport (
    KEY_ENDS, KEY_OFFSET_MAX, Commit, Stamp, Tracks, is_of_4x, read_commit_key, read_commit_value,
    track_key)
from coterie._core.codec.cursor cimport OK, Cursor, load_i16, load_i32
from coterie._core.fold.keytable cimport (
    Entry, Table, Value, coterie_is_ascii, coterie_keyhash, coterie_prefetch, number_topic_id,
    prefetch_entry, prefetch_key, prefetch_slot, prefetch_value, remove_plain, set_plain,
    table_intern, topic_id_at)
from coterie._core.fold.place_cache cimport (
    PlaceCache, cache_add_names, cache_add_place, cache_find_names, cache_find_place)
from coterie._core.codec.record cimport record_v2
from coterie._core.fold.history_buffer cimport (
    HistoryBuffer, buffer_commit, buffer_plain, buffer_truncate)

cdef enum:
    FULL = 96                    # enough to hide the latency of memory, and fits the L1 cache

cdef struct QueuedCommit:
    int64_t index                # of its entry; -1: look its key up
    int64_t names                # number in the place cache, or -1
    const uint8_t* key           # after its version
    uint64_t hash
    int64_t seq                  # of its batch
    int32_t key_size
    bint tombstone
    Value value

cdef struct Queue:
    QueuedCommit* items
    Stamp* stamps                # of each, if keys are tracked
    Py_ssize_t count
    Py_ssize_t capacity
    int32_t* unplaced            # the items whose entry the place cache does not know
    Py_ssize_t unplaced_count


cdef inline int queue_reserve(Queue* queue, Py_ssize_t more) noexcept nogil:
    """Make room for `more` commits. -1: no memory."""
    cdef Py_ssize_t want = queue.count + more
    cdef void* grown
    if want > queue.capacity:
        grown = realloc(queue.unplaced, 2 * want * sizeof(int32_t))
        if grown == NULL:
            return -1
        queue.unplaced = <int32_t*>grown
        grown = realloc(queue.stamps, 2 * want * sizeof(Stamp))
        if grown == NULL:
            return -1
        queue.stamps = <Stamp*>grown
        grown = realloc(queue.items, 2 * want * sizeof(QueuedCommit))
        if grown == NULL:
            return -1
        queue.items, queue.capacity = <QueuedCommit*>grown, 2 * want
    return 0


cdef inline void queue_clear(Queue* queue) noexcept nogil:
    queue.count = queue.unplaced_count = 0


cdef inline void queue_free(Queue* queue) noexcept:
    free(queue.items)
    free(queue.stamps)
    free(queue.unplaced)


cdef inline bint queue_record(Queue* queue, Table* table, PlaceCache* cache,
                              const Record* record, int64_t batch_offset,
                              int64_t seq) noexcept nogil:
    """Queue one record. False: it is no plain commit, and no state changed."""
    cdef QueuedCommit* item = &queue.items[queue.count]
    cdef Commit commit
    cdef const uint8_t* key = record.key + 2
    cdef int32_t names_size = record.key_size - KEY_ENDS
    if record.key_size < 2 or not 0 <= load_i16(record.key) <= KEY_OFFSET_MAX:
        return False
    item.names = cache_find_names(cache, key, names_size)
    if item.names < 0:
        # Checks both names at once, and with them the topic's length between them, whose bytes are
        # below 128 as well. A topic for which they are not goes through `Records`.
        if read_commit_key(record.key, record.key_size, &commit) != OK or not coterie_is_ascii(
                key, commit.key_size - 4):
            return False
        names_size = commit.key_size - 4       # without bytes after the key
        item.names = cache_add_names(cache, key, names_size)
    item.index = -1
    if item.names >= 0:
        item.index = cache_find_place(cache, item.names, load_i32(key + names_size))
    if item.index >= 0:
        prefetch_value(&table.entries[item.index])
    else:
        item.key, item.key_size = key, names_size + 4
        item.hash = coterie_keyhash(key, names_size + 4)
        queue.unplaced[queue.unplaced_count] = <int32_t>queue.count
        queue.unplaced_count += 1
        prefetch_slot(table, item.hash)
    item.seq = seq
    item.tombstone = record.value_size < 0
    item.value.batch_offset, item.value.topic_id = batch_offset, 0
    if not item.tombstone:
        if read_commit_value(record.value, record.value_size, &commit) != OK:
            return False
        to_value(&commit, batch_offset, &item.value)
        if number_topic_id(table, commit.topic_id, &item.value) != 0:
            return False
    queue.count += 1
    return True


cdef inline bint queue_batch(Queue* queue, Table* table, PlaceCache* cache,
                             HistoryBuffer* buffer,
                             const Tracks* tracks, const Batch* batch, int64_t until_ms,
                             int64_t seq, bint* has_records_of_4x) noexcept nogil:
    """Queue a batch of plain commits. False: it is no such batch, and nothing was queued.

    The caller has made room. Records later than `until_ms`, which is -1 or more, are left out;
    a timestamp of -1 means none, so those records count. Unless they are NULL, `buffer` gets a row
    for each commit and `tracks` a stamp.
    """
    cdef Py_ssize_t before = queue.count, unplaced_before = queue.unplaced_count
    cdef Py_ssize_t rows_before = 0 if buffer == NULL else buffer.count
    cdef int64_t batch_offset = 0
    cdef int32_t i
    cdef Cursor cur
    cdef Record record
    cdef const QueuedCommit* item
    cur.at, cur.end = batch.start + V2_HEADER, batch.start + batch.size
    for i in range(batch.record_count):
        # Prefetches bytes of later batches: see columns.pyx. Never reads them.
        coterie_prefetch(cur.at + AHEAD)
        coterie_prefetch(cur.at + AHEAD + 64)
        if record_v2(&cur, batch, &record) != OK:
            break
        if i == 0:
            batch_offset = record.offset
        if is_of_4x(&record):
            has_records_of_4x[0] = True
        if record.timestamp > until_ms:
            continue
        if not queue_record(queue, table, cache, &record, batch_offset, seq):
            break
        if tracks != NULL:
            queue_stamp(queue, tracks, &record)
        if buffer != NULL:
            item = &queue.items[queue.count - 1]
            if not buffer_plain(buffer, &record, NULL if item.tombstone else &item.value,
                                topic_id_at(table.topic_ids, item.value.topic_id)):
                break
    else:
        if cur.at == cur.end:
            return True
    queue.count, queue.unplaced_count = before, unplaced_before
    if buffer != NULL:
        buffer_truncate(buffer, rows_before)
    return False


cdef inline void queue_stamp(Queue* queue, const Tracks* tracks,
                             const Record* record) noexcept nogil:
    cdef Py_ssize_t at = queue.count - 1
    cdef int64_t index = queue.items[at].index
    queue.stamps[at].log_offset, queue.stamps[at].timestamp = record.offset, record.timestamp
    if 0 <= index < tracks.size:
        coterie_prefetch(&tracks.items[index])
        coterie_prefetch(&tracks.items[index].commit)


cdef inline int queue_apply(Queue* queue, Table* table, PlaceCache* cache,
                            Tracks* tracks) noexcept nogil:
    """Apply all queued commits, in order. -1: no memory."""
    cdef Py_ssize_t i
    cdef QueuedCommit* item
    cdef Entry* entry
    cdef int64_t index
    for i in range(queue.unplaced_count):
        prefetch_entry(table, queue.items[queue.unplaced[i]].hash)
    for i in range(queue.unplaced_count):
        prefetch_key(table, queue.items[queue.unplaced[i]].hash)
    for i in range(queue.count):
        item = &queue.items[i]
        index = item.index
        if index < 0:
            index = table_intern(table, item.hash, item.key, item.key_size)
            if index < 0:
                return -1
            if item.names >= 0:
                cache_add_place(cache, item.names, load_i32(item.key + item.key_size - 4), index,
                                table.count)
        entry = &table.entries[index]
        if item.tombstone:
            remove_plain(table, entry, item.value.batch_offset, item.seq)
        else:
            set_plain(table, entry, &item.value, item.seq)
        if tracks != NULL and track_key(tracks, table, index, &queue.stamps[i],
                                        NULL if item.tombstone else &item.value) != 0:
            return -1
    queue_clear(queue)
    return 0


cdef inline void to_value(const Commit* commit, int64_t batch_offset, Value* out) noexcept nogil:
    """Make the table's value of a commit, but for its topic id; the metadata is borrowed."""
    out.batch_offset = batch_offset
    out.offset = commit.offset
    out.commit_timestamp = commit.commit_timestamp
    out.expire_timestamp = commit.expire_timestamp
    out.metadata = commit.metadata
    out.metadata_size = <uint16_t>commit.metadata_size       # at most MAX_TEXT
    out.leader_epoch = commit.leader_epoch
    out.topic_id = 0


cdef inline bint buffer_parsed(HistoryBuffer* buffer, const Record* record,
                               const Commit* commit) noexcept nogil:
    """Add a commit of no transaction to the history. False: no memory."""
    cdef Value value
    if not commit.tombstone:
        to_value(commit, 0, &value)
    return buffer_commit(buffer, record.offset, record.timestamp, commit.key,
                         NULL if commit.tombstone else &value, commit.topic_id) != NULL

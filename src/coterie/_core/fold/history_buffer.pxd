"""The decided commits of a piece of log as an array of C rows. Header only: inlined into the fold.

Names are numbers into two tables, and metadata stands end to end in one block. So a buffer owns
all its memory, except the recently seen names, which point into the log's bytes (`names.pxd`).
Cost: 80 bytes a row.
"""
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from coterie._core.codec.batch cimport Record
from coterie._core.codec.cursor cimport load_i32
from coterie._core.fold.keytable cimport Table, Value, table_free, topic_id_at, topic_id_number
from coterie._core.fold.names cimport (
    Names, Recent, name_number, names_free, names_of)

cdef enum:
    COMMITTED = 0
    ABORTED = 1
    PENDING = 2
    COMMIT = 0
    TOMBSTONE = 1

cdef struct HistoryRow:
    int64_t log_offset
    int64_t timestamp
    int64_t producer_id          # means nothing if not transactional
    int64_t offset               # this and what follows up to the metadata: -1 in a tombstone
    int64_t commit_timestamp
    int64_t expire_timestamp
    int64_t metadata_end         # in `metadata`; it begins where that of the row before ends
    int32_t leader_epoch
    int32_t group
    int32_t topic
    int32_t partition
    int8_t kind
    int8_t transactional
    int8_t outcome
    int8_t unused
    uint32_t topic_id            # number in `topic_ids`, from 1 on; 0: none

cdef struct HistoryBuffer:
    HistoryRow* rows
    Py_ssize_t count, capacity
    uint8_t* metadata            # of all rows, end to end
    int64_t metadata_size, metadata_capacity
    Names names
    Table topic_ids


cdef inline void buffer_free(HistoryBuffer* buffer) noexcept:
    free(buffer.rows)
    free(buffer.metadata)
    names_free(&buffer.names)
    table_free(&buffer.topic_ids)


cdef inline bint buffer_reserve(HistoryBuffer* buffer, Py_ssize_t rows,
                                int64_t metadata_bytes) noexcept nogil:
    """Make room for more rows and more bytes of metadata. False: no memory."""
    cdef void* grown
    if buffer.count + rows > buffer.capacity:
        grown = realloc(buffer.rows, (2 * buffer.capacity + rows + 64) * sizeof(HistoryRow))
        if grown == NULL:
            return False
        buffer.rows = <HistoryRow*>grown
        buffer.capacity = 2 * buffer.capacity + rows + 64
    if buffer.metadata_size + metadata_bytes > buffer.metadata_capacity:
        grown = realloc(buffer.metadata, 2 * buffer.metadata_capacity + metadata_bytes + 64)
        if grown == NULL:
            return False
        buffer.metadata = <uint8_t*>grown
        buffer.metadata_capacity = 2 * buffer.metadata_capacity + metadata_bytes + 64
    return True


cdef inline int64_t metadata_start(const HistoryBuffer* buffer, Py_ssize_t row) noexcept nogil:
    return buffer.rows[row - 1].metadata_end if row else 0


cdef inline HistoryRow* buffer_add(HistoryBuffer* buffer, const Value* value,
                                   const uint8_t* topic_id) noexcept nogil:
    """Add the row of a plain commit; its names, log offset and time are the caller's to fill in.

    A tombstone has a NULL `value`. The topic id's number in `value` is of another table. NULL: no
    memory.
    """
    cdef int32_t size = 0 if value == NULL else value.metadata_size
    cdef int64_t number = 0 if value == NULL else topic_id_number(&buffer.topic_ids, topic_id)
    cdef HistoryRow* row
    if number < 0 or not buffer_reserve(buffer, 1, size):
        return NULL
    row = &buffer.rows[buffer.count]
    if value == NULL:
        row.offset = row.commit_timestamp = row.expire_timestamp = row.leader_epoch = -1
    else:
        row.offset, row.leader_epoch = value.offset, value.leader_epoch
        row.commit_timestamp = value.commit_timestamp
        row.expire_timestamp = value.expire_timestamp
        if size:
            memcpy(buffer.metadata + buffer.metadata_size, value.metadata, size)
            buffer.metadata_size += size
    row.metadata_end = buffer.metadata_size
    row.kind = TOMBSTONE if value == NULL else COMMIT
    row.producer_id = -1
    row.transactional, row.outcome = 0, COMMITTED
    row.unused, row.topic_id = 0, <uint32_t>number
    buffer.count += 1
    return row


cdef inline bint buffer_plain(HistoryBuffer* buffer, const Record* record, const Value* value,
                              const uint8_t* topic_id) noexcept nogil:
    """Add a plain commit whose key can be read and stays there until `names_forget`.

    False: no memory.
    """
    cdef Recent names
    cdef HistoryRow* row
    names_of(&buffer.names, record.key, record.key_size, &names)
    row = buffer_add(buffer, value, topic_id)
    if row == NULL:
        return False
    row.log_offset, row.timestamp = record.offset, record.timestamp
    row.group, row.topic = names.group, names.topic
    row.partition = load_i32(record.key + names.partition_at)
    return not buffer.names.failed


cdef inline HistoryRow* buffer_commit(HistoryBuffer* buffer, int64_t log_offset, int64_t timestamp,
                                      const uint8_t* key, const Value* value,
                                      const uint8_t* topic_id) noexcept nogil:
    """Add a commit by its key without a version; a name's length may take all of its 16 bits.

    NULL: no memory.
    """
    cdef int32_t group_size = key[0] << 8 | key[1]
    cdef const uint8_t* topic = key + 2 + group_size
    cdef int32_t topic_size = topic[0] << 8 | topic[1]
    cdef HistoryRow* row = buffer_add(buffer, value, topic_id)
    if row == NULL:
        return NULL
    row.log_offset, row.timestamp = log_offset, timestamp
    row.group = name_number(&buffer.names, &buffer.names.groups, key + 2, group_size)
    row.topic = name_number(&buffer.names, &buffer.names.topics, topic + 2, topic_size)
    row.partition = load_i32(topic + 2 + topic_size)
    return NULL if buffer.names.failed else row


cdef inline void buffer_truncate(HistoryBuffer* buffer, Py_ssize_t count) noexcept nogil:
    """Remove the rows from `count` on, which are plain commits."""
    buffer.metadata_size = metadata_start(buffer, count)
    buffer.count = count


cdef inline void buffer_clear(HistoryBuffer* buffer) noexcept:
    """Remove all rows and names, between two scans; the memory stays allocated."""
    buffer.count = 0
    buffer.metadata_size = 0
    table_clear(&buffer.names.groups)
    table_clear(&buffer.names.topics)
    table_clear(&buffer.topic_ids)


cdef inline void table_clear(Table* table) noexcept:
    """Remove all names; none of them had a value."""
    memset(table.slots, 0, (table.mask + 1) * sizeof(table.slots[0]))
    table.count = 0
    table.arena_size = 0
    table.recent_topic_id = 0


cdef inline bint names_into(Names* to, Table* to_table, const Table* source,
                            int32_t* number) noexcept:
    """Fill `number` with the numbers that the names of one table have in another.

    False: no memory.
    """
    cdef uint32_t i
    for i in range(source.count):
        number[i] = name_number(to, to_table, source.arena + source.entries[i].key_at,
                                <int32_t>source.entries[i].key_size)
    return not to.failed


cdef inline bint buffer_append(HistoryBuffer* to, const HistoryBuffer* later,
                               Py_ssize_t start, Py_ssize_t end,
                               const int32_t* groups, const int32_t* topics) noexcept:
    """Append rows `start` to `end` of another buffer. `groups` and `topics` are the numbers that
    its names have here. False: no memory."""
    cdef int64_t number
    cdef Py_ssize_t i, count = end - start
    cdef int64_t metadata_from = metadata_start(later, start)
    cdef int64_t size = metadata_start(later, end) - metadata_from
    cdef HistoryRow* row
    if not buffer_reserve(to, count, size):
        return False
    if count:
        memcpy(to.rows + to.count, later.rows + start, count * sizeof(HistoryRow))
    if size:
        memcpy(to.metadata + to.metadata_size, later.metadata + metadata_from, size)
    for i in range(count):
        row = &to.rows[to.count + i]
        row.metadata_end += to.metadata_size - metadata_from
        row.group, row.topic = groups[row.group], topics[row.topic]
        number = topic_id_number(&to.topic_ids, topic_id_at(&later.topic_ids, row.topic_id))
        if number < 0:
            return False
        row.topic_id = <uint32_t>number
    to.count += count
    to.metadata_size += size
    return True

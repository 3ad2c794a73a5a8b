"""The commits of a log, each with its outcome, in the order in which they are decided. See
``history.pyi``.

A plain commit, nearly all there is, is decided at once. The commits of a transaction are pending,
each as bytes of its own, until the fold applies the producer's next marker.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from coterie._core.checks cimport begin_change, begin_read, end_use, within
from coterie._core.codec.batch cimport Record
from coterie._core.fold.commit cimport key_fits
from coterie._core.fold.keytable cimport Table, Value
from coterie._core.fold.history_buffer cimport (
    ABORTED, COMMITTED, PENDING, TOMBSTONE, HistoryBuffer, HistoryRow, metadata_start, name_number,
    names_into, buffer_clear, buffer_commit, buffer_follow, buffer_free, buffer_init,
    buffer_reserve)

from coterie._core.codec.text import decode_utf8
from coterie.errors import CorruptData

OUTCOMES = ("committed", "aborted", "pending")

COLUMNS = dict.fromkeys(
    ("log_offset", "timestamp", "producer_id", "offset", "commit_timestamp", "expire_timestamp",
     "metadata_bounds"), 8)          # column -> bytes of its integers
COLUMNS |= dict.fromkeys(("leader_epoch", "group", "topic", "partition"), 4)
COLUMNS |= dict.fromkeys(("kind", "transactional", "outcome"), 1)
ROW_BYTES = sum(COLUMNS.values())

cdef str IN_USE = "this history"
cdef int64_t MANY_ROWS = <int64_t>1 << 62
cdef int64_t MIN_ID = -0x8000000000000000
cdef int64_t MAX_ID = 0x7FFFFFFFFFFFFFFF

cdef struct PendingCommit:       # as bytes; behind it stand its key and its metadata
    int64_t log_offset
    int64_t timestamp
    int32_t key_size
    bint tombstone
    Value value                  # its metadata is NULL; all zeros in a tombstone


@cython.final
cdef class History:
    """The decided commits of a fold in the order of their decision: rows of C, 80 bytes each."""

    def __cinit__(self):
        buffer_init(&self.buffer)
        self.open_transactions = {}

    def __dealloc__(self):
        buffer_free(&self.buffer)

    def __len__(self):
        return self.buffer.count

    def clear(self):
        """Forget all rows. Pending commits stay, and become rows with their marker."""
        begin_change(&self.users, IN_USE)
        self.cleared += self.buffer.count
        buffer_clear(&self.buffer)
        end_use(&self.users)

    def columns(self, start=0, end=None):
        """Give the rows from ``start`` to ``end`` as arrays."""
        cdef Py_ssize_t stop
        begin_read(&self.users, IN_USE)
        try:
            stop = within(self.buffer.count if end is None else end, "end", 0, self.buffer.count)
            return columns_of(&self.buffer, within(start, "start", 0, stop), stop)
        finally:
            end_use(&self.users)

    def rows(self):
        """Give the rows one by one, as the table ``commits`` has them."""
        cdef Py_ssize_t i = 0
        cdef dict texts = {}
        row = row_at(self, i, texts)
        while row is not None:           # rows may be added and cleared between two
            yield row
            i += 1
            row = row_at(self, i, texts)

    def pending(self):
        """Return the commits that no marker has decided so far, in order of their log offsets."""
        cdef History found = History()
        cdef list left = []
        begin_read(&self.users, IN_USE)
        try:
            for producer_id, commits in self.open_transactions.items():
                for packed in commits:   # of two at one log offset the one that came first is first
                    left.append((log_offset_of(packed), len(left), producer_id, packed))
            for _, _, producer_id, packed in sorted(left):
                add_row(&found.buffer, producer_id, packed, PENDING)
        finally:
            end_use(&self.users)
        return found


cdef bytes name_at(const Table* table, int32_t number):
    cdef const uint8_t* start = table.arena + table.entries[number].key_at
    return start[:table.entries[number].key_size]


cdef str text_at(const Table* table, int32_t number, dict texts, bint topic):
    place = (number, topic)
    text = texts.get(place)
    if text is None:
        text = texts[place] = decode_utf8(name_at(table, number))
    return text


cdef bytes metadata_at(const HistoryBuffer* buffer, Py_ssize_t i):
    cdef int64_t start = metadata_start(buffer, i)
    return (<const char*>buffer.heap)[start:buffer.rows[i].metadata_end] if (
        buffer.rows[i].metadata_end > start) else b""


cdef tuple row_at(History history, Py_ssize_t i, dict texts):
    """A commit as ``rows`` has it; None behind the last one."""
    cdef const HistoryRow* row
    cdef HistoryBuffer* buffer = &history.buffer
    cdef bint tombstone
    begin_read(&history.users, IN_USE)
    try:
        if i >= buffer.count:
            return None
        row = &buffer.rows[i]
        tombstone = row.kind == TOMBSTONE
        return (
            text_at(&buffer.names.groups, row.group, texts, False), row.log_offset,
            None if row.timestamp == -1 else row.timestamp,
            text_at(&buffer.names.topics, row.topic, texts, True), row.partition,
            None if tombstone else row.offset, None if tombstone else row.leader_epoch,
            None if tombstone else decode_utf8(metadata_at(buffer, i)),
            None if tombstone else row.commit_timestamp,
            None if row.expire_timestamp == -1 else row.expire_timestamp,
            tombstone, row.producer_id if row.transactional else None, OUTCOMES[row.outcome])
    finally:
        end_use(&history.users)


cdef tuple names_columns(const Table* table):
    """The names end to end, and where each begins and the last one ends."""
    import numpy as np     # by whom arrays are asked for, as in partial.pyx
    cdef uint32_t i
    data = np.empty(table.arena_size, dtype=np.uint8)
    bounds = np.zeros(table.count + 1, dtype=np.int64)
    cdef uint8_t[::1] bytes_view = data
    cdef int64_t[::1] bound = bounds
    if table.arena_size:
        memcpy(&bytes_view[0], table.arena, table.arena_size)
    for i in range(table.count):
        bound[i + 1] = table.entries[i].key_at + table.entries[i].key_size
    return data, bounds


@cython.boundscheck(False)    # every array has the rows from `start` to `end`
cdef dict columns_of(const HistoryBuffer* buffer, Py_ssize_t start, Py_ssize_t end):
    import numpy as np
    cdef Py_ssize_t i, n = end - start
    cdef int64_t heap_start = metadata_start(buffer, start)
    cdef int64_t heap_size = (metadata_start(buffer, end)) - heap_start
    cdef const HistoryRow* row
    # One block for all columns, as in columns.pyx: else page faults would take most of the time.
    block, at = np.empty((n + 1) * ROW_BYTES, dtype=np.uint8), 0
    out = {}
    for name, size in COLUMNS.items():
        out[name] = block[at:at + (n + 1) * size].view(f"i{size}")
        at += (n + 1) * size
    metadata = np.empty(heap_size, dtype=np.uint8)
    cdef int64_t[::1] log_offset = out["log_offset"], timestamp = out["timestamp"]
    cdef int64_t[::1] producer_id = out["producer_id"], offset = out["offset"]
    cdef int64_t[::1] committed = out["commit_timestamp"]
    cdef int64_t[::1] expires = out["expire_timestamp"], bound = out["metadata_bounds"]
    cdef int32_t[::1] epoch = out["leader_epoch"], group = out["group"]
    cdef int32_t[::1] topic = out["topic"], partition = out["partition"]
    cdef int8_t[::1] kind = out["kind"], transactional = out["transactional"]
    cdef int8_t[::1] outcome = out["outcome"]
    cdef uint8_t[::1] heap = metadata
    if heap_size:
        memcpy(&heap[0], buffer.heap + heap_start, heap_size)
    bound[0] = 0
    with nogil:
        for i in range(n):
            row = &buffer.rows[start + i]
            log_offset[i], timestamp[i] = row.log_offset, row.timestamp
            producer_id[i], offset[i] = row.producer_id, row.offset
            committed[i], expires[i] = row.commit_timestamp, row.expire_timestamp
            bound[i + 1] = row.metadata_end - heap_start
            epoch[i], group[i], topic[i] = row.leader_epoch, row.group, row.topic
            partition[i], kind[i] = row.partition, row.kind
            transactional[i], outcome[i] = row.transactional, row.outcome
    cut = {name: column[:n] for name, column in out.items() if name != "metadata_bounds"}
    return {**cut, "metadata": metadata, "metadata_bounds": out["metadata_bounds"],
            "groups": names_columns(&buffer.names.groups),
            "topics": names_columns(&buffer.names.topics)}


cdef int begin_noting(int* users, History history) except -1:
    """Let nobody else change a fold or its history, or read them, up to `end_noting`."""
    begin_change(users, "this partial state")
    if history is not None:
        try:
            begin_change(&history.users, IN_USE)
        except BaseException:
            end_use(users)
            raise
    return 0


cdef void end_noting(int* users, History history) noexcept:
    if history is not None:
        end_use(&history.users)
    end_use(users)


cdef int add_pending(History history, int64_t producer_id, const Record* record,
                     const uint8_t* key, int32_t key_size, const Value* value) except -1:
    cdef PendingCommit commit
    cdef int32_t size = 0 if value == NULL else value.metadata_size
    cdef bytes packed
    cdef char* at
    if history is None:
        return 0
    memset(&commit, 0, sizeof(PendingCommit))
    commit.log_offset, commit.timestamp = record.offset, record.timestamp
    commit.key_size, commit.tombstone = key_size, value == NULL
    if value != NULL:
        commit.value = value[0]
        commit.value.metadata = NULL
    packed = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>sizeof(PendingCommit) + key_size + size)
    at = PyBytes_AS_STRING(packed)
    memcpy(at, &commit, sizeof(PendingCommit))
    memcpy(at + sizeof(PendingCommit), key, key_size)
    if size:
        memcpy(at + sizeof(PendingCommit) + key_size, value.metadata, size)
    history.open_transactions.setdefault(producer_id, []).append(packed)
    return 0


cdef int decide(History history, int64_t producer_id, bint committed) except -1:
    if history is not None:
        for packed in history.open_transactions.pop(producer_id, ()):
            add_row(&history.buffer, producer_id, packed, COMMITTED if committed else ABORTED)
    return 0


cdef int add_row(HistoryBuffer* buffer, int64_t producer_id, bytes packed,
                 int8_t outcome) except -1:
    cdef const uint8_t* key = <const uint8_t*>PyBytes_AS_STRING(packed) + sizeof(PendingCommit)
    cdef PendingCommit commit
    cdef HistoryRow* row
    memcpy(&commit, PyBytes_AS_STRING(packed), sizeof(PendingCommit))
    commit.value.metadata = key + commit.key_size
    row = buffer_commit(buffer, commit.log_offset, commit.timestamp, key,
                        NULL if commit.tombstone else &commit.value)
    if row == NULL:
        raise MemoryError
    row.transactional, row.producer_id, row.outcome = 1, producer_id, outcome
    return 0


cdef int64_t log_offset_of(bytes packed) noexcept:
    return (<const PendingCommit*>PyBytes_AS_STRING(packed)).log_offset


cdef int64_t row_number(History history) noexcept:
    return 0 if history is None else history.cleared + history.buffer.count


cdef int follow_on(History history, History later, list markers) except -1:
    if history is None or later is None:
        return 0
    begin_change(&history.users, IN_USE)
    try:
        begin_read(&later.users, IN_USE)
        try:
            follow_rows(history, later, markers)
        finally:
            end_use(&later.users)
    finally:
        end_use(&history.users)
    return 0


cdef int follow_rows(History history, History later, list markers) except -1:
    """A marker decides what the earlier piece left open where it stands in the later one."""
    cdef HistoryBuffer* to = &history.buffer
    cdef const HistoryBuffer* of = &later.buffer
    cdef Py_ssize_t at = 0, row
    cdef int32_t* groups = <int32_t*>malloc(
        (of.names.groups.count + of.names.topics.count + 1) * sizeof(int32_t))
    cdef int32_t* topics = groups + (of.names.groups.count if groups != NULL else 0)
    try:
        if (groups == NULL
                or not names_into(&to.names, &to.names.groups, &of.names.groups, groups)
                or not names_into(&to.names, &to.names.topics, &of.names.topics, topics)):
            raise MemoryError
        for _, producer_id, theirs, first_of in sorted(markers):
            # Whoever has the fold may have written other numbers; rows may have been cleared.
            row = max(at, within(theirs.first_row, "the row of a marker", 0, row_number(later))
                      - later.cleared)
            if not buffer_follow(to, of, at, row, groups, topics):
                raise MemoryError
            at = row
            if first_of is not None:
                first_of.first_row = row_number(history)
            decide(history, producer_id, theirs.first_committed)
        if not buffer_follow(to, of, at, of.count, groups, topics):
            raise MemoryError
    finally:
        free(groups)
    for producer_id, commits in later.open_transactions.items():
        history.open_transactions.setdefault(producer_id, []).extend(commits)
    return 0


cdef tuple dump_history(History history):
    """Bytes of the rows, metadata, the names' bytes and bounds; open transactions; rows cleared."""
    import numpy as np
    cdef HistoryBuffer* buffer = &history.buffer
    cdef uint8_t[::1] row_view, heap_view
    begin_read(&history.users, IN_USE)
    try:
        rows = np.empty(buffer.count * sizeof(HistoryRow), dtype=np.uint8)
        heap = np.empty(buffer.heap_size, dtype=np.uint8)
        row_view, heap_view = rows, heap
        if buffer.count:
            memcpy(&row_view[0], buffer.rows, buffer.count * sizeof(HistoryRow))
        if buffer.heap_size:
            memcpy(&heap_view[0], buffer.heap, buffer.heap_size)
        pending = {producer_id: tuple(commits)
                   for producer_id, commits in history.open_transactions.items()}
        return (rows, heap, *names_columns(&buffer.names.groups),
                *names_columns(&buffer.names.topics), pending, history.cleared)
    finally:
        end_use(&history.users)


cdef History restore_history(tuple state):
    """What `dump_history` gave; the bytes may have been cut or changed on their way."""
    cdef History history = History()
    cdef HistoryBuffer* buffer = &history.buffer
    cdef const uint8_t[::1] rows, heap
    rows, heap, groups, group_bounds, topics, topic_bounds, pending, cleared = state
    if rows.shape[0] % sizeof(HistoryRow):
        raise CorruptData("the rows of a history are cut short")
    enter_names(buffer, &buffer.names.groups, groups, group_bounds)
    enter_names(buffer, &buffer.names.topics, topics, topic_bounds)
    if not buffer_reserve(buffer, rows.shape[0] // sizeof(HistoryRow), heap.shape[0]):
        raise MemoryError
    if rows.shape[0]:
        memcpy(buffer.rows, &rows[0], rows.shape[0])
    if heap.shape[0]:
        memcpy(buffer.heap, &heap[0], heap.shape[0])
    buffer.heap_size = heap.shape[0]
    enter_rows(buffer, rows.shape[0] // sizeof(HistoryRow))
    enter_pending(history, pending)
    if not 0 <= cleared <= MANY_ROWS:
        raise CorruptData(f"a history of which {cleared} rows were cleared")
    history.cleared = cleared
    return history


cdef int enter_names(HistoryBuffer* buffer, Table* table, const uint8_t[::1] names,
                     const int64_t[::1] bounds) except -1:
    cdef Py_ssize_t i
    cdef int64_t start = 0
    cdef const uint8_t* first = &names[0] if names.shape[0] else NULL
    for i in range(1, bounds.shape[0]):
        if not start <= bounds[i] <= min(names.shape[0], start + 0xFFFF) or name_number(
                &buffer.names, table, first + start, <int32_t>(bounds[i] - start)) != i - 1:
            raise CorruptData(f"name {i - 1} of a history does not fit it")
        start = bounds[i]
    return 0


cdef int enter_rows(HistoryBuffer* buffer, Py_ssize_t count) except -1:
    cdef Py_ssize_t i
    cdef int64_t start = 0
    cdef HistoryRow* row
    for i in range(count):
        row = &buffer.rows[i]
        if not (0 <= row.kind <= TOMBSTONE and 0 <= row.transactional <= 1
                and 0 <= row.outcome <= (ABORTED if row.transactional else COMMITTED)
                and start <= row.metadata_end <= buffer.heap_size
                and row.metadata_end - start <= 0x7FFFFFFF):
            raise CorruptData(f"row {i} of a history's {count} does not fit it")
        if not (0 <= row.group < <int64_t>buffer.names.groups.count
                and 0 <= row.topic < <int64_t>buffer.names.topics.count):
            raise CorruptData(f"row {i} of a history's {count} names what is not there")
        start = row.metadata_end
    buffer.count = count
    return 0


cdef int enter_pending(History history, dict pending) except -1:
    for producer_id, commits in pending.items():
        if not (type(producer_id) is int and MIN_ID <= producer_id <= MAX_ID
                and type(commits) is tuple and all([pending_fits(one) for one in commits])):
            raise CorruptData(f"a pending commit of producer {producer_id!r} is damaged")
        history.open_transactions[producer_id] = list(commits)
    return 0


cdef bint pending_fits(object packed) except -1:
    cdef PendingCommit commit
    cdef const uint8_t* start
    cdef int64_t key_end, size
    if type(packed) is not bytes or len(packed) < <Py_ssize_t>sizeof(PendingCommit):
        return False
    start, size = <const uint8_t*>PyBytes_AS_STRING(packed), len(packed)
    memcpy(&commit, start, sizeof(PendingCommit))
    key_end = <int64_t>sizeof(PendingCommit) + commit.key_size
    return (0 <= commit.tombstone <= 1 and commit.value.metadata_size >= 0
            and key_fits(start, sizeof(PendingCommit), key_end, size)
            and key_end + commit.value.metadata_size == size)

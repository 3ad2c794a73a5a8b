"""The commits of a log, each with its outcome, in the order in which they are decided.

A commit outside of transactions is decided at once and is a row of C (`history_buffer.pxd`). The
commits of a transaction are pending, each as bytes of its own, until the fold applies the
producer's next marker.
Knows no batches and no faults. Cost: 80 bytes a row, and the metadata; a pending commit is a Python
object.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from coterie._core.checks cimport begin_change, begin_read, end_use, within
from coterie._core.codec.batch cimport Record
from coterie._core.fold.keytable cimport Table, Value
from coterie._core.fold.name_columns cimport name_at, names_as_bytes
from coterie._core.fold.history_buffer cimport (
    ABORTED, COMMITTED, PENDING, TOMBSTONE, HistoryBuffer, HistoryRow, buffer_append, buffer_clear,
    buffer_commit, buffer_free, metadata_start, names_into)
from coterie._core.fold.names cimport names_init

from coterie._core.codec.text import decode_utf8

OUTCOMES = ("committed", "aborted", "pending")

COLUMNS = dict.fromkeys(
    ("log_offset", "timestamp", "producer_id", "offset", "commit_timestamp", "expire_timestamp",
     "metadata_bounds"), 8)          # column -> bytes of its integers
COLUMNS |= dict.fromkeys(("leader_epoch", "group", "topic", "partition"), 4)
COLUMNS |= dict.fromkeys(("kind", "transactional", "outcome"), 1)
ROW_BYTES = sum(COLUMNS.values())

cdef str IN_USE = "this history"


@cython.final
cdef class History:
    """The decided commits of a fold, in the order of their decision."""

    def __cinit__(self):
        names_init(&self.buffer.names)
        self.open_transactions = {}

    def __dealloc__(self):
        buffer_free(&self.buffer)

    def __len__(self):
        return self.buffer.count

    def clear(self):
        """Remove all rows. Pending commits stay, and become rows with their marker."""
        begin_change(&self.users, IN_USE)
        self.cleared += self.buffer.count
        buffer_clear(&self.buffer)
        end_use(&self.users)

    def columns(self, start=0, end=None):
        """Return the rows from ``start`` to ``end`` as arrays."""
        cdef Py_ssize_t stop
        begin_read(&self.users, IN_USE)
        try:
            stop = within(self.buffer.count if end is None else end, "end", 0, self.buffer.count)
            return columns_of(&self.buffer, within(start, "start", 0, stop), stop)
        finally:
            end_use(&self.users)

    def rows(self):
        """Yield the rows one by one, in the form of the table ``commits``."""
        cdef Py_ssize_t i = 0
        cdef dict texts = {}
        row = row_at(self, i, texts)
        while row is not None:           # rows may be added and cleared between two
            yield row
            i += 1
            row = row_at(self, i, texts)

    def pending(self):
        """Return the commits that no marker has decided yet, in order of their log offsets."""
        cdef History undecided = History()
        cdef list ordered = []
        begin_read(&self.users, IN_USE)
        try:
            for producer_id, commits in self.open_transactions.items():
                for packed in commits:   # their number breaks the tie of two at one log offset
                    ordered.append((log_offset_of(packed), len(ordered), producer_id, packed))
            for _, _, producer_id, packed in sorted(ordered):
                add_row(&undecided.buffer, producer_id, packed, PENDING)
        finally:
            end_use(&self.users)
        return undecided


cdef str text_at(const Table* table, int32_t number, dict texts, bint topic):
    place = (number, topic)
    text = texts.get(place)
    if text is None:
        text = texts[place] = decode_utf8(name_at(table, number))
    return text


cdef bytes metadata_at(const HistoryBuffer* buffer, Py_ssize_t i):
    cdef int64_t start = metadata_start(buffer, i)
    return (<const char*>buffer.metadata)[start:buffer.rows[i].metadata_end] if (
        buffer.rows[i].metadata_end > start) else b""


cdef tuple row_at(History history, Py_ssize_t i, dict texts):
    """A commit in the form of ``rows``; None after the last one."""
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


@cython.boundscheck(False)    # every array has the rows from `start` to `end`
cdef dict columns_of(const HistoryBuffer* buffer, Py_ssize_t start, Py_ssize_t end):
    import numpy as np     # not at import: it takes longer to load than a small log
    cdef Py_ssize_t i, n = end - start
    cdef int64_t metadata_from = metadata_start(buffer, start)
    cdef int64_t metadata_size = metadata_start(buffer, end) - metadata_from
    cdef const HistoryRow* row
    # One block for all columns, as in columns.pyx: else page faults would take most of the time.
    block, at = np.empty((n + 1) * ROW_BYTES, dtype=np.uint8), 0
    out = {}
    for name, size in COLUMNS.items():
        out[name] = block[at:at + (n + 1) * size].view(f"i{size}")
        at += (n + 1) * size
    metadata = np.empty(metadata_size, dtype=np.uint8)
    cdef int64_t[::1] log_offset = out["log_offset"], timestamp = out["timestamp"]
    cdef int64_t[::1] producer_id = out["producer_id"], offset = out["offset"]
    cdef int64_t[::1] committed = out["commit_timestamp"]
    cdef int64_t[::1] expires = out["expire_timestamp"], bound = out["metadata_bounds"]
    cdef int32_t[::1] epoch = out["leader_epoch"], group = out["group"]
    cdef int32_t[::1] topic = out["topic"], partition = out["partition"]
    cdef int8_t[::1] kind = out["kind"], transactional = out["transactional"]
    cdef int8_t[::1] outcome = out["outcome"]
    cdef uint8_t[::1] metadata_view = metadata
    if metadata_size:
        memcpy(&metadata_view[0], buffer.metadata + metadata_from, metadata_size)
    bound[0] = 0
    with nogil:
        for i in range(n):
            row = &buffer.rows[start + i]
            log_offset[i], timestamp[i] = row.log_offset, row.timestamp
            producer_id[i], offset[i] = row.producer_id, row.offset
            committed[i], expires[i] = row.commit_timestamp, row.expire_timestamp
            bound[i + 1] = row.metadata_end - metadata_from
            epoch[i], group[i], topic[i] = row.leader_epoch, row.group, row.topic
            partition[i], kind[i] = row.partition, row.kind
            transactional[i], outcome[i] = row.transactional, row.outcome
    cut = {name: column[:n] for name, column in out.items() if name != "metadata_bounds"}
    return {**cut, "metadata": metadata, "metadata_bounds": out["metadata_bounds"],
            "groups": names_as_bytes(&buffer.names.groups),
            "topics": names_as_bytes(&buffer.names.topics)}


cdef int begin_fold_change(int* users, History history) except -1:
    """Refuse other calls that change or read a fold or its history, until `end_fold_change`."""
    begin_change(users, "this partial state")
    if history is not None:
        try:
            begin_change(&history.users, IN_USE)
        except BaseException:
            end_use(users)
            raise
    return 0


cdef void end_fold_change(int* users, History history) noexcept:
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


cdef int absorb_history(History history, History later, list markers) except -1:
    if history is None or later is None:
        return 0
    begin_change(&history.users, IN_USE)
    try:
        begin_read(&later.users, IN_USE)
        try:
            absorb_rows(history, later, markers)
        finally:
            end_use(&later.users)
    finally:
        end_use(&history.users)
    return 0


cdef int absorb_rows(History history, History later, list markers) except -1:
    """Append the later rows. The producer's first marker in the later piece decides the commits
    that the earlier piece left open."""
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
            # A caller may have written any number there; rows may have been cleared.
            row = max(at, within(theirs.first_row, "the row of a marker", 0, row_number(later))
                      - later.cleared)
            if not buffer_append(to, of, at, row, groups, topics):
                raise MemoryError
            at = row
            if first_of is not None:
                first_of.first_row = row_number(history)
            decide(history, producer_id, theirs.first_committed)
        if not buffer_append(to, of, at, of.count, groups, topics):
            raise MemoryError
    finally:
        free(groups)
    for producer_id, commits in later.open_transactions.items():
        history.open_transactions.setdefault(producer_id, []).extend(commits)
    return 0

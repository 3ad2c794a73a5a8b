"""What a scan notes of commits and markers, and what became of each. See ``history.pyi``.

A plain commit, nearly all there is, counts at once and is never copied: what was noted is what is
decided. The commits of a transaction wait in a store of their own for the producer's next marker.
"""
from collections import namedtuple

cimport cython
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from coterie._core.checks cimport begin_change, begin_read, end_use, within
from coterie._core.fold.commit cimport commit_key
from coterie._core.fold.keytable cimport Table
from coterie._core.fold.noted cimport (
    ABORTED, MARKER, PENDING, TOMBSTONE, Noted, NotedRow, metadata_start, name_number, noted_clear,
    noted_copy, noted_follow, noted_free, noted_init, noted_reserve)

from coterie._core.codec.text import decode_utf8
from coterie.errors import CorruptData

CommitEvent = namedtuple(
    "CommitEvent", "what key log_offset timestamp producer_id value", module=__name__)
CommitEvent.__doc__ = """See ``history.pyi``."""
MarkerEvent = namedtuple("MarkerEvent", "what producer_id committed", module=__name__)
MarkerEvent.__doc__ = """See ``history.pyi``."""
OUTCOMES = ("committed", "aborted", "pending")

COLUMNS = dict.fromkeys(
    ("log_offset", "timestamp", "producer_id", "offset", "commit_timestamp", "expire_timestamp",
     "metadata_bounds"), 8)          # column -> bytes of its integers
COLUMNS |= dict.fromkeys(("leader_epoch", "group", "topic", "partition"), 4)
COLUMNS |= dict.fromkeys(("kind", "transactional", "outcome"), 1)
ROW_BYTES = sum(COLUMNS.values())

cdef str IN_USE = "this history"
cdef enum:
    SOME_GONE = 1024             # rows decided, before those that still wait move together


@cython.final
cdef class History:
    """See ``history.pyi``."""

    def __cinit__(self):
        noted_init(&self.noted)

    def __dealloc__(self):
        noted_free(&self.noted)

    def __len__(self):
        return self.noted.count

    def __iter__(self):
        """See ``history.pyi``."""
        cdef Py_ssize_t i = 0
        event = event_at(self, i)
        while event is not None:         # rows may be added and cleared between two
            yield event
            i += 1
            event = event_at(self, i)

    def clear(self):
        """See ``history.pyi``."""
        begin_change(&self.users, IN_USE)
        noted_clear(&self.noted)
        end_use(&self.users)

    def columns(self, start=0, end=None):
        """See ``history.pyi``."""
        cdef Py_ssize_t stop
        begin_read(&self.users, IN_USE)
        try:
            stop = within(self.noted.count if end is None else end, "end", 0, self.noted.count)
            return columns_of(&self.noted, within(start, "start", 0, stop), stop)
        finally:
            end_use(&self.users)

    def rows(self):
        """See ``history.pyi``."""
        cdef Py_ssize_t i = 0
        cdef dict texts = {}
        row = row_at(self, i, texts)
        while row is not None:
            yield row
            i += 1
            row = row_at(self, i, texts)


cdef bytes name_at(const Table* table, int32_t number):
    cdef const uint8_t* start = table.arena + table.entries[number].key_at
    return start[:table.entries[number].key_size]


cdef str text_at(const Table* table, int32_t number, dict texts, bint topic):
    place = (number, topic)
    text = texts.get(place)
    if text is None:
        text = texts[place] = decode_utf8(name_at(table, number))
    return text


cdef bytes metadata_at(const Noted* noted, Py_ssize_t i):
    cdef int64_t start = metadata_start(noted, i)
    return (<const char*>noted.heap)[start:noted.rows[i].metadata_end] if (
        noted.rows[i].metadata_end > start) else b""


cdef object event_at(History history, Py_ssize_t i):
    """A row as an event; None behind the last one."""
    cdef const NotedRow* row
    cdef Noted* noted = &history.noted
    cdef object value = None
    begin_read(&history.users, IN_USE)
    try:
        if i >= noted.count:
            return None
        row = &noted.rows[i]
        if row.kind == MARKER:
            return MarkerEvent("marker", row.producer_id, row.outcome != ABORTED)
        if row.kind != TOMBSTONE:
            value = (row.offset, row.leader_epoch, metadata_at(noted, i), row.commit_timestamp,
                     row.expire_timestamp)
        key = commit_key(name_at(&noted.names.groups, row.group),
                         name_at(&noted.names.topics, row.topic), row.partition)
        return CommitEvent("commit", key, row.log_offset, row.timestamp,
                           row.producer_id if row.transactional else None, value)
    finally:
        end_use(&history.users)


cdef tuple row_at(History history, Py_ssize_t i, dict texts):
    """A commit as ``rows`` has it; None behind the last one."""
    cdef const NotedRow* row
    cdef Noted* noted = &history.noted
    cdef bint tombstone
    begin_read(&history.users, IN_USE)
    try:
        if i >= noted.count:
            return None
        row = &noted.rows[i]
        tombstone = row.kind == TOMBSTONE
        return (
            text_at(&noted.names.groups, row.group, texts, False), row.log_offset,
            None if row.timestamp == -1 else row.timestamp,
            text_at(&noted.names.topics, row.topic, texts, True), row.partition,
            None if tombstone else row.offset, None if tombstone else row.leader_epoch,
            None if tombstone else decode_utf8(metadata_at(noted, i)),
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
cdef dict columns_of(const Noted* noted, Py_ssize_t start, Py_ssize_t end):
    import numpy as np
    cdef Py_ssize_t i, n = end - start
    cdef int64_t heap_start = metadata_start(noted, start)
    cdef int64_t heap_size = (metadata_start(noted, end)) - heap_start
    cdef const NotedRow* row
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
        memcpy(&heap[0], noted.heap + heap_start, heap_size)
    bound[0] = 0
    with nogil:
        for i in range(n):
            row = &noted.rows[start + i]
            log_offset[i], timestamp[i] = row.log_offset, row.timestamp
            producer_id[i], offset[i] = row.producer_id, row.offset
            committed[i], expires[i] = row.commit_timestamp, row.expire_timestamp
            bound[i + 1] = row.metadata_end - heap_start
            epoch[i], group[i], topic[i] = row.leader_epoch, row.group, row.topic
            partition[i], kind[i] = row.partition, row.kind
            transactional[i], outcome[i] = row.transactional, row.outcome
    cut = {name: column[:n] for name, column in out.items() if name != "metadata_bounds"}
    return {**cut, "metadata": metadata, "metadata_bounds": out["metadata_bounds"],
            "groups": names_columns(&noted.names.groups),
            "topics": names_columns(&noted.names.topics)}


@cython.final
cdef class Undecided:
    """See ``history.pyi``."""
    cdef History held                    # rows in the order they came, decided ones among them
    cdef dict waiting                    # producer id -> list of rows in `held`
    cdef Py_ssize_t gone                 # rows of `held` that were decided
    cdef int users                       # see `begin_change`

    def __cinit__(self):
        self.held, self.waiting = History(), {}

    def decide(self, History events not None):
        """See ``history.pyi``."""
        cdef History decided = events
        begin_change(&self.users, "what is undecided")
        try:
            begin_read(&events.users, IN_USE)
            try:
                if events.noted.undecided:
                    decided = History()
                    self.sort_out(&events.noted, &decided.noted)
            finally:
                end_use(&events.users)
        finally:
            end_use(&self.users)
        return decided

    cdef int sort_out(self, const Noted* events, Noted* decided) except -1:
        cdef Py_ssize_t i
        cdef const NotedRow* row
        for i in range(events.count):
            row = &events.rows[i]
            if row.kind == MARKER:
                self.release(self.waiting.pop(row.producer_id, ()), row.outcome, decided)
            elif not row.transactional:
                copy_row(decided, events, i)
            else:
                self.waiting.setdefault(row.producer_id, []).append(self.held.noted.count)
                copy_row(&self.held.noted, events, i)
        if self.gone > SOME_GONE and 2 * self.gone > self.held.noted.count:
            self.move_together()
        return 0

    cdef int release(self, object rows, int8_t outcome, Noted* decided) except -1:
        cdef Py_ssize_t i
        for i in rows:
            copy_row(decided, &self.held.noted, i)
            decided.rows[decided.count - 1].outcome = outcome
            self.gone += 1
        return 0

    cdef int move_together(self) except -1:
        """Let go of the rows that were decided."""
        cdef History kept = History()
        cdef Py_ssize_t i
        for rows in self.waiting.values():
            for at, i in enumerate(rows):
                rows[at] = kept.noted.count
                copy_row(&kept.noted, &self.held.noted, i)
        self.held, self.gone = kept, 0
        return 0

    def finish(self):
        """See ``history.pyi``."""
        cdef History decided = History()
        begin_change(&self.users, "what is undecided")
        try:
            left = [row for rows in self.waiting.values() for row in rows]
            places = [self.held.noted.rows[<Py_ssize_t>row].log_offset for row in left]
            in_order = sorted(range(len(left)), key=places.__getitem__)
            self.release([left[i] for i in in_order], PENDING, &decided.noted)
            self.held, self.waiting, self.gone = History(), {}, 0
        finally:
            end_use(&self.users)
        return decided


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


cdef int copy_row(Noted* to, const Noted* of, Py_ssize_t at) except -1:
    if not noted_copy(to, of, at):
        raise MemoryError
    return 0


cdef int follow_on(History history, History later) except -1:
    begin_change(&history.users, IN_USE)
    try:
        begin_read(&later.users, IN_USE)
        try:
            if not noted_follow(&history.noted, &later.noted):
                raise MemoryError
        finally:
            end_use(&later.users)
    finally:
        end_use(&history.users)
    return 0


cdef tuple dump_history(History history):
    """Bytes of the rows, metadata, and the names' bytes and bounds."""
    import numpy as np
    cdef Noted* noted = &history.noted
    cdef uint8_t[::1] row_view, heap_view
    begin_read(&history.users, IN_USE)
    try:
        rows = np.empty(noted.count * sizeof(NotedRow), dtype=np.uint8)
        heap = np.empty(noted.heap_size, dtype=np.uint8)
        row_view, heap_view = rows, heap
        if noted.count:
            memcpy(&row_view[0], noted.rows, noted.count * sizeof(NotedRow))
        if noted.heap_size:
            memcpy(&heap_view[0], noted.heap, noted.heap_size)
        return (rows, heap, *names_columns(&noted.names.groups),
                *names_columns(&noted.names.topics))
    finally:
        end_use(&history.users)


cdef History restore_history(tuple state):
    """What `dump_history` gave; the bytes may have been cut or changed on their way."""
    cdef History history = History()
    cdef Noted* noted = &history.noted
    cdef const uint8_t[::1] rows, heap
    rows, heap, groups, group_bounds, topics, topic_bounds = state
    if rows.shape[0] % sizeof(NotedRow):
        raise CorruptData("the rows of a history are cut short")
    enter_names(noted, &noted.names.groups, groups, group_bounds)
    enter_names(noted, &noted.names.topics, topics, topic_bounds)
    if not noted_reserve(noted, rows.shape[0] // sizeof(NotedRow), heap.shape[0]):
        raise MemoryError
    if rows.shape[0]:
        memcpy(noted.rows, &rows[0], rows.shape[0])
    if heap.shape[0]:
        memcpy(noted.heap, &heap[0], heap.shape[0])
    noted.heap_size = heap.shape[0]
    enter_rows(noted, rows.shape[0] // sizeof(NotedRow))
    return history


cdef int enter_names(Noted* noted, Table* table, const uint8_t[::1] names,
                     const int64_t[::1] bounds) except -1:
    cdef Py_ssize_t i
    cdef int64_t start = 0
    cdef const uint8_t* first = &names[0] if names.shape[0] else NULL
    for i in range(1, bounds.shape[0]):
        if not start <= bounds[i] <= min(names.shape[0], start + 0xFFFF) or name_number(
                &noted.names, table, first + start, <int32_t>(bounds[i] - start)) != i - 1:
            raise CorruptData(f"name {i - 1} of a history does not fit it")
        start = bounds[i]
    return 0


cdef int enter_rows(Noted* noted, Py_ssize_t count) except -1:
    cdef Py_ssize_t i
    cdef int64_t start = 0
    cdef NotedRow* row
    for i in range(count):
        row = &noted.rows[i]
        if not (0 <= row.kind <= MARKER and 0 <= row.outcome <= PENDING
                and 0 <= row.transactional <= 1 and start <= row.metadata_end <= noted.heap_size
                and row.metadata_end - start <= 0x7FFFFFFF):
            raise CorruptData(f"row {i} of a history's {count} does not fit it")
        if row.kind != MARKER and not (
                0 <= row.group < <int64_t>noted.names.groups.count
                and 0 <= row.topic < <int64_t>noted.names.topics.count):
            raise CorruptData(f"row {i} of a history's {count} names what is not there")
        noted.undecided += row.kind == MARKER or row.transactional
        start = row.metadata_end
    noted.count = count
    return 0

"""Records of a partition as columns: the outcome of each commit, and the record that it replaced.

A question names the columns that it needs. A scan holds a few megabytes at a time; keys have
numbers, so that no text is compared.
"""
cimport cython
cimport numpy as cnp
import numpy as np
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint32_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from coterie._core.checks cimport (
    begin_change, buffer_of, end_use, int64_of, int64_or_none, texts_of, within)
from coterie._core.codec.batch cimport (
    AHEAD, FRAME_BATCH, MARKER_ABORT, MARKER_COMMIT, MIN_RECORD_V2, NO_FAULT, V2_HEADER, Batch,
    Frame, Record, Records, crc_holds, frame_batch, in_time, read_marker)
from coterie._core.codec.cursor cimport OK, Cursor, load_i16, load_i64
from coterie._core.codec.record cimport any_record, record_v2
from coterie._core.fold.another_group cimport is_of_another_group
from coterie._core.fold.commit cimport (
    KEY_GROUP, KEY_OFFSET_MAX, Commit, check_group_value, grown_columns, is_newer_key, names_from,
    read_commit_value)
from coterie._core.fold.history_buffer cimport ABORTED, COMMITTED, PENDING
from coterie._core.fold.keyindex cimport (
    KEY_FAULTY, NO_MEMORY, NO_RECORD, Key, KeyIndex, key_index_free, key_index_init, key_number,
    name_number)
from coterie._core.fold.keytable cimport coterie_keyhash, coterie_prefetch
from coterie._core.fold.one_request cimport (
    Request, repeats_partition, request_add, request_begin, request_room)


# ---- the memory of a piece's rows, and the outcome of each row -----------------------------------
# All columns of a piece lie in one block (`column_block`), at most as long as twice its rows.
# A record of a transaction is decided by its producer's next marker, in the piece or after it; any
# other record decides itself. Knows rows and batches; knows no bytes of a log.
# Cost: a step for each row of a transaction, and one for each batch.

cnp.import_array()


cdef int grow(Rows* at, dict dtypes, dict arrays, Py_ssize_t rows) except -1:
    rows = grown_columns(dtypes, arrays, at.count, at.capacity, rows)
    at.log_offset = <int64_t*>start_of(arrays, "log_offset")
    at.timestamp = <int64_t*>start_of(arrays, "timestamp")
    at.number = <int64_t*>start_of(arrays, "number")
    at.offset = <int64_t*>start_of(arrays, "offset")
    at.commit_timestamp = <int64_t*>start_of(arrays, "commit_timestamp")
    at.expire_timestamp = <int64_t*>start_of(arrays, "expire_timestamp")
    at.decided_by = <int64_t*>start_of(arrays, "decided_by")
    at.decided_ms = <int64_t*>start_of(arrays, "decided_ms")
    at.previous_offset = <int64_t*>start_of(arrays, "previous_offset")
    at.previous_log_offset = <int64_t*>start_of(arrays, "previous_log_offset")
    at.previous_timestamp = <int64_t*>start_of(arrays, "previous_timestamp")
    at.topic_id_high = <int64_t*>start_of(arrays, "topic_id_high")
    at.topic_id_low = <int64_t*>start_of(arrays, "topic_id_low")
    at.previous_row = <int32_t*>start_of(arrays, "previous_row")
    at.batch = <int32_t*>start_of(arrays, "batch")
    at.key = <int32_t*>start_of(arrays, "key")
    at.group = <int32_t*>start_of(arrays, "group")
    at.metadata_size = <int32_t*>start_of(arrays, "metadata_size")
    at.key_size = <int32_t*>start_of(arrays, "key_size")
    at.value_size = <int32_t*>start_of(arrays, "value_size")
    at.disk_bytes = <int64_t*>start_of(arrays, "disk_bytes")
    at.kind = <int8_t*>start_of(arrays, "kind")
    at.outcome = <int8_t*>start_of(arrays, "outcome")
    at.previous = <int8_t*>start_of(arrays, "previous")
    at.capacity = rows
    return 0


cdef void* start_of(dict arrays, str name) except? NULL:
    """The first element of a column; NULL: it is not requested."""
    array = arrays.get(name)
    return NULL if array is None else cnp.PyArray_DATA(array)


cdef int decide(Rows* rows, const BatchRow* batches, Py_ssize_t batch_count, int64_t until_ms,
                dict markers) except -1:
    cdef Py_ssize_t b, i, stop = rows.count
    cdef const BatchRow* batch
    cdef int64_t decided_by, decided_ms
    cdef int outcome
    if rows.count:
        memset(rows.outcome, COMMITTED, rows.count)
    if not batch_count:                      # each decides itself: see `RecordScan.finish`
        return 0
    if rows.count and rows.decided_by != NULL:
        memcpy(rows.decided_by, rows.number, rows.count * sizeof(int64_t))
        memcpy(rows.decided_ms, rows.timestamp, rows.count * sizeof(int64_t))
    for b in range(batch_count - 1, -1, -1):
        batch = &batches[b]
        if (batch.marker == MARKER_ABORT or batch.marker == MARKER_COMMIT) and (
                batch.first_ms <= until_ms or batch.first_ms == -1):
            markers[batch.producer_id] = batch.marker, batch.first_number, batch.first_ms
        if batch.transactional:
            end = markers.get(batch.producer_id)
            outcome, decided_by, decided_ms = PENDING, 0, 0
            if end is not None:
                marker, decided_by, decided_ms = end
                outcome = COMMITTED if marker == MARKER_COMMIT else ABORTED
            for i in range(batch.first_row, stop):
                rows.outcome[i] = outcome
                if outcome != PENDING and rows.decided_by != NULL:
                    rows.decided_by[i], rows.decided_ms[i] = decided_by, decided_ms
        stop = batch.first_row
    return 0


# ---- the records of a partition read into columns, a piece of the log at a time ------------------
# Each record's key gets a number (`keyindex.pxd`); each row gets its outcome and the record that it
# replaced (`record_rows`). A second reading of a log uses this, once the fold has surveyed it.
# Plain batches, which are nearly all, are read without the GIL. Compressed, old and broken batches
# go through `Records`, as in the fold. Cost: one pass over the bytes; memory for the rows of one
# piece and for all keys.

cnp.import_array()

cdef int64_t MAX_MS = 0x7FFFFFFFFFFFFFFF
cdef str IN_USE = "this scan"

ROW_DTYPES = {
    "log_offset": np.int64, "timestamp": np.int64, "number": np.int64, "offset": np.int64,
    "commit_timestamp": np.int64, "expire_timestamp": np.int64,
    "decided_by": np.int64, "decided_ms": np.int64,
    "previous_offset": np.int64, "previous_log_offset": np.int64, "previous_timestamp": np.int64,
    "topic_id_high": np.int64, "topic_id_low": np.int64,
    "previous_row": np.int32, "batch": np.int32, "key": np.int32, "group": np.int32,
    "metadata_size": np.int32, "key_size": np.int32, "value_size": np.int32,
    "disk_bytes": np.int64, "kind": np.int8,
    "outcome": np.int8, "previous": np.int8,
}
TOGETHER = (("decided_by", "decided_ms", "number"), ("disk_bytes", "key_size", "value_size"),
            ("topic_id_high", "topic_id_low"))
ALWAYS = set(  # the ids show where a key is of another topic
    "log_offset timestamp offset batch key group kind outcome previous topic_id_high topic_id_low"
    .split())
BATCH_DTYPE = np.dtype([
    ("position", np.int64), ("producer_id", np.int64), ("first_row", np.int64),
    ("first_number", np.int64), ("first_offset", np.int64), ("first_ms", np.int64),
    ("log_offset", np.int64), ("from_ms", np.int64), ("until_ms", np.int64), ("group", np.int64),
    ("producer_epoch", np.int64),
    ("size", np.int32), ("leader_epoch", np.int32), ("records", np.int32), ("marker", np.int16),
    ("transactional", np.int8), ("mixed", np.int8)])

KEY_DTYPE = np.dtype([
    ("group", np.int32), ("topic", np.int32), ("partition", np.int32), ("before", np.int32),
    ("row", np.int64), ("offset", np.int64), ("log_offset", np.int64), ("timestamp", np.int64),
    ("topic_id_high", np.int64), ("topic_id_low", np.int64)])


@cython.final
cdef class RecordScan:
    """The records of a partition as columns, in log order, with outcomes; piece by piece."""
    cdef KeyIndex index
    cdef Request request
    cdef Rows rows
    cdef Records scratch
    cdef dict dtypes, arrays             # of the requested columns
    cdef BatchRow* batches
    cdef Py_ssize_t batch_count, batch_capacity
    cdef list newer                      # keys of the piece's records of kind NEWER
    cdef Py_ssize_t newer_count          # of them, without those of a batch that was taken back
    cdef readonly list groups
    cdef readonly list topics
    cdef readonly int64_t number         # of the next record
    cdef int64_t weight                  # of the batch's records so far, of every group
    cdef int64_t until_ms
    cdef bint check_crc, checks_requests, failed, piece_transactional
    cdef int users

    def __cinit__(self, *, groups=None, at_ms=None, number=0, columns=None,
                  bint check_crc=True):
        cdef str name
        key_index_init(&self.index)
        self.scratch = Records.__new__(Records)
        self.until_ms = MAX_MS
        if int64_or_none(at_ms, "at_ms") is not None:
            self.until_ms = at_ms
        self.number = int64_of(number, "number")
        self.check_crc = check_crc
        requested = set(ROW_DTYPES | {"mixed": None}) if columns is None else ALWAYS | set(columns)
        for together in TOGETHER:
            if not requested.isdisjoint(together):
                requested |= set(together)
        self.dtypes = {name: dtype for name, dtype in ROW_DTYPES.items() if name in requested}
        self.checks_requests = "mixed" in requested
        self.groups, self.topics, self.arrays = [], [], {}
        if groups is None:
            self.index.requested_groups = -1
        else:
            for name in sorted(texts_of(groups, "groups")):
                self.add_group(name)
            self.index.requested_groups = self.index.groups.count

    def __dealloc__(self):
        key_index_free(&self.index)
        free(self.request.slots)
        free(self.batches)

    cdef int add_group(self, str name) except -1:
        cdef bytes raw = name.encode("utf-8", "surrogatepass")
        cdef const uint8_t* start = raw
        if name_number(&self.index.groups, start, <int32_t>min(len(raw), 0xFFFF)) < 0:
            raise MemoryError
        return 0

    def scan(self, data, *, position=0, max_bytes=None, tail=()):
        """Read the records of a segment's batches, from a position on."""
        cdef const uint8_t[::1] view = buffer_of(data, "data")
        cdef int64_t start = within(position, "position", 0, view.shape[0])
        cdef int64_t size = view.shape[0], limit = size
        if max_bytes is not None:
            limit = start + min(within(max_bytes, "max_bytes", 1, MAX_MS), size - start)
        cdef dict markers = dict(tail)
        begin_change(&self.users, IN_USE)
        try:
            self.begin(limit - start)
            if size:
                start = self.run(&view[0], size, limit, start)
            decide(&self.rows, self.batches, self.batch_count if self.piece_transactional else 0,
                   self.until_ms, markers)
            link_previous(&self.index, &self.rows)
            return self.finish(), start
        finally:
            end_use(&self.users)

    @property
    def key_count(self):
        """How many keys (group, topic, partition) were seen."""
        return self.index.keys.count

    def keys(self, start=0):
        """Return the keys from number ``start`` on, each with its last record that counts."""
        cdef Py_ssize_t count = self.index.keys.count
        cdef Py_ssize_t first = within(start, "start", 0, count)
        begin_change(&self.users, IN_USE)
        try:
            out = np.empty(count - first, dtype=KEY_DTYPE)
            if out.nbytes != (count - first) * <Py_ssize_t>sizeof(Key):
                raise ValueError("KEY_DTYPE does not match the struct Key")
            if count > first:
                memcpy(cnp.PyArray_DATA(out), self.index.items + first,
                       (count - first) * sizeof(Key))
            return out
        finally:
            end_use(&self.users)

    def go_back(self, keys, number):
        """Forget what records since a state did: ``keys`` and ``number`` are those of then."""
        cdef const uint8_t[::1] known = np.ascontiguousarray(keys, KEY_DTYPE).view(np.uint8)
        cdef Py_ssize_t i, count = known.shape[0] // <Py_ssize_t>sizeof(Key)
        cdef int64_t record = int64_of(number, "number")
        cdef Key* key
        begin_change(&self.users, IN_USE)
        try:
            if count > self.index.keys.count:
                raise ValueError("keys must be those of an earlier state of this scan")
            if count:
                memcpy(self.index.items, &known[0], known.shape[0])
            for i in range(count, self.index.keys.count):
                key = &self.index.items[i]
                key.before = NO_RECORD
                key.row = key.offset = key.log_offset = key.timestamp = -1
                key.topic_id_high = key.topic_id_low = -1
            self.number = record
        finally:
            end_use(&self.users)

    cdef int begin(self, int64_t size) except -1:
        self.newer, self.newer_count, self.piece_transactional = [], 0, False
        self.rows.count = self.rows.capacity = 0
        self.batch_count = 0
        return grow(&self.rows, self.dtypes, self.arrays, size // BYTES_A_ROW)

    cdef int64_t run(self, const uint8_t* data, int64_t size, int64_t limit, int64_t at) except -1:
        """Read batches up to `limit`, the last one whole; return where the next one begins."""
        cdef Batch batch
        cdef bint framed
        while at < limit:
            with nogil:
                framed = self.run_plain(data, size, limit, &at, &batch)
            if self.failed:
                raise MemoryError
            if framed:
                self.add_batch(&batch)
        return at

    cdef bint run_plain(self, const uint8_t* data, int64_t size, int64_t limit, int64_t* at,
                        Batch* batch) noexcept nogil:
        """Read plain batches. False: the end. True: `batch` is whole and not read yet, as it is not
        plain or its rows have no room."""
        cdef Frame frame
        cdef int32_t count
        while at[0] < limit:
            frame = frame_batch(data, size, at[0], batch)
            at[0] += batch.size
            if frame != FRAME_BATCH or (self.check_crc and not crc_holds(batch)):
                continue
            count = batch.record_count
            if batch.magic != 2 or batch.codec != 0 or batch.control or not (
                    0 < count <= batch.size // MIN_RECORD_V2) or (
                    self.rows.count + count > self.rows.capacity):
                return True
            if not self.add_plain(batch):
                return True
        return False

    cdef int add_batch(self, const Batch* batch) except -1:
        """Read a batch that is not plain, or for which there was no room."""
        cdef Py_ssize_t i
        cdef int32_t count = batch.record_count
        if batch.magic == 2 and batch.codec == 0 and not batch.control and (
                0 < count <= batch.size // MIN_RECORD_V2):
            self.reserve(count)
            if self.add_plain(batch):
                return 0
        if self.scratch.read(batch) != NO_FAULT:
            return 0
        self.reserve(self.scratch.count)
        self.begin_batch(batch)
        for i in range(self.scratch.count):
            self.add_record(batch, &self.scratch.items[i])
        self.end_batch(batch)
        if self.failed:
            raise MemoryError
        return 0

    cdef int reserve(self, Py_ssize_t rows) except -1:
        if self.rows.count + rows > self.rows.capacity:
            grow(&self.rows, self.dtypes, self.arrays, self.rows.count + rows)
        return 0

    cdef bint add_plain(self, const Batch* batch) noexcept nogil:
        """Read an uncompressed v2 batch, for which there is room.

        False: its records do not fill it exactly, and none of them was added.
        """
        cdef Cursor cur
        cdef Record record
        cdef Py_ssize_t rows = self.rows.count, newer = self.newer_count
        cdef int64_t number = self.number
        cdef int32_t _i
        self.begin_batch(batch)
        if self.index.requested_groups >= 0 and is_of_another_group(
                &self.index, batch, self.until_ms, &self.batches[self.batch_count]):
            self.number += batch.record_count
            self.end_batch(batch)
            return True
        cur.at, cur.end = batch.start + V2_HEADER, batch.start + batch.size
        for _i in range(batch.record_count):
            # Prefetches bytes of later batches: see columns.pyx. Never reads them.
            coterie_prefetch(cur.at + AHEAD)
            coterie_prefetch(cur.at + AHEAD + 64)
            if record_v2(&cur, batch, &record) != OK:
                break
            self.add_record(batch, &record)
        else:
            if cur.at == cur.end:
                self.end_batch(batch)
                return True
        self.rows.count, self.number, self.newer_count = rows, number, newer
        return False

    cdef inline void begin_batch(self, const Batch* batch) noexcept nogil:
        cdef BatchRow* row
        cdef void* grown
        if self.batch_count == self.batch_capacity:
            grown = realloc(self.batches, (2 * self.batch_capacity + 64) * sizeof(BatchRow))
            if grown == NULL:
                self.failed = True
                self.batch_count = 0
                return
            self.batches = <BatchRow*>grown
            self.batch_capacity = 2 * self.batch_capacity + 64
        row = &self.batches[self.batch_count]
        memset(row, 0, sizeof(BatchRow))
        row.position, row.producer_id = batch.position, batch.producer_id
        row.first_row, row.first_number = self.rows.count, self.number
        row.first_offset = row.first_ms = row.log_offset = row.from_ms = row.until_ms = -1
        row.group = row.marker = -1
        row.size, row.leader_epoch = <int32_t>batch.size, batch.leader_epoch
        row.producer_epoch = batch.producer_epoch
        row.transactional = batch.transactional
        self.weight = 0
        if self.checks_requests:
            request_begin(&self.request)

    cdef inline void end_batch(self, const Batch* batch) noexcept nogil:
        cdef BatchRow* row = &self.batches[self.batch_count]
        if batch.transactional:      # markers decide no other records
            self.piece_transactional = True
        if self.rows.disk_bytes != NULL:
            share_out(&self.rows, row.first_row, batch.size, self.weight)
        if self.checks_requests and not batch.control:
            row.mixed = self.request.mixed or (
                not self.request.ascending and self.repeats_a_partition(batch))
        self.batch_count += 1

    cdef bint repeats_a_partition(self, const Batch* batch) noexcept nogil:
        """Whether a batch commits one partition twice."""
        cdef Cursor cur
        cdef Record record
        cdef Py_ssize_t i, count = batch.record_count
        cdef bint plain = batch.magic == 2 and batch.codec == 0
        if not plain:
            count = self.scratch.count
        if not request_room(&self.request, count):
            self.failed = True
            return False
        cur.at, cur.end = batch.start + V2_HEADER, batch.start + batch.size
        for i in range(count):
            if not plain:
                record = self.scratch.items[i]
            elif any_record(&cur, batch, &record) != OK:    # see `only_group_metadata`
                return False
            if repeats_partition(&self.request, &record, self.until_ms):
                return True
        return False

    cdef inline void add_record(self, const Batch* batch, const Record* record) noexcept nogil:
        """Add a record's row, for which there is room, if its group is requested."""
        cdef Rows* rows = &self.rows
        cdef Py_ssize_t n = rows.count
        cdef BatchRow* row = &self.batches[self.batch_count]
        cdef Commit commit
        cdef int16_t version
        cdef int32_t key = -1, group = -1
        cdef int kind
        cdef const uint8_t* name = NULL
        cdef int32_t name_size = 0
        if self.number == row.first_number:
            row.first_offset, row.first_ms = record.offset, record.timestamp
            if batch.control:
                row.marker = self.marker_of(record)
        self.number += 1
        if not in_time(record, self.until_ms):
            return
        commit.offset = commit.commit_timestamp = commit.expire_timestamp = -1
        commit.metadata_size, commit.topic_id = 0, NULL
        if batch.control:
            kind = MARKER
        elif record.key_size < 2:
            return
        elif 0 <= (version := load_i16(record.key)) <= KEY_OFFSET_MAX:
            key = key_number(&self.index, record.key, record.key_size, &group)
            if key == KEY_FAULTY or (record.value_size >= 0 and read_commit_value(
                    record.value, record.value_size, &commit) != OK):
                return
            kind = OFFSET if record.value_size >= 0 else OFFSET_TOMBSTONE
            name, name_size = record.key + 4, load_i16(record.key + 2)
        else:
            kind = self.kind_of(record, version, &name, &name_size)
            if kind == FAULTY:
                return
            if name != NULL:
                group = name_number(&self.index.groups, name, name_size)
                key = NO_MEMORY if group == NO_MEMORY else -1
        if key == NO_MEMORY:
            self.failed = True
            return
        self.add_to_batch(row, record, kind, name, name_size)
        if self.index.requested_groups >= 0 and not 0 <= group < self.index.requested_groups:
            return
        if kind == NEWER:
            self.add_newer(record)
        rows.log_offset[n], rows.timestamp[n] = record.offset, record.timestamp
        rows.offset[n], rows.batch[n] = commit.offset, <int32_t>self.batch_count
        rows.key[n], rows.group[n], rows.kind[n] = key, group, kind
        if rows.number != NULL:
            rows.number[n] = self.number - 1
        if rows.commit_timestamp != NULL:
            rows.commit_timestamp[n] = commit.commit_timestamp
        if rows.expire_timestamp != NULL:
            rows.expire_timestamp[n] = commit.expire_timestamp
        rows.topic_id_high[n] = rows.topic_id_low[n] = 0
        if commit.topic_id != NULL:
            rows.topic_id_high[n] = load_i64(commit.topic_id)
            rows.topic_id_low[n] = load_i64(commit.topic_id + 8)
        if rows.metadata_size != NULL:
            rows.metadata_size[n] = commit.metadata_size
        if rows.key_size != NULL:
            rows.key_size[n], rows.value_size[n] = record.key_size, record.value_size
        if rows.disk_bytes != NULL:
            rows.disk_bytes[n] = self.weight
        rows.count = n + 1

    cdef inline void add_to_batch(self, BatchRow* row, const Record* record, int kind,
                                  const uint8_t* name, int32_t name_size) noexcept nogil:
        """Add a record to its batch's row, whichever groups are requested."""
        if row.records == 0:
            row.log_offset, row.from_ms = record.offset, record.timestamp
            if name != NULL:
                row.group = <int64_t>(coterie_keyhash(name, name_size) >> 1)
        row.until_ms = record.timestamp
        row.records += 1
        if self.rows.disk_bytes != NULL:
            self.weight += weight_of(record.key_size, record.value_size)
        if self.checks_requests:
            if kind == NEWER:
                row.mixed = self.request.mixed = True
            request_add(&self.request, record, kind == OFFSET, name, name_size)

    cdef int marker_of(self, const Record* record) noexcept nogil:
        cdef int marker = -1
        read_marker(record, &marker)
        return marker if marker >= 0 else -1

    cdef int kind_of(self, const Record* record, int16_t version, const uint8_t** name,
                     int32_t* size) noexcept nogil:
        """Return the kind of a record other than a commit; fill in its group's name, if any."""
        if version != KEY_GROUP and not is_newer_key(version):
            return UNKNOWN
        size[0] = load_i16(record.key + 2) if record.key_size >= 4 else -1
        if size[0] < 0 or size[0] > record.key_size - 4:
            return FAULTY
        name[0] = record.key + 4
        if version > KEY_GROUP:
            return NEWER
        if record.value_size < 0:
            return GROUP_TOMBSTONE
        return GROUP if check_group_value(record.value, record.value_size) == OK else FAULTY

    cdef void add_newer(self, const Record* record) noexcept with gil:
        self.newer[self.newer_count:] = [record.key[:record.key_size]]
        self.newer_count += 1

    cdef dict finish(self):
        """Return the piece's columns, and forget them."""
        cdef Py_ssize_t n = self.rows.count
        out = {name: array[:n] for name, array in self.arrays.items()}
        if not self.piece_transactional and "decided_by" in out:
            out["decided_by"], out["decided_ms"] = out["number"], out["timestamp"]
        self.arrays = {}
        self.groups += names_from(&self.index.groups, <uint32_t>len(self.groups))
        self.topics += names_from(&self.index.topics, <uint32_t>len(self.topics))
        out["newer_keys"] = self.newer[:self.newer_count]
        out["batches"] = np.empty(self.batch_count, dtype=BATCH_DTYPE)
        if out["batches"].nbytes != self.batch_count * <Py_ssize_t>sizeof(BatchRow):
            raise ValueError("BATCH_DTYPE does not match the struct BatchRow")
        if self.batch_count:
            memcpy(cnp.PyArray_DATA(out["batches"]), self.batches,
                   self.batch_count * sizeof(BatchRow))
        return out

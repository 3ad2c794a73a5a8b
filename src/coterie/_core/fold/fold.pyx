"""One log partition folded into the last state of each key. See ``fold.pyi``.

Knows bytes and positions; reads no file and no clock. Plain commits, nearly all there is, are
parsed and hashed, and wait in a queue (`commit_queue.pxd`) for their places to come from memory.
Group metadata, transactions, faults and what is compressed go through `Records`, in log order with
the rest.
Source: GroupMetadataManager.doLoadGroupsAndOffsets, LogSegment.recover.
Rules: docs/rules/offsets.md#load.
"""
from collections import namedtuple

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t

from coterie._core.checks cimport buffer_of, int64_of, int64_or_none, text_of, texts_of, within
from coterie._core.codec.batch cimport (
    FAULT_CRC, FAULT_KEY, FAULT_MARKER, FAULT_VALUE, FRAME_BATCH, FRAME_END, FRAME_MAGIC,
    MARKER_ABORT, MARKER_COMMIT, MIN_RECORD_V2, NO_FAULT, Batch, Frame, Record, Records, crc_holds,
    frame_as_loader, frame_batch, frame_to_fault, in_time, plausible_base, read_marker,
    unread_magic_holds)
from coterie._core.fold.commit cimport Commit, canonical, commit_key, detail_of, group_of, record_of
from coterie._core.codec.cursor cimport load_i16, wrap_add
from coterie._core.fold.generations cimport GroupView, note
from coterie._core.fold.keytable cimport (
    Entry, Value, coterie_keyhash, own_all, own_metadata, prefetch_entry,
    prefetch_slot, remove_plain, set_plain, table_free, table_init, table_intern)
from coterie._core.fold.history cimport History, add_pending, begin_noting, end_noting
from coterie._core.fold.deferred_groups cimport (
    MOST_LATER, deferred_free, deferred_put, groups_alone)
from coterie._core.fold.place_cache cimport cache_free, cache_init
from coterie._core.fold.names cimport names_forget
from coterie._core.fold.group_filter cimport (
    ALL_KEPT, NONE_KEPT, Sifted, only_keep, passes_over, sift)
from coterie._core.fold.record_kind cimport (
    ANOTHER_GROUP, FAULTY, GROUP, LEFT_OUT, NEWER, ODD_COMMIT, PLAIN_COMMIT, UNKNOWN, Parsed,
    classify, parsed_free, parsed_reserve)
from coterie._core.fold.producers cimport end_transaction, pend, producer_of
from coterie._core.fold.survey cimport Survey
from coterie._core.fold.tracks cimport Stamp, track_key, tracks_asked, tracks_free
from coterie._core.fold.commit_queue cimport (
    FULL, buffer_parsed, queue_apply, queue_batch, queue_clear, queue_free, queue_reserve, to_value)

from coterie._core.codec.batch import FRAME_DETAIL, KINDS
from coterie._core.fold.generations import GroupLog
from coterie._core.codec.schema import decode_key, decode_value
from coterie.errors import ArgumentError, CorruptData

Fault = namedtuple("Fault", "file position base_offset kind offset detail", module=__name__)
Fault.__doc__ = """What could not be taken, and where."""
Scanned = namedtuple(
    "Scanned", "file position bytes batches records first_offset last_offset max_timestamp gap "
    "first_timestamp", module=__name__)
Scanned.__doc__ = """The result of scanning a piece of a file; times in ms, -1 for none."""

ON_FAULT = {"skip": SKIP, "recover": RECOVER, "load": LOAD, "stop": STOP}

cdef int64_t MAX_MS = 0x7FFFFFFFFFFFFFFF
cdef int64_t FURTHEST = <int64_t>1 << 62      # a place in a file, to which a piece's may be added


@cython.final
cdef class PartitionFold:
    """The latest state of each key in a partition of ``__consumer_offsets`` or a piece."""

    def __cinit__(self, *, on_fault="skip", at_ms=None, only=None, bint history=False,
                  bint survey=False, tracking=None):
        if text_of(on_fault, "on_fault") not in ON_FAULT:
            raise ArgumentError(f"on_fault must be one of {', '.join(ON_FAULT)}, not {on_fault!r}")
        table_init(&self.table)
        table_init(&self.kept.names)
        cache_init(&self.place_cache)
        self.records = Records.__new__(Records)
        self.on_fault = ON_FAULT[on_fault]
        self.at_ms = int64_or_none(at_ms, "at_ms")
        self.until_ms = MAX_MS if at_ms is None else at_ms
        self.only = None if only is None else frozenset(
            name.encode("utf-8", "surrogatepass") for name in texts_of(only, "only"))
        self.filters = only is not None
        only_keep(&self.kept, self.only or ())
        self.producers, self.groups, self.newer, self.unknown = {}, {}, {}, {}
        self.faults, self.segments = [], []
        self.keep_history(History() if history else None)
        self.survey = Survey() if survey else None
        self.expected_offset = -1
        self.tracks = tracks_asked(&self.asked_tracks, tracking)
        self.group_records = [] if survey or tracking is not None else None

    cdef void keep_history(self, History history):
        self.history = history
        self.buffer = NULL if history is None else &history.buffer

    def __dealloc__(self):
        table_free(&self.table)
        table_free(&self.kept.names)
        cache_free(&self.place_cache)
        tracks_free(&self.asked_tracks)
        queue_free(&self.queue)
        deferred_free(&self.deferred)
        parsed_free(&self.parsed)

    @property
    def key_count(self):
        """How many keys (group, topic, partition) were seen."""
        return self.table.count

    @property
    def metadata_bytes(self):
        """Bytes of memory that the keys' metadata takes, dead and free ones among them."""
        return self.table.metadata.held

    def scan(self, data, *, file="", position=0, expected_offset=-1, max_bytes=None):
        """Apply whole batches, which follow on what was scanned before; return the bytes taken."""
        cdef const uint8_t[::1] view = buffer_of(data, "data")
        cdef str name = text_of(file, "file")
        cdef int64_t start = within(position, "position", 0, FURTHEST)
        cdef int64_t expected = int64_of(expected_offset, "expected_offset")
        cdef int64_t limit = within(
            FURTHEST if max_bytes is None else max_bytes, "max_bytes", 1, FURTHEST)
        begin_noting(&self.users, self.history)
        try:
            return self.scan_piece(view, limit, name, start, expected)
        finally:
            end_noting(&self.users, self.history)

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
            self.seal()
        self.segments.append(Scanned(
            file, position, taken, self.batch_count, self.record_count, self.first_offset,
            self.last_offset, self.max_timestamp, bool(self.gap), self.first_timestamp))
        return data.shape[0] if self.failed or self.cut or self.stopped else taken

    cdef int seal(self) except -1:
        """Copy what is borrowed from the piece's bytes, which may go now."""
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
        cdef Met met
        cdef int64_t at = 0
        queue_clear(&self.queue)
        self.deferred.count = 0
        self.takes_plain = self.until_ms >= -1
        while at < limit and not (self.failed or self.cut or self.stopped):
            met = self.run_plain(data, size, limit, BATCHES_HELD, &at, &frame, &batch)
            if met == PLAIN:
                with nogil:
                    met = self.run_plain(data, size, limit, size, &at, &frame, &batch)
            if met == NO_MEMORY:
                raise MemoryError
            self.take_later()
            if met == NOTHING:
                break
            if met == PLAIN or met == MANY_LATER:
                continue
            if self.on_fault == RECOVER and (met == BAD_SUM or self.recovery_cuts(frame, &batch)):
                self.cut = True
                self.frame_fault(frame, &batch)
            elif frame == FRAME_END:
                break
            elif frame != FRAME_BATCH:
                self.frame_fault(frame, &batch)
            elif met == BAD_SUM:
                self.fault_at(FAULT_CRC, &batch, None,
                              f"the stored checksum {batch.crc} does not hold")
            else:
                self.take_waiting()
                self.take_batch(&batch)
            self.seq += 1
        self.take_waiting()
        return at

    cdef Met run_plain(self, const uint8_t* data, int64_t size, int64_t limit, int64_t most,
                       int64_t* at, Frame* frame, Batch* batch) noexcept nogil:
        """Take plain batches, so many at most, and say what came then: one that is framed but not
        taken, or PLAIN, for there may be more."""
        cdef Met met
        while at[0] < limit:
            if most == 0:
                return PLAIN
            frame[0] = (frame_as_loader(data, size, at[0], batch) if self.on_fault == LOAD
                        else frame_batch(data, size, at[0], batch))
            at[0] += batch.size
            if frame[0] != FRAME_BATCH:
                return OTHER
            if self.on_fault != LOAD and not crc_holds(batch):
                return BAD_SUM
            met = self.take_plain(batch)
            if met == PLAIN or met == MANY_LATER:
                self.seq += 1
            if met != PLAIN:
                return met
            most -= 1
        return NOTHING

    cdef Met take_plain(self, const Batch* batch) noexcept nogil:
        """A batch of nothing but plain commits, as nearly all are, or of group metadata, which is
        put off; OTHER: it is neither, or has a fault, and none of it is taken."""
        cdef int32_t count = batch.record_count
        cdef Sifted sifted
        if (batch.magic != 2 or batch.codec != 0 or batch.control
                or count < 1 or count > batch.size // MIN_RECORD_V2 or not self.takes_plain):
            return OTHER
        sifted = sift(&self.kept, batch, self.until_ms) if self.filters else ALL_KEPT
        if sifted == NONE_KEPT and not (batch.transactional and self.survey is not None):
            self.count_batch(batch, batch.base_offset, count)
            return PLAIN
        if sifted != ALL_KEPT or batch.transactional:
            return OTHER
        if queue_reserve(&self.queue, count) != 0:
            return NO_MEMORY
        if queue_batch(&self.queue, &self.table, &self.place_cache, self.buffer, self.tracks, batch,
                       self.until_ms, self.seq):
            self.count_batch(batch, batch.base_offset, count)
            if self.queue.count < FULL or not queue_apply(
                    &self.queue, &self.table, &self.place_cache, self.tracks):
                return PLAIN
        elif not groups_alone(batch, self.until_ms):
            return OTHER
        elif deferred_put(&self.deferred, batch) == 0:
            self.count_batch(batch, batch.base_offset, count)
            return PLAIN if self.deferred.count < MOST_LATER else MANY_LATER
        return NO_MEMORY

    cdef int take_later(self) except -1:
        """Whatever else becomes a Python object first lets what was put off go before it."""
        cdef int32_t i
        for i in range(self.deferred.count):
            if self.records.read(&self.deferred.items[i]) == NO_FAULT:
                self.apply_all(&self.deferred.items[i])   # of no transaction: needs no number
        self.deferred.count = 0
        return 0

    cdef int take_waiting(self) except -1:
        """Whatever else changes state first lets what waits go before it."""
        if self.queue.count and queue_apply(
                &self.queue, &self.table, &self.place_cache, self.tracks) != 0:
            raise MemoryError
        return 0

    cdef bint recovery_cuts(self, int frame, const Batch* batch) except -1:
        """LogSegment.recover: lengths and checksums are looked at, the magic is not."""
        if frame == FRAME_BATCH:
            return False                       # its checksum was looked at before
        if frame == FRAME_MAGIC:
            return not unread_magic_holds(batch)
        return frame != FRAME_END

    cdef int frame_fault(self, int frame, const Batch* batch) except -1:
        return self.fault_at(frame_to_fault(frame), batch, None, FRAME_DETAIL[frame])

    cdef int fault_at(self, int kind, const Batch* batch, object offset, str detail) except -1:
        """Note a fault, and what it means for the rest of the partition."""
        base = None
        if plausible_base(kind, batch.base_offset, self.expected_offset):
            base = batch.base_offset
        self.faults.append(Fault(self.file, self.base_position + batch.position, base, KINDS[kind],
                                 offset, detail))
        if self.on_fault == STOP:
            self.stopped = True
        elif self.on_fault == LOAD or (self.on_fault == RECOVER and not self.cut):
            self.failed = True
        return 0

    cdef int take_batch(self, const Batch* batch) except -1:
        cdef int fault = self.records.read(batch)
        cdef int64_t first = batch.base_offset
        if fault != NO_FAULT:
            return self.fault_at(fault, batch, None, self.records.detail)
        if batch.magic < 2 and self.records.count:
            first = self.records.items[0].offset
        self.count_batch(batch, first, self.records.count)
        if batch.control:
            return self.apply_marker(batch) if self.records.count else 0
        return self.apply_all(batch) if self.records.count else 0

    cdef void count_batch(self, const Batch* batch, int64_t first, Py_ssize_t count) noexcept nogil:
        """Note a batch that could be read: what the summary and the trust in a log go by."""
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

    cdef int apply_all(self, const Batch* batch) except -1:
        """Every record of a data batch, in order."""
        cdef Py_ssize_t i = 0, count = self.records.count
        cdef int64_t batch_offset = self.records.items[0].offset
        cdef bint plain = not batch.transactional
        if parsed_reserve(&self.parsed, count) != 0:
            raise MemoryError
        if plain and count > RECORDS_HELD:
            with nogil:
                self.classify_all(count)
                i = self.apply_plains(batch, i, count, batch_offset)
        else:
            self.classify_all(count)
            if batch.transactional and self.survey is not None:
                self.survey.note_open(batch.producer_id, self.parsed.items, count,
                                      self.number - count)
        while 0 <= i < count and not (self.failed or self.stopped):
            if plain and self.parsed.items[i].kind == PLAIN_COMMIT:
                i = self.apply_plains(batch, i, count, batch_offset)
                continue
            if self.parsed.items[i].kind < LEFT_OUT:
                self.apply_other(batch, &self.records.items[i], &self.parsed.items[i], batch_offset)
            i += 1
        if i < 0:
            raise MemoryError
        return 0

    cdef void classify_all(self, Py_ssize_t count) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(count):
            classify(&self.records.items[i], self.until_ms, &self.parsed.items[i])
            if self.filters and passes_over(
                    &self.kept, &self.records.items[i], &self.parsed.items[i]):
                self.parsed.items[i].kind = ANOTHER_GROUP
            if self.parsed.items[i].kind == PLAIN_COMMIT:
                prefetch_slot(&self.table, self.parsed.items[i].hash)
        for i in range(count):
            if self.parsed.items[i].kind == PLAIN_COMMIT:
                prefetch_entry(&self.table, self.parsed.items[i].hash)

    cdef Py_ssize_t apply_plains(self, const Batch* batch, Py_ssize_t i, Py_ssize_t count,
                                 int64_t batch_offset) noexcept nogil:
        """Apply plain commits and say which record is none; -1: no memory."""
        while i < count and self.parsed.items[i].kind == PLAIN_COMMIT:
            if self.buffer != NULL and not buffer_parsed(
                    self.buffer, &self.records.items[i], &self.parsed.items[i].commit):
                return -1
            if self.apply_plain(
                    &self.records.items[i], &self.parsed.items[i], batch_offset) != 0:
                return -1
            i += 1
        return i

    cdef int apply_plain(self, const Record* record, Parsed* parsed,
                         int64_t batch_offset) noexcept nogil:
        """-1: no memory."""
        cdef Commit* commit = &parsed.commit
        cdef Entry* entry
        cdef Value value
        cdef Stamp stamp
        cdef int64_t index = table_intern(&self.table, parsed.hash, commit.key, commit.key_size)
        if index < 0:
            return -1
        entry = &self.table.entries[index]
        to_value(commit, batch_offset, &value)
        stamp.log_offset, stamp.timestamp = record.offset, record.timestamp
        if self.tracks != NULL and track_key(
                self.tracks, &self.table, index, &stamp, NULL if commit.tombstone else &value):
            return -1
        if commit.tombstone:
            remove_plain(&self.table, entry, self.seq)
            return 0
        set_plain(&self.table, entry, &value, self.seq)
        return own_metadata(&self.table, entry) if self.records.inflated else 0

    cdef int apply_other(self, const Batch* batch, Record* record, Parsed* parsed,
                         int64_t batch_offset) except -1:
        cdef bytes group, topic
        cdef Commit* commit = &parsed.commit
        if parsed.kind == FAULTY:
            return self.fault_at(parsed.fault, batch, record.offset, detail_of(record))
        if parsed.kind == GROUP:
            return self.apply_group(batch, record)
        if parsed.kind == NEWER:
            return self.apply_newer(batch, record)
        if parsed.kind == UNKNOWN:
            self.unknown[parsed.version] = self.unknown.get(parsed.version, 0) + 1
            return 0
        group = canonical(commit.group[:commit.group_size])
        if self.only is not None and group not in self.only:
            return 0
        if parsed.kind == ODD_COMMIT:
            topic = canonical(commit.topic[:commit.topic_size])
            key = commit_key(group, topic, commit.partition)
            commit.key = key
            commit.key_size = <int32_t>len(key)
            parsed.hash = coterie_keyhash(commit.key, commit.key_size)
        if batch.transactional:
            return self.apply_pending(batch, record, parsed, batch_offset)
        if self.buffer != NULL and not buffer_parsed(self.buffer, record, commit):
            raise MemoryError
        if self.apply_plain(record, parsed, batch_offset) != 0:
            raise MemoryError
        return 0

    cdef int apply_pending(self, const Batch* batch, const Record* record, Parsed* parsed,
                           int64_t batch_offset) except -1:
        cdef Commit* commit = &parsed.commit
        cdef Value value
        cdef int64_t index = table_intern(&self.table, parsed.hash, commit.key, commit.key_size)
        if index < 0:
            raise MemoryError
        to_value(commit, batch_offset, &value)
        add_pending(self.history, batch.producer_id, record, commit.key, commit.key_size,
                    NULL if commit.tombstone else &value)
        return pend(producer_of(self.producers, batch.producer_id), index,
                    NULL if commit.tombstone else &value, record, self.tracks)

    cdef int apply_marker(self, const Batch* batch) except -1:
        """The end of a transaction: a COMMIT puts what was pending, any type forgets it."""
        cdef Record* record = &self.records.items[0]
        cdef int kind = -1
        if not in_time(record, self.until_ms):
            return 0
        if read_marker(record, &kind) != NO_FAULT or (
                kind != MARKER_COMMIT and kind != MARKER_ABORT):
            return self.fault_at(FAULT_MARKER, batch, None,
                                 f"a control batch of type {kind}, neither ABORT nor COMMIT")
        end_transaction(self.producers, batch.producer_id, kind == MARKER_COMMIT, &self.table,
                        self.tracks, self.history, self.seq)
        if self.survey is not None:
            self.survey.note_end(batch.producer_id, kind, self.number - self.records.count,
                                 record.timestamp)
        return 0

    cdef int apply_group(self, const Batch* batch, Record* record) except -1:
        cdef GroupView view
        cdef bytes group = group_of(record)
        if group is None:
            return self.fault_at(FAULT_KEY, batch, record.offset, "a group key cut short")
        try:
            view = GroupView(None if record.value_size < 0 else record.value[:record.value_size])
        except CorruptData:
            return self.fault_at(FAULT_VALUE, batch, record.offset, detail_of(record))
        if self.only is not None and group not in self.only:
            return 0
        self.keep_record(batch, record, group)
        log = self.groups.get(group)
        if log is None:
            log = self.groups[group] = GroupLog()
        return note(log, record.offset, record.timestamp, view)

    cdef int apply_newer(self, const Batch* batch, Record* record) except -1:
        """Key versions 3 to 23: the classic loader skips them; others want their last value."""
        cdef bytes key, value, group
        if self.on_fault == LOAD or self.on_fault == RECOVER:
            version = load_i16(record.key)
            self.unknown[version] = self.unknown.get(version, 0) + 1
            return 0
        key, value = record_of(record)[3:]
        group = group_of(record)
        if group is not None and (self.only is None or group in self.only):
            self.keep_record(batch, record, group)
        try:
            decode_key(key)
        except CorruptData as error:
            return self.fault_at(FAULT_KEY, batch, record.offset, str(error))
        if self.only is not None and group not in self.only:
            return 0
        if value is not None:
            try:
                decode_value(load_i16(record.key), value)
            except CorruptData as error:
                return self.fault_at(FAULT_VALUE, batch, record.offset, str(error))
        self.newer[key] = (value, record.offset, record.timestamp)
        return 0

    cdef int keep_record(self, const Batch* batch, const Record* record, bytes group) except -1:
        """Of a record that is no commit, all that tells of its group, where that is asked for."""
        if self.group_records is not None:
            self.group_records.append(
                (group, *record_of(record), self.file, self.base_position + batch.position))
        return 0

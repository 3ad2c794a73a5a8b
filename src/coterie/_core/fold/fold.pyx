"""The bytes of one log partition folded into the last state of each key.

Frames batches, checks them and decides how each is read. Plain commits, which are nearly all
records, are parsed and hashed without the GIL and queued (`commit_queue.pxd`) while their table
entries come from memory. Batches of group metadata alone are deferred (`deferred_groups.pxd`).
Everything else (transactions, faults, compressed and old batches) is read into `Records` and
applied by `apply_records`, in log order with the rest.
Reads no file and no clock. Cost: one pass over the bytes for the checksum, one for the records.
Source: GroupMetadataManager.doLoadGroupsAndOffsets, LogSegment.recover.
Rules: docs/rules/offsets.md#load.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t

from coterie._core.checks cimport buffer_of, int64_of, text_of, within
from coterie._core.codec.batch cimport (
    FAULT_CRC, FRAME_BATCH, FRAME_END, FRAME_MAGIC, MIN_RECORD_V2, NO_FAULT, Batch, Frame,
    crc_holds, frame_as_loader, frame_batch, frame_to_fault, unread_magic_holds)
from coterie._core.codec.cursor cimport wrap_add
from coterie._core.fold.apply_records cimport apply_batch, apply_marker
from coterie._core.fold.commit_queue cimport (
    FULL, queue_apply, queue_batch, queue_clear, queue_reserve)
from coterie._core.fold.deferred_groups cimport MAX_DEFERRED, deferred_put, only_group_metadata
from coterie._core.fold.fold_state cimport LOAD, RECOVER, FoldState, add_fault
from coterie._core.fold.group_filter cimport ALL_MATCH, NONE_MATCH, BatchMatch, match_batch
from coterie._core.fold.history cimport begin_fold_change, end_fold_change
from coterie._core.fold.keytable cimport own_all
from coterie._core.fold.names cimport names_forget

from coterie._core.codec.batch import FRAME_DETAIL
from coterie._core.fold.fold_state import Scanned

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

"""The state of the fold of one log partition: the last value of each key, and the faults.

Declares and frees the memory, checks the options, and decides what a fault means for the rest of
the partition. It reads no bytes and applies no records. Cost: memory grows with the keys, with the
groups' generations, and with the commits if a history is requested.
Source: GroupMetadataManager, LogSegment.recover. Rules: docs/rules/offsets.md#load.
"""
from collections import namedtuple

from libc.stdint cimport int64_t
from libc.stdlib cimport free

from coterie._core.checks cimport int64_or_none, text_of, texts_of
from coterie._core.codec.batch cimport Batch, Records, plausible_base
from coterie._core.fold.commit_queue cimport queue_free
from coterie._core.fold.group_filter cimport filter_add
from coterie._core.fold.history cimport History
from coterie._core.fold.keytable cimport table_free, table_init
from coterie._core.fold.place_cache cimport cache_free
from coterie._core.fold.survey cimport Survey
from coterie._core.fold.tracks cimport tracks_requested

from coterie._core.codec.batch import KINDS
from coterie.errors import ArgumentError

Fault = namedtuple("Fault", "file position base_offset kind offset detail", module=__name__)
Fault.__doc__ = """A batch or record that could not be read: its place, and why."""
Scanned = namedtuple(
    "Scanned", "file position bytes batches records first_offset last_offset max_timestamp gap "
    "first_timestamp", module=__name__)
Scanned.__doc__ = """The result of scanning a piece of a file; times in ms, -1 for none."""

ON_FAULT = {"skip": SKIP, "recover": RECOVER, "load": LOAD, "stop": STOP}

cdef int64_t MAX_MS = 0x7FFFFFFFFFFFFFFF


cdef class FoldState:
    """The latest state of each key, with the options of the fold that fills it."""

    def __cinit__(self, *, on_fault="skip", at_ms=None, only=None, bint history=False,
                  bint survey=False, tracking=None):
        if text_of(on_fault, "on_fault") not in ON_FAULT:
            raise ArgumentError(f"on_fault must be one of {', '.join(ON_FAULT)}, not {on_fault!r}")
        table_init(&self.table)
        table_init(&self.group_filter.names)
        table_init(&self.place_cache.names)
        self.records = Records.__new__(Records)
        self.on_fault = ON_FAULT[on_fault]
        self.at_ms = int64_or_none(at_ms, "at_ms")
        self.until_ms = MAX_MS if at_ms is None else at_ms
        self.only = None if only is None else frozenset(
            name.encode("utf-8", "surrogatepass") for name in texts_of(only, "only"))
        self.filters = only is not None
        filter_add(&self.group_filter, self.only or ())
        self.producers, self.groups, self.newer, self.unknown = {}, {}, {}, {}
        self.faults, self.segments = [], []
        set_history(self, History() if history else None)
        self.survey = Survey() if survey else None
        self.expected_offset = -1
        self.tracks = tracks_requested(&self.requested_tracks, tracking)
        self.group_records = [] if survey or tracking is not None else None

    def __dealloc__(self):
        table_free(&self.table)
        table_free(&self.group_filter.names)
        cache_free(&self.place_cache)
        free(self.requested_tracks.items)
        queue_free(&self.queue)
        free(self.deferred.items)
        free(self.parsed.items)

    @property
    def follows_4x(self):
        """Whether a tombstone removes pending commits, as in Kafka 4.x."""
        return bool(follows_4x(self))

    @property
    def key_count(self):
        """How many keys (group, topic, partition) were seen."""
        return self.table.count

    @property
    def metadata_bytes(self):
        """Bytes of memory allocated for the keys' metadata, used or not."""
        return self.table.metadata.allocated


cdef bint follows_4x(FoldState fold) noexcept:
    # These two read the log as a broker of 3.x, which ignores the records of 4.x.
    return fold.has_records_of_4x and fold.on_fault != LOAD and fold.on_fault != RECOVER


cdef void set_history(FoldState fold, History history) noexcept:
    """Set the history that collects commits; None: collect none."""
    fold.history = history
    fold.buffer = NULL if history is None else &history.buffer


cdef int add_fault(FoldState fold, int kind, const Batch* batch, object offset,
                   str detail) except -1:
    """Report a fault, and end the fold if its option says so."""
    base = None
    if plausible_base(kind, batch.base_offset, fold.expected_offset):
        base = batch.base_offset
    fold.faults.append(Fault(fold.file, fold.base_position + batch.position, base, KINDS[kind],
                             offset, detail))
    if fold.on_fault == STOP:
        fold.stopped = True
    elif fold.on_fault == LOAD or (fold.on_fault == RECOVER and not fold.cut):
        fold.failed = True
    return 0

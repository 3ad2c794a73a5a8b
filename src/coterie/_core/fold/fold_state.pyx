"""The state of a fold: the last record of each key, open transactions, counts and faults.

Commits of a transaction are pending by producer until its marker comes. A survey notes how the
transactions ended that were open at the end of a piece.
"""
from collections import namedtuple
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t
from libc.stdlib cimport free

from coterie._core.checks cimport int64_or_none, text_of, texts_of, within
from coterie._core.codec.batch cimport AHEAD, V2_HEADER, Batch, Record, Records, plausible_base
from coterie._core.codec.batch import KINDS
from coterie._core.codec.cursor cimport MAX_TEXT, OK, Cursor, load_i16
from coterie._core.codec.record cimport record_v2
from coterie._core.fold.commit cimport (
    KEY_GROUP, Commit, Tracks, apply_tracked, check_group_value, is_of_4x, read_commit_key,
    read_commit_value, topic_id_bytes, track_pending, tracks_requested)
from coterie._core.fold.commit_queue cimport queue_free
from coterie._core.fold.history cimport History, decide, row_number
from coterie._core.fold.keytable cimport (
    TOPIC_ID_SIZE, Entry, Table, Value, coterie_equal, coterie_is_ascii, coterie_keyhash,
    coterie_prefetch, number_topic_id, own_metadata, set_if_newer, table_find, table_free,
    table_init, table_intern)
from coterie._core.fold.place_cache cimport cache_free
from coterie._core.fold.record_kind cimport (
    FAULTY, GROUP, NON_ASCII_COMMIT, PLAIN_COMMIT, TOO_LATE, ParsedRecord)

from coterie.errors import ArgumentError

FAULTS_MAX = 10_000  # of a partition, 270 bytes each; those behind them are counted


# ---- producers -----------------------------------------------------------------------------------
# The transactions of each producer in a piece of log: what is pending, and the first marker.
# Kafka's loader applies a transaction's offsets at the producer's marker. A piece may begin or end
# inside a transaction, so a producer also has its first marker and the keys that it wrote before
# that: the marker decides what an earlier piece left open. Python objects, as transactions are few
# among millions of records. Source: GroupMetadataManager.

class Producer:
    """The transactions of one producer id in a piece of log."""

    __slots__ = ("before", "first_committed", "first_row", "first_seq", "pending", "tracked")

    def __init__(self):
        self.first_seq = -1
        self.first_committed = False
        self.first_row = 0
        self.before = frozenset()
        self.pending, self.tracked = {}, {}


Committed = namedtuple(
    "Committed",
    "batch_offset offset commit_timestamp expire_timestamp leader_epoch metadata topic_id",
    module=__name__, defaults=[None])
Committed.__doc__ = """A committed offset; times in ms, -1: none."""
cdef object new_tuple = tuple.__new__    # takes a third of the time of a named tuple's own


cdef object producer_of(dict producers, int64_t producer_id):
    producer = producers.get(producer_id)
    if producer is None:
        producer = producers[producer_id] = Producer()
    return producer


cdef int add_pending_commit(object producer, int64_t index, const Value* value,
                            const uint8_t* topic_id, const Record* record,
                            Tracks* tracks) except -1:
    producer.pending[index] = None if value == NULL else new_tuple(Committed, (
        value.batch_offset, value.offset, value.commit_timestamp, value.expire_timestamp,
        value.leader_epoch, value.metadata[:value.metadata_size],
        topic_id_bytes(topic_id)))
    if tracks != NULL:
        track_pending(tracks, producer.tracked, index, record, value)
    return 0


cdef int end_transaction(dict producers, int64_t producer_id, bint committed, Table* table,
                         Tracks* tracks, History history, int64_t seq) except -1:
    producer = producer_of(producers, producer_id)
    if committed:
        apply_committed(producer, (), table, tracks, seq)
    if producer.first_seq < 0:
        producer.first_seq = seq
        producer.first_committed = committed
        producer.first_row = row_number(history)
        producer.before = frozenset(producer.pending)
    producer.pending, producer.tracked = {}, {}
    return decide(history, producer_id, committed)


cdef int apply_committed(object producer, object excluded, Table* table, Tracks* tracks,
                         int64_t seq) except -1:
    """Set the pending value of each key that has no later value, except of the keys `excluded`."""
    cdef Value value
    cdef Entry* entry
    cdef bytes _metadata      # keeps alive what `value` points into
    for index, committed in producer.pending.items():
        if committed is None or index in excluded:
            continue
        _metadata = unpack_value(committed, table, &value)
        # A caller may have written any number there.
        entry = &table.entries[within(index, "the index of a key", 0, <int64_t>table.count - 1)]
        if set_if_newer(table, entry, &value, seq) and own_metadata(table, entry) != 0:
            raise MemoryError
    return 0 if tracks == NULL else apply_tracked(tracks, table, producer.tracked)


cdef bytes unpack_value(object pending, Table* table, Value* out):
    """Fill `out`, which borrows the returned bytes: keep those until its metadata is copied."""
    cdef bytes metadata, topic_id
    (out.batch_offset, out.offset, out.commit_timestamp, out.expire_timestamp, out.leader_epoch,
     metadata, topic_id) = pending
    # A caller may have written anything there.
    out.metadata = metadata
    out.metadata_size = <uint16_t>within(len(metadata), "the size of metadata", 0, MAX_TEXT)
    if topic_id is not None:
        within(len(topic_id), "the size of a topic id", TOPIC_ID_SIZE, TOPIC_ID_SIZE)
    if number_topic_id(table, NULL if topic_id is None else <const uint8_t*>topic_id, out) != 0:
        raise MemoryError
    return metadata


# ---- the facts that a second reading of a log needs, collected by the fold during the first ------
# The outcome of a transaction that is open at the end of a piece is known only after the piece.
# Knows producers and the numbers of records; knows no keys. Python objects, as transactions are few
# among millions of records.

cdef class Survey:
    """The transactions of the piece scanned last: which are open, and the first markers."""

    def __cinit__(self):
        self.begin_piece()

    cdef int begin_piece(self) except -1:
        self.open, self.ended = {}, {}
        return 0

    cdef int add_open(self, int64_t producer_id, const ParsedRecord* parsed, Py_ssize_t count,
                      int64_t number) except -1:
        """Open a transaction at its first record that counts, whatever its group."""
        cdef Py_ssize_t i
        for i in range(count):
            if parsed[i].kind != FAULTY and parsed[i].kind != TOO_LATE:
                self.open.setdefault(producer_id, number + i)
                break
        return 0

    cdef int add_end(self, object producer_id, int marker, object number, object ms) except -1:
        self.open.pop(producer_id, None)
        self.ended.setdefault(producer_id, (marker, number, ms))
        return 0


# ---- group filter --------------------------------------------------------------------------------
# Which batches and records belong to the requested groups, so that nothing is built for others.
# Names are compared as bytes. Two names that are not ASCII may be one group to Kafka (see
# `commit.canonical`), which this code does not know: if such a name is requested, every name that
# is not ASCII matches here, and the fold decides. A record of another group is parsed just far
# enough to see whether it has a fault. Cost: one parse of each record; one look-up for each run of
# equal groups and topics.

cdef int filter_add(GroupFilter* group_filter, object names) except -1:
    cdef bytes name
    cdef const uint8_t* at
    for name in names:
        at = name
        group_filter.non_ascii = group_filter.non_ascii or not coterie_is_ascii(at, len(name))
        if table_intern(&group_filter.names, coterie_keyhash(at, len(name)), at,
                        <int32_t>len(name)) < 0:
            raise MemoryError
    return 0


cdef bint has_name(const GroupFilter* group_filter, const uint8_t* name,
                   int32_t size) noexcept nogil:
    if group_filter.non_ascii and not coterie_is_ascii(name, size):
        return True
    return table_find(&group_filter.names, coterie_keyhash(name, size), name, size) >= 0


cdef bint has_group(const Record* record) noexcept nogil:
    """Whether the key can be read and names a group."""
    cdef Commit commit
    if record.key_size < 4 or not 0 <= load_i16(record.key) <= KEY_GROUP:
        return False
    if load_i16(record.key) < KEY_GROUP:
        return read_commit_key(record.key, record.key_size, &commit) == OK
    return 0 <= load_i16(record.key + 2) <= record.key_size - 4


cdef inline bint has_readable_value(const Record* record) noexcept nogil:
    """Whether the value can be read, of a record that `has_group`."""
    cdef Commit commit
    if record.value_size < 0:
        return True
    if load_i16(record.key) < KEY_GROUP:
        return read_commit_value(record.value, record.value_size, &commit) == OK
    return check_group_value(record.value, record.value_size) == OK


cdef bint matches(const GroupFilter* group_filter, const Record* record) noexcept nogil:
    """Whether a record that `has_group` is of a requested group."""
    return has_name(group_filter, record.key + 4, load_i16(record.key + 2))


cdef BatchMatch match_batch(const GroupFilter* group_filter, const Batch* batch,
                            int64_t until_ms, bint* has_records_of_4x) noexcept nogil:
    """Match an uncompressed batch of magic 2."""
    cdef Cursor cur
    cdef Record record
    cdef const uint8_t* key = NULL             # of the record before
    cdef int32_t key_size = -2, prefix = 0, _i  # -1 is a null key
    cdef bint match = False, some = False, others = False
    cur.at, cur.end = batch.start + V2_HEADER, batch.start + batch.size
    for _i in range(batch.record_count):
        # Prefetches bytes of later batches: see columns.pyx. Never reads them.
        coterie_prefetch(cur.at + AHEAD)
        coterie_prefetch(cur.at + AHEAD + 64)
        if record_v2(&cur, batch, &record) != OK:
            return SOME_MATCH
        if is_of_4x(&record):
            has_records_of_4x[0] = True
        if record.timestamp > until_ms:
            continue
        # The keys of a request mostly differ in their last four bytes alone, the partition.
        if record.key_size != key_size or not coterie_equal(key, record.key, prefix):
            if not has_group(&record):
                return SOME_MATCH
            match = matches(group_filter, &record)
            key, key_size = record.key, record.key_size
            prefix = key_size if load_i16(key) == KEY_GROUP else key_size - 4
        if match:
            some = True
        elif has_readable_value(&record):
            others = True
        else:
            return SOME_MATCH
    if cur.at != cur.end or (some and others):
        return SOME_MATCH
    return ALL_MATCH if some else NONE_MATCH


cdef bint excludes(const GroupFilter* group_filter, const Record* record,
                   const ParsedRecord* parsed) noexcept nogil:
    """Whether a record is of a group that is not requested, and has no fault."""
    if parsed.kind == PLAIN_COMMIT or parsed.kind == NON_ASCII_COMMIT:
        return not matches(group_filter, record)
    return (parsed.kind == GROUP and has_group(record) and not matches(group_filter, record)
            and has_readable_value(record))


# ---- the state of the fold of one log partition: the last value of each key, and the faults ------
# Declares and frees the memory, checks the options, and decides what a fault means for the rest of
# the partition. It reads no bytes and applies no records. Cost: memory grows with the keys, with
# the groups' generations, and with the commits if a history is requested.
# Source: GroupMetadataManager, LogSegment.recover. Rules: docs/rules/offsets.md#load.

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
        table_init(&self.topic_ids)
        self.table.topic_ids = &self.topic_ids
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
        self.more_faults, self.faults_max = {}, FAULTS_MAX
        set_history(self, History() if history else None)
        self.survey = Survey() if survey else None
        self.expected_offset = -1
        self.tracks = tracks_requested(&self.requested_tracks, tracking)
        self.group_records = [] if survey or tracking is not None else None

    def __dealloc__(self):
        table_free(&self.table)
        table_free(&self.topic_ids)
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
    def fault_count(self):
        """Number of all faults."""
        return len(self.faults) + sum(self.more_faults.values())

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


cdef int count_faults(FoldState fold, str kind, object count) except -1:
    """Count faults that have no place in the list, which is bounded."""
    fold.more_faults[kind] = fold.more_faults.get(kind, 0) + count
    return 0


cdef int add_fault(FoldState fold, int kind, const Batch* batch, object offset,
                   str detail) except -1:
    """Report a fault, and end the fold if its option says so."""
    base = None
    if plausible_base(kind, batch.base_offset, fold.expected_offset):
        base = batch.base_offset
    if len(fold.faults) < fold.faults_max:
        fold.faults.append(Fault(fold.file, fold.base_position + batch.position, base,
                                 KINDS[kind], offset, detail))
    else:
        count_faults(fold, KINDS[kind], 1)
    if fold.on_fault == STOP:
        fold.stopped = True
    elif fold.on_fault == LOAD or (fold.on_fault == RECOVER and not fold.cut):
        fold.failed = True
    return 0

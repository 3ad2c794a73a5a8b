"""What all protocols of a coordinator share: dispatch, timers, outputs, the log, stored offsets.

Components register the operations that they decide, by the type of the group. Each answer,
transition and appended record becomes a row of the outputs, in order. An append that does not
finish at once is settled later. It knows no rule of a group.
Source: GroupCoordinator.scala, GroupMetadataManager.scala (storeGroup, partitions).
"""
cimport cython
import coterie.events as events
import coterie.base.operations as operations
import coterie.values as values
from bisect import bisect_left
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals
from cpython.ref cimport PyObject, Py_INCREF, Py_XDECREF
from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t, uint8_t
from libc.stdlib cimport free, realloc
from operator import attrgetter

from coterie._core.checks cimport within
from coterie._core.codec.compression cimport coterie_java_hash, coterie_partition_for
from coterie._core.codec.cursor cimport load_i32
from coterie._core.codec.layout cimport (
    Writing, begin as begin_writing, end, put_i16, put_i32, put_i64, written as bytes_of)
from coterie._core.coordinator.codes cimport (
    COORDINATOR_LOAD_IN_PROGRESS, INVALID_GROUP_ID, KAFKA_STORAGE_ERROR, NONE, NOT_COORDINATOR,
    UNKNOWN_SERVER_ERROR, UNSUPPORTED_VERSION)
from coterie._core.structures.collector cimport PyObject_GC_UnTrack
from coterie._core.structures.expiry cimport NO_TIME
from coterie._core.structures.offsets cimport Offset, OffsetMap
from coterie._core.structures.timers cimport TimerWheel

from coterie.errors import ArgumentError, CoterieError, shown
from coterie.base.operations import NUMBER, OPERATIONS


# ---- encode the records of offsets and their tombstones ------------------------------------------
# Versions as Kafka 2.3 to 3.9 write them: key 1; value 1 with an explicit expiry, else 3. It knows
# no group: callers pass the encoded keys of a group's own records. Cost: one pass, one copy.
# Source: GroupMetadataManager.scala. Rules: docs/rules/log-format.md#keys.

cdef int put_other_string(Writing* w, str text) except -1:
    cdef bytes raw
    raw = text.encode("utf-8", "replace")      # as Java writes a lone surrogate: one "?"
    if PyBytes_GET_SIZE(raw) > LONGEST:
        # Only in a text from a log, where each byte that was no UTF-8 became three, as in Kafka.
        raise KafkaThrows(f"a string of {PyBytes_GET_SIZE(raw)} bytes fits into no record "
                          f"(at most {LONGEST}): {text[:40]!r}...")
    put_i16(w, <int16_t>PyBytes_GET_SIZE(raw))
    return put_raw(w, PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))


cdef Py_ssize_t begin_offset(Writing* w, str group_id, tuple key) except -1:
    """Begin the record of an offset: its key."""
    cdef Py_ssize_t at = begin_record(w)
    put_i16(w, 1)
    put_string(w, group_id)
    put_string(w, <str?>key[0])
    put_i32(w, <int32_t>key[1])
    end_key(w, at)
    return at


cdef int put_offset(Writing* w, str group_id, tuple key, Offset entry) except -1:
    cdef bint explicit = entry.expire_timestamp != NO_TIME
    cdef Py_ssize_t at = begin_offset(w, group_id, key)
    put_i16(w, 1 if explicit else 3)
    put_i64(w, entry.offset)
    if not explicit:
        put_i32(w, entry.leader_epoch)
    put_string(w, entry.metadata)
    put_i64(w, entry.commit_timestamp)
    if explicit:
        put_i64(w, entry.expire_timestamp)
    end_value(w, at)


cdef Batch commit_batch(str group_id, tuple rows, list entries):
    """Encode a commit. A row's first field is its key; an entry of None is left out."""
    cdef Writing w
    cdef Py_ssize_t n, count = 0
    begin_writing(&w)
    try:
        for n in range(len(rows)):
            if entries[n] is not None:
                put_offset(&w, group_id, <tuple?>(<tuple?>rows[n])[0], <Offset?>entries[n])
                count += 1
        return new_batch(group_id, count, bytes_of(&w))
    finally:
        end(&w)


cdef Batch tombstones(str group_id, list keys, list group_keys):
    """Encode tombstones: of offsets, and of a group's own records by their encoded keys."""
    cdef Writing w
    cdef Py_ssize_t at
    begin_writing(&w)
    try:
        for key in keys:
            begin_offset(&w, group_id, <tuple?>key)
        for raw in group_keys:
            at = begin_record(&w)
            put_raw(&w, PyBytes_AS_STRING(<bytes?>raw), PyBytes_GET_SIZE(<bytes>raw))
            end_key(&w, at)
        return new_batch(group_id, len(keys) + len(group_keys), bytes_of(&w))
    finally:
        end(&w)


cdef Py_ssize_t utf8_length(str text) except -2:
    """Return the bytes of its UTF-8; -1: a lone surrogate has none."""
    if PyUnicode_IS_COMPACT_ASCII(text):
        return PyUnicode_GET_LENGTH(text)
    try:
        return len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return -1


# ---- the output of a coordinator: rows of 32 bytes, made into objects on request -----------------
# The answer to a heartbeat is a row and nothing else. Rows become events (coterie.events) or the
# dicts of trace lines. It decides nothing. Cost: O(1) a row.

CONSUMER_GROUP_STATES = (          # by GroupState: type and state
    ("consumer", "Empty"), ("consumer", "Assigning"), ("consumer", "Reconciling"),
    ("consumer", "Stable"), ("none", None), ("classic", None))
STATE_NAMES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")

cdef enum:
    NO_REQUEST = -1

cdef dict ERRORS = {int(error): error for error in values.Error}
cdef dict CAUSES = {cause.value: cause for cause in events.Cause}
cdef dict WHY = {REPLACED: "replaced", DROPPED: "dropped"}
# By operation number: the name, and the function that makes the response.
cdef tuple NAMES = tuple(operations.OPERATIONS)
cdef tuple ANSWERS = tuple([row.answer for row in operations.OPERATIONS.values()])


@cython.final
@cython.no_gc                      # payloads are texts, numbers and bytes: no reference cycles
cdef class Outputs:
    """The outputs of a coordinator, in order: rows of 32 bytes, made into objects on request."""
    # Payloads are hidden from the garbage collector, which would visit all of them again and again
    # while a long trace is played.

    def __dealloc__(self):
        self.clear()
        free(self.rows)

    def __len__(self):
        return self.count

    cdef int reserve(self, Py_ssize_t count) except -1:
        """Have room for so many rows."""
        cdef OutputRow* rows
        if count <= self.capacity:
            return 0
        rows = <OutputRow*>realloc(self.rows, count * sizeof(OutputRow))
        if rows == NULL:
            raise MemoryError
        self.rows = rows
        self.capacity = count
        return 0

    cdef int push(self, int kind, int64_t at_ms, int64_t id, int op, int code,
                  object payload) except -1:
        cdef OutputRow* row
        cdef PyObject* reference = NULL
        if self.count == self.capacity:
            self.reserve(2 * self.capacity + 64)
        if payload is not None:
            if type(payload) is tuple:
                PyObject_GC_UnTrack(payload)
            Py_INCREF(payload)
            reference = <PyObject*>payload
        row = &self.rows[self.count]
        row.at_ms = at_ms
        row.id = id
        row.kind = kind
        row.op = op
        row.code = code
        row.payload = reference
        self.count += 1
        return 0

    cpdef clear(self):
        """Forget every row."""
        cdef Py_ssize_t n, count = self.count
        self.count = 0
        for n in range(count):
            Py_XDECREF(self.rows[n].payload)

    cdef tuple only_answer(self, int64_t id):
        """Return the error and payload of this request and drop the rows, if it alone was answered.

        None if it was not answered, if another one was, too, or if one never will be. A request
        that is parked may complete another one: a new member's join completes a follower's sync.
        """
        cdef Py_ssize_t n, row = -1
        cdef tuple answer
        for n in range(self.count):
            if self.rows[n].kind == UNANSWERED:
                return None
            if self.rows[n].kind == RESPONSE:
                if row >= 0 or self.rows[n].id != id:
                    return None
                row = n
        if row < 0:
            return None
        answer = (self.rows[row].code, payload_of(&self.rows[row]))
        self.clear()
        return answer

    cdef object take_answer(self, int64_t id):
        """Return the payload of this request's answer; only answers to other requests stay.

        None if it was answered without a payload, or not at all.
        """
        cdef Py_ssize_t n, left = 0, count = self.count
        cdef object answer = None
        cdef OutputRow row
        for n in range(count):
            row = self.rows[n]
            if row.kind == UNANSWERED or (row.kind == RESPONSE and row.id != id):
                self.rows[left] = row
                left += 1
                continue
            if row.kind == RESPONSE and row.payload != NULL:
                answer = <object>row.payload
            Py_XDECREF(row.payload)
        self.count = left
        return answer

    cdef object event(self, Py_ssize_t n):
        """Return a row as an event."""
        # A copy: making the event may run a finalizer that calls the coordinator, and then the rows
        # may move.
        cdef OutputRow row = self.rows[n]
        cdef Batch batch
        payload = None if row.payload == NULL else <object>row.payload
        if row.kind == RESPONSE:
            return events.Response(row.at_ms, row.id, NAMES[row.op],
                                   ANSWERS[row.op](ERRORS[row.code], payload))
        if row.kind == TRANSITION:
            group_id, member_id = payload if type(payload) is tuple else (payload, None)
            return events.Transition(
                row.at_ms, group_id, STATE_NAMES[row.op >> 8], STATE_NAMES[row.op & 255],
                row.id, CAUSES[row.code], member_id)
        if row.kind == APPEND:
            batch = <Batch?>payload
            key, value = batch.pair(row.code)
            return events.Append(row.at_ms, group_of(batch, key), key, value, row.id)
        if row.kind == GROUP:
            group_type, state = CONSUMER_GROUP_STATES[row.op]
            return events.ConsumerGroupChange(row.at_ms, payload, group_type, state, row.id >> 32,
                                              <int32_t><uint32_t>row.id, row.code)
        if row.kind == MEMBER and row.code == RECONCILED:
            return events.MemberReconciled(row.at_ms, *payload, row.id)
        if row.kind == MEMBER:
            return events.MemberFenced(row.at_ms, *payload, row.id, CAUSES[row.code])
        return events.Unanswered(row.at_ms, row.id, NAMES[row.op], WHY[row.code])

    def events(self):
        """Return each row as an event of :mod:`coterie.events`."""
        cdef Py_ssize_t n
        return [self.event(n) for n in range(self.count)]

    def taken(self, bint with_events):
        """Return the answers as (request's id, number of the error, payload, event)."""
        cdef Py_ssize_t n
        cdef list answers = []
        cdef OutputRow row
        for n in range(self.count):
            row = self.rows[n]
            if row.kind == RESPONSE:
                answers.append((row.id, row.code, payload_of(&row),
                                self.event(n) if with_events else None))
            elif row.kind == UNANSWERED or with_events:
                answers.append((row.id if row.kind == UNANSWERED else NO_REQUEST, None, None,
                                self.event(n) if with_events else None))
        return answers

    def lines(self):
        """Yield each row as the dict of a trace's output line, if such a line exists."""
        cdef Py_ssize_t n = 0
        while n < self.count:              # a caller may clear the rows between two lines
            event = self.event(n) if self.rows[n].kind not in (UNANSWERED, MEMBER) else None
            n += 1
            if event is not None:
                yield event.as_dict()

    def causes(self):
        """Return (at, group id, from, to, generation, cause, member id) of each transition."""
        return [(event.at, event.group_id, event.from_, event.to, event.generation_id,
                 event.cause, event.member_id)
                for event in self.events() if isinstance(event, events.Transition)]


cdef object group_of(Batch batch, bytes key):
    """Return the group of a record; a batch over several groups has it in each key."""
    if batch.group_id is not None:
        return batch.group_id
    return key[4:4 + int.from_bytes(key[2:4], "big")].decode("utf-8", "replace")


cdef inline object payload_of(OutputRow* row):
    return None if row.payload == NULL else <object>row.payload


def response_of(op, error, payload):
    """Return the response of an operation, as one of :mod:`coterie.values`."""
    return ANSWERS[op](ERRORS[error], payload)


# ---- which partitions of the offsets topic a coordinator owns, has given up, or is loading -------
# A group belongs to the partition that Kafka finds by the hash of its id. Usually all partitions
# are in one state; only exceptions are stored. It knows no groups. Cost: O(1) a request.
# Source: GroupMetadataManager.scala (partitionFor, ownedPartitions, loadingPartitions). Rules:
# docs/rules/coordinator.md#group-status, docs/rules/log-format.md#partition-of-a-group.

STATES = ("owned", "resigned", "loading")      # by Availability


cdef int32_t partition_of(str group_id, int32_t count) except -1:
    """Return the partition of the offsets topic of a group."""
    cdef bytes raw = group_id.encode("utf-8", "surrogatepass")
    return coterie_partition_for(coterie_java_hash(raw, len(raw)), count)


@cython.final
cdef class Partitions:
    """The partitions of the offsets topic; at first all are owned."""

    def __cinit__(self, int32_t count):
        if count < 1:
            raise ArgumentError(f"a topic has at least one partition, not {count}")
        self.count = count
        self.exceptions = {}

    cdef int check(self, int32_t partition) except -1:
        """Refuse a partition that the topic does not have; -1 stands for all."""
        if partition >= self.count:
            raise ArgumentError(f"partition must be from 0 to {self.count - 1}, not {partition}")

    cdef int state_of(self, partition) except -1:
        return self.exceptions.get(partition, self.others)

    cdef int refusal(self, str group_id, bint empty_is_valid) except -2:
        """Return the error that refuses a request for this group, or NONE."""
        if group_id is None or (not empty_is_valid and not group_id):
            return INVALID_GROUP_ID
        cdef int state = self.others
        if self.exceptions:
            state = self.state_of(partition_of(group_id, self.count))
        if state == OWNED:
            return NONE
        return COORDINATOR_LOAD_IN_PROGRESS if state == LOADING else NOT_COORDINATOR

    cdef bint is_loading(self, int32_t partition) except -1:
        """Whether this partition is loading; -1: whether any is."""
        if partition >= 0:
            return self.state_of(partition) == LOADING
        return LOADING in self.exceptions.values() or (
            self.others == LOADING and <int32_t>len(self.exceptions) < self.count)

    cdef int change(self, int32_t partition, int before, int after) except -1:
        """Change the state of a partition (-1: of each) from `before` to `after`."""
        if partition >= 0:
            if self.state_of(partition) == before:
                self.exceptions[partition] = after
        else:
            if self.others == before:
                self.others = after
            for number, state in self.exceptions.items():
                if state == before:
                    self.exceptions[number] = after
        self.exceptions = {number: state for number, state in self.exceptions.items()
                           if state != self.others}


# ---- the logs that a coordinator writes to -------------------------------------------------------
# A coordinator gives its records to a sink, and reads them from it when a partition is loaded. The
# log in memory is for tests; a log of the caller's may be a file or a topic; a direct log takes the
# bytes of a batch. A sink knows no group. Cost: one call a batch.

cdef enum:
    SIZES = 8                      # bytes before a record: the sizes of its key and its value

cdef object BASE_OFFSET = attrgetter("base_offset")
cdef int64_t LATEST_OFFSET = <int64_t>1 << 62  # later offsets still fit an int64


@cython.final
@cython.no_gc                      # bytes and numbers: no reference cycles
cdef class Batch:
    """Records that are appended as a whole, as bytes; pairs are made on request."""

    cdef tuple pair(self, Py_ssize_t at):
        """Return key and value of the record that begins at this byte."""
        cdef const uint8_t* record = <const uint8_t*>PyBytes_AS_STRING(self.data) + at
        cdef int32_t key = load_i32(record), value = load_i32(record + 4)
        return (bytes_or_none(record + SIZES, key),
                bytes_or_none(record + SIZES + max(key, 0), value))

    cdef Py_ssize_t after(self, Py_ssize_t at) noexcept:
        """Return where the next record begins."""
        cdef const uint8_t* record = <const uint8_t*>PyBytes_AS_STRING(self.data) + at
        return at + SIZES + max(load_i32(record), 0) + max(load_i32(record + 4), 0)

    cdef tuple pairs(self):
        """Return key and value of each record."""
        cdef Py_ssize_t at = 0
        cdef list pairs = []
        for _ in range(self.count):
            pairs.append(self.pair(at))
            at = self.after(at)
        return tuple(pairs)

    cdef tuple row(self):
        return (self.base_offset, self.producer_id, self.epoch, self.transactional, self.control,
                self.pairs())


cdef object bytes_or_none(const uint8_t* raw, int32_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<const char*>raw, size)


cdef Batch new_batch(str group_id, Py_ssize_t count, bytes data):
    """Make a batch without a producer, not yet in a log."""
    cdef Batch made = Batch.__new__(Batch)
    made.group_id = group_id
    made.base_offset = -1
    made.producer_id = -1
    made.epoch = -1
    made.count = count
    made.data = data
    return made


cdef Batch batch_of(object records):
    """Make a batch of records that are pairs."""
    cdef list parts = []
    cdef bytes key, value
    for pair in records:
        key, value = pair
        parts += [size_of(key), size_of(value), key or b"", value or b""]
    return new_batch(None, len(records), b"".join(parts))


cdef bytes size_of(bytes raw):
    cdef int32_t size = -1 if raw is None else <int32_t>PyBytes_GET_SIZE(raw)
    return (<object>size).to_bytes(4, "big", signed=True)


cdef class Sink:
    """The interface of a log for a coordinator."""

    cdef int64_t append(self, Batch batch, int64_t base_offset) except -3:
        """Write one batch; return its offset, LATER or FAILED. Offset -1: at the end."""
        raise NotImplementedError

    cdef bint at_once(self) noexcept:
        """Whether every append finishes within the call."""
        return False

    cdef int check(self, Py_ssize_t count, int64_t base_offset) except -1:
        """Refuse, before any change, an offset at which there can be no batch."""
        return 0

    cdef object read(self):
        """Return the rows of all batches, in log order."""
        raise NotImplementedError


@cython.final
cdef class MemoryLog(Sink):
    """A log in memory, ordered by offset."""

    def __cinit__(self):
        self.batches = []

    cdef int64_t append(self, Batch batch, int64_t base_offset) except -3:
        cdef Py_ssize_t place = self.place(batch.count, base_offset)
        batch.base_offset = self.end if base_offset < 0 else base_offset
        if place == len(self.batches):
            self.batches.append(batch)
        else:
            self.batches.insert(place, batch)
        self.end = max(self.end, batch.base_offset + max(batch.count, 1))
        return batch.base_offset

    cdef int check(self, Py_ssize_t count, int64_t base_offset) except -1:
        self.place(count, base_offset)

    cdef bint at_once(self) noexcept:
        return True

    cdef object read(self):
        return [(<Batch?>batch).row() for batch in self.batches]

    cdef Py_ssize_t place(self, Py_ssize_t count, int64_t base_offset) except -1:
        """Return the position of a batch with so many records; it must not overlap another."""
        cdef Py_ssize_t at
        cdef Batch other
        if base_offset > LATEST_OFFSET:
            raise ArgumentError(f"base_offset must be at most {LATEST_OFFSET}, not {base_offset}")
        if base_offset < 0 or base_offset >= self.end:
            return len(self.batches)
        at = bisect_left(self.batches, base_offset, key=BASE_OFFSET)
        if at < len(self.batches):
            other = <Batch?>self.batches[at]
            if other.base_offset < base_offset + count:
                raise ArgumentError(f"base_offset {base_offset}: a batch stands at "
                                    f"{other.base_offset} already")
        if at > 0:
            other = <Batch?>self.batches[at - 1]
            if other.base_offset + other.count > base_offset:
                raise ArgumentError(f"base_offset {base_offset} lies within the batch at "
                                    f"{other.base_offset}")
        return at


@cython.final
cdef class CallerLog(Sink):
    """A log of the caller's: a function that appends a batch, and one that reads all batches."""

    def __cinit__(self, write, rows):
        self.write = write
        self.rows = rows

    cdef int64_t append(self, Batch batch, int64_t base_offset) except -3:
        cdef int64_t position
        try:
            offset = self.write(batch.row())
            if offset is None:
                return LATER
            if type(offset) is not int or not 0 <= offset <= LATEST_OFFSET:
                raise ArgumentError("append must return the offset of the batch, or None if it "
                                    f"finishes later, not {shown(offset)}")
            position = offset
            return position
        except BaseException as error:     # Ctrl-C, too: only the append has failed
            if self.failure is None or not isinstance(error, Exception):
                self.failure = error
            return FAILED

    cdef object read(self):
        return self.rows()


@cython.final
cdef class DirectLog(Sink):
    """A log that takes the bytes of a batch and has written them when ``write`` returns."""

    def __cinit__(self, write, rows):
        self.write = write
        self.rows = rows

    cdef bint at_once(self) noexcept:
        return True

    cdef int64_t append(self, Batch batch, int64_t base_offset) except -3:
        cdef int64_t position
        try:
            position = within(
                self.write(batch.group_id, batch.data, batch.count, batch.producer_id,
                           batch.epoch, batch.transactional, batch.control),
                "the offset of a batch", 0, LATEST_OFFSET)
            return position
        except BaseException as error:     # as in CallerLog
            if self.failure is None or not isinstance(error, Exception):
                self.failure = error
            return FAILED

    cdef object read(self):
        return self.rows()


# ---- offset store --------------------------------------------------------------------------------
# The offsets of groups of every type, beside the groups, as in Kafka's OffsetMetadataManager. It
# knows no group: the group's protocol decides whether a member may commit, and when offsets expire.
# A group without commits takes no memory here. O(1) for a group; giving up a partition is one pass
# over the group ids.
# Source: OffsetMetadataManager.java. Rules: docs/rules/offsets.md#data.

@cython.final
cdef class OffsetStore:
    """Committed and pending offsets by group id, and which transactions are undecided."""

    def __cinit__(self):
        self.maps = {}
        self.open_groups = {}

    cdef OffsetMap find(self, str group_id):
        """Return the offsets of a group; None if there were no commits."""
        return <OffsetMap>self.maps.get(group_id)

    cdef OffsetMap map_of(self, str group_id):
        """Return the offsets of a group; create an empty map if there is none."""
        offsets = self.maps.get(group_id)
        if offsets is None:
            offsets = self.maps[group_id] = OffsetMap.__new__(OffsetMap)
        return <OffsetMap>offsets

    cdef int put(self, str group_id, OffsetMap offsets) except -1:
        """Set the offsets of a group, with its undecided transactions."""
        self.maps[group_id] = offsets
        for producer_id in offsets.pending_by_producer:
            self.open_transaction(producer_id, group_id)

    cdef int drop(self, str group_id) except -1:
        """Forget the offsets of a group that ends; an unfinished append then has no effect."""
        self.maps.pop(group_id, None)

    cdef int open_transaction(self, int64_t producer_id, str group_id) except -1:
        """Remember that the producer's next marker decides offsets of the group."""
        self.open_groups.setdefault(producer_id, {})[group_id] = None

    cdef int resigned(self, int32_t partition, int32_t count) except -1:
        """Forget the groups of a partition of the offsets topic; -1: all."""
        if partition < 0:
            self.maps = {}
            self.open_groups = {}
            return 0
        self.maps = {group_id: offsets for group_id, offsets in self.maps.items()
                     if partition_of(group_id, count) != partition}
        self.open_groups = {
            producer: left for producer, groups in self.open_groups.items()
            if (left := {group_id: None for group_id in groups
                         if partition_of(group_id, count) != partition})}


# ---- runtime -------------------------------------------------------------------------------------
# What the components of a coordinator share: clock, timers, groups, dispatch, outputs, appends. It
# knows no rule of a group. One wheel stands for both purgatories of Kafka: timers fire by deadline,
# then in the order of arming. A timer's key holds its kind, which names the component, and the slot
# of its owner. An operation goes to the component that registered for it and for the type of the
# group. An append finishes within the call, or later if it is deferred or in flight. Cost of a
# dispatch: one look-up of the group, none if the last request was of the same group.
# Source: GroupCoordinator.scala, DelayedOperation.scala. Rules: docs/rules/coordinator.md#timers,
# #group-status and #failed-appends.

class KafkaThrows(CoterieError):
    """Kafka's code throws here; as in Kafka, earlier changes are not undone."""


class UnreadableMetadata(KafkaThrows):
    """Kafka's code throws because a member's metadata cannot be read."""


cdef int DESCRIBE = NUMBER["consumer_group_describe"]
cdef int64_t LATEST_MS = <int64_t>1 << 60      # a deadline from here still fits an int64
cdef int64_t NEVER_MS = <int64_t>1 << 62       # beyond any time; from LATEST_MS it still fits


@cython.final
@cython.freelist(256)
cdef class Request:
    """A request that may be parked: it is answered at most once."""


cdef Request new_request(int64_t id, int op):
    cdef Request request = Request.__new__(Request)
    request.id, request.op = id, op
    return request


cdef class Group:
    """A group of any type: its id and its type."""


cdef class Component:
    """A component of a coordinator: it may have timers, and takes part in elections."""

    cdef int join_runtime(self, Runtime runtime, int kinds) except -1:
        """Reserve this many kinds of timers, numbered from `first_kind`."""
        self.runtime = runtime
        self.first_kind = <int>len(runtime.handlers)
        if self.first_kind + kinds > 1 << KIND_BITS:
            raise CoterieError(f"a runtime has {1 << KIND_BITS} kinds of timers at most")
        runtime.handlers.extend([self] * kinds)
        runtime.components.append(self)

    cdef int fired(self, int kind, object owner) except -1:
        """Handle a due timer; `kind` counts from 0."""
        raise NotImplementedError

    cdef int resigned(self, int32_t partition) except -1:
        """Drop the groups of a partition that was given up; -1: of all."""
        return 0

    cdef object read_log(self, object fold):
        """Read its groups from a folded log, changing nothing; CorruptData ends the load."""
        return None

    cdef int loaded(self, object content, object load_filter) except -1:
        """Take over what `read_log` returned, for the group ids that pass the filter.

        None as the filter: all pass.
        """
        return 0


cdef class GroupProtocol(Component):
    """The rules of one type of groups, for the operations that are the same for all types.

    Each method gets groups of its own type only.
    """

    cdef Group create_group(self, str group_id):
        """Add a group without members, for its offsets."""
        raise NotImplementedError

    cdef int check_commit(self, Group group, int32_t generation_id, str member_id, str instance,
                          bint transactional) except? -7:
        """Return the error of a commit by this member; if none, restart the member's session."""
        raise NotImplementedError

    cdef int check_offset_delete(self, Group group, dict errors) except? -7:
        """Return the error of an OffsetDelete; set the errors of partitions that must stay."""
        raise NotImplementedError

    cdef int delete_group(self, Group group) except? -7:
        """Mark the group as deleted, or return why it must stay."""
        raise NotImplementedError

    cdef list expire(self, Group group, OffsetMap offsets):
        """Remove the expired offsets and return their keys."""
        raise NotImplementedError

    cdef list end_group(self, Group group, bint has_offsets):
        """Return the keys of the group's own records if the group ends now, else None."""
        raise NotImplementedError

    cdef int drop_group(self, Group group) except -1:
        """Take the group out of the runtime, with its timers."""
        raise NotImplementedError

    cdef tuple overview(self, Group group):
        """Return (group id, protocol type, state), as ListGroups shows them."""
        raise NotImplementedError


@cython.freelist(16)
cdef class AppendOp:
    """An append, and what to do when it finishes: nothing, unless a component derives its own."""

    cdef int on_deferred(self) except -1:
        """Prepare for an append that does not finish within the call that began it."""
        return 0

    cdef int on_finished(self, int error, int64_t position) except -1:
        """Continue: the batch is in the log at this offset, or the append has failed."""
        return 0

    @property
    def group_id(self):
        return None if self.batch is None else self.batch.group_id

    @property
    def records(self):
        return () if self.batch is None else self.batch.pairs()

    @property
    def producer_id(self):
        return -1 if self.batch is None else self.batch.producer_id

    @property
    def producer_epoch(self):
        return -1 if self.batch is None else self.batch.epoch

    @property
    def transactional(self):
        return self.batch is not None and self.batch.transactional


cdef class Writes:
    """Writes that are not committed: its methods are in `consumer/protocol.pyx`."""

    cdef bint blocks(self, str group_id) except -1:
        raise NotImplementedError

    cdef int begin(self, AppendOp op, AppendStatus status) except -1:
        raise NotImplementedError

    cdef int check_order(self, AppendOp op) except -1:
        raise NotImplementedError

    cdef int finished(self, AppendOp op, int error, int64_t position) except -1:
        raise NotImplementedError

    cdef int wrote(self, str group_id, int error) except -1:
        raise NotImplementedError

    cdef int change_unwritten(self, str group_id) except -1:
        raise NotImplementedError

    cdef int show_ended(self, str group_id) except -1:
        raise NotImplementedError

    cdef int give_up(self, int32_t partition) except -1:
        raise NotImplementedError

    cdef Group committed(self, str group_id):
        raise NotImplementedError

    cdef int answer_later(self, tuple group_ids, int64_t id, int op, int code, payload,
                          refused) except -1:
        raise NotImplementedError


cdef AppendOp describe(AppendOp op, str kind, Batch batch):
    """Set the kind, the group and the other details of an append."""
    op.kind = kind
    op.batch = batch
    return op


@cython.final
cdef class Operation:
    """What is being decided."""


cdef int decide_advance(component, Operation op) except -1:
    """Do nothing: the clock is moved before each event of a trace."""
    return 0


cdef int decide_unsupported(component, Operation op) except -1:
    """Refuse a request of consumer groups, as a broker without them does, group by group."""
    if op.number == DESCRIBE:
        return (<Runtime>component).respond(op.id, op.number, NONE, tuple([
            (each, UNSUPPORTED_VERSION, "", 0, 0, "", ()) for each in op.details]))
    return (<Runtime>component).respond(op.id, op.number, UNSUPPORTED_VERSION, None)


cdef int decide_fail_append(component, Operation op) except -1:
    (<Runtime>component).fail_error = op.details[0]
    (<Runtime>component).fail_count = op.details[1]
    return 0


@cython.final
cdef class Runtime:
    """One clock, one table of groups, one sequence of outputs, one sink."""

    def __cinit__(self, settings, int64_t now_ms, bint deferred, Sink sink):
        if now_ms > LATEST_MS:
            raise ArgumentError(f"now_ms must be at most {LATEST_MS} ms, not {now_ms}")
        self.wheel = TimerWheel(now_ms)
        self.outputs = Outputs()
        self.partitions = Partitions(settings["offsets.topic.num.partitions"])
        self.sink = MemoryLog() if sink is None else sink
        self.deferred = deferred
        self.replaying = settings["coterie.behaviour"] not in ("2.4", "3.9")
        self.groups = {}
        self.handlers = []
        self.protocols = [None] * GROUP_TYPES
        self.components = []
        self.registered = []
        self.register("advance", self, decide_advance, NO_GROUP)
        self.register("fail_append", self, decide_fail_append, NO_GROUP)
        if not self.replaying:         # KafkaApis refuses them; the old coordinator has no image
            for name in ("consumer_group_heartbeat", "consumer_group_describe"):
                self.register(name, self, decide_unsupported, NO_GROUP)
            for name in ("metadata", "group_config", "run_tasks"):
                self.register(name, self, decide_advance, NO_GROUP)
        self.owners = [None]           # by slot; NO_OWNER is the first
        self.appends = []

    def __dealloc__(self):
        free(self.free_slots)

    cdef int register(self, str op, object component, Decide decide, int group_type) except -1:
        """Register the function that decides an operation for the groups of one type.

        NO_GROUP: also for types without a component of their own, as if there were no group.
        """
        cdef int number = NUMBER[op], each
        cdef Decider* decider
        if number >= MOST_OPERATIONS:
            raise CoterieError(f"there are {MOST_OPERATIONS} operations at most")
        for each in range(GROUP_TYPES) if group_type == EVERY_TYPE else (group_type,):
            decider = &self.deciders[number][each]
            if decider.decide != NULL:
                raise CoterieError(f"{op} of group type {each} has a component already: "
                                   f"{type(<object>decider.component).__name__}")
            self.registered.append(component)
            decider.component = <PyObject*>component
            decider.decide = decide

    cdef int register_protocol(self, int group_type, GroupProtocol protocol) except -1:
        """Make a component the protocol of the groups of one type."""
        if self.protocols[group_type] is not None:
            raise CoterieError(f"group type {group_type} has a protocol already: "
                               f"{type(self.protocols[group_type]).__name__}")
        self.protocols[group_type] = protocol

    cdef Decider* decider_of(self, int op, int group_type) except NULL:
        """Return the decider of an operation for a type of group, or that for no group."""
        cdef Decider* decider
        if 0 <= op < len(NUMBER):
            decider = &self.deciders[op][group_type]
            if decider.decide != NULL:
                return decider
            decider = &self.deciders[op][<int>NO_GROUP]
            if decider.decide != NULL:
                return decider
            raise CoterieError(f"{list(OPERATIONS)[op]} needs coterie.behaviour 4.1 or later")
        raise CoterieError(f"the coordinator has no operation {op}")

    cdef Group find(self, str group_id):
        """Return the group with this id, or None."""
        if group_id is not self.last_id:
            group = self.groups.get(group_id)
            if group is None:
                return None
            self.last_id, self.last = group_id, <Group>group
        return self.last

    cdef list all_groups(self):
        """Return the groups of every type, by id."""
        return [group for _, group in sorted(self.groups.items())]

    cdef int add_group(self, Group group) except -1:
        """Add a group; it may replace one of its own type."""
        cdef Group present = <Group>self.groups.get(group.group_id)
        if self.protocols[group.group_type] is None:
            raise CoterieError(f"group type {group.group_type} has no protocol")
        if present is not None and present.group_type != group.group_type:
            raise CoterieError(f"{group.group_id!r} is a group of another protocol")
        self.groups[group.group_id] = group
        return self.forget_look_ups()

    cdef int drop_group(self, Group group) except -1:
        """Forget a group, unless another one has its id by now."""
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]
        return self.forget_look_ups()

    cdef int forget_look_ups(self) except -1:
        self.last_id = self.last = None
        self.group_changes += 1

    cdef GroupProtocol protocol_of(self, Group group):
        """Return the protocol of a group; for None, that of groups with offsets only."""
        return <GroupProtocol>self.protocols[CLASSIC if group is None else group.group_type]

    cdef Py_ssize_t new_slot(self, owner) except -1:
        cdef Py_ssize_t slot, capacity
        cdef Py_ssize_t* larger
        if self.free_count:
            self.free_count -= 1
            slot = self.free_slots[self.free_count]
            self.owners[slot] = owner
            return slot
        slot = len(self.owners)
        if slot == self.capacity or not self.capacity:
            capacity = 2 * slot + 64
            larger = <Py_ssize_t*>realloc(self.free_slots, capacity * sizeof(Py_ssize_t))
            if larger == NULL:
                raise MemoryError
            self.free_slots = larger
            self.capacity = capacity
        self.owners.append(owner)
        return slot

    cdef int free_slot(self, Py_ssize_t slot) except -1:
        if self.owners[slot] is None:      # a member from another coordinator has no slot here
            return 0
        self.owners[slot] = None
        self.free_slots[self.free_count] = slot
        self.free_count += 1

    cdef int64_t arm(self, int64_t handle, int kind, Py_ssize_t slot, int64_t delay_ms) except -1:
        """Arm or re-arm a timer; return its handle. A negative delay counts as 0."""
        cdef int64_t deadline_ms = self.wheel.clock_ms + min(max(delay_ms, 0), NEVER_MS)
        if handle != NO_TIMER and self.wheel.move(handle, deadline_ms):
            return handle
        return self.wheel.arm(deadline_ms, <int64_t>slot << KIND_BITS | kind)

    cdef int disarm(self, int64_t* handle) except -1:
        if handle[0] != NO_TIMER:
            self.wheel.drop(handle[0])
            handle[0] = NO_TIMER

    cdef int advance_to(self, int64_t now_ms, bint heeds_signals) except -1:
        """Fire the timers due by `now_ms`, in order; the clock shows each one's deadline.

        An exception of a signal comes between two timers. The clock then shows the last deadline;
        the timers after it fire when the clock is moved again.
        """
        cdef int64_t key = 0
        cdef int kind
        cdef Component component
        if now_ms < self.wheel.clock_ms:
            raise ArgumentError(f"time runs forward only: {now_ms} < {self.wheel.clock_ms}")
        if now_ms > LATEST_MS:
            raise ArgumentError(f"time must be at most {LATEST_MS} ms, not {now_ms}")
        while self.wheel.pop(now_ms, &key):
            kind = <int>(key & ((1 << KIND_BITS) - 1))
            component = <Component?>self.handlers[kind]
            try:
                component.fired(kind - component.first_kind, self.owners[key >> KIND_BITS])
            except KafkaThrows as error:        # in a thread of Kafka's timer
                self.ignore_thrown(error)
            if heeds_signals:
                PyErr_CheckSignals()

    cdef int ignore_thrown(self, error) except -1:
        """Ignore an error that Kafka throws in a background thread, unless it ends a trace."""
        if self.strict and isinstance(error, UnreadableMetadata):
            raise error

    cdef int answer_thrown(self, error, Request request, payload) except -1:
        """Answer a request on which Kafka throws, as its request layer does."""
        self.ignore_thrown(error)
        return self.answer(request, UNKNOWN_SERVER_ERROR, payload)

    cdef int respond(self, int64_t id, int op, int code, payload) except -1:
        return self.outputs.push(RESPONSE, self.wheel.clock_ms, id, op, code, payload)

    cdef int respond_committed(self, str group_id, int64_t id, int op, int code,
                               payload) except -1:
        """Answer a read after the pending writes of its group."""
        if self.writes is not None and self.writes.pending:
            return self.writes.answer_later((group_id,), id, op, code, payload, None)
        return self.respond(id, op, code, payload)

    cdef int answer(self, Request request, int code, payload) except -1:
        """Answer a request, unless it has been answered."""
        if request.answered:
            return 0
        request.answered = True
        if self.replaying and type(payload) is str:        # of a join that failed
            payload = (-1, None, "", "", payload, False, ())
        return self.outputs.push(RESPONSE, self.wheel.clock_ms, request.id, request.op, code,
                                 payload)

    cdef int abandon(self, Request request, int why) except -1:
        if request is None or request.answered:
            return 0
        request.answered = True
        return self.outputs.push(UNANSWERED, self.wheel.clock_ms, request.id, request.op, why,
                                 None)

    cdef AppendStatus write(self, Batch batch, int* error, int64_t* position) except *:
        """Write a batch now, if possible; `defer` takes the append if it does not finish."""
        error[0] = NONE
        position[0] = -1
        if self.deferred:
            return NOT_WRITTEN
        if self.fail_count > 0:
            self.fail_count -= 1
            error[0] = self.fail_error
        if error[0] == NONE:
            position[0] = self.sink.append(batch, -1)
            if position[0] == LATER:
                return IN_FLIGHT
            if position[0] == FAILED:
                error[0] = KAFKA_STORAGE_ERROR
            else:
                self.show_append(batch, position[0])
        if self.writes is not None:
            if error[0] == NONE and (self.writes.holding or self.writes.pending) and (
                    self.writes.blocks(batch.group_id)):
                return NOT_COMMITTED
            if self.writes.unwritten:
                self.writes.wrote(batch.group_id, error[0])
        return FINISHED

    cdef int defer(self, AppendOp op, AppendStatus written) except -1:
        """Keep an append that `write` has not finished."""
        op.runtime = self
        op.written = written != NOT_WRITTEN
        op.on_deferred()
        if self.writes is not None:
            self.writes.begin(op, written)
        op.done = written == NOT_COMMITTED
        if not op.done:
            self.appends.append(op)

    cdef int show_append(self, Batch batch, int64_t position) except -1:
        cdef Py_ssize_t at = 0
        for _ in range(0 if batch.control else batch.count):
            self.outputs.push(APPEND, self.wheel.clock_ms, position, 0, <int>at, batch)
            at = batch.after(at)
        if self.writes is not None and self.writes.unshown:
            self.writes.show_ended(batch.group_id)

    cdef int append(self, AppendOp op) except -1:
        """Begin an append. It finishes within this call, or by `settle`."""
        cdef int error
        cdef int64_t position
        cdef AppendStatus written = self.write(op.batch, &error, &position)
        if written != FINISHED:
            return self.defer(op, written)
        op.runtime, op.done = self, True
        return op.on_finished(error, position)

    cdef int settle(self, AppendOp op, int error, int64_t base_offset) except -1:
        """Finish an append; a deferred one is written first. Offset -1: at the end of the log."""
        cdef int64_t position = base_offset
        cdef Batch batch = op.batch
        if op.done:
            raise CoterieError("this append has been completed already")
        if op.written and error == NONE and base_offset < 0:
            raise ArgumentError("base_offset: give the offset at which log_sink has the batch")
        self.sink.check(batch.count, base_offset)      # refused while nothing has changed
        if self.writes is not None and error == NONE and not op.written:
            self.writes.check_order(op)
        if (error == NONE and not op.written and self.fail_count > 0
                and (self.replaying or not batch.control)):
            self.fail_count -= 1
            error = self.fail_error
        if error == NONE and not op.written:
            position = self.sink.append(batch, base_offset)
            if position == LATER:
                op.written = True
                if not self.deferred:
                    op.on_deferred()
                self.appends.append(op)
                return 0
            if position == FAILED:
                error = KAFKA_STORAGE_ERROR
        op.done = True
        if error == NONE:
            self.show_append(batch, position)
        return op.on_finished(error, position) if self.writes is None else (
            self.writes.finished(op, error, position))

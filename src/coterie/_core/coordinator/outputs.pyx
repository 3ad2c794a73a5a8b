"""The output of a coordinator: rows of 32 bytes, made into objects on request.

The answer to a heartbeat is a row and nothing else. Rows become events (coterie.events) or the
dicts of trace lines. It decides nothing. Cost: O(1) a row.
"""
cimport cython
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free, realloc

from coterie._core.coordinator.sink cimport Batch
from coterie._core.structures.collector cimport PyObject_GC_UnTrack

import coterie.events as events
import coterie.operations as operations
import coterie.values as values

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

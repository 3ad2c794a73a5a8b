"""The output of a coordinator: rows of 32 bytes, turned into objects only when asked for.

A heartbeat's answer is a row and nothing else. Rows become events (values.py) or the dicts of
trace lines; neither decides anything.
"""
cimport cython
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc

from base64 import b64encode

import coterie.events as events
import coterie.values as values

OPS = ("advance", "join_group", "sync_group", "heartbeat", "leave_group", "offset_commit",
       "txn_offset_commit", "end_txn", "offset_fetch", "offset_delete", "describe_group",
       "list_groups", "delete_groups", "delete_partitions", "cleanup", "failover",
       "fail_append", "resign", "begin_load", "finish_load")
WHY = ("replaced", "dropped")
STATE_NAMES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")

cdef dict ERRORS = {int(error): error for error in values.Error}
cdef tuple CAUSES = tuple(events.Cause)


@cython.final
@cython.no_gc                      # a payload is texts, numbers and bytes: nothing leads back here
cdef class Effects:
    """See ``effects.pyi``."""
    # Payloads are kept where the garbage collector does not look: it would go through all of them
    # again and again while a long trace is played.

    def __dealloc__(self):
        self.clear()
        free(self.rows)

    def __len__(self):
        return self.count

    cdef int push(self, int kind, int64_t at_ms, int64_t id, int op, int code,
                  object payload) except -1:
        cdef Effect* row
        cdef Py_ssize_t capacity
        if self.count == self.capacity:
            capacity = 2 * self.capacity + 64
            row = <Effect*>realloc(self.rows, capacity * sizeof(Effect))
            if row == NULL:
                raise MemoryError
            self.rows = row
            self.capacity = capacity
        row = &self.rows[self.count]
        row.at_ms = at_ms
        row.id = id
        row.kind = kind
        row.op = op
        row.code = code
        row.payload = NULL
        if payload is not None:
            Py_INCREF(payload)
            row.payload = <PyObject*>payload
        self.count += 1
        return 0

    cpdef clear(self):
        """See ``effects.pyi``."""
        cdef Py_ssize_t n, count = self.count
        cdef PyObject* payload
        self.count = 0
        for n in range(count):
            payload = self.rows[n].payload
            self.rows[n].payload = NULL
            Py_XDECREF(payload)

    def events(self):
        """See ``effects.pyi``."""
        cdef Py_ssize_t n
        cdef Effect* row
        cdef list out = []
        for n in range(self.count):
            row = &self.rows[n]
            payload = None if row.payload == NULL else <object>row.payload
            if row.kind == RESPONSE:
                out.append(events.Response(row.at_ms, row.id, OPS[row.op],
                                           response_of(row.op, row.code, payload)))
            elif row.kind == TRANSITION:
                out.append(events.Transition(
                    row.at_ms, payload[0], STATE_NAMES[row.op >> 8], STATE_NAMES[row.op & 255],
                    row.id, CAUSES[row.code], payload[1]))
            elif row.kind == APPEND:
                out.append(events.Append(row.at_ms, *payload))
            else:
                out.append(events.Unanswered(row.at_ms, row.id, OPS[row.op], WHY[row.code]))
        return out

    def lines(self):
        """See ``effects.pyi``."""
        cdef Py_ssize_t n = 0
        cdef Effect row
        while n < self.count:              # which a caller may clear between two lines
            row = self.rows[n]
            n += 1
            payload = None if row.payload == NULL else <object>row.payload
            if row.kind == RESPONSE:
                line = {"at": row.at_ms, "event": "response", "id": row.id, "op": OPS[row.op],
                        "error": ERRORS[row.code].name}
                if row.op != HEARTBEAT:                   # which has no more fields
                    line |= values.plain(response_of(row.op, row.code, payload))
                yield line
            elif row.kind == TRANSITION:
                yield {"at": row.at_ms, "event": "transition", "group_id": payload[0],
                       "from": STATE_NAMES[row.op >> 8], "to": STATE_NAMES[row.op & 255],
                       "generation_id": row.id}
            elif row.kind == APPEND:
                yield {"at": row.at_ms, "event": "append", "group_id": payload[0],
                       "key": b64encode(payload[1]).decode(),
                       "value": None if payload[2] is None else b64encode(payload[2]).decode()}

    def causes(self):
        """(at, group id, from, to, generation, cause, member id) of each transition."""
        return [(event.at, event.group_id, event.from_, event.to, event.generation_id,
                 event.cause, event.member_id)
                for event in self.events() if isinstance(event, events.Transition)]


cdef tuple partition_errors(payload):
    return tuple([values.PartitionError(key[0], key[1], ERRORS[code]) for key, code in payload])


cdef object response_of(int op, int code, payload):
    """The response object of a row."""
    error = ERRORS[code]
    if op == JOIN_GROUP:
        if payload is None or type(payload) is str:
            return values.JoinGroupResponse(error, -1, None, None, "", payload or "", False, ())
        members = tuple([values.JoinMember(*entry) for entry in payload[6]])
        return values.JoinGroupResponse(error, *payload[:6], members)
    if op == SYNC_GROUP:
        return values.SyncGroupResponse(error, *(payload or (None, None, b"")))
    if op == HEARTBEAT:
        return values.HeartbeatResponse(error)
    if op == LEAVE_GROUP:
        return values.LeaveGroupResponse(error, tuple([
            values.LeaveMember(member_id, instance, ERRORS[each])
            for member_id, instance, each in payload or ()]))
    if op == OFFSET_COMMIT:
        return values.OffsetCommitResponse(error, partition_errors(payload or ()))
    if op == TXN_OFFSET_COMMIT:
        return values.TxnOffsetCommitResponse(error, partition_errors(payload or ()))
    if op == OFFSET_FETCH:
        return values.OffsetFetchResponse(error, tuple([
            values.FetchedOffset(*entry[:5], ERRORS[entry[5]]) for entry in payload or ()]))
    if op == OFFSET_DELETE:
        return values.OffsetDeleteResponse(error, partition_errors(payload or ()))
    if op == DESCRIBE_GROUP:
        if payload is None:
            return values.DescribeGroupResponse(error, "", "", "", ())
        return values.DescribeGroupResponse(error, payload.state, payload.protocol_type,
                                            payload.protocol_name, payload.members)
    if op == LIST_GROUPS:
        return values.ListGroupsResponse(error, payload or ())
    return values.DeleteGroupsResponse(error, tuple([
        values.DeletedGroup(group_id, ERRORS[each]) for group_id, each in payload or ()]))

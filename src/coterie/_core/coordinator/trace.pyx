"""A trace, compiled once into rows of 40 bytes with interned names.

An event without details needs no Python object when it is played. It knows no operation: the rows
go to the coordinator as they are. Cost: one row an event.
Rules: docs/rules/trace-format.md#defaults.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc

from coterie.errors import ArgumentError, TraceError, shown

cdef extern from "Python.h":
    int Py_EnterRecursiveCall(const char* where) except *
    void Py_LeaveRecursiveCall()

cdef enum:
    MOST_DETAILS = 1 << 16             # that are looked up; commits have details of their own


@cython.final
cdef class Trace:
    """A compiled trace: rows with interned names. Made by :func:`coterie.load_trace`."""

    def __cinit__(self, dict header not None):
        self.header = header
        self.objects = [None]
        self.index = {None: 0}
        self.lines = []

    def __dealloc__(self):
        free(self.events)

    def __len__(self):
        return self.count

    cdef int32_t intern(self, name) except -1:
        if name is not None and type(name) is not str:
            if not isinstance(name, str):
                raise ArgumentError(f"member_id must be a string, not {shown(name)}")
            self.objects.append(name)        # a reference: a text of its own, equal to no other
            return <int32_t>len(self.objects) - 1
        index = self.index.get(name)
        if index is None:
            index = self.index[name] = len(self.objects)
            self.objects.append(name)
        return index

    cdef int32_t intern_details(self, int op, tuple details) except -1:
        """The place of details; equal ones of an operation are mostly one object."""
        cdef tuple key = (op, details)
        cdef int32_t index = <int32_t>len(self.objects)
        try:
            found = self.index.get(key)
        except TypeError:                    # a dict of partitions: no hash
            found = key = None
        if found is not None:
            return found
        self.objects.append(details)
        if key is not None and self.details_count < MOST_DETAILS:
            self.details_count += 1
            self.index[key] = index
        return index

    def add(self, int line, int64_t at_ms, int op, int64_t id, str group_id,
            int32_t generation_id, member_id, str instance, tuple details):
        """Append an event."""
        cdef Event* events
        cdef Py_ssize_t capacity
        if self.count == self.capacity:
            capacity = 2 * self.capacity + 64
            events = <Event*>realloc(self.events, capacity * sizeof(Event))
            if events == NULL:
                raise MemoryError
            self.events = events
            self.capacity = capacity
        cdef Event* event = &self.events[self.count]
        event.at_ms = at_ms
        event.id = id
        event.op = op
        event.generation_id = generation_id
        event.group = self.intern(group_id)
        event.member = self.intern(member_id)
        event.instance = self.intern(instance)
        event.details = 0 if details is None else self.intern_details(op, details)
        self.lines.append(line)
        self.count += 1
        self.last_id = max(self.last_id, id)

    def requests(self):
        """Yield (line, at, op, id, group, generation, member, instance, details)."""
        cdef Py_ssize_t n
        cdef Event event
        for n in range(self.count):
            event = self.events[n]
            yield (self.lines[n], event.at_ms, event.op, event.id, self.objects[event.group],
                   event.generation_id, self.objects[event.member],
                   self.objects[event.instance], self.objects[event.details])


cdef object desugar(value, dict member_ids):
    """Replace each MemberOf (coordinator/fields.py) in a value by the id that it refers to."""
    if type(value) is tuple:
        Py_EnterRecursiveCall(b" in a trace's details")
        try:
            return tuple([desugar(item, member_ids) for item in value])
        finally:
            Py_LeaveRecursiveCall()
    if type(value) is dict:
        return {desugar(key, member_ids): item for key, item in value.items()}
    request_id = getattr(value, "request_id", None)
    if request_id is None:
        return value
    member_id = member_ids.get(request_id)
    if not member_id:
        raise TraceError(f"member_id_of: request {request_id} has been told no member id by now")
    return member_id

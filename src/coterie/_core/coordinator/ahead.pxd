"""Look-ups ahead of their events: what many groups have is scattered over the memory.

An event of one of many groups waits for memory longer than it computes. So a few events before its
turn its group is looked up, then what the group refers to is fetched, then its members: each step
when what it reads has arrived. A look-up is valid while no group was added or dropped, and serves
all events of its group until then.
"""
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.consumer.group cimport ConsumerGroup, ConsumerMember
from coterie._core.coordinator.runtime cimport CONSUMER, Group, Runtime
from coterie._core.coordinator.offsets cimport Event
from coterie._core.structures.slots cimport coterie_prefetch

cdef extern from "Python.h":
    PyObject* PyDict_GetItemWithError(object d, object key) except? NULL
    ctypedef struct PyDictObject:
        void* ma_keys
    ctypedef struct PyListObject:
        void* ob_item

cdef enum:
    GROUP_AHEAD = 6                # the events before an event's turn at which each step is taken
    PARTS_AHEAD = 4
    CONTENTS_AHEAD = 3
    MEMBERS_AHEAD = 2
    MEMBER_AHEAD = 1
    FEW = 4                        # members: those of more are not fetched
    LINE = 64                      # bytes that are fetched at once
    GROUP_LINES = 4
    MEMBER_LINES = 3
    KEYS_LINES = 2

cdef struct LookUp:                # of a name among the objects of a trace, all zero at first
    PyObject* group                # borrowed; NULL: there is none
    int64_t changes                # Runtime.group_changes at its time


cdef inline void fetch(void* first, int lines) noexcept:
    cdef int n
    for n in range(lines):
        coterie_prefetch(<char*>first + LINE * n)


cdef inline void fetch_keys(dict one) noexcept:
    fetch((<PyDictObject*>one).ma_keys, KEYS_LINES)


cdef inline void fetch_parts(ConsumerMember member) noexcept:
    coterie_prefetch(<void*>member.fields)
    coterie_prefetch(<void*>member.assigned)
    coterie_prefetch(<void*>member.target)
    coterie_prefetch(<void*>member.timers)


cdef inline ConsumerGroup found_at(Runtime runtime, const LookUp* look_ups, const Event* event):
    """The group of an event that was looked up; None: it had none, or that one may be gone."""
    cdef const LookUp* look_up = &look_ups[event.group]
    if look_up.changes != runtime.group_changes or look_up.group == NULL:
        return None
    if (<Group>look_up.group).group_type != CONSUMER:
        return None
    return <ConsumerGroup>look_up.group


cdef inline bint may_write(const Event* event, ConsumerGroup group) noexcept:
    """Whether the event may change more than a timer: its sender is not at the group's epoch."""
    return event.generation_id != group.epoch


cdef inline ConsumerMember look_ahead(Runtime runtime, list objects, const Event* event,
                                      LookUp* look_ups, ConsumerMember looked_up):
    """Take the steps that are due at an event; at least GROUP_AHEAD events follow it.

    Return the member that was looked up for the event after the next one, or None; the next call
    takes it as ``looked_up``.
    """
    cdef int32_t name = event[<int>GROUP_AHEAD].group
    cdef LookUp* look_up = &look_ups[name]
    cdef ConsumerGroup group
    cdef ConsumerMember found = None
    cdef Py_ssize_t at
    if look_up.changes != runtime.group_changes:
        look_up.changes = runtime.group_changes
        look_up.group = PyDict_GetItemWithError(runtime.groups, objects[name])
    if look_up.group != NULL:
        fetch(look_up.group, GROUP_LINES)

    group = found_at(runtime, look_ups, event + PARTS_AHEAD)
    if group is not None:
        coterie_prefetch(<void*>group.members)
        if may_write(event + PARTS_AHEAD, group):
            coterie_prefetch(<void*>group.order)
            coterie_prefetch(<void*>group.names_count)
            coterie_prefetch(<void*>group.topic_count)
            coterie_prefetch(<void*>group.uses)

    group = found_at(runtime, look_ups, event + CONTENTS_AHEAD)
    if group is not None:
        fetch_keys(group.members)
        if may_write(event + CONTENTS_AHEAD, group):
            coterie_prefetch((<PyListObject*>group.order).ob_item)
            fetch_keys(group.names_count)
            fetch_keys(group.topic_count)
            fetch_keys(group.uses)

    group = found_at(runtime, look_ups, event + MEMBERS_AHEAD)
    if group is not None:
        if may_write(event + MEMBERS_AHEAD, group):
            for at in range(min(FEW, len(group.order))):
                fetch(<void*>group.order[at], MEMBER_LINES)
        else:
            found = group.members.get(objects[event[<int>MEMBERS_AHEAD].member])
            if found is not None:
                fetch(<void*>found, MEMBER_LINES)

    if looked_up is not None:
        coterie_prefetch(<void*>looked_up.timers)
        coterie_prefetch(<void*>looked_up.answer)
    else:
        group = found_at(runtime, look_ups, event + MEMBER_AHEAD)
        if group is not None and may_write(event + MEMBER_AHEAD, group):
            for at in range(min(FEW, len(group.order))):
                fetch_parts(<ConsumerMember>group.order[at])

    group = found_at(runtime, look_ups, event)
    if group is not None:
        runtime.last_id, runtime.last = <str>objects[event.group], group
    return found

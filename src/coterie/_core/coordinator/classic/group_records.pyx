"""Encode the metadata record of a classic group.

Versions as Kafka 2.3 to 3.9 write them: key 2, value 3. It knows neither offsets nor appends.
Cost: one pass over the members, one copy.
Source: GroupMetadataManager.scala. Rules: docs/rules/log-format.md#keys.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Next
from cpython.ref cimport PyObject
from cpython.unicode cimport PyUnicode_CheckExact

from coterie._core.codec.encode cimport (
    Writing, begin, end, put_i16, put_i32, put_i64, written)
from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.classic.member cimport MemberMetadata
from coterie._core.coordinator.classic.member_table cimport coterie_same_text, next_member
from coterie._core.coordinator.records cimport (
    begin_record, end_key, end_value, put_bytes, put_raw, put_string)
from coterie._core.coordinator.sink cimport Batch, new_batch


cdef int put_key(Writing* w, str group_id) except -1:
    put_i16(w, 2)
    return put_string(w, group_id)


cdef bytes group_key(str group_id):
    cdef Writing w
    begin(&w)
    try:
        put_key(&w, group_id)
        return written(&w)
    finally:
        end(&w)


cdef int put_group(Writing* w, GroupMetadata group, dict assignments) except -1:
    cdef MemberMetadata member
    cdef Py_ssize_t place = 0, at_assignment = 0
    cdef Py_ssize_t at = begin_record(w)
    put_key(w, group.group_id)
    end_key(w, at)
    put_i16(w, 3)
    put_string(w, group.protocol_type or "")
    put_i32(w, group.generation_id)
    put_string(w, group.protocol_name)
    put_string(w, group.leader_id)
    put_i64(w, group.current_state_timestamp)
    put_i32(w, group.members.count)
    while (member := next_member(&group.members, &place)) is not None:
        put_string(w, member.member_id)
        put_string(w, member.group_instance_id)
        put_string(w, member.client_id)
        put_string(w, member.client_host)
        put_i32(w, member.rebalance_timeout_ms)
        put_i32(w, member.session_timeout_ms)
        put_bytes(w, member.metadata_of(group.protocol_name))
        put_bytes(w, member.assignment if assignments is None else assignment_of(
            assignments, member.member_id, &at_assignment))
    end_value(w, at)


cdef bytes assignment_of(dict assignments, str member_id, Py_ssize_t* place):
    """Return a leader's assignment for a member.

    Most leaders list the members in the order of their JoinGroup response, so the entry at `place`
    (0 at first) is tried before a look-up.
    """
    cdef PyObject* key = NULL
    cdef PyObject* value = NULL
    cdef Py_ssize_t after = place[0]
    if PyDict_Next(assignments, &after, &key, &value) and (
            PyUnicode_CheckExact(<object>key) and coterie_same_text(<object>key, member_id)):
        place[0] = after
        assignment = <object>value
    else:
        assignment = assignments.get(member_id)
    return <bytes?>assignment if assignment is not None else b""


cdef Batch group_batch(GroupMetadata group, dict assignments):
    """Encode a group; `assignments` maps member ids to bytes; None: use those of the members."""
    cdef Writing w
    begin(&w)
    try:
        put_group(&w, group, assignments)
        return new_batch(group.group_id, 1, written(&w))
    finally:
        end(&w)


cdef Batch empty_group_batch(GroupMetadata group, Batch before):
    """Encode a group that has just begun, as Kafka 4 writes it, behind other records."""
    cdef Writing w
    cdef Py_ssize_t at
    begin(&w)
    try:
        if before is not None:
            put_raw(&w, PyBytes_AS_STRING(before.data), PyBytes_GET_SIZE(before.data))
        at = begin_record(&w)
        put_key(&w, group.group_id)
        end_key(&w, at)
        put_i16(&w, 3)
        put_string(&w, "")
        put_i32(&w, 0)
        put_string(&w, None)
        put_string(&w, None)
        put_i64(&w, group.current_state_timestamp)
        put_i32(&w, 0)
        end_value(&w, at)
        return new_batch(group.group_id, 1 + (0 if before is None else before.count),
                         written(&w))
    finally:
        end(&w)

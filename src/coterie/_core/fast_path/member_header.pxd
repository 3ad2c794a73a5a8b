"""Who sends a member's request: the fields with which Heartbeat and OffsetCommit begin. Header
only: inlined into what reads them."""
from libc.stdint cimport int32_t

from coterie._core.codec.cursor cimport NEGATIVE, OK, Cursor, Status, read_i32, read_string16
from coterie._core.codec.decode cimport skip_tags
from coterie._core.fast_path.texts cimport Text, read_text

cdef struct Who:
    int32_t correlation_id
    int32_t generation_id
    Text group
    Text member
    Text instance              # null where the version has none


cdef inline Status read_who(Cursor* cur, bint flexible, bint with_instance,
                            Who* who) noexcept nogil:
    """All from the correlation id to the instance id; neither group nor member may be null."""
    cdef Text client
    cdef Status status = read_i32(cur, &who.correlation_id)
    if status == OK:
        status = read_string16(cur, &client.at, &client.size)
    if status == OK and flexible:
        status = skip_tags(cur)
    if status == OK:
        status = read_text(cur, flexible, &who.group)
    if status == OK:
        status = read_i32(cur, &who.generation_id)
    if status == OK:
        status = read_text(cur, flexible, &who.member)
    if status == OK and (who.group.size < 0 or who.member.size < 0):
        status = NEGATIVE
    who.instance.size = -1
    if status == OK and with_instance:
        status = read_text(cur, flexible, &who.instance)
    return status
